package live

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/live/capability"
	"handoff/chaos/live/evidence"
	"handoff/chaos/scenario"
	"handoff/chaos/soak"
	"handoff/core/config"
	"handoff/core/execution"
)

// This file is the soak: the daemons, links and faults of any live run, a load at the rate that the
// machine sustains, and evidence that is judged as it comes and then discarded, so that a soak may
// last for any time.

// SoakOptions configures a soak.
type SoakOptions struct {
	Plan *soak.Plan
	// Scenario is the plan as a scenario.
	Scenario *scenario.Scenario
	// Scale is the time scale of the scenario and its configuration.
	Scale float64
	// Rate is the rate of submissions, in executions per second; 0 finds the rate that the machine
	// sustains.
	Rate   float64
	Mutant string
	// Progress is called every few seconds, by one goroutine at a time.
	Progress func(soak.Progress)
}

const (
	// windowEvery is the interval between judgements of the evidence.
	windowEvery   = 500 * time.Millisecond
	progressEvery = 5 * time.Second
	rampStep      = 5 * time.Second
)

// soaking is a soak in progress.
type soaking struct {
	w       *world
	o       SoakOptions
	stream  *evidence.Stream
	suite   *invariant.Suite
	ledger  *soak.Ledger
	load    *load
	sampler *sampler
	plan    *planClock

	// Only the judging task uses the rest.
	events     uint64
	mostBehind time.Duration
	// struck holds the faults that have begun.
	struck map[string]*struck

	// phase is the present phase, for the progress; open and done are the ledger's figures, for the
	// load.
	phase      atomic.Pointer[string]
	open, done atomic.Int64
}

// struck is a fault that has begun.
type struck struct {
	from, to time.Duration
	// ended is the number of executions that had ended by then.
	ended int
}

// Soak runs and judges a soak. When ctx ends it stops submitting, ends gracefully and judges what
// there is. An error means that it failed to start or that the evidence could not be read.
func (sa *Sandbox) Soak(ctx context.Context, o SoakOptions) (*soak.Result, error) {
	scaled, err := o.Scenario.Scaled(o.Scale, config.Hardened)
	if err != nil {
		return nil, err
	}
	w, err := sa.newWorld(context.WithoutCancel(ctx), scaled, config.Hardened, Options{Seed: o.Plan.Seed, Scale: o.Scale, Mutant: o.Mutant})
	if err != nil {
		return nil, err
	}
	defer w.close()
	w.untraced = true
	x := newSoaking(w, o)
	defer x.stream.Close()
	if err := w.startCluster(); err != nil {
		return nil, err
	}
	x.load = newLoad(x)
	x.sampler = newSampler(x)
	judging, stop := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { x.judge(judging) })
	tasks.Go(func() { x.sampler.run(judging) })
	held := x.findRate(ctx)
	w.ready = w.now()
	x.load.rate(x.load.target)
	x.say("load")
	tasks.Go(func() { x.plan.run(judging) })
	w.injector.Arm()
	interrupted := x.lasts(ctx)
	ran := w.clock().Now()
	settled := x.drain()
	drained := w.clock().Now() - ran
	if settled {
		w.emit(history.Event{Kind: history.Quiescent})
	}
	w.stopFaults()
	stalls := w.noise.stop()
	crashed := w.broken()
	w.stopDaemons()
	stop()
	tasks.Wait()
	if err := x.window(context.WithoutCancel(ctx), true); err != nil {
		// What broke the soak is often why the evidence can't be read.
		if crashed != "" {
			return nil, fmt.Errorf("the soak broke off: %s; then reading the last of the evidence failed: %w", crashed, err)
		}
		return nil, fmt.Errorf("reading the last of the evidence: %w", err)
	}
	r := x.result(settled, stalls, crashed)
	r.Held, r.Ran, r.Interrupted, r.Drain = held, ran, interrupted, drained
	x.audit(context.WithoutCancel(ctx), r)
	x.conclude(r)
	return r, nil
}

func newSoaking(w *world, o SoakOptions) *soaking {
	var witnesses []*evidence.Witness
	for _, p := range w.all() {
		if p.witness != nil {
			witnesses = append(witnesses, p.witness)
		}
	}
	x := &soaking{w: w, o: o, ledger: soak.NewLedger(), struck: make(map[string]*struck), plan: &planClock{w: w}}
	w.injector = w.newInjector(x.plan)
	x.stream = evidence.NewStream(w.database, witnesses, w.began, func(_ execution.ID, code int) (execution.Reason, int) {
		return failureOf(&w.scenario.Actions[0], code)
	})
	judged, _ := soakRules()
	x.suite = invariant.New(w.config, judged)
	x.suite.SetEvidence(soakEvidence())
	x.suite.SetTolerance(capability.Tolerance)
	x.suite.SetRequests(func(key string) (execution.Action, bool) {
		_, ours := soak.Number(key)
		return w.scenario.Actions[0].Action, ours
	})
	x.say("start")
	return x
}

func (so *soaking) say(phase string) { so.phase.Store(&phase) }

// soakEvidence lists the kinds of events that a soak records whenever they happen. Messages are not
// among them, because the broker's trace of every message costs more than the load. Neither are
// events that only daemons or models report.
func soakEvidence() []history.Kind {
	without := []history.Kind{
		history.Published, history.PublishReturned, history.Enqueued, history.Delivered, history.Acked, history.Requeued, history.Expired,
		history.Rejected, history.DeadLettered, history.Dropped, history.ReturnedTooOften, history.ConsumerTimedOut, history.KeyKnown,
		history.StaleWrite, history.AlertFired, history.AlertResolved, history.ClockStepped, history.Logged, history.MutantActed,
		history.EndAsked, history.ToldGone, history.Hinted, history.ProcessFrozen, history.ProcessThawed,
	}
	var kinds []history.Kind
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		if !slices.Contains(without, k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// soakRules returns the numbers of the invariants that a soak judges, and for the others why it
// doesn't.
func soakRules() (judged []int, not map[int]string) {
	kinds := soakEvidence()
	not = make(map[int]string)
	for _, i := range invariant.All() {
		lacks := slices.DeleteFunc(slices.Clone(i.Needs), func(k history.Kind) bool { return slices.Contains(kinds, k) })
		if len(lacks) > 0 {
			not[i.Number] = fmt.Sprintf("a soak records no %v events", lacks[0])
			continue
		}
		judged = append(judged, i.Number)
	}
	return judged, not
}

// judge judges one window after another until ctx ends, and reports the progress.
func (so *soaking) judge(ctx context.Context) {
	tick := time.NewTicker(windowEvery)
	defer tick.Stop()
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = so.window(ctx, false) // the database may be down; its evidence waits for the next window
		if time.Since(said) >= progressEvery {
			said = time.Now()
			so.progress()
		}
	}
}

// window judges what is known by now.
func (so *soaking) window(ctx context.Context, last bool) error {
	events, err := so.stream.Window(ctx, so.w.took(), last)
	for i := range events {
		e := &events[i]
		so.events++
		so.suite.Observe(e)
		so.ledger.Observe(e)
		if !last {
			so.w.observe(e)
		}
		switch e.Kind {
		case history.FaultBegan:
			so.struck[e.Fault] = &struck{from: e.At - so.w.ready, ended: so.ledger.Ended}
		case history.FaultEnded:
			if f := so.struck[e.Fault]; f != nil {
				f.to = e.At - so.w.ready
			}
		default:
		}
	}
	so.open.Store(int64(so.ledger.Open()))
	so.done.Store(int64(so.ledger.Ended))
	if !last {
		so.mostBehind = max(so.mostBehind, so.stream.Behind)
		so.sampler.judged(so.ledger, so.stream)
	}
	return err
}

func (so *soaking) progress() {
	if so.o.Progress == nil {
		return
	}
	p := soak.Progress{
		At: so.w.clock().Now(), For: so.o.Plan.For, Phase: *so.phase.Load(), Accepted: int(so.load.accepted.Load()), Ended: so.ledger.Ended,
		Open: so.ledger.Open(), Started: so.ledger.Started, Strikes: len(so.struck), All: len(so.w.scenario.Faults), Behind: so.stream.Behind,
	}
	p.Rate, p.Held = so.load.now()
	if p.Phase != "load" && p.Phase != "drain" {
		p.At = 0
	}
	if f := so.suite.Findings(); len(f) > 0 {
		p.Broken = fmt.Sprintf("%s: %s", f[0].Invariant.Name, f[0].Message)
	}
	so.o.Progress(p)
}

// findRate sets the rate of the load: the requested rate, or a safe share of the highest rate that
// the machine sustains, which it returns.
func (so *soaking) findRate(ctx context.Context) (held float64) {
	if so.o.Rate > 0 {
		so.load.target = so.o.Rate
		return 0
	}
	so.say("finding the rate")
	ramp := soak.NewRamp()
	for more := true; more && ctx.Err() == nil && so.w.broken() == ""; {
		before := so.load.accepted.Load()
		so.load.rate(ramp.Rate)
		wait(ctx, rampStep)
		accepted := float64(so.load.accepted.Load()-before) / rampStep.Seconds()
		more = ramp.Step(so.load.open(), accepted)
	}
	so.load.rate(0)
	so.load.target = ramp.Safe()
	for so.load.open() > soak.Backlog(so.load.target)/4 && ctx.Err() == nil && so.w.broken() == "" {
		wait(ctx, windowEvery)
	}
	return ramp.Held
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// lasts waits for the end of the plan, and says whether it was interrupted.
func (so *soaking) lasts(ctx context.Context) (interrupted bool) {
	for so.plan.Now() < so.o.Plan.For && so.w.broken() == "" {
		if ctx.Err() != nil {
			return true
		}
		wait(ctx, 100*time.Millisecond)
	}
	return false
}

// settles is how long the configuration allows an execution to take, with its retries.
func (so *soaking) settles() time.Duration {
	a := &so.w.scenario.Actions[0]
	return invariant.Settle(so.w.config, a.TakesMax, a.MaxRetries)
}

// drain stops submitting and waits until every execution has ended. It returns whether that
// happened in time.
func (so *soaking) drain() bool {
	so.say("drain")
	so.load.rate(0)
	for _, undo := range so.w.injector.Stop() {
		undo()
	}
	so.w.serversUp()
	until := time.Now().Add(so.settles() + unscaled)
	quiet := time.Time{}
	for time.Now().Before(until) && so.w.broken() == "" {
		switch {
		case so.load.open() > 0 || so.w.alive() > 0 || so.load.unanswered() > 0:
			quiet = time.Time{}
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > time.Duration(float64(15*time.Second)*so.o.Scale):
			so.load.stop()
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	so.load.stop()
	return false
}
