package subprocess

import (
	"fmt"
	"math"
	"time"

	"handoff/core/execution"
	"handoff/core/worker/cgroup"
)

// The pipe from the worker to the shim carries one launch as a line of JSON and then commands, one
// a line: "fence LEFT AT" and "kill LEFT AT", both in nanoseconds. The end of the pipe means that
// the worker is gone. The pipe back carries reports as lines of JSON.
//
// Processes do not share the worker's monotonic clock, so a deadline is sent as the remaining time. But a
// message can be delayed while its sender is stalled. So AT is the time of the measurement, on the clock that
// all processes of the machine share; it is 0 on systems without such a clock.

// launch describes an action to run and its surroundings.
type launch struct {
	Execution   int64    `json:"execution"`
	Epoch       int64    `json:"epoch"`
	Argv        []string `json:"argv"`
	Dir         string   `json:"dir"`
	Environment []string `json:"environment"`
	// Parameters reach the action byte for byte. A RawMessage would be reformatted.
	Parameters []byte `json:"parameters"`

	// retried holds the exit codes that the action declares. They are not sent to the shim.
	retried execution.ExitCodes

	// Rehearsal reports whether this is a rehearsal and not an execution, so that the shim writes no witness.
	Rehearsal bool `json:"rehearsal,omitempty"`

	// RunDir is the run's own directory, empty for none. Disk is its maximum size in bytes, 0 for no limit.
	RunDir string `json:"run_dir,omitempty"`
	Disk   int64  `json:"disk,omitempty"`
	// Private lists directories that are private to the run: parts of RunDir are mounted over them. Keep
	// lists paths below them that must stay visible to the run.
	Private []string `json:"private,omitempty"`
	Keep    []string `json:"keep,omitempty"`
	// Group is the run's control group, empty if it has none.
	Group cgroup.Group `json:"group,omitempty"`
	// Account is the user that the action runs as; nil for the worker's user.
	Account        *account `json:"account,omitempty"`
	KeepPrivileges bool     `json:"keep_privileges,omitempty"`
	// Data bounds the memory of each process in bytes. UserProcesses bounds the number of the user's
	// processes. 0 means no limit.
	Data          int64 `json:"data,omitempty"`
	UserProcesses int64 `json:"user_processes,omitempty"`

	At    time.Duration `json:"at"`
	Fence time.Duration `json:"fence"`
	Limit time.Duration `json:"limit"`
}

// account is the user that actions run as. They belong to no groups other than GID.
type account struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	// name and home are for the environment.
	name, home string
}

// order is one command to the shim.
type order struct {
	verb     string
	left, at time.Duration
}

const (
	verbFence = "fence"
	verbKill  = "kill"
	// verbFlood reports that the action has written too much output. The order has no deadline.
	verbFlood = "flood"
)

// String returns the order as a line of the protocol.
func (o order) String() string { return fmt.Sprintf("%s %d %d\n", o.verb, int64(o.left), int64(o.at)) }

func parseOrder(line string) (o order, err error) {
	_, err = fmt.Sscanf(line, "%s %d %d", &o.verb, (*int64)(&o.left), (*int64)(&o.at))
	return o, err
}

// shimDeadline returns the time, on the shim's clock, at which left is over, counted from at. If at is in the
// future, left counts from now.
func shimDeadline(now, at, left time.Duration) time.Duration {
	if at <= 0 || at > now {
		at = now
	}
	if left > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + left
}

// report is a message of the shim: exactly one Started or Failed, and one Ended after a Started.
type report struct {
	// Started is the id of the action's first process, and of its process group.
	Started int `json:"started,omitempty"`
	// Failed is the reason why nothing was started.
	Failed string     `json:"failed,omitempty"`
	Ended  *actionEnd `json:"ended,omitempty"`
}

// actionEnd describes how the action's first process ended. It is reported after every process of the action
// has ended.
type actionEnd struct {
	Code int `json:"code"`
	// Signal is the name of the signal that ended the process, empty if it exited.
	Signal string `json:"signal,omitempty"`
	// Cause is the reason why the shim ended the action, or causeStopped; otherwise empty.
	Cause cause `json:"cause,omitempty"`
	// OutOfMemory reports whether the kernel ended the action at its memory limit.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

// cause is the reason why the shim ended an action.
type cause string

const (
	causeAsked  cause = "its worker asked for it"
	causeFence  cause = "the fence was not extended"
	causeLimit  cause = "its run timeout and grace were over"
	causeOrphan cause = "its worker is gone"
	// causeStopped means that something else signalled the action together with the shim.
	causeStopped cause = "everything of its worker was asked to stop"
	causeDisk    cause = "its directory grew beyond worker.isolation.disk_bytes"
	causeDeep    cause = "its directory could not be measured: it has directories nested deeper than 500 levels"
	causeOutput  cause = "it wrote more output than worker.isolation.output_bytes"
)

// isOwn reports whether the action itself caused its end.
func (c cause) isOwn() bool { return c == causeDisk || c == causeDeep || c == causeOutput }
