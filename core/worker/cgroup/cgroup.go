// Package cgroup gives each run of an action its own control group (cgroup v2). The kernel counts,
// limits and kills in it everything that the run starts; neither setsid nor a dead parent leads out
// of it.
//
// A worker may make groups if its own group was delegated to it, so that it may create directories
// there. Open makes one group for the worker's runs there, and New makes one below it for each run.
// Open also ends the leftovers of an earlier worker: the group of a dead worker is not locked any
// more (flock on its directory), so everything in it is killed.
//
// Limits need controllers. The kernel hands them only to the children of a group that has no
// processes of its own ("no internal processes"). So a worker that is alone in its group moves
// itself into a leaf. If other processes are in the group, runs are killed as a whole but not
// limited.
package cgroup

import "errors"

// Limits bound everything that one run has started, together. Zero is no limit.
type Limits struct {
	// Memory is in bytes, without swap.
	Memory int64
	// CPUs is how much processor time is granted, in processors; 0.5 is half of one.
	CPUs float64
	// Processes is how many processes and threads may exist, as the kernel counts them.
	Processes int64
}

// Controllers are the controllers that the limits need, each with the name of its limit.
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

// ErrAlive says that a process in a group did not die in time: it waits for a device, or this
// process may not kill it.
var ErrAlive = errors.New("something in the control group is still alive")
