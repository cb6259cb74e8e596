package executor

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file is for who asks an executor's policies apart from a run, and compares the answers with the contract. Every
// function here hands out the decision that the parts themselves use, and decides nothing.

// Asked is the roster of one pass of the scheduler: who may get work, and how much.
type Asked struct{ roster *roster }

// AskRoster makes a roster of workers as a pass of the scheduler does. failed is how many probes in a row each incarnation
// has failed. The roster counts into workers what it places.
func AskRoster(workers []store.WorkerRow, c config.Config, failed map[execution.Incarnation]int, draw func(uint64) uint64) Asked {
	return Asked{newRoster(workers, c, &probes{observing: c.Executor.HealthProbes == config.Observe, failed: failed}, draw)}
}

// Health is what the evidence of a worker, by its index, says of it, and whether it may be tried.
func (a Asked) Health(i int) (health execution.Health, halfOpen bool) {
	return a.roster.assessments[i].health, a.roster.assessments[i].halfOpen
}

// Demands is what is asked of the database: how many rows of each lane, and of each pool of workers.
func (a Asked) Demands(most int) (demands []store.Demand, pools []int) { return a.roster.demands(most) }

// Place chooses for each row the index of a worker, -1 for none, and how many rows that worker may hold. load says that more
// rows may wait.
func (a Asked) Place(rows []execution.Execution, load bool) (workers, limits []int) {
	for _, p := range a.roster.place(rows, load) {
		workers, limits = append(workers, p.worker), append(limits, p.limit)
	}
	return workers, limits
}

// AskFilled says whether a claim gave as many rows as it was asked for somewhere, and how many rows were not asked for.
func AskFilled(demands []store.Demand, pools []int, rows []execution.Execution) (full bool, others int) {
	return filled(demands, pools, rows)
}

// AskAbsences hands out the memory of what no worker has fitted: look is told of a pass, of says for how long nobody has
// fitted a row that the pass has found nobody for: at least, and at most, 0 if nobody was seen.
func AskAbsences(patience time.Duration) (look func(now time.Duration, a Asked), of func(row *execution.Execution) (least, most time.Duration)) {
	a := &absences{patience: patience}
	return func(now time.Duration, asked Asked) { a.look(now, asked.roster) }, a.of
}

// AskLeaseWatch hands out the scheduler's second clock for leases.
func AskLeaseWatch(lease time.Duration) (
	look func(now time.Duration, workers []store.WorkerRow), expected func(now time.Duration, workers []store.WorkerRow, row *execution.Execution) bool,
) {
	l := &leaseWatch{lease: lease}
	return l.look, l.expected
}

// AskOwnerWatch hands out the second clock for what ran at an incarnation that another one has superseded.
func AskOwnerWatch(h host.Host, lease time.Duration) (survey func([]store.WorkerRow), reaped func(execution.Incarnation), over func(*execution.Execution) bool) {
	o := newOwnerWatch(h, lease)
	return o.survey, o.reaped, o.over
}

// AskOutage hands out the memory of when the database was away.
func AskOutage(c config.Config, now time.Duration) (answer func(now time.Duration), recent func(now, d time.Duration) bool) {
	o := newOutage(c, now)
	return o.answer, o.recent
}

// AskBrake hands out what stands between the lease monitor and a mass failure.
func AskBrake(c config.Config) (admit func(now time.Duration, over []store.Reap, alive int) []store.Reap) {
	b := &brake{config: c, departed: make(map[execution.WorkerID]departure)}
	return b.admit
}
