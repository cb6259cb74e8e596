package executor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// roster holds the workers with their loads as the database counted them, plus the rows that this pass has
// placed, and each worker's assessment.
type roster struct {
	workers     []store.WorkerRow
	assessments []assessment
	// runtimes lists the runtimes that some worker fits. They are few, so a linear search is enough.
	runtimes []runtimeHealth
	ahead    int
	// most is the maximum number of consecutive rows for one worker; 1 deals them out one by one.
	most int
	// turnover is how long a worker may be full before nothing more is dispatched to it ahead of a free slot.
	turnover time.Duration
	draw     func(uint64) uint64
	// among is the latest result of findContenders. common, pinned and part are scratch memory of
	// buildDemands.
	among          []contender
	common, pinned []store.Demand
	part           poolMerges
}

// runtimeHealth is the best health among the workers that fit a runtime.
type runtimeHealth struct {
	runtime string
	best    execution.Health
}

// bestHealth returns the best health among the workers that fit a runtime; healthy if none fits.
func (ro *roster) bestHealth(runtime string) execution.Health {
	for i := range ro.runtimes {
		if ro.runtimes[i].runtime == runtime {
			return ro.runtimes[i].best
		}
	}
	return execution.Healthy
}

func (ro *roster) noteHealth(runtime string, health execution.Health) {
	for i := range ro.runtimes {
		if r := &ro.runtimes[i]; r.runtime == runtime {
			r.best = min(r.best, health)
			return
		}
	}
	ro.runtimes = append(ro.runtimes, runtimeHealth{runtime, health})
}

func newRoster(workers []store.WorkerRow, c config.Config, found *probes, draw func(uint64) uint64) *roster {
	f := &roster{draw: draw}
	f.setWorkers(workers, &c, found)
	return f
}

// setWorkers replaces the workers of the roster, and reuses its memory.
func (ro *roster) setWorkers(workers []store.WorkerRow, c *config.Config, found *probes) {
	ro.workers, ro.assessments, ro.runtimes = workers, slices.Grow(ro.assessments[:0], len(workers))[:len(workers)], ro.runtimes[:0]
	ro.ahead, ro.most, ro.turnover = c.Executor.DispatchAhead, c.Executor.DispatchesPerMessage, c.Executor.DispatchTimeout/4
	for i := range workers {
		w := &workers[i]
		ro.assessments[i] = assessWorker(w, c, found.isAvoided(w.Incarnation))
		for _, r := range w.Runtimes {
			if w.Fits(r) {
				ro.noteHealth(r, ro.assessments[i].health)
			}
		}
	}
}

// isQuarantined reports whether a worker gets only half-open probes. If every worker that fits the runtime is
// unhealthy, none is quarantined: bad workers are better than none (defect D44).
func (ro *roster) isQuarantined(i int, runtime string, pinned execution.WorkerID) bool {
	return ro.assessments[i].health == execution.Unhealthy && ro.bestHealth(runtime) != execution.Unhealthy && pinned != ro.workers[i].ID
}

// rowLimit returns how many rows a worker may hold: its capacity plus the dispatch-ahead, or one for a
// half-open probe. While slots keep becoming free, dispatching ahead saves the latency of a message. If no
// slot has become free for a quarter of the dispatch timeout, most rows dispatched ahead would expire
// unclaimed, so the limit is the capacity alone.
func (ro *roster) rowLimit(i int, runtime string, pinned execution.WorkerID) int {
	w := &ro.workers[i]
	if !ro.isQuarantined(i, runtime, pinned) {
		if w.FullFor >= ro.turnover {
			return w.Capacity
		}
		return w.Capacity + ro.ahead
	}
	if ro.assessments[i].halfOpen {
		return 1
	}
	return 0
}

// roomFor returns how many more rows a worker may get.
func (ro *roster) roomFor(i int, runtime string, pinned execution.WorkerID) int {
	return max(0, ro.rowLimit(i, runtime, pinned)-ro.workers[i].Load)
}

// rankOf returns the health by which workers are ordered. A half-open worker ranks as healthy, or it would
// get no probe while others have room.
func (ro *roster) rankOf(i int, runtime string) execution.Health {
	if ro.assessments[i].halfOpen && ro.bestHealth(runtime) != execution.Unhealthy {
		return execution.Healthy
	}
	return ro.assessments[i].health
}

// buildDemands returns, for each lane, as many rows as its fitting workers have room for. A lane is a
// runtime, or a runtime and the worker that its rows are pinned to. A lane whose workers are full has a limit
// of 0, so that none of its rows is claimed. Workers that share a runtime, directly or through others, form
// one pool. All lanes of a pool together get at most the room of its workers, or rows would be claimed only
// to be parked. A quarantined worker has room only for its pinned rows; it gets a separate pool, or rows of
// other lanes would be claimed for it.
func (ro *roster) buildDemands(most int) (demands []store.Demand, pools []int) {
	common, pinned, part := ro.common[:0], ro.pinned[:0], ro.part[:0]
	for i := range ro.workers {
		w := &ro.workers[i]
		pool, shared, own := -1, 0, 0
		first := len(pinned)
		for _, r := range w.Runtimes {
			if !w.Fits(r) {
				continue
			}
			at := slices.IndexFunc(common, func(d store.Demand) bool { return d.Runtime == r })
			if at < 0 {
				at = len(common)
				common = append(common, store.Demand{Runtime: r, Pool: -1})
			}
			d := &common[at]
			if d.Pool < 0 && pool < 0 {
				d.Pool = len(pools)
				pools, part = append(pools, 0), append(part, d.Pool)
			}
			pool = part.mergePools(d.Pool, pool)
			d.Pool = pool
			free := ro.roomFor(i, r, 0)
			shared, own = max(shared, free), max(own, ro.roomFor(i, r, w.ID))
			d.Limit = min(most, d.Limit+free)
			pinned = append(pinned, store.Demand{Runtime: r, Pinned: w.ID, Limit: min(most, ro.roomFor(i, r, w.ID)), Pool: pool})
		}
		switch {
		case pool < 0:
		case shared == 0 && own > 0:
			for j := range pinned[first:] {
				pinned[first+j].Pool = len(pools)
			}
			pools, part = append(pools, own), append(part, len(pools))
		default:
			pools[pool] += max(shared, own)
		}
	}
	ro.common, ro.pinned, ro.part = common, pinned, part
	demands = slices.Concat(common, pinned)
	for i := range pools {
		if whole := part.rootOf(i); whole != i {
			pools[whole] += pools[i]
			pools[i] = 0
		}
	}
	for i := range pools {
		pools[i] = min(most, pools[i])
	}
	for i := range demands {
		demands[i].Pool = part.rootOf(demands[i].Pool)
	}
	return demands, pools
}

// poolMerges maps each pool to the pool that it was merged into, or to itself.
type poolMerges []int

// rootOf follows the merges of a pool to the last one.
func (p poolMerges) rootOf(pool int) int {
	for p[pool] != pool {
		pool = p[pool]
	}
	return pool
}

// mergePools merges two pools and returns the result; -1 means no pool.
func (p poolMerges) mergePools(a, b int) int {
	switch {
	case a < 0:
		return p.rootOf(b)
	case b < 0:
		return p.rootOf(a)
	}
	a, b = p.rootOf(a), p.rootOf(b)
	p[max(a, b)] = min(a, b)
	return min(a, b)
}

// checkFilled reports whether a lane, a worker or a pool reached its limit, so that more rows may be due
// there. Otherwise the claim got all due rows; rows that become due later are found by a hint or the next
// poll. others is the number of rows in lanes that the demands do not name.
func checkFilled(demands []store.Demand, pools []int, rows []execution.Execution) (full bool, others int) {
	type lane struct {
		runtime string
		pinned  execution.WorkerID
	}
	at := make(map[lane]int, len(demands))
	for i, d := range demands {
		at[lane{d.Runtime, d.Pinned}] = i
	}
	lanes, left := make([]int, len(demands)), slices.Clone(pools)
	workers := make(map[execution.WorkerID]int)
	for i := range rows {
		n, named := at[lane{rows[i].Action.Runtime, rows[i].Pinned}]
		if !named {
			others++
			continue
		}
		d := &demands[n]
		lanes[n]++
		left[d.Pool]--
		got := lanes[n]
		if d.Pinned != 0 {
			workers[d.Pinned]++
			got = workers[d.Pinned]
		}
		full = full || got >= d.Limit || left[d.Pool] <= 0
	}
	return full, others
}

// placeRows chooses a worker for each row. It begins with the rows that the fewest workers fit, so that no
// row takes the only place of another; ties keep the order of the rows.
//
// Rows are dealt out one by one, so that loads are equal. Under load, when more rows may be waiting than were
// claimed, the workers fill up anyway. Then each gets a block of rows, so that statements and messages don't
// carry fewer rows as workers are added.
func (ro *roster) placeRows(rows []execution.Execution, load bool) []placement {
	order := make([]int, len(rows))
	fitting := make([]int, len(rows))
	for i := range rows {
		order[i], fitting[i] = i, ro.fittingCount(&rows[i])
	}
	slices.SortStableFunc(order, func(a, b int) int { return fitting[a] - fitting[b] })
	placed := make([]placement, len(rows))
	// given is the row that began the current block. left is the number of further rows for its worker.
	var given *execution.Execution
	var to placement
	left := 0
	for _, i := range order {
		row := &rows[i]
		if left > 0 && ro.canFollow(row, given, to.worker) {
			ro.workers[to.worker].Load++
			placed[i] = to
			left--
			continue
		}
		to.worker, to.limit = ro.chooseWorker(row)
		placed[i] = to
		given, left = row, 0
		if load && to.worker >= 0 {
			left = ro.blockSize(to.worker) - 1
		}
	}
	return placed
}

// blockSize returns how many rows a worker gets at once: at most half of its capacity, which limits the
// difference between loads.
func (ro *roster) blockSize(i int) int {
	return max(1, min(ro.most, (ro.workers[i].Capacity+1)/2))
}

// canFollow reports whether the worker of a block's first row is an equally good choice for another row, and
// has room for it. The rows must have the same pin and avoid the same worker.
func (ro *roster) canFollow(row, first *execution.Execution, worker int) bool {
	return row.Action.Runtime == first.Action.Runtime && row.Pinned == first.Pinned && row.Avoid == first.Avoid &&
		ro.roomFor(worker, row.Action.Runtime, row.Pinned) > 0
}

// readsBlocks reports whether an incarnation reads messages of several dispatches.
func (ro *roster) readsBlocks(n execution.Incarnation) bool {
	for i := range ro.workers {
		if w := &ro.workers[i]; w.Incarnation == n && w.Messages >= broker.VersionBlock {
			return true
		}
	}
	return false
}

// placement is the index of a row's chosen worker (-1 if none has room) and how many rows it may hold.
type placement struct{ worker, limit int }

// fitsRow reports whether a worker may get a row, whether or not it is full.
func (ro *roster) fitsRow(i int, row *execution.Execution) bool {
	w := &ro.workers[i]
	return w.Fits(row.Action.Runtime) && (row.Pinned == 0 || row.Pinned == w.ID)
}

// fittingCount counts the workers that may get a row, whether or not they are full.
func (ro *roster) fittingCount(row *execution.Execution) (n int) {
	for i := range ro.workers {
		if ro.fitsRow(i, row) {
			n++
		}
	}
	return n
}

// contender is a worker that may get a row (it may be full), with the criteria for choosing it.
type contender struct {
	worker, limit, load int
	rank                execution.Health
	avoid               bool
}

// roomLeft returns how many more rows the worker may get.
func (c *contender) roomLeft() int { return max(0, c.limit-c.load) }

// findContenders returns the workers that may get a row. The next call overwrites them.
func (ro *roster) findContenders(row *execution.Execution) []contender {
	runtime := row.Action.Runtime
	ro.among = slices.Grow(ro.among[:0], len(ro.workers))
	for i := range ro.workers {
		if w := &ro.workers[i]; ro.fitsRow(i, row) {
			ro.among = append(ro.among, contender{
				worker: i, limit: ro.rowLimit(i, runtime, row.Pinned), load: w.Load, rank: ro.rankOf(i, runtime), avoid: w.ID == row.Avoid,
			})
		}
	}
	return ro.among
}

// compareTo returns a negative number if the contender is preferred to the other one.
func (c *contender) compareTo(other *contender) int {
	switch {
	case c.avoid != other.avoid:
		if c.avoid {
			return 1
		}
		return -1
	case c.rank != other.rank:
		return int(c.rank) - int(other.rank)
	}
	return c.load - other.load
}

// pickContender chooses among the contenders that have room. It prefers the better health, then the smallest
// load by the database's own count (defect D42), then draws at random. It picks the worker that the row
// should avoid only if no other fits. It returns -1 if none has room.
func (ro *roster) pickContender(among []contender) int {
	best, ties := -1, uint64(0)
	for i := range among {
		if among[i].roomLeft() == 0 {
			continue
		}
		order := -1
		if best >= 0 {
			order = among[i].compareTo(&among[best])
		}
		switch {
		case order < 0:
			best, ties = i, 1
		case order == 0:
			ties++
		}
	}
	if ties < 2 {
		return best
	}
	at := best
	for left := ro.draw(ties); left > 0; {
		if at++; among[at].roomLeft() > 0 && among[at].compareTo(&among[best]) == 0 {
			left--
		}
	}
	return at
}

// chooseWorker picks a worker for a row and counts the row as placed. limit is how many rows the worker may
// hold; worker is -1 if none has room.
func (ro *roster) chooseWorker(row *execution.Execution) (worker, limit int) {
	among := ro.findContenders(row)
	at := ro.pickContender(among)
	if at < 0 {
		return -1, 0
	}
	c := &among[at]
	ro.workers[c.worker].Load++
	return c.worker, c.limit
}

// textNoWorkers is the error of an execution that no worker fits. textNoFreshHeartbeats begins the
// explanation if the last workers were ruled out by stale heartbeats.
const (
	textNoWorkers         = "No workers available"
	textNoFreshHeartbeats = "No workers with fresh heartbeats available"
)

// explainUnfit describes how many workers each filter ruled out, in the order of the filters.
func (ro *roster) explainUnfit(row *execution.Execution) string {
	var others, noRuntime, inactive, stale, deaf, cordoned, unhealthy, unreadable int
	runtime, pinned := row.Action.Runtime, ""
	for i := range ro.workers {
		w := &ro.workers[i]
		if w.ID == row.Pinned {
			pinned = w.Name
		}
		switch {
		case row.Pinned != 0 && w.ID != row.Pinned:
			others++
		case !w.Runs(runtime):
			noRuntime++
		case w.Unreadable != "":
			unreadable++
		case w.Lifecycle != execution.Active:
			inactive++
		case !w.LeaseValid():
			stale++
		case w.Cordoned:
			cordoned++
		case !w.ConsumerAlive:
			deaf++
		case ro.isQuarantined(i, runtime, row.Pinned):
			unhealthy++
		}
	}
	var b strings.Builder
	if stale > 0 && cordoned+deaf+unhealthy == 0 {
		b.WriteString(textNoFreshHeartbeats + ": ")
	}
	fmt.Fprintf(&b, "of %d workers, ", len(ro.workers))
	if row.Pinned != 0 {
		fmt.Fprintf(&b, "%d are not %q, to which it is pinned, ", others, pinned)
	}
	fmt.Fprintf(&b, "%d lack the runtime %q, %d are not active, %d have a stale heartbeat, %d are cordoned, %d do not consume, %d are unhealthy",
		noRuntime, runtime, inactive, stale, cordoned, deaf, unhealthy)
	if unreadable > 0 {
		fmt.Fprintf(&b, ", %d can't be read by this executor", unreadable)
	}
	return b.String()
}
