package executor

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file is for callers that ask an executor's policies outside a run, and compare the answers
// with the contract. Every function here exposes the decision that the parts themselves use, and
// decides nothing.

// Asked is the roster of one pass of the scheduler: which workers may get work, and how much.
type Asked struct{ roster *roster }

// AskRoster makes a roster of workers as a pass of the scheduler does. failed is the number of
// consecutive failed probes of each incarnation. The roster adds the rows that it places to the
// loads in workers.
func AskRoster(workers []store.WorkerRow, c config.Config, failed map[execution.Incarnation]int, draw func(uint64) uint64) Asked {
	return Asked{newRoster(workers, c, &probes{observing: c.Executor.HealthProbes == config.Observe, failed: failed}, draw)}
}

// Health returns the health of the worker with this index, and whether the worker may get a
// half-open probe.
func (a Asked) Health(i int) (health execution.Health, halfOpen bool) {
	return a.roster.assessments[i].health, a.roster.assessments[i].halfOpen
}

// Demands returns the rows to ask the database for: how many of each lane, and of each pool of
// workers.
func (a Asked) Demands(most int) (demands []store.Demand, pools []int) { return a.roster.demands(most) }

// Place chooses for each row the index of a worker, -1 for none, and how many rows that worker may
// hold. load says that more rows may be waiting.
func (a Asked) Place(rows []execution.Execution, load bool) (workers, limits []int) {
	for _, p := range a.roster.place(rows, load) {
		workers, limits = append(workers, p.worker), append(limits, p.limit)
	}
	return workers, limits
}

// AskFilled says whether a claim gave as many rows as it was asked for in any lane, worker or pool,
// and how many rows belong to lanes that were not asked for.
func AskFilled(demands []store.Demand, pools []int, rows []execution.Execution) (full bool, others int) {
	return filled(demands, pools, rows)
}

// AskAbsences exposes the memory of absent workers. look notes a pass. of returns for how long no
// worker has fitted a row for which the pass found none: a lower bound, and an upper bound, which
// is 0 if no fitting worker was ever seen.
func AskAbsences(patience time.Duration) (look func(now time.Duration, a Asked), of func(row *execution.Execution) (least, most time.Duration)) {
	a := &absences{patience: patience}
	return func(now time.Duration, asked Asked) { a.look(now, asked.roster) }, a.of
}

// AskLeaseWatch exposes the scheduler's second clock for leases.
func AskLeaseWatch(lease time.Duration) (
	look func(now time.Duration, workers []store.WorkerRow), expected func(now time.Duration, workers []store.WorkerRow, row *execution.Execution) bool,
) {
	l := &leaseWatch{lease: lease}
	return l.look, l.expected
}

// AskOwnerWatch exposes the second clock for executions that ran at a superseded incarnation.
func AskOwnerWatch(h host.Host, lease time.Duration) (survey func([]store.WorkerRow), reaped func(execution.Incarnation), over func(*execution.Execution) bool) {
	o := newOwnerWatch(h, lease)
	return o.survey, o.reaped, o.over
}

// AskOutage exposes the memory of when the database was away.
func AskOutage(c config.Config, now time.Duration) (answer func(now time.Duration), recent func(now, d time.Duration) bool) {
	o := newOutage(c, now)
	return o.answer, o.recent
}

// AskBrake exposes the brake between the lease monitor and a mass failure.
func AskBrake(c config.Config) (admit func(now time.Duration, over []store.Reap, alive int) []store.Reap) {
	b := &brake{config: c, departed: make(map[execution.WorkerID]departure)}
	return b.admit
}

// AskPack says which rows share a message, as indexes into rows. blocks says which incarnations read
// messages of several dispatches.
func AskPack(rows []execution.Execution, most int, blocks func(execution.Incarnation) bool) (messages [][]int) {
	for _, b := range pack(rows, most, blocks) {
		messages = append(messages, b.rows)
	}
	return messages
}
