package fault

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// Draws is a source of random numbers of one fault in one run, so that adding a fault does not shift what others draw.
type Draws interface {
	// Uint64N draws from 0 to n-1.
	Uint64N(n uint64) uint64
	// Chance is true for so many of a million calls.
	Chance(perMillion uint64) bool
	// Duration draws uniformly from least to most, both included.
	Duration(least, most time.Duration) time.Duration
	// LogDuration draws log-uniformly: every factor is as likely as every other.
	LogDuration(least, most time.Duration) time.Duration
}

// Injection is one fault in one run, from its beginning to its end.
type Injection struct {
	// Name is the fault's name in histories and reports, its own in the scenario. Index is its place there, from 0.
	Name  string
	Index int
	Kind  *Kind
	// Targets names the processes that it strikes, as they were drawn; none for a server.
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
	// Now is the time since the scenario began.
	Now() time.Duration
	// After calls f later, unless the run is over by then.
	After(d time.Duration, f func())
	// Emit writes an event into the history, now.
	Emit(e history.Event)
	// Touch records that the fault made a difference, and the first thing that it made one to.
	Touch(on Touched)
	// End says that the fault is over. A fault that ends by itself calls it; for the others the injector does. A second
	// call does nothing.
	End()
	// Endless says that the fault has no end, so that nothing waits for it.
	Endless()
	// Fail says that the world failed: the run ends without a verdict on the product. It ignores nil.
	Fail(err error)
}

// Touched is what a fault has made a difference to: a process, a queue, or a message with its type on the wire. The zero
// value stands for something that the world can't name.
type Touched struct {
	Process string
	Queue   string
	Message uint64
	Type    uint8
}

// draw draws from a span.
func (x *Injection) draw(s Span) time.Duration { return x.Duration(s.Least, s.Most) }

// InOrder returns a function that calls each in order. Worlds use it, too, for what a fault undoes in several places.
func InOrder(undo []func()) func() {
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// Names returns a worker's name by its id, empty for one that has never registered.
type Names func(id execution.WorkerID) string
