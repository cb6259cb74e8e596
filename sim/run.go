package sim

import (
	"fmt"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/mutant"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/sim/kernel"
)

// Options say how a scenario is run. The zero value is a plain run of seed 0.
type Options struct {
	Seed uint64
	// Mutant is planted into the core; nil for none.
	Mutant *mutant.Mutant
	// Record, when it is not nil, gets every event and the core's own log lines.
	Record history.Sink
	// Chooser overrides the seed.
	Chooser kernel.Chooser
	// CrashAt crashes one process at one of its yield points.
	CrashAt *kernel.CrashPoint
	// PauseAt pauses one process at one of its yield points.
	PauseAt *Pause
	// Without leaves the injectors of some kinds of faults out, to see that they are missed.
	Without []scenario.FaultKind
	// WithoutInvariant leaves one invariant out, for the same reason.
	WithoutInvariant int
	// MaxSteps bounds a run that never ends; 0 means DefaultMaxSteps.
	MaxSteps uint64
	// Interrupted is asked every few steps whether the run is to be broken off; nil for never.
	Interrupted func() bool
	// Watch is told of the kernel while it runs, for a watchdog; nil for none.
	Watch func(*kernel.Kernel) (stop func())
}

// Pause is a process that stands still, from one of its yield points on, for a while.
type Pause struct {
	Process string
	N       uint64
	For     time.Duration
}

// DefaultMaxSteps is far above what any scenario of the library needs.
const DefaultMaxSteps = 20_000_000

func (o Options) chooser() kernel.Chooser {
	if o.Chooser != nil {
		return o.Chooser
	}
	return kernel.NewRandom(o.Seed)
}

func (o Options) maxSteps() uint64 {
	if o.MaxSteps > 0 {
		return o.MaxSteps
	}
	return DefaultMaxSteps
}

func (o Options) invariants(wanted []int) []int {
	if o.WithoutInvariant == 0 {
		return wanted
	}
	kept := []int{}
	for _, i := range invariant.All() {
		if i.Number != o.WithoutInvariant {
			kept = append(kept, i.Number)
		}
	}
	return kept
}

// Result is a run and what can be asked of it afterwards.
type Result struct {
	verdict.Run
	FaultIntervals []verdict.FaultInterval
	Points         []kernel.PointCount
	// CrashFired says that Options.CrashAt was reached.
	CrashFired bool
	// PauseFired says that Options.PauseAt was.
	PauseFired bool
	// Interrupted says that Options.Interrupted was true: the run is no evidence for anything.
	Interrupted bool
	Events      uint64
	world       *world
}

// Run runs a scenario once, under one profile.
func Run(s *scenario.Scenario, p config.Profile, o Options) *Result {
	w := newWorld(s, p, o)
	defer w.k.Close()
	if o.Watch != nil {
		defer o.Watch(w.k)()
	}
	w.build()
	quiet := time.Duration(-1)
	why := w.k.Run(func() bool {
		if !w.quiet() {
			quiet = -1
			return false
		}
		if quiet < 0 {
			quiet = w.k.Now()
		}
		return w.k.Now()-quiet >= run.Linger
	}, run.Horizon(w.scenario, w.config))
	return w.result(why)
}

// quiet says that nothing is left to be done: everything submitted is finished and handled, every
// fault is over, no message is anywhere and no action runs.
func (w *world) quiet() bool {
	if w.workload.Submitting() || w.injector.pending > 0 || w.db.Unfinished() > 0 || !w.broker.Idle() || w.alerts.Pending(false) {
		return false
	}
	for _, p := range w.processes {
		if p.machine != nil && p.machine.Alive() > 0 {
			return false
		}
	}
	return true
}

func (w *world) result(why kernel.Stop) *Result {
	settled := why == kernel.StopDone
	if settled {
		w.emit(history.Event{Kind: history.Quiescent})
	}
	r := &Result{
		Run: verdict.Run{
			Scenario: w.scenario.Name, Profile: w.profile, Seed: w.options.Seed, Mutant: w.mutant.Name,
			Faults: w.injector.counts(), Sometimes: w.probes.Hits(),
			Steps: w.k.Step(), Virtual: w.k.Now(), Hash: w.hash.Sum(),
		},
		FaultIntervals: w.injector.faultIntervals(), Points: w.k.Points(), CrashFired: w.k.CrashFired(), PauseFired: w.paused, Events: w.hash.Events(), world: w,
	}
	w.tally.Fill(&r.Run)
	defer func() { r.Judged = w.suite.Judged() }()
	switch why {
	case kernel.StopPanic:
		f := w.k.Failure()
		r.Panic = fmt.Sprintf("%v\n%s", f, f.Stack)
		return r
	case kernel.StopMaxSteps:
		r.GaveUp = fmt.Sprintf("after %d steps, the most that a run may take, and %v of virtual time; use fewer workers and executions, or a shorter time", w.k.Step(), w.k.Now())
		return r
	case kernel.StopInterrupted:
		r.Interrupted, r.GaveUp = true, "it was interrupted"
		return r
	case kernel.StopSpin:
		who, steps, bound := w.k.Spun()
		if !w.suite.Spins(who, steps, bound) {
			r.GaveUp = fmt.Sprintf("after %d steps and %v of virtual time: %s spins without time moving", w.k.Step(), w.k.Now(), who)
			return r
		}
		run.Judge(&r.Run, w.scenario, w.suite.Findings(), w.rows(), false)
		return r
	default:
	}
	// A client that was crashed had not submitted everything.
	run.Judge(&r.Run, w.scenario, w.suite.End(settled), w.rows(), w.options.CrashAt == nil)
	return r
}

// rows are the executions as the run left them.
func (w *world) rows() []execution.Execution {
	rows := make([]execution.Execution, 0, w.db.Rows())
	for id := execution.ID(1); int(id) <= w.db.Rows(); id++ {
		row, _ := w.db.Execution(id)
		rows = append(rows, row)
	}
	return rows
}
