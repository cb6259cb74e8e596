// Package cgroup gives each run of an action its own control group (cgroup v2). In it, the kernel counts,
// limits and kills everything that the run starts; a process can't leave it by setsid or by the death of its
// parent.
//
// A worker can make groups if its own group was delegated to it, so that it may create directories there.
// Open makes a group for the worker's runs, and New makes a group below that for each run. Open also ends the
// leftovers of dead workers, whose groups are no longer locked (flock on the directory).
//
// Limits need controllers. The kernel enables them only for the children of a group that contains no
// processes itself ("no internal processes"). So a worker that is alone in its group moves itself into a
// leaf. If other processes share the group, runs are killed as a whole but not limited.
package cgroup

import "errors"

// Limits apply to the sum of everything that one run has started. Zero means no limit.
type Limits struct {
	// Memory is the memory limit in bytes, without swap.
	Memory int64
	// CPUs is the granted processor time, in processors; 0.5 is half a processor.
	CPUs float64
	// Processes is the maximum number of processes and threads.
	Processes int64
}

// Controllers returns the controllers that the limits need.
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

// ErrAlive means that a process in a group did not die in time: it waits for a device, or this process is not
// allowed to kill it.
var ErrAlive = errors.New("something in the control group is still alive")
