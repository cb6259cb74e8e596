package fault

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// Draws is the random source of one fault in one run. Each fault has its own, so adding a fault
// doesn't change the draws of other faults.
type Draws interface {
	// Uint64N draws from 0 to n-1.
	Uint64N(n uint64) uint64
	// Chance returns true with a probability of perMillion millionths.
	Chance(perMillion uint64) bool
	// Duration draws uniformly from least to most, both included.
	Duration(least, most time.Duration) time.Duration
	// LogDuration draws log-uniformly: every order of magnitude is equally likely.
	LogDuration(least, most time.Duration) time.Duration
}

// Injection is one fault in one run, from its beginning to its end.
type Injection struct {
	// Name is the fault's name in histories and reports, as in the scenario. Index is its position
	// there, from 0.
	Name  string
	Index int
	Kind  *Kind
	// Targets names the struck processes, after the draw; none for a server.
	Targets []string
	// For and RestartAfter are the durations of the file, fixed for this run.
	For, RestartAfter time.Duration
	// Config is the configuration of the run.
	Config config.Config
	Draws
	// Runner is the injector.
	Runner
}

// Runner is the part of the injector that a fault may call.
type Runner interface {
	// Now returns the time since the scenario began.
	Now() time.Duration
	// After calls f after d, unless the run is over by then.
	After(d time.Duration, f func())
	// Emit writes an event into the history at the current time.
	Emit(e history.Event)
	// Touch records that the fault made a difference. The first call also records what it affected.
	Touch(on Touched)
	// End declares the fault over. A fault that ends by itself calls it; for other faults, the injector
	// does. A second call does nothing.
	End()
	// Endless declares that the fault has no end, so the run does not wait for it.
	Endless()
	// Fail reports a failure of the world: the run ends without a verdict on the product. A nil err does
	// nothing.
	Fail(err error)
}

// Touched identifies what a fault affected: a process, a queue, or a message with its type in the protocol.
// The zero value stands for something that the world can't name.
type Touched struct {
	Process string
	Queue   string
	Message uint64
	Type    uint8
}

// drawSpan draws a duration from a span.
func (i *Injection) drawSpan(s Span) time.Duration { return i.Duration(s.Least, s.Most) }

// InOrder returns a function that calls the undo functions in order. Worlds use it for a fault with several
// parts to undo.
func InOrder(undo []func()) func() {
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// Names returns a worker's name by its id, empty for a worker that has never registered.
type Names func(id execution.WorkerID) string
