package subprocess

import (
	"fmt"
	"math"
	"time"

	"handoff/core/worker/cgroup"
)

// The pipe from the worker to the shim carries one launch as a line of JSON and then commands, each
// a line: "fence LEFT AT" and "kill LEFT AT", both in nanoseconds. Its end means that the worker is
// gone. The pipe back carries reports as lines of JSON.
//
// Clocks don't cross processes, so a deadline is lent as the time that is left. But a message can be
// under way for as long as its sender stands still, so AT says when that was measured, on the clock
// that all processes of the machine share; 0 on systems that have none.

// launch is what to run.
type launch struct {
	Execution   int64    `json:"execution"`
	Epoch       int64    `json:"epoch"`
	Argv        []string `json:"argv"`
	Dir         string   `json:"dir"`
	Environment []string `json:"environment"`
	// Parameters reach the action byte for byte, hence no RawMessage, which is reformatted.
	Parameters []byte `json:"parameters"`

	// Rehearsal says that this is no execution, so no witness is to hear of it.
	Rehearsal bool `json:"rehearsal,omitempty"`

	// RunDir is the run's own directory, empty if it has none, and Disk how many bytes it may hold, 0 for any number.
	RunDir string `json:"run_dir,omitempty"`
	Disk   int64  `json:"disk,omitempty"`
	// Private are directories that are the run's own: parts of RunDir are mounted over them. Keep are paths below them
	// that the run needs to see as they are.
	Private []string `json:"private,omitempty"`
	Keep    []string `json:"keep,omitempty"`
	// Group is the run's control group, empty if it has none.
	Group cgroup.Group `json:"group,omitempty"`
	// Account is whom the action runs as; nil for the worker's user.
	Account        *account `json:"account,omitempty"`
	KeepPrivileges bool     `json:"keep_privileges,omitempty"`
	// Data bounds the memory of each process in bytes, UserProcesses how many processes the user has; 0 for no limit.
	Data          int64 `json:"data,omitempty"`
	UserProcesses int64 `json:"user_processes,omitempty"`

	At    time.Duration `json:"at"`
	Fence time.Duration `json:"fence"`
	Limit time.Duration `json:"limit"`
}

// account is a user that actions run as. It belongs to no other groups.
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
	// verbFlood says that the action has written more than it may; it has no deadline.
	verbFlood = "flood"
)

// String is the order's line.
func (o order) String() string { return fmt.Sprintf("%s %d %d\n", o.verb, int64(o.left), int64(o.at)) }

func parseOrder(line string) (o order, err error) {
	_, err = fmt.Sscanf(line, "%s %d %d", &o.verb, (*int64)(&o.left), (*int64)(&o.at))
	return o, err
}

// deadline is the moment, on the shim's clock, that is left after at. A reading from the future is no
// reading.
func deadline(now, at, left time.Duration) time.Duration {
	if at <= 0 || at > now {
		at = now
	}
	if left > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + left
}

// report is what the shim tells: exactly one Started or Failed, and one Ended after a Started.
type report struct {
	// Started is the process, and the process group, of the action.
	Started int `json:"started,omitempty"`
	// Failed is why nothing was started.
	Failed string `json:"failed,omitempty"`
	Ended  *end   `json:"ended,omitempty"`
}

// end is how the action's first process ended, after everything of the action has.
type end struct {
	Code int `json:"code"`
	// Signal is the name of the signal that ended it, empty if it exited.
	Signal string `json:"signal,omitempty"`
	// Cause is why the shim signalled it, empty if it did not.
	Cause cause `json:"cause,omitempty"`
	// OutOfMemory says that the kernel ended it at its limit of memory.
	OutOfMemory bool `json:"out_of_memory,omitempty"`
}

// cause is why the shim ended an action.
type cause string

const (
	causeAsked  cause = "its worker asked for it"
	causeFence  cause = "the fence was not extended"
	causeLimit  cause = "its run timeout and grace were over"
	causeOrphan cause = "its worker is gone"
	causeDisk   cause = "its directory grew beyond worker.isolation.disk_bytes"
	causeDeep   cause = "its directory could not be measured: it has directories nested deeper than 500 levels"
	causeOutput cause = "it wrote more output than worker.isolation.output_bytes"
)

// own says that the action brought the end about itself, by what it did.
func (c cause) own() bool { return c == causeDisk || c == causeDeep || c == causeOutput }
