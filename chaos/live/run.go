package live

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/live/evidence"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// Options say how a scenario is run.
type Options struct {
	Seed uint64
	// Scale multiplies every duration of the scenario and its configuration.
	Scale float64
	// Mutant is planted into the daemons, which must be built for it; empty for none.
	Mutant string
}

// Result is a run and its whole story.
type Result struct {
	verdict.Record
	// Stalls are when the machine stood still, for as long as counts.
	Stalls []Stall
	// Noise says why the run is no verdict on the product: the variables was too noisy; empty if not.
	Noise string
	// Unscraped counts the scrapes that failed of processes that were up; the record says which, and why.
	Unscraped int
	// Wall is how long it took, servers not counted.
	Wall time.Duration
}

// Run runs a scenario once, under one profile. An error means that the variables did not come up or that
// the evidence could not be read, and says nothing about the product.
func (l *Sandbox) Run(ctx context.Context, s *scenario.Scenario, p config.Profile, o Options) (*Result, error) {
	began := time.Now()
	scaled, err := s.Scaled(o.Scale, p)
	if err != nil {
		return nil, err
	}
	w, err := l.newWorld(ctx, scaled, p, o)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.start(); err != nil {
		return nil, err
	}
	settled := w.await(ctx)
	r, err := w.finish(settled)
	if err != nil {
		return nil, err
	}
	r.Wall = time.Since(began)
	return r, nil
}

// await waits until nothing is left to be done, and returns whether it came to that.
func (w *world) await(ctx context.Context) bool {
	linger := time.Duration(float64(run.Linger) * w.options.Scale)
	horizon := w.ready + run.Horizon(w.scenario, w.config) + unscaled
	quiet := time.Duration(-1)
	for ctx.Err() == nil && w.now() < horizon && w.broken() == "" {
		switch {
		case !w.quiet():
			quiet = -1
		case quiet < 0:
			quiet = w.now()
		case w.now()-quiet >= linger:
			if w.drained(ctx) {
				return true
			}
			quiet = -1
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// unscaled is what takes as long at any time scale, in the worst case of a run: a broker's start, several
// times, and the return of everybody to it.
const unscaled = 60 * time.Second

// quiet says that nothing is known to be left to do, as far as can be told without asking the broker, and that no alert
// fires that has to be over first.
func (w *world) quiet() bool {
	rests := w.rests()
	return !w.alerts.Pending(rests) && rests
}

// rests says that everything that was submitted is finished and handled, every fault is over, and no action runs.
func (w *world) rests() bool {
	if w.workload.Submitting() || w.injector.busy() || w.interceptor.busy() {
		return false
	}
	if w.alive() > 0 {
		return false
	}
	var open int
	within, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	err := w.pool.QueryRow(within, "select count(*) from execution where orchestrated_at is null").Scan(&open)
	return err == nil && open == 0
}

// drained asks the broker whether every queue is empty.
func (w *world) drained(ctx context.Context) bool {
	depths, err := w.depths(ctx)
	if err != nil {
		return false
	}
	w.lastDepths = depths
	for _, n := range depths {
		if n > 0 {
			return false
		}
	}
	return true
}

// finish collects the evidence and judges it.
func (w *world) finish(settled bool) (*Result, error) {
	missed := w.stopAlerts()
	if settled {
		w.emit(history.Event{Kind: history.Quiescent})
	} else if depths, err := w.depths(w.ctx); err == nil {
		w.lastDepths = depths
	}
	w.injector.stop()
	stalls := w.noise.stop()
	crashed := w.broken()
	w.stopDaemons()
	end := w.now()
	events, rows, err := w.collect()
	if err != nil {
		return nil, err
	}
	r := &Result{Stalls: stalls, Unscraped: missed}
	r.Run = verdict.Run{
		Scenario: w.scenario.Name, Profile: w.profile, Seed: w.options.Seed, Mutant: w.options.Mutant,
		Faults: w.injector.counts(), Panic: crashed, Virtual: end, Steps: uint64(len(events)),
	}
	r.TimeScale = w.options.Scale
	r.Events, r.Workers, r.FaultIntervals = events, w.database.Workers(), w.injector.faultIntervals(end)
	w.judge(r, settled, rows)
	return r, nil
}

// judge streams the history through the same judges as a simulated one.
func (w *world) judge(r *Result, settled bool, rows []execution.Execution) {
	expect := w.scenario.Expect(w.profile)
	suite := invariant.New(w.config, expect.Invariants)
	suite.SetTolerance(JudgedWithin)
	suite.SetRequests(w.scenario.Requested)
	suite.ExpectAlerts(invariant.Alerts(expect.Alerts))
	hash, probes, tally := history.NewHasher(), verdict.NewProbes(w.config.Executor.ReconcileInterval), run.NewTally(expect.Texts)
	all := history.Tee{hash, suite, probes, tally}
	for i := range r.Events {
		if r.Events[i].Kind != history.Logged {
			all.Observe(&r.Events[i])
		}
	}
	r.Hash, r.Sometimes = hash.Sum(), probes.Hits()
	tally.Fill(&r.Run)
	run.Judge(&r.Run, w.scenario, suite.End(settled), rows, true)
	r.Judged = suite.Judged()
	if !settled && r.Panic == "" && len(r.Violations) == 0 {
		r.GaveUp = fmt.Sprintf("after %v it had not come to rest", r.Virtual.Round(time.Second))
	}
	r.Noise = noisy(r.Violations, r.Stalls, w.config.Worker)
}

// JudgedWithin is how long after the moment at which a statement judged a row its trigger may fire, on a machine
// that is busy with other sandboxes: 72 ms were seen. A take-back is dated by its trigger, and its delay was counted
// from that moment.
const JudgedWithin = 200 * time.Millisecond

// collect reads all evidence and orders it.
func (w *world) collect() ([]history.Event, []execution.Execution, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	database, err := w.database.All(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := w.rows(ctx, database)
	if err != nil {
		return nil, nil, err
	}
	reasons := make(map[string]execution.Reason)
	for _, a := range w.scenario.Actions {
		reasons[a.Ref] = a.FailReason
	}
	refs := make(map[execution.ID]string, len(rows))
	for i := range rows {
		refs[rows[i].ID] = rows[i].Action.Ref
	}
	heard, gaps := w.firehose.Heard()
	src := evidence.Sources{
		Own: aged(w.own(), rows), Database: database, Messages: heard, Gaps: gaps, Depths: w.lastDepths, DaemonLog: w.daemonLogs(),
		FailReason: func(id execution.ID) execution.Reason { return reasons[refs[id]] },
	}
	var bad error
	for _, p := range w.all() {
		if p.witness == nil {
			continue
		}
		items, err := p.witness.Items()
		src.Witness = append(src.Witness, items...)
		bad = errors.Join(bad, err)
	}
	return evidence.Order(src), rows, bad
}

// rows are the executions as the run left them.
func (w *world) rows(ctx context.Context, database []evidence.Item) ([]execution.Execution, error) {
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

// label tells the processes and files of one run from those of others on the same sandbox.
func label(run int) string { return "run-" + strconv.Itoa(run) }
