// Package policytest watches an executor at its port to the database, in simulated runs of drawn clusters,
// and compares its decisions with the oracle: which worker gets which execution and how many, which
// executions are retried, and how long a retried or requeued execution waits. The watcher knows everything
// that the executor knew, so it judges each decision exactly. Invariants only see the events, and must leave
// room for what an executor may have known.
package policytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/chaos/oracle"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim"
)

// watcher observes the executor's calls of the database, and passes every call through.
type watcher struct {
	store.Store
	process string
	config  config.Config
	shared  *findings

	placement  oracle.Placement
	thresholds *oracle.Thresholds
	backoffs   *oracle.Backoffs
	// looks are the latest replies about the workers. Loops other than the scheduler query them, too.
	looks [][]oracle.Worker
	keys  [][]store.WorkerKey
	// claimed are the rows of the scheduler's claim until it has decided on them.
	claimed []execution.Execution
	// full reports whether more rows may have been due.
	full bool
	// offered reports whether the decisions are those of one offer.
	offered bool
	// rows have the latest state that the executor read.
	rows map[execution.ID]execution.Execution
}

// findings are the findings of one run.
type findings struct {
	list                                   []string
	placed, choices, last, taken, demanded int
	// lots draws the figures to move to an edge; nil if none is moved.
	lots *rand.Rand
}

func (f *findings) addFinding(format string, args ...any) {
	f.list = append(f.list, fmt.Sprintf(format, args...))
}

// watchingMutant is a mutant that changes nothing.
func watchingMutant(f *findings) *mutant.Mutant {
	return &mutant.Mutant{Name: "watched", Source: "D0", Store: func(p mutant.Process, s store.Store) store.Store {
		if !p.Executor() {
			return s
		}
		w := &watcher{Store: s, process: p.Name, config: p.Config, shared: f, rows: make(map[execution.ID]execution.Execution)}
		w.placement = oracle.Placement{Executor: &w.config.Executor}
		w.thresholds, w.backoffs = oracle.NewThresholds(&w.config.Health), oracle.NewBackoffs(&w.config.Retry)
		return w
	}}
}

// Workers implements store.Store.
func (w *watcher) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	rows, err := w.Store.Workers(ctx, into)
	for i := range rows {
		w.moveToEdges(&rows[i])
	}
	fleet, keys := make([]oracle.Worker, len(rows)), make([]store.WorkerKey, len(rows))
	for i := range rows {
		fleet[i], keys[i] = w.oracleWorker(&rows[i]), rows[i].WorkerKey
	}
	w.looks, w.keys = append(w.looks, fleet), append(w.keys, keys)
	if n := len(w.looks) - 8; n > 0 {
		w.looks, w.keys = w.looks[n:], w.keys[n:]
	}
	return rows, err
}

// moveToEdges moves some of a worker's figures to the bounds of the policies, which a run meets by chance at
// best. The executor decides on the figures that it gets, so its decisions are judged by them.
func (w *watcher) moveToEdges(r *store.WorkerRow) {
	lots, x, h := w.shared.lots, &w.config.Executor, &w.config.Health
	if lots == nil {
		return
	}
	oneIn := func(n int) bool { return lots.IntN(n) == 0 }
	edge := func(bound time.Duration) time.Duration { return bound + time.Duration(lots.IntN(3)-1) }
	near := func(either, or int) int { return max(0, []int{either, or}[lots.IntN(2)]+lots.IntN(3)-1) }
	if oneIn(4) {
		r.FullFor = edge(x.DispatchTimeout / 4)
	}
	if oneIn(8) {
		r.LeaseOverFor = edge(0)
	}
	if oneIn(8) {
		r.Queued = near(h.QueueDepthDegraded, h.QueueDepthUnhealthy)
	}
	if f := &r.Figures; oneIn(4) {
		f.Consecutive, f.Total, f.LastFailure = near(h.DegradedThreshold, h.UnhealthyThreshold), near(h.MinSamples, 10), edge(x.HealthCheckInterval)
		f.Failed = min(f.Total, near(int(h.FailureRateDegraded*float64(f.Total)+0.5), int(h.FailureRateUnhealthy*float64(f.Total)+0.5)))
	}
	if oneIn(8) {
		r.Expired = nil
		for range lots.IntN(h.UnhealthyThreshold + 1) {
			r.Expired = append(r.Expired, max(0, edge([]time.Duration{0, x.HealthCheckInterval, h.Window}[lots.IntN(3)])))
		}
		slices.Sort(r.Expired)
	}
}

func (w *watcher) oracleWorker(r *store.WorkerRow) oracle.Worker {
	e := oracle.Evidence{Total: r.Figures.Total, Failed: r.Figures.Failed, Consecutive: r.Figures.Consecutive, Queued: r.Queued}
	since := r.Figures.LastFailure
	for _, ago := range r.Expired {
		if ago <= w.config.Health.Window {
			e.Unclaimed++
			if r.Figures.Failed+r.Figures.Consecutive == 0 && e.Unclaimed == 1 || ago < since {
				since = ago
			}
		}
	}
	return oracle.Worker{
		ID: r.ID, Runtimes: r.Runtimes, Active: r.Lifecycle == execution.Active, Fresh: r.LeaseOverFor <= 0, Consuming: r.ConsumerAlive,
		Cordoned: r.Cordoned, Capacity: r.Capacity, Load: r.Load, FullFor: r.FullFor,
		Health: w.thresholds.Health(e), HalfOpen: w.thresholds.HalfOpen(e, &w.config.Executor, since),
	}
}

// ClaimForScheduling implements store.Store.
func (w *watcher) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	why := make([]string, len(w.looks))
	for n, fleet := range w.looks {
		right, pools := w.placement.Demands(fleet, w.config.Executor.BatchSize)
		why[len(why)-1-n] = unlikeDemands(c.Demands, c.Pools, right, pools)
	}
	if w.shared.demanded++; !slices.Contains(why, "") {
		w.shared.addFinding("%s: how many executions a pass takes: %s", w.process, strings.Join(why, "; "))
	}
	rows, err := w.Store.ClaimForScheduling(ctx, c)
	w.claimed, w.full = slices.Clone(rows), mayHaveMore(&c, rows)
	return rows, err
}

// unlikeDemands describes how two demands differ; empty if they do not. The numbers of pools do not matter.
func unlikeDemands(demands []store.Demand, pools []int, right []oracle.Demand, rightPools map[int]int) string {
	if len(demands) != len(right) {
		return fmt.Sprintf("the contract names %+v, the core %+v", right, demands)
	}
	numbers := make(map[int]int)
	for _, d := range right {
		at := slices.IndexFunc(demands, func(of store.Demand) bool { return of.Runtime == d.Runtime && of.Pinned == d.Pinned })
		if at < 0 || demands[at].Limit != d.Most {
			return fmt.Sprintf("the contract says %+v, the core %+v", d, demands)
		}
		number := demands[at].Pool
		if known, ok := numbers[d.Pool]; ok && known != number || pools[number] != rightPools[d.Pool] {
			return fmt.Sprintf("the contract says %+v of pools %v, the core %+v of %v", right, rightPools, demands, pools)
		}
		numbers[d.Pool] = number
	}
	return ""
}

// DispatchDue implements store.Store. It judges the moved rows as if they had been claimed and then
// dispatched.
func (w *watcher) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	answer, err := w.Store.DispatchDue(ctx, d)
	if err != nil {
		return answer, err
	}
	defer w.addLoads(answer.Rows)
	if answer.Unfit > 0 {
		return answer, nil
	}
	for i := range d.Offers {
		o := &d.Offers[i]
		w.claimed = nil
		for _, row := range answer.Rows {
			if slices.Contains(o.Runtimes, row.Action.Runtime) {
				w.claimed = append(w.claimed, row)
			}
		}
		// If all places were filled, more rows may be due. Rows that are left for others may have
		// reduced the number.
		w.full = len(w.claimed) > 0 && len(w.claimed) == len(o.Spread)
		if answer.Full && !w.full {
			w.claimed = nil
			continue
		}
		places := o.Spread
		if w.full {
			places = o.Packed
		}
		var ds []store.Dispatch
		for n := range w.claimed {
			row := &w.claimed[n]
			w.rows[row.ID] = *row
			ds = append(ds, store.Dispatch{
				Key: execution.Key{ID: row.ID, Epoch: row.Epoch - 1}, Worker: store.WorkerKey{ID: row.Worker, Incarnation: row.Incarnation},
				Timeout: row.DispatchDeadline.Sub(row.ScheduledAt), Limit: places[n].Limit,
			})
		}
		w.offered = true
		w.judgeDecisions(ds)
		w.offered = false
	}
	return answer, nil
}

// addLoads adds rows to the loads, because they count for the later placements of the same pass.
func (w *watcher) addLoads(rows []execution.Execution) {
	for i := range rows {
		for n := range w.looks {
			if at := slices.IndexFunc(w.keys[n], func(k store.WorkerKey) bool { return k.Incarnation == rows[i].Incarnation }); at >= 0 {
				w.looks[n][at].Load++
			}
		}
	}
}

// mayHaveMore reports whether more rows may be due than a claim took: a demand, or a pool of demands,
// returned its limit.
func mayHaveMore(c *store.SchedulingClaim, rows []execution.Execution) bool {
	pools, ofWorker := slices.Clone(c.Pools), make(map[execution.WorkerID]int)
	some := false
	for _, d := range c.Demands {
		n := 0
		for i := range rows {
			if rows[i].Action.Runtime == d.Runtime && rows[i].Pinned == d.Pinned {
				n++
			}
		}
		pools[d.Pool] -= n
		if d.Pinned != 0 { // its limit is the worker's, whatever the runtime
			ofWorker[d.Pinned] += n
			some = some || n > 0 && ofWorker[d.Pinned] >= d.Limit
			continue
		}
		some = some || n > 0 && n >= d.Limit
	}
	for _, d := range c.Demands {
		some = some || pools[d.Pool] < c.Pools[d.Pool] && pools[d.Pool] <= 0
	}
	return some
}

// Dispatch implements store.Store.
func (w *watcher) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	w.judgeDecisions(ds)
	results, err := w.Store.Dispatch(ctx, executor, ds)
	for i := range results {
		w.rows[results[i].Row.ID] = results[i].Row
	}
	return results, err
}

// Park implements store.Store.
func (w *watcher) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	w.judgeDecisions(nil)
	return w.Store.Park(ctx, executor, ps)
}

// judgeDecisions compares the decisions on a claim with the oracle's, given one of the latest replies
// about the workers.
func (w *watcher) judgeDecisions(ds []store.Dispatch) {
	if len(w.claimed) == 0 {
		return
	}
	load := []bool{w.full}
	if w.offered && w.full && len(w.claimed) < w.config.Executor.BatchSize {
		load = []bool{false, true}
	}
	// If no reply explains the decisions, the newest one is the likeliest basis of them.
	var why []string
	for n := len(w.looks) - 1; n >= 0; n-- {
		differs := ""
		for _, under := range load {
			if differs = w.decisionDifference(slices.Clone(w.looks[n]), w.keys[n], ds, under); differs == "" {
				break
			}
		}
		if differs == "" {
			why = nil
			break
		}
		why = append(why, differs)
	}
	switch {
	case len(w.looks) == 0:
		w.shared.addFinding("%s: nobody has looked at the workers", w.process)
	case len(why) > 0:
		w.shared.addFinding("%s: %s", w.process, why[0])
	}
	w.claimed = nil
}

// decisionDifference describes how the decisions on the claim differ from the oracle's for one reply about
// the workers; empty if they do not. Rows with the fewest fitting workers are placed first, in the order of
// the claim. load reports whether workers get blocks of rows, because more may wait than the pass took. An
// offer of less than a batch only shows that if it fills all the room of the workers.
func (w *watcher) decisionDifference(fleet []oracle.Worker, keys []store.WorkerKey, ds []store.Dispatch, load bool) string {
	request := func(row *execution.Execution) oracle.Request {
		return oracle.Request{Runtime: row.Action.Runtime, Pinned: row.Pinned, Avoid: row.Avoid}
	}
	if room := w.remainingRoom(fleet, request(&w.claimed[0])); load && w.offered && len(w.claimed) < min(room, w.config.Executor.BatchSize) {
		return fmt.Sprintf("%d executions are no sign of load, there was room for %d in %+v", len(w.claimed), room, fleet)
	}
	rows := slices.Clone(w.claimed)
	fitting := func(row *execution.Execution) (n int) {
		for i := range fleet {
			if w.placement.Fits(&fleet[i], request(row)) {
				n++
			}
		}
		return n
	}
	slices.SortStableFunc(rows, func(a, b execution.Execution) int { return fitting(&a) - fitting(&b) })
	// Under load a worker gets a block of rows. more is the number of rows that may still follow the first
	// row, given, to its worker, to.
	var given oracle.Request
	to, more := -1, 0
	for i := range rows {
		row := &rows[i]
		best, follows := w.placement.Best(fleet, request(row)), false
		alike := request(row)
		if w.offered {
			// The workers of an offer take all of its runtimes, so a block does not end with one.
			alike.Runtime = given.Runtime
		}
		if to >= 0 && more > 0 && alike == given && fleet[to].Load < w.placement.Limit(fleet, &fleet[to], given) {
			best, follows = []int{to}, true
		}
		at := slices.IndexFunc(ds, func(d store.Dispatch) bool { return d.Key.ID == row.ID })
		if at < 0 {
			if len(best) > 0 {
				return fmt.Sprintf("execution %d was put back although %+v can take it", row.ID, fleet[best[0]])
			}
			continue
		}
		d := &ds[at]
		chosen := slices.Index(keys, d.Worker)
		switch {
		case !slices.Contains(best, chosen):
			return fmt.Sprintf("execution %d went to worker %d, and the best are %v of %+v", row.ID, d.Worker.ID, best, fleet)
		case d.Limit != w.placement.Limit(fleet, &fleet[chosen], request(row)):
			return fmt.Sprintf("worker %d may hold %d with execution %d, in %+v", d.Worker.ID, d.Limit, row.ID, fleet)
		case d.Timeout != oracle.DispatchTimeout(&w.config.Executor, row.Action.DispatchTimeout):
			return fmt.Sprintf("execution %d may wait %v for its claim", row.ID, d.Timeout)
		}
		if more--; !follows {
			given, to, more = request(row), chosen, 0
			if load {
				more = w.placement.Block(&fleet[chosen]) - 1
			}
		}
		fleet[chosen].Load++
		w.shared.placed++
		if len(best) < len(fleet) {
			w.shared.choices++
		}
	}
	return ""
}

// remainingRoom is the number of further executions that the workers may hold for a request.
func (w *watcher) remainingRoom(fleet []oracle.Worker, r oracle.Request) (room int) {
	for i := range fleet {
		if w.placement.Fits(&fleet[i], r) {
			room += max(0, w.placement.Limit(fleet, &fleet[i], r)-fleet[i].Load)
		}
	}
	return room
}

// Executions implements store.Store.
func (w *watcher) Executions(ctx context.Context, ids []execution.ID) ([]execution.Execution, error) {
	rows, err := w.Store.Executions(ctx, ids)
	for i := range rows {
		w.rows[rows[i].ID] = rows[i]
	}
	return rows, err
}

// Find implements store.Store.
func (w *watcher) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	rows, err := w.Store.Find(ctx, f)
	for i := range rows {
		w.rows[rows[i].ID] = rows[i]
	}
	return rows, err
}

// Reclaim implements store.Store. It checks that a row taken back before its claim waits according
// to how often that has happened, counts only if its worker could have claimed it, and fails only
// if the policy says so.
func (w *watcher) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	for i := range rs {
		r := &rs[i]
		row, known := w.rows[r.Key.ID]
		if !known || row.Key() != r.Key || row.Status != execution.Scheduled {
			continue
		}
		w.shared.taken++
		if window := w.backoffs.After(oracle.TakenBack(row.Dispatches, int64(row.Epoch))); !window.Holds(r.Delay, 0) {
			w.shared.addFinding("execution %d, of which %d dispatches counted before epoch %d, waits %v: not %v to %v",
				row.ID, row.Dispatches, row.Epoch, r.Delay, window.Least, window.Most)
		}
		switch r.Cause {
		case store.Undeliverable, store.Unpublished, store.UnpublishedLate, store.OwnerGone:
			if r.Counts {
				w.shared.addFinding("a dispatch of execution %d counts that is taken back as %v", row.ID, r.Cause)
			}
		default:
			if r.Counts && r.Cause == store.Unclaimed && row.PublishedAt.IsZero() {
				w.shared.addFinding("a dispatch of execution %d counts that nobody knows to have been sent", row.ID)
			}
		}
	}
	return w.Store.Reclaim(ctx, rs)
}

// Orchestrate implements store.Store. It checks that a retry follows if it may, with the next
// number, the reason and its backoff.
func (w *watcher) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	for i := range os {
		row, known := w.rows[os[i].ID]
		if !known || !oracle.Terminal(row.Status) {
			w.shared.addFinding("the end of execution %d is handled, which is %v", os[i].ID, row.Status)
			continue
		}
		w.shared.last++
		may := w.config.Retry.Enabled && oracle.MayRetry(row.Status, row.FailureReason, row.RetryCount, row.Action.MaxRetries)
		// Only the store knows whether one of them is still free, because it knows the first row of the
		// chain.
		free := 0
		if oracle.FreeRetry(row.Status, row.FailureReason, !row.StartedAt.IsZero(), row.Action.MaxRetries, row.Action.MaxRetries, w.config.Retry.FreeShutdowns) {
			free = w.config.Retry.FreeShutdowns
		}
		may = may || w.config.Retry.Enabled && free > 0
		switch r := os[i].Retry; {
		case may != (r != nil):
			w.shared.addFinding("execution %d, retry %d of %d, ended as %v for %q, and that it is retried is %v", row.ID, row.RetryCount, row.Action.MaxRetries, row.Status, row.FailureReason, r != nil)
		case r != nil && (r.Count != row.RetryCount+1 || r.Reason != row.FailureReason || r.Free != free || !w.backoffs.After(row.RetryCount).Holds(r.Delay, 0)):
			w.shared.addFinding("execution %d, retry %d, failed for %q, and gets %+v", row.ID, row.RetryCount, row.FailureReason, *r)
		}
	}
	return w.Store.Orchestrate(ctx, os)
}

// TestExecutorDecidesLikeOracle draws clusters in which workers differ in capacity,
// runtimes, health and cordons.
func TestExecutorDecidesLikeOracle(t *testing.T) {
	var total findings
	rapid.Check(t, func(t *rapid.T) {
		text := drawCluster(t)
		s, err := scenario.Parse("drawn.yaml", []byte(text))
		if err != nil {
			t.Fatalf("the drawn scenario is refused: %v\n%s", err, text)
		}
		var f findings
		seed := rapid.Uint64Range(1, 1<<20).Draw(t, "seed")
		if rapid.Bool().Draw(t, "edges") {
			f.lots = rand.New(rand.NewPCG(seed, 1))
		}
		sim.Run(s, s.Profiles[0], sim.Options{Seed: seed, Mutant: watchingMutant(&f)})
		total.demanded += f.demanded
		total.placed, total.choices, total.last, total.taken = total.placed+f.placed, total.choices+f.choices, total.last+f.last, total.taken+f.taken
		if len(f.list) > 0 {
			t.Fatalf("%d decisions differ, the first one: %s\n%s", len(f.list), f.list[0], text)
		}
	})
	// Under -short rapid draws a fifth of the clusters, and some have hardly any reclaims.
	leastChoices, leastTaken, leastEnds := 500, 20, 200
	if testing.Short() {
		leastChoices, leastTaken, leastEnds = 200, 4, 40
	}
	if !t.Failed() && (total.choices < leastChoices || total.taken < leastTaken || total.last < leastEnds) {
		t.Errorf("only %d choices of %d placements, %d take-backs and %d ends were compared", total.choices, total.placed, total.taken, total.last)
	}
	t.Logf("compared: %d placements, %d of them choices, %d take-backs, %d ends, %d demands", total.placed, total.choices, total.taken, total.last, total.demanded)
}

func drawCluster(t *rapid.T) string {
	var b strings.Builder
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	number := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
	workers := number("workers", 2, 5)
	fmt.Fprintf(&b, "name: drawn\nabout: Drawn.\nworlds: [sim]\nprofile: %s\ncluster:\n  executors: %d\n  workers:\n",
		pick("profile", "hardened", "documented"), number("executors", 1, 2))
	for i := range workers {
		runtimes := "shell, python"
		if i > 0 {
			runtimes = pick("runtimes", "shell", "python", "shell, python")
		}
		fmt.Fprintf(&b, "    w-%d: {runtimes: [%s], concurrency: %d}\n", i+1, runtimes, number("concurrency", 1, 4))
	}
	degraded := number("degraded", 1, 3)
	fmt.Fprintf(&b, "config:\n  executor: {dispatch_timeout: %ds, dispatch_ahead: %d, health_check_interval: %ds, health_probes: off, max_dispatches: %d, batch_size: %d}\n",
		number("dispatch", 8, 60), number("ahead", 0, 3), number("recovery", 5, 40), number("dispatches", 1, 4), number("batch", 2, 20))
	fmt.Fprintf(&b, "  health: {degraded_threshold: %d, unhealthy_threshold: %d, queue_depth_degraded: %d, queue_depth_unhealthy: %d, min_samples: %d, window: %ds}\n",
		degraded, degraded+number("unhealthy", 0, 4), number("queue", 1, 3), number("deeper", 3, 6), number("samples", 2, 8), number("window", 20, 120))
	fmt.Fprintf(&b, "  retry: {base_backoff_secs: %d, max_backoff_secs: %d, backoff_multiplier: %d.5, jitter_factor: 0.%d}\n",
		number("base", 0, 2), number("cap", 2, 20), number("multiplier", 1, 3), number("jitter", 0, 9))
	fmt.Fprintf(&b, "actions:\n  a: {runtime: shell, takes: {uniform: [100ms, %ds]}, max_retries: %d}\n", number("takes", 1, 12), number("retries", 0, 5))
	fmt.Fprintf(&b, "  p: {runtime: python, takes: {uniform: [100ms, %ds]}, max_retries: 2, fails: {rate: %d%%, reason: %s}}\n",
		number("takes", 1, 12), number("fails", 1, 60), pick("reason", "connection reset", "validation", "transient", "unknown"))
	fmt.Fprintf(&b, "workload:\n  - {action: a, count: %d, every: %dms}\n  - {action: p, count: %d, every: %dms}\n",
		number("count", 5, 40), number("every", 0, 2000), number("count", 1, 20), number("every", 0, 2000))
	if rapid.Bool().Draw(t, "pinned") {
		fmt.Fprintf(&b, "  - {action: a, count: %d, every: 2s, pin: w-1}\n", number("count", 1, 8))
	}
	b.WriteString("faults:\n")
	for range number("faults", 1, 4) {
		fmt.Fprintf(&b, "  - {when: {at: %dms}, %s, for: %ds}\n", number("at", 0, 40_000),
			pick("fault", "sick: any worker", "sick: w-1", "sick: half the workers", "cordon: any worker", "deaf: any worker", "mute: any worker",
				"freeze: any worker", "unbind_queue: any worker", `messages: {drop: execution.scheduled, rate: 30%}`),
			number("for", 5, 90))
	}
	return b.String()
}

// A watcher that can't detect a wrong decision would never fail.
func TestWatcherDetectsWrongDecisions(t *testing.T) {
	x := config.Default(config.Hardened)
	w := &watcher{config: x, shared: new(findings)}
	w.placement = oracle.Placement{Executor: &w.config.Executor}
	worker := func(id execution.WorkerID, health execution.Health, load int) oracle.Worker {
		return oracle.Worker{ID: id, Runtimes: []string{"shell"}, Active: true, Fresh: true, Consuming: true, Capacity: 4, Load: load, Health: health}
	}
	for _, c := range []struct {
		name  string
		fleet []oracle.Worker
		row   execution.Execution
		best  execution.WorkerID
	}{
		{"a degraded worker is not preferred for having less to do", []oracle.Worker{worker(1, execution.Degraded, 0), worker(2, execution.Healthy, 3)}, execution.Execution{}, 2},
		{"what failed it last is avoided", []oracle.Worker{worker(1, execution.Healthy, 0), worker(2, execution.Degraded, 3)}, execution.Execution{Avoid: 1}, 2},
		{"of two the one with less to do", []oracle.Worker{worker(1, execution.Healthy, 2), worker(2, execution.Healthy, 1)}, execution.Execution{}, 2},
		{"what is avoided is taken if no other fits", []oracle.Worker{worker(1, execution.Healthy, 0)}, execution.Execution{Avoid: 1}, 1},
		{"a pin", []oracle.Worker{worker(1, execution.Unhealthy, 2), worker(2, execution.Healthy, 0)}, execution.Execution{Pinned: 1}, 1},
	} {
		c.row.ID, c.row.Action.Runtime = 7, "shell"
		w.claimed = []execution.Execution{c.row}
		var keys []store.WorkerKey
		for i := range c.fleet {
			keys = append(keys, store.WorkerKey{ID: c.fleet[i].ID, Incarnation: execution.Incarnation(i + 1)})
		}
		for i, key := range keys {
			ds := []store.Dispatch{{Key: execution.Key{ID: 7}, Worker: key, Limit: c.fleet[i].Capacity + x.Executor.DispatchAhead, Timeout: x.Executor.DispatchTimeout}}
			if why := w.decisionDifference(slices.Clone(c.fleet), keys, ds, false); (why == "") != (key.ID == c.best) {
				t.Errorf("%s: worker %d: %q", c.name, key.ID, why)
			}
		}
		if w.decisionDifference(slices.Clone(c.fleet), keys, nil, false) == "" {
			t.Errorf("%s: a decision for no worker is lawful", c.name)
		}
	}
	if w.backoffs = oracle.NewBackoffs(&x.Retry); w.backoffs.After(3).Holds(4*time.Second, 0) {
		t.Error("a backoff that grows by a second each time passes")
	}
}

// A pass for less than a batch spreads its executions over the workers, even if it fills all of its places:
// the next one takes a whole batch. A former version judged it as if more had waited than a pass takes.
func TestSmallPassSpreadsExecutions(t *testing.T) {
	s, err := scenario.Parse("drawn.yaml", []byte(`name: drawn
about: Drawn and shrunk by TestExecutorDecidesLikeOracle.
worlds: [sim]
profile: hardened
cluster:
  executors: 1
  workers:
    w-1: {runtimes: [shell, python], concurrency: 1}
    w-2: {runtimes: [shell, python], concurrency: 3}
    w-3: {runtimes: [shell], concurrency: 1}
config:
  executor: {dispatch_timeout: 8s, dispatch_ahead: 2, health_check_interval: 5s, health_probes: off, max_dispatches: 1, batch_size: 9}
  health: {degraded_threshold: 1, unhealthy_threshold: 1, queue_depth_degraded: 1, queue_depth_unhealthy: 3, min_samples: 2, window: 20s}
  retry: {base_backoff_secs: 0, max_backoff_secs: 2, backoff_multiplier: 1.5, jitter_factor: 0.0}
actions:
  a: {runtime: shell, takes: {uniform: [100ms, 1s]}, max_retries: 0}
  p: {runtime: python, takes: {uniform: [100ms, 1s]}, max_retries: 2, fails: {rate: 1%, reason: connection reset}}
workload:
  - {action: a, count: 7, every: 0ms}
  - {action: p, count: 1, every: 0ms}
faults:
  - {when: {at: 23ms}, cordon: any worker, for: 6s}
`))
	if err != nil {
		t.Fatal(err)
	}
	var f findings
	sim.Run(s, s.Profiles[0], sim.Options{Seed: 15, Mutant: watchingMutant(&f)})
	if len(f.list) > 0 || f.placed < 8 {
		t.Errorf("of %d placements differ %q", f.placed, f.list)
	}
}

// Blocks of an offer are judged by whether it was a whole batch, or all the available room.
func TestWatcherDetectsBlockOffers(t *testing.T) {
	for _, c := range []struct {
		name           string
		batch, room    int
		dealt, inBlock bool
	}{
		{"less than a batch, and there was more room", 8, 4, true, false},
		{"less than a batch, and all the room there was", 8, 2, true, true},
		{"a whole batch", 4, 4, false, true},
	} {
		for _, block := range []bool{false, true} {
			x := config.Default(config.Hardened)
			x.Executor.BatchSize, x.Executor.DispatchAhead = c.batch, 0
			w := &watcher{config: x, shared: new(findings)}
			w.placement = oracle.Placement{Executor: &w.config.Executor}
			var answer store.DueDispatched
			var offer store.Offer
			for n, to := range []execution.WorkerID{1, 2, 1, 2} {
				if block {
					to = execution.WorkerID(1 + n/2)
				}
				row := execution.Execution{ID: execution.ID(n + 1), Worker: to, Incarnation: execution.Incarnation(to), Epoch: 1}
				row.Action.Runtime, row.DispatchDeadline = "shell", row.ScheduledAt.Add(x.Executor.DispatchTimeout)
				answer.Rows = append(answer.Rows, row)
				offer.Spread = append(offer.Spread, store.Place{Worker: store.WorkerKey{ID: to, Incarnation: row.Incarnation}, Limit: 4})
			}
			offer.Runtimes, offer.Packed = []string{"shell"}, offer.Spread
			w.Store, w.rows = oneStep{answer: answer}, make(map[execution.ID]execution.Execution)
			fleet := make([]oracle.Worker, 2)
			for i := range fleet {
				fleet[i] = oracle.Worker{
					ID: execution.WorkerID(i + 1), Runtimes: []string{"shell"}, Active: true, Fresh: true, Consuming: true, Capacity: 4, Load: 4 - c.room,
				}
			}
			w.looks, w.keys = [][]oracle.Worker{fleet}, [][]store.WorkerKey{{{ID: 1, Incarnation: 1}, {ID: 2, Incarnation: 2}}}
			if _, err := w.DispatchDue(context.Background(), store.DueDispatch{Offers: []store.Offer{offer}}); err != nil {
				t.Fatal(err)
			}
			if lawful := len(w.shared.list) == 0; lawful != (block && c.inBlock || !block && c.dealt) {
				t.Errorf("%s, in blocks %v: %q", c.name, block, w.shared.list)
			}
		}
	}
}

// oneStep answers DispatchDue with a fixed answer.
type oneStep struct {
	store.Store
	answer store.DueDispatched
}

func (o oneStep) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return o.answer, nil
}

// The rows of a step count as load, even if other places of the same step did not fit. Otherwise the judge
// refuses the later placements of the same pass.
func TestRowsAlongsideUnfitPlacesCountAsLoad(t *testing.T) {
	for _, unfit := range []int{0, 1} {
		row := execution.Execution{ID: 7, Incarnation: 2}
		w := &watcher{
			Store: oneStep{answer: store.DueDispatched{Rows: []execution.Execution{row}, Unfit: unfit}}, shared: new(findings),
			looks: [][]oracle.Worker{{{ID: 1}, {ID: 2}}}, keys: [][]store.WorkerKey{{{ID: 1, Incarnation: 1}, {ID: 2, Incarnation: 2}}},
		}
		if _, err := w.DispatchDue(context.Background(), store.DueDispatch{}); err != nil {
			t.Fatal(err)
		}
		if got := w.looks[0]; got[0].Load != 0 || got[1].Load != 1 {
			t.Errorf("with %d unfit places the loads are %d and %d, want 0 and 1", unfit, got[0].Load, got[1].Load)
		}
	}
}
