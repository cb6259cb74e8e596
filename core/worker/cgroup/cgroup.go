// Package cgroup gives each run of an action a control group of its own (cgroup v2), in which everything that the run
// starts is counted, limited and killed, wherever it moved: no setsid and no dead parent leads out of it.
//
// A worker may make groups where its own group was delegated to it: where it may create directories below it. Open
// makes one group for the worker's runs there, and New one below it for each run. Open also ends what an earlier worker
// left: a group whose worker is gone is not locked any more (flock on its directory), so everything in it is killed.
//
// Limits need controllers, which the kernel only hands to the children of a group that has no processes of its own
// ("no internal processes"). So a worker that is alone in its group moves itself into a leaf. Where others are in the
// group, runs are killed as a whole but not limited.
package cgroup

import "errors"

// Limits bound everything that one run has started, together. Zero is no limit.
type Limits struct {
	// Memory is in bytes, without swap.
	Memory int64
	// CPUs is how many processors' time is granted, 0.5 for half of one.
	CPUs float64
	// Processes counts threads too, as the kernel does.
	Processes int64
}

// Controllers are those that the limits need, each with what it limits.
func (l Limits) Controllers() []string {
	var need []string
	if l.Memory > 0 {
		need = append(need, "memory")
	}
	if l.CPUs > 0 {
		need = append(need, "cpu")
	}
	if l.Processes > 0 {
		need = append(need, "pids")
	}
	return need
}

// ErrAlive says that something in a group did not die in time: it waits for a device, or it was not allowed to be killed.
var ErrAlive = errors.New("something in the control group is still alive")
