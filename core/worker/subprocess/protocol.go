package subprocess

import (
	"fmt"
	"math"
	"time"
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

	At    time.Duration `json:"at"`
	Fence time.Duration `json:"fence"`
	Limit time.Duration `json:"limit"`
}

// order is one command to the shim.
type order struct {
	verb     string
	left, at time.Duration
}

const (
	verbFence = "fence"
	verbKill  = "kill"
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
}

// cause is why the shim ended an action.
type cause string

const (
	causeAsked  cause = "its worker asked for it"
	causeFence  cause = "the fence was not extended"
	causeLimit  cause = "its run timeout and grace were over"
	causeOrphan cause = "its worker is gone"
)
