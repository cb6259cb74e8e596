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

// This file holds the soak: the daemons, links and faults of a live run under a load that the machine
// sustains. Evidence is judged as it arrives and then discarded, so that a soak may last for any time.

// SoakOptions configures a soak.
type SoakOptions struct {
	Plan *soak.Plan
	// Scenario is the plan, converted to a scenario.
	Scenario *scenario.Scenario
	// Scale is the time scale of the scenario and its configuration.
	Scale float64
	// Rate is the rate of submissions, in executions per second; 0 to find the rate that the machine sustains.
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

// soakRun is a soak in progress.
type soakRun struct {
	w       *world
	o       SoakOptions
	stream  *evidence.Stream
	suite   *invariant.Suite
	ledger  *soak.Ledger
	load    *load
	sampler *sampler
	plan    *planClock

	// Only the goroutine that judges uses events, mostBehind and struck.
	events     uint64
	mostBehind time.Duration
	// struck holds the faults that have begun, by name.
	struck map[string]*startedFault

	// phase is the current phase, for progress reports. open and done are the ledger's counts of open and
	// ended executions, for the load.
	phase      atomic.Pointer[string]
	open, done atomic.Int64
}

// startedFault is a fault that has begun.
type startedFault struct {
	from, to time.Duration
	// ended is the number of executions that had ended when the fault began.
	ended int
}

// Soak runs and judges a soak. When ctx ends, it stops submitting, ends gracefully and judges the evidence so
// far. An error means that it failed to start or that the evidence could not be read.
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
	x := newSoakRun(w, o)
	defer x.stream.Close()
	if err := w.startCluster(); err != nil {
		return nil, err
	}
	x.load = newLoad(x)
	x.sampler = newSampler(x)
	judging, stop := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { x.judgeWindows(judging) })
	tasks.Go(func() { x.sampler.sampleUntilDone(judging) })
	held := x.findRate(ctx)
	w.ready = w.sinceStart()
	x.load.setRate(x.load.target)
	x.setPhase("load")
	tasks.Go(func() { x.plan.tickUntilDone(judging) })
	w.injector.Arm()
	interrupted := x.awaitPlanEnd(ctx)
	ran := w.scenarioClock().Now()
	settled := x.drainLoad()
	drained := w.scenarioClock().Now() - ran
	if settled {
		w.recordEvent(history.Event{Kind: history.Quiescent})
	}
	w.stopFaults()
	stalls := w.noise.stop()
	crashed := w.failReason()
	w.stopDaemons()
	stop()
	tasks.Wait()
	if err := x.judgeWindow(context.WithoutCancel(ctx), true); err != nil {
		// The failure that ended the soak is often the reason why the evidence can't be read.
		if crashed != "" {
			return nil, fmt.Errorf("the soak was aborted: %s; then reading the last of the evidence failed: %w", crashed, err)
		}
		return nil, fmt.Errorf("reading the last of the evidence: %w", err)
	}
	r := x.newResult(settled, stalls, crashed)
	r.Held, r.Ran, r.Interrupted, r.Drain = held, ran, interrupted, drained
	x.auditDatabase(context.WithoutCancel(ctx), r)
	x.setVerdict(r)
	return r, nil
}

func newSoakRun(w *world, o SoakOptions) *soakRun {
	var witnesses []*evidence.Witness
	for _, p := range w.allProcesses() {
		if p.witness != nil {
			witnesses = append(witnesses, p.witness)
		}
	}
	x := &soakRun{w: w, o: o, ledger: soak.NewLedger(), struck: make(map[string]*startedFault), plan: &planClock{w: w}}
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
	x.setPhase("start")
	return x
}

func (sr *soakRun) setPhase(phase string) { sr.phase.Store(&phase) }

// soakEvidence lists the kinds of events that a soak records completely. It excludes messages, because the
// broker's trace of every message costs more than the load, and events that only daemons or models report.
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

// soakRules returns the numbers of the invariants that a soak judges, and why it does not judge the others.
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

// judgeWindows judges window after window until ctx ends, and reports the progress.
func (sr *soakRun) judgeWindows(ctx context.Context) {
	tick := time.NewTicker(windowEvery)
	defer tick.Stop()
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_ = sr.judgeWindow(ctx, false) // the database may be down; the next window includes its evidence
		if time.Since(said) >= progressEvery {
			said = time.Now()
			sr.reportProgress()
		}
	}
}

// judgeWindow judges the evidence known so far.
func (sr *soakRun) judgeWindow(ctx context.Context, last bool) error {
	events, err := sr.stream.Window(ctx, sr.w.takeOwnEvents(), last)
	for i := range events {
		e := &events[i]
		sr.events++
		sr.suite.Observe(e)
		sr.ledger.Observe(e)
		if !last {
			sr.w.observeEvent(e)
		}
		switch e.Kind {
		case history.FaultBegan:
			sr.struck[e.Fault] = &startedFault{from: e.At - sr.w.ready, ended: sr.ledger.Ended}
		case history.FaultEnded:
			if f := sr.struck[e.Fault]; f != nil {
				f.to = e.At - sr.w.ready
			}
		default:
		}
	}
	sr.open.Store(int64(sr.ledger.Open()))
	sr.done.Store(int64(sr.ledger.Ended))
	if !last {
		sr.mostBehind = max(sr.mostBehind, sr.stream.Behind)
		sr.sampler.sampleJudge(sr.ledger, sr.stream)
	}
	return err
}

func (sr *soakRun) reportProgress() {
	if sr.o.Progress == nil {
		return
	}
	p := soak.Progress{
		At: sr.w.scenarioClock().Now(), For: sr.o.Plan.For, Phase: *sr.phase.Load(), Accepted: int(sr.load.accepted.Load()), Ended: sr.ledger.Ended,
		Open: sr.ledger.Open(), Started: sr.ledger.Started, Strikes: len(sr.struck), All: len(sr.w.scenario.Faults), Behind: sr.stream.Behind,
	}
	p.Rate, p.Held = sr.load.currentRate()
	if p.Phase != "load" && p.Phase != "drain" {
		p.At = 0
	}
	if f := sr.suite.Findings(); len(f) > 0 {
		p.Broken = fmt.Sprintf("%s: %s", f[0].Invariant.Name, f[0].Message)
	}
	sr.o.Progress(p)
}

// findRate sets the load's rate to the requested one or, without a request, to a safe share of the highest
// rate that the machine sustains. It returns that highest rate, 0 if a rate was requested.
func (sr *soakRun) findRate(ctx context.Context) (held float64) {
	if sr.o.Rate > 0 {
		sr.load.target = sr.o.Rate
		return 0
	}
	sr.setPhase("finding the rate")
	ramp := soak.NewRamp()
	for more := true; more && ctx.Err() == nil && sr.w.failReason() == ""; {
		before := sr.load.accepted.Load()
		sr.load.setRate(ramp.Rate)
		waitFor(ctx, rampStep)
		accepted := float64(sr.load.accepted.Load()-before) / rampStep.Seconds()
		more = ramp.Step(sr.load.openExecutions(), accepted)
	}
	sr.load.setRate(0)
	sr.load.target = ramp.Safe()
	for sr.load.openExecutions() > soak.Backlog(sr.load.target)/4 && ctx.Err() == nil && sr.w.failReason() == "" {
		waitFor(ctx, windowEvery)
	}
	return ramp.Held
}

func waitFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// awaitPlanEnd waits for the end of the plan, and reports whether it was interrupted.
func (sr *soakRun) awaitPlanEnd(ctx context.Context) (interrupted bool) {
	for sr.plan.Now() < sr.o.Plan.For && sr.w.failReason() == "" {
		if ctx.Err() != nil {
			return true
		}
		waitFor(ctx, 100*time.Millisecond)
	}
	return false
}

// settleTime returns the longest time that the configuration allows for an execution and its retries.
func (sr *soakRun) settleTime() time.Duration {
	a := &sr.w.scenario.Actions[0]
	return invariant.Settle(sr.w.config, a.TakesMax, a.MaxRetries)
}

// drainLoad stops submitting and waits until every execution has ended. It reports whether that happened in
// time.
func (sr *soakRun) drainLoad() bool {
	sr.setPhase("drain")
	sr.load.setRate(0)
	for _, undo := range sr.w.injector.Stop() {
		undo()
	}
	sr.w.serversUp()
	until := time.Now().Add(sr.settleTime() + unscaled)
	quiet := time.Time{}
	for time.Now().Before(until) && sr.w.failReason() == "" {
		switch {
		case sr.load.openExecutions() > 0 || sr.w.liveActions() > 0 || sr.load.unansweredRequests() > 0:
			quiet = time.Time{}
		case quiet.IsZero():
			quiet = time.Now()
		case time.Since(quiet) > time.Duration(float64(15*time.Second)*sr.o.Scale):
			sr.load.stop()
			return true
		}
		time.Sleep(100 * time.Millisecond)
	}
	sr.load.stop()
	return false
}
