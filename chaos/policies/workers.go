package policies

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// fleet is a small drawn roster, as an executor reads it and as the contract sees it.
type fleet struct {
	config  config.Config
	rows    []store.WorkerRow
	failed  map[execution.Incarnation]int
	workers []oracle.Worker
	placing oracle.Placement
}

// fleet draws up to five workers at the edges of the policies' conditions, and a configuration.
func (a *asker) fleet() *fleet {
	f := &fleet{config: oracle.Defaults(config.Hardened), failed: make(map[execution.Incarnation]int)}
	x, h := &f.config.Executor, &f.config.Health
	x.DispatchTimeout, x.DispatchAhead, x.HealthCheckInterval = a.seconds(1, 3)*40, a.number(0, 2), a.seconds(1, 30)
	x.DispatchesPerMessage = a.number(1, 3)
	x.HealthProbes = pick(a, config.Act, config.Act, config.Observe)
	h.Enabled = !a.oneIn(8)
	h.DegradedThreshold, h.QueueDepthDegraded, h.MinSamples = a.number(1, 3), a.number(1, 3), a.number(1, 20)
	h.UnhealthyThreshold, h.QueueDepthUnhealthy = h.DegradedThreshold+a.number(0, 3), h.QueueDepthDegraded+a.number(0, 3)
	if a.oneIn(2) {
		h.FailureRateDegraded = float64(a.number(1, 99)) / 100
		h.FailureRateUnhealthy = max(h.FailureRateDegraded, float64(a.number(1, 100))/100)
	}
	f.placing = oracle.Placement{Executor: x}
	thresholds := oracle.NewThresholds(h)
	for n := range a.number(1, 5) {
		row := a.workerRow(&f.config, n+1)
		if a.oneIn(3) {
			f.failed[row.Incarnation] = a.near(oracle.NotReady)
		}
		f.rows = append(f.rows, row)
		f.workers = append(f.workers, seen(&row, &f.config, thresholds, f.failed[row.Incarnation]))
	}
	return f
}

// workerRow draws a worker. Most are in order, or hardly any would be chosen.
func (a *asker) workerRow(c *config.Config, n int) store.WorkerRow {
	h := &c.Health
	w := store.WorkerRow{
		WorkerKey: store.WorkerKey{ID: execution.WorkerID(n), Incarnation: execution.Incarnation(10 + n)}, Name: fmt.Sprintf("worker-%d", n),
		Lifecycle: execution.Active, Runtimes: pick(a, []string{"shell"}, []string{"python"}, []string{"shell", "python"}, []string{"node", "python"}),
		Capacity: a.number(1, 4), ConsumerAlive: !a.oneIn(10), Cordoned: a.oneIn(10), LeaseOverFor: -time.Second,
	}
	if a.oneIn(5) {
		w.LeaseOverFor = a.edge(0)
	}
	if a.oneIn(8) {
		w.Lifecycle = pick(a, execution.Starting, execution.Draining, execution.Stopped, execution.Lost)
	}
	w.Load = a.number(0, w.Capacity+c.Executor.DispatchAhead)
	if a.oneIn(3) {
		w.Load, w.FullFor = w.Capacity+a.number(0, 1), a.edge(c.Executor.DispatchTimeout/4)
	}
	if a.oneIn(3) {
		w.Queued = a.near(pick(a, h.QueueDepthDegraded, h.QueueDepthUnhealthy))
	}
	if a.oneIn(2) {
		a.failures(&w, c)
	}
	return w
}

// failures draws the known failures of a worker, around the thresholds.
func (a *asker) failures(w *store.WorkerRow, c *config.Config) {
	h, f := &c.Health, &w.Figures
	if a.oneIn(2) {
		f.Consecutive = a.near(pick(a, h.DegradedThreshold, h.UnhealthyThreshold))
	}
	if a.oneIn(2) {
		f.Total = a.near(h.MinSamples)
		if a.oneIn(2) {
			f.Total = pick(a, 10, 20, 100)
		}
		share := pick(a, h.FailureRateDegraded, h.FailureRateUnhealthy)
		f.Failed = min(f.Total, a.near(int(share*float64(f.Total)+0.5)))
	}
	f.LastFailure = a.edge(c.Executor.HealthCheckInterval)
	if a.oneIn(3) {
		ago := pick(a, 0, c.Executor.HealthCheckInterval, h.Window)
		for range a.number(1, h.UnhealthyThreshold) {
			ago = max(0, a.edge(ago))
			w.Expired = append(w.Expired, ago)
		}
		slices.Sort(w.Expired)
	}
}

// seen is a row as the contract sees the worker.
func seen(r *store.WorkerRow, c *config.Config, t *oracle.Thresholds, failed int) oracle.Worker {
	e := oracle.Evidence{Total: r.Figures.Total, Failed: r.Figures.Failed, Consecutive: r.Figures.Consecutive, Queued: r.Queued}
	// The last failure is the latest of those that it reports and of the dispatches that it left
	// unclaimed.
	since, any := r.Figures.LastFailure, e.Failed+e.Consecutive > 0
	for _, ago := range r.Expired {
		if ago <= c.Health.Window {
			e.Unclaimed++
			if !any || ago < since {
				since, any = ago, true
			}
		}
	}
	health := t.Health(e)
	if c.Executor.HealthProbes == config.Act {
		health = t.Probed(health, failed)
	}
	return oracle.Worker{
		ID: r.ID, Runtimes: r.Runtimes, Active: r.Lifecycle == execution.Active, Fresh: r.LeaseOverFor <= 0, Consuming: r.ConsumerAlive,
		Cordoned: r.Cordoned, Capacity: r.Capacity, Load: r.Load, FullFor: r.FullFor, Health: health, HalfOpen: t.HalfOpen(e, &c.Executor, since),
	}
}

func (f *fleet) String() string { return fmt.Sprintf("%+v", f.workers) }

// health asks for the health that follows from the workers' evidence.
func (a *asker) health() {
	for range 3 {
		f := a.fleet()
		asked := a.core.Roster(slices.Clone(f.rows), f.config, f.failed, a.draw)
		for i := range f.workers {
			w, row := &f.workers[i], &f.rows[i]
			health, halfOpen := asked.Health(i)
			a.Asked++
			if health != w.Health || halfOpen != w.HalfOpen {
				a.wrong(retries, "the health of a worker with %+v, unclaimed %v ago, %d waiting, %d probes failed, with the configuration %+v and health_check_interval %v: the contract says %v, half-open %v; the core says %v, half-open %v",
					row.Figures, row.Expired, row.Queued, f.failed[row.Incarnation], f.config.Health, f.config.Executor.HealthCheckInterval, w.Health, w.HalfOpen, health, halfOpen)
			}
		}
	}
}

// choice asks which workers get a few executions, one after the other.
func (a *asker) choice() {
	for range 3 {
		a.choose()
	}
}

func (a *asker) choose() {
	f := a.fleet()
	rows := make([]execution.Execution, a.number(1, 5))
	for i := range rows {
		rows[i] = execution.Execution{ID: execution.ID(i + 1), Action: execution.Action{Runtime: pick(a, "shell", "python", "node")}}
		if a.oneIn(3) {
			rows[i].Pinned = execution.WorkerID(a.number(1, len(f.rows)))
		}
		if a.oneIn(3) {
			rows[i].Avoid = execution.WorkerID(a.number(1, len(f.rows)))
		}
	}
	load := a.oneIn(2)
	chosen, limits := a.core.Roster(slices.Clone(f.rows), f.config, f.failed, a.draw).Place(rows, load)
	a.Asked++
	// Under load a worker gets several executions in a row: given is the request of the first one, to
	// is the worker's index, and more is how many executions are still to follow.
	var given oracle.Request
	to, more := -1, 0
	for _, i := range f.order(rows) {
		r := request(&rows[i])
		best := f.placing.Best(f.workers, r)
		if w := to; w >= 0 && more > 0 && r == given && f.workers[w].Load < f.placing.Limit(f.workers, &f.workers[w], r) {
			best = []int{w}
		} else {
			more = 0
		}
		switch at := chosen[i]; {
		case at < 0 && len(best) == 0:
			to, more = -1, 0
			continue
		case !slices.Contains(best, at):
			a.wrong(choosing, "which worker gets an execution with %+v, of the workers %v: the contract says one of those with the indexes %v, the core says %d (-1 for none)", r, f, best, at)
			return
		case limits[i] != f.placing.Limit(f.workers, &f.workers[at], r):
			a.wrong(choosing, "how many executions the worker with index %d of %v may hold, for an execution with %+v: the contract says %d, the core says %d", at, f, r, f.placing.Limit(f.workers, &f.workers[at], r), limits[i])
			return
		default:
			if f.workers[at].Load++; more > 0 {
				more--
			} else if given, to = r, at; load {
				more = f.placing.Block(&f.workers[at]) - 1
			}
		}
	}
}

func request(row *execution.Execution) oracle.Request {
	return oracle.Request{Runtime: row.Action.Runtime, Pinned: row.Pinned, Avoid: row.Avoid}
}

// order is the order in which a pass places its executions: those with the fewest fitting workers
// first.
func (f *fleet) order(rows []execution.Execution) []int {
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	fitting := func(row int) (n int) {
		for i := range f.workers {
			if f.placing.Fits(&f.workers[i], request(&rows[row])) {
				n++
			}
		}
		return n
	}
	slices.SortStableFunc(order, func(a, b int) int { return fitting(a) - fitting(b) })
	return order
}

// size asks how many of the waiting executions a pass takes, and whether it has taken all.
func (a *asker) size() {
	f := a.fleet()
	most := pick(a, 1, 2, 5, 100)
	demands, pools := a.core.Roster(slices.Clone(f.rows), f.config, f.failed, a.draw).Demands(most)
	right, rightPools := f.placing.Demands(f.workers, most)
	a.Asked++
	if why := unlikeDemands(demands, pools, right, rightPools); why != "" {
		a.wrong(choosing, "how many executions a pass of at most %d takes for the workers %v: %s", most, f, why)
		return
	}
	for range 4 {
		a.filled(demands, pools, right, rightPools)
	}
}

// filled asks whether a claim that got a few executions of each lane has left some.
func (a *asker) filled(demands []store.Demand, pools []int, right []oracle.Demand, rightPools map[int]int) {
	var rows []execution.Execution
	var taken []oracle.Lane
	for _, d := range right {
		n := a.number(0, d.Most)
		if a.oneIn(2) {
			n = pick(a, 0, max(0, d.Most-1), d.Most)
		}
		for range min(n, 8) {
			taken = append(taken, d.Lane)
		}
	}
	if a.oneIn(4) {
		taken = append(taken, oracle.Lane{Runtime: "fortran"})
	}
	for _, lane := range taken {
		rows = append(rows, execution.Execution{Action: execution.Action{Runtime: lane.Runtime}, Pinned: lane.Pinned})
	}
	more, others := a.core.Filled(demands, pools, rows)
	rightMore, rightOthers := oracle.More(right, rightPools, taken)
	a.Asked++
	if more != rightMore || others != rightOthers {
		a.wrong(choosing, "may more executions wait after a pass that took %+v of the demands %+v with the pools %v: the contract says %v, and %d that no worker fits; the core says %v and %d", taken, right, rightPools, rightMore, rightOthers, more, others)
	}
}

// unlikeDemands says how two demands differ; empty if they do not. The numbers of pools do not
// matter.
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
