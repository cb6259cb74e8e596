package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/capability"
	"handoff/chaos/live/evidence"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// Options configures a run.
type Options struct {
	Seed uint64
	// Scale multiplies every duration of the scenario and its configuration.
	Scale float64
	// Mutant is planted into the daemons, which must have been built for it; empty for none.
	Mutant string
}

// Result is a run with its full record.
type Result struct {
	verdict.Record
	// Stalls holds the machine's recorded stalls.
	Stalls []Stall
	// Noise describes the stall because of which the run proves nothing about the product; empty for none.
	Noise string
	// Unscraped counts failed scrapes of running processes. The record has each with its reason.
	Unscraped int
	// Wall is the real duration, without the start of the servers.
	Wall time.Duration
}

// Run runs a scenario once, under one profile. An error means that the environment failed to start or that
// the evidence could not be read. It implies nothing about the product.
func (sa *Sandbox) Run(ctx context.Context, s *scenario.Scenario, p config.Profile, o Options) (*Result, error) {
	began := time.Now()
	scaled, err := s.Scaled(o.Scale, p)
	if err != nil {
		return nil, err
	}
	w, err := sa.newWorld(ctx, scaled, p, o)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.startRun(); err != nil {
		return nil, err
	}
	settled := w.awaitRest(ctx)
	r, err := w.concludeRun(settled)
	if err != nil {
		return nil, err
	}
	r.Wall = time.Since(began)
	return r, nil
}

// awaitRest waits until the system has nothing left to do, and reports whether that happened in time.
func (w *world) awaitRest(ctx context.Context) bool {
	rest := &run.Rest{
		Clock: w.scenarioClock(), Linger: time.Duration(float64(run.Linger) * w.options.Scale), Workload: w.workload, Alerts: w.alerts,
		State: state{w, ctx},
	}
	horizon := run.Horizon(w.scenario, w.config) + unscaled
	for ctx.Err() == nil && w.scenarioClock().Now() < horizon && w.failReason() == "" && w.silent == nil {
		if rest.Over() {
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// unscaled is the time for everything that takes the same time at any time scale. The worst case of a run is
// several starts of a broker, after each of which all processes reconnect.
const unscaled = 60 * time.Second

// state implements run.State.
type state struct {
	w   *world
	ctx context.Context //nolint:containedctx // of the questions to servers
}

func (s state) Faults() bool   { return s.w.injector.Busy() || s.w.interceptor.hasPending() }
func (s state) Actions() bool  { return s.w.liveActions() > 0 }
func (s state) Messages() bool { return false } // only the broker knows its messages; see Drained

func (s state) Unfinished() bool {
	within, cancel := context.WithTimeout(s.ctx, 5*time.Second)
	defer cancel()
	var open int
	err := s.w.pool.QueryRow(within, "select count(*) from execution where orchestrated_at is null").Scan(&open)
	return err != nil || open > 0
}

// Drained reports whether every queue is empty according to the broker. No fault affects the broker when
// Drained is called, so several consecutive errors end the run.
func (s state) Drained() bool {
	if s.w.hasSuspendedQueue() {
		return false // a suspended queue does not answer
	}
	depths, err := s.w.queueDepths(s.ctx)
	if s.w.unanswered.reachesLimit(err) {
		s.w.silent = err
	}
	if err != nil {
		return false
	}
	s.w.lastDepths = depths
	for _, n := range depths {
		if n > 0 {
			return false
		}
	}
	return true
}

// unansweredCount counts consecutive failed queries.
type unansweredCount int

// After mostUnanswered consecutive failed queries, the run ends. A queue whose leader has just moved, or a
// node that has just started, answers one of the next queries.
const mostUnanswered = 3

// reachesLimit counts the result of a query, and reports whether further queries are pointless.
func (u *unansweredCount) reachesLimit(err error) bool {
	if err == nil {
		*u = 0
		return false
	}
	*u++
	return *u >= mostUnanswered
}

// concludeRun stops the system, then collects and judges the evidence.
func (w *world) concludeRun(settled bool) (*Result, error) {
	missed := w.stopAlerts()
	if settled {
		w.recordEvent(history.Event{Kind: history.Quiescent})
	} else if depths, err := w.queueDepths(w.ctx); err == nil {
		w.lastDepths = depths
	}
	w.stopFaults()
	stalls := w.noise.stop()
	crashed := w.failReason()
	w.stopDaemons()
	end := w.sinceStart()
	events, rows, err := w.collectEvidence()
	if err != nil {
		return nil, err
	}
	r := &Result{Stalls: append(stalls, unansweredStatements(events, &w.config)...), Unscraped: missed}
	r.TimeScale = w.options.Scale
	r.Events, r.Workers, r.FaultIntervals = events, w.database.Workers(), w.injector.FaultIntervals(end-w.ready)
	for i := range r.FaultIntervals { // the record's times count from the start of the run
		r.FaultIntervals[i].Begin += w.ready
		r.FaultIntervals[i].End += w.ready
	}
	judges := run.NewJudges(w.scenario, w.profile, w.config, w.scenario.Expect(w.profile).Invariants)
	judges.Suite.SetTolerance(capability.Tolerance)
	for i := range events {
		judges.Observe(&events[i])
	}
	o := run.Outcome{
		Seed: w.options.Seed, Mutant: w.options.Mutant, Ending: run.Unsettled, Panic: crashed, Faults: w.injector.Counts(),
		Steps: uint64(len(events)), At: end, Workers: r.Workers,
	}
	for i := range rows {
		o.Rows = append(o.Rows, &rows[i])
	}
	if settled {
		o.Ending = run.Settled
	}
	if w.silent != nil {
		o.GaveUp = fmt.Sprintf("the harness could not find out whether the run is over: asked %d times in a row, the broker answered: %v", mostUnanswered, w.silent)
	}
	r.Run = judges.Verdict(o)
	r.Noise = noiseReason(r.Violations, r.Stalls, w.config.Worker)
	return r, nil
}

// collectEvidence reads all evidence and returns it as one history, with the final rows.
func (w *world) collectEvidence() ([]history.Event, []execution.Execution, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	database, err := w.database.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := w.finalRows(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	actions := make(map[string]*scenario.Action)
	for i := range w.scenario.Actions {
		actions[w.scenario.Actions[i].Ref] = &w.scenario.Actions[i]
	}
	of := make(map[execution.ID]*scenario.Action, len(rows))
	for i := range rows {
		of[rows[i].ID] = actions[rows[i].Action.Ref]
	}
	heard, gaps := w.firehose.Heard()
	src := evidence.Sources{
		Own: fillKnownAges(w.ownEvents(), rows), Database: database, Messages: heard, Gaps: gaps, Depths: w.lastDepths, DaemonLog: w.daemonLogs(),
		Failure: func(id execution.ID, code int) (execution.Reason, int) {
			if a := of[id]; a != nil {
				return failureOf(a, code)
			}
			return execution.NoReason, code
		},
	}
	var bad error
	for _, p := range w.allProcesses() {
		if p.witness == nil {
			continue
		}
		items, err := p.witness.Items()
		src.Witness = append(src.Witness, items...)
		bad = errors.Join(bad, err)
	}
	return evidence.Order(src), rows, bad
}

// finalRows returns all executions in their state at the end of the run.
func (w *world) finalRows(ctx context.Context, database []evidence.Item) ([]execution.Execution, error) {
	var ids []execution.ID
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Created {
			ids = append(ids, e.Execution)
		}
	}
	rows, err := w.store.Executions(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading how the executions ended: %w", err)
	}
	return rows, nil
}
