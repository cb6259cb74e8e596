package sim

import (
	"fmt"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim/flaw"
	"handoff/sim/kernel"
)

// Options say how a scenario is run. The zero value is a plain run of seed 0.
type Options struct {
	Seed uint64
	// Flaw is planted into the core; nil for none.
	Flaw *flaw.Flaw
	// Record, when it is not nil, gets every event and the core's own log lines.
	Record history.Sink
	// Chooser overrides the seed.
	Chooser kernel.Chooser
	// CrashAt crashes one process at one of its yield points.
	CrashAt *kernel.CrashPoint
	// Without leaves the injectors of some kinds of faults out, to see that they are missed.
	Without []scenarios.FaultKind
	// WithoutInvariant leaves one invariant out, for the same reason.
	WithoutInvariant int
	// MaxSteps bounds a run that never ends; 0 means DefaultMaxSteps.
	MaxSteps uint64
	// Watch is told of the kernel while it runs, for a watchdog; nil for none.
	Watch func(*kernel.Kernel) (stop func())
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

// linger is how long everything has to stay quiet before a run ends: longer than any backoff of a
// writer that nobody but itself knows of.
const linger = 15 * time.Second

// Result is a run and what can be asked of it afterwards.
type Result struct {
	verdict.Run
	Bands  []verdict.Band
	Points []kernel.PointCount
	// CrashFired says that Options.CrashAt was reached.
	CrashFired bool
	Events     uint64
	world      *world
}

// Run runs a scenario once, under one profile.
func Run(s *scenarios.Scenario, p config.Profile, o Options) *Result {
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
		return w.k.Now()-quiet >= linger
	}, w.horizon())
	return w.result(why)
}

// quiet says that nothing is left to be done: everything submitted is finished and handled, every
// fault is over, no message is anywhere and no action runs.
func (w *world) quiet() bool {
	if w.submitting > 0 || w.injector.pending > 0 || w.db.Unfinished() > 0 || !w.broker.Idle() {
		return false
	}
	for _, p := range w.processes {
		if p.machine != nil && p.machine.Alive() > 0 {
			return false
		}
	}
	return true
}

// horizon is when the run ends at the latest: the last moment at which something new can happen, and
// the time that the configuration implies for what is then still open.
func (w *world) horizon() time.Duration {
	last := w.scenario.LastSubmission()
	longest, retries := time.Duration(0), 0
	for _, a := range w.scenario.Actions {
		longest = max(longest, a.TakesMax)
		retries = max(retries, a.MaxRetries)
	}
	settle := w.scenario.Settle
	if settle == 0 {
		settle = invariant.Settle(w.config, longest, retries)
	}
	for i := range w.scenario.Faults {
		f := &w.scenario.Faults[i]
		begin := f.When.Max
		if f.When.After != "" {
			// A trigger comes while there is work, at the latest when the workload is over.
			begin = w.scenario.LastSubmission() + settle/2 + f.When.Plus
		}
		last = max(last, begin+max(f.For, f.RestartAfter))
	}
	return last + settle + linger
}

func (w *world) result(why kernel.Stop) *Result {
	settled := why == kernel.StopDone
	if settled {
		w.emit(history.Event{Kind: history.Quiescent})
	}
	r := &Result{
		Run: verdict.Run{
			Scenario: w.scenario.Name, Profile: w.profile, Seed: w.options.Seed, Flaw: w.flaw.Name,
			Faults: w.injector.counts(), Sometimes: w.probes.Hits(), Texts: w.tally.texts,
			CompletedBefore: w.tally.before, CompletedAfter: w.tally.after,
			Steps: w.k.Step(), Virtual: w.k.Now(), Hash: w.hash.Sum(),
		},
		Bands: w.injector.bands(), Points: w.k.Points(), CrashFired: w.k.CrashFired(), Events: w.hash.Events(), world: w,
	}
	switch why {
	case kernel.StopPanic:
		f := w.k.Failure()
		r.Panic = fmt.Sprintf("%v\n%s", f, f.Stack)
		return r
	case kernel.StopMaxSteps:
		r.GaveUp = fmt.Sprintf("after %d steps and %v of virtual time: time does not move on", w.k.Step(), w.k.Now())
		return r
	default:
	}
	for _, f := range w.suite.End(settled) {
		r.Violations = append(r.Violations, verdict.Violation{
			Invariant: f.Invariant.Number, Name: f.Invariant.Name, Statement: f.Invariant.Statement, Seed: r.Seed,
			Execution: f.Execution, Step: f.Step, At: f.At, Message: f.Message,
		})
	}
	w.count(&r.Run)
	w.accepted(&r.Run)
	w.expectations(&r.Run)
	return r
}
