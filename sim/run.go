package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/hook"
	"handoff/chaos/invariant"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/sim/kernel"
	"handoff/sim/woven"
)

// Options configure a run of a scenario. The zero value is a plain run of seed 0.
type Options struct {
	Seed uint64
	// Mutant is planted into the core; nil for none.
	Mutant *hook.Mutant
	// Record receives every event and the core's log lines; nil for no record. A *Causes also records which
	// events led to which.
	Record history.Sink
	// Chooser replaces the chooser that is made from the seed.
	Chooser kernel.Chooser
	// CrashAt crashes one process at one of its yield points.
	CrashAt *kernel.CrashPoint
	// PauseAt pauses one process at one of its yield points.
	PauseAt *Pause
	// Without leaves out the injectors of some kinds of faults, to test that their absence is detected.
	Without []string
	// LeaveOut leaves out single faults of the scenario, by their index. The other faults draw the same
	// numbers as with them.
	LeaveOut []int
	// WithoutInvariants leaves out some invariants, to test that their mutants then survive.
	WithoutInvariants []int
	// MaxSteps bounds a run that never ends; 0 means DefaultMaxSteps.
	MaxSteps uint64
	// CutAt stops a run after this many steps, without an error: the run is judged by its events so far. 0
	// means never.
	CutAt uint64
	// Interrupted is called every few steps; if it returns true, the run stops. Nil means never.
	Interrupted func() bool
	// Until is called every few steps with the findings so far, if there are any. If it returns true, the
	// run ends early and is judged by its events so far. Nil means never.
	Until func(Findings) bool
	// EachExecution reports the violations of a rule for every execution, not only for the first execution.
	EachExecution bool
	// Watch is called with the kernel while it runs, for a watchdog; nil for none.
	Watch func(*kernel.Kernel) (stop func())
}

// isInterrupted calls Options.Until and Options.Interrupted.
func (w *world) isInterrupted() bool {
	if o := &w.options; o.Until != nil {
		if found := w.judges.Suite.Findings(); len(found) > 0 && o.Until(Findings{found, w.db.Execution}) {
			w.enough = true
			return true
		}
	}
	return w.options.Interrupted != nil && w.options.Interrupted()
}

// Findings are the findings of the invariants in a run so far.
type Findings struct {
	List []invariant.Finding
	// Execution returns an execution's current row, and false if there is none.
	Execution func(execution.ID) (execution.Execution, bool)
}

// Pause stops a process for a while at one of its yield points.
type Pause struct {
	Process string
	N       uint64
	For     time.Duration
}

// DefaultMaxSteps is far more than any scenario of the library needs.
const DefaultMaxSteps = 20_000_000

func (o Options) chooserOrRandom() kernel.Chooser {
	if o.Chooser != nil {
		return o.Chooser
	}
	return kernel.NewRandom(o.Seed)
}

func (o Options) maxSteps() uint64 {
	if o.CutAt > 0 {
		return o.CutAt
	}
	if o.MaxSteps > 0 {
		return o.MaxSteps
	}
	return DefaultMaxSteps
}

func (o Options) keptInvariants(wanted []int) []int {
	if len(o.WithoutInvariants) == 0 {
		return wanted
	}
	kept := []int{}
	for _, i := range invariant.All() {
		if (wanted == nil || slices.Contains(wanted, i.Number)) && !slices.Contains(o.WithoutInvariants, i.Number) {
			kept = append(kept, i.Number)
		}
	}
	return kept
}

// Result is the outcome of a run. Its methods read the final state of the simulated database.
type Result struct {
	verdict.Run
	FaultIntervals []verdict.FaultInterval
	Points         []kernel.PointCount
	// CrashFired reports whether Options.CrashAt was reached.
	CrashFired bool
	// PauseFired reports whether Options.PauseAt was reached.
	PauseFired bool
	// Interrupted reports whether Options.Interrupted returned true; such a run proves nothing.
	Interrupted bool
	Events      uint64
	world       *world
}

// Run runs a scenario once, under one profile.
func Run(s *scenario.Scenario, p config.Profile, o Options) *Result {
	w := newWorld(s, p, o)
	defer woven.Begin(w.k)()
	defer w.k.Close()
	if o.Watch != nil {
		defer o.Watch(w.k)()
	}
	w.startCluster()
	rest := &run.Rest{Clock: clock{w.k}, Linger: run.Linger, Workload: w.workload, Alerts: w.alerts, State: state{w}}
	return w.buildResult(w.k.Run(func() bool {
		// This function is called before every step, so it checks the cheap condition first.
		if w.db.AnyUnfinished() {
			rest.Stirs()
			return false
		}
		return rest.Over()
	}, run.Horizon(w.scenario, w.config)))
}

// state implements run.State.
type state struct{ w *world }

func (s state) Messages() bool   { return !s.w.broker.Idle() }
func (s state) Unfinished() bool { return s.w.db.AnyUnfinished() }
func (s state) Drained() bool    { return true }
func (s state) Faults() bool     { return s.w.injector.Busy() }

func (s state) Actions() bool {
	for _, p := range s.w.processes {
		if p.machine != nil && p.machine.Alive() > 0 {
			return true
		}
	}
	return false
}

func (w *world) buildResult(why kernel.Stop) *Result {
	if why == kernel.StopDone {
		w.emitEvent(history.Event{Kind: history.Quiescent})
	}
	o := run.Outcome{
		Seed: w.options.Seed, Faults: w.injector.Counts(), Steps: w.k.Step(), At: w.k.Now(), Rows: w.finalRows(),
		Abandoned: w.options.CrashAt != nil, // the crashed process may be the client
	}
	if w.mutant != nil {
		o.Mutant = w.mutant.Name
	}
	w.setEnding(why, &o)
	r := &Result{world: w}
	o.Workers = r.Workers()
	if w.figures != nil {
		w.judges.Suite.Reported(w.figures.End())
	}
	r.Run, r.FaultIntervals, r.Events = w.judges.Verdict(o), w.injector.FaultIntervals(w.k.Now()), w.judges.Events()
	r.Points, r.CrashFired, r.PauseFired = w.k.Points(), w.k.CrashFired(), w.paused
	r.Interrupted = why == kernel.StopInterrupted && !w.enough
	return r
}

// setEnding translates the kernel's stop reason into the outcome of the run.
func (w *world) setEnding(why kernel.Stop, o *run.Outcome) {
	o.Ending = run.Unjudged
	switch why {
	case kernel.StopPanic:
		f := w.k.Failure()
		o.Panic = fmt.Sprintf("%v\n%s", f, f.Stack)
	case kernel.StopMaxSteps:
		if w.options.CutAt > 0 {
			o.Ending, o.Cut = run.Cut, true
			return
		}
		o.GaveUp = fmt.Sprintf("after %d steps, the most that a run may take, and %v of virtual time; use fewer workers and executions, or a shorter time", o.Steps, o.At)
	case kernel.StopInterrupted:
		if w.enough {
			o.Ending = run.Cut
			return
		}
		o.GaveUp = "it was interrupted"
	case kernel.StopSpin:
		who, steps, bound := w.k.Spun()
		if w.judges.Suite.Spins(who, steps, bound) {
			o.Ending = run.Cut
			return
		}
		o.GaveUp = fmt.Sprintf("after %d steps and %v of virtual time: %s spins without time moving", o.Steps, o.At, who)
	case kernel.StopDone:
		o.Ending = run.Settled
	default:
		o.Ending = run.Unsettled
	}
}

// finalRows returns the executions at the end of the run, and purged executions as they last were.
func (w *world) finalRows() []*execution.Execution {
	rows := make([]*execution.Execution, 0, w.db.Rows())
	for id := execution.ID(1); int(id) <= w.db.Rows(); id++ {
		if row := w.db.Look(id); row != nil {
			rows = append(rows, row)
		}
	}
	if left := w.db.Left(); len(left) > 0 {
		for i := range left {
			rows = append(rows, &left[i])
		}
		slices.SortFunc(rows, func(a, b *execution.Execution) int { return cmp.Compare(a.ID, b.ID) })
	}
	return rows
}
