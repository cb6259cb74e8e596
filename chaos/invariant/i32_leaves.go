package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// leaves is invariant 32: a configured retention deletes what nobody needs any more, and only that.
func leaves() *Invariant {
	i := &Invariant{
		Number: 32, Name: "retention deletes in time", Across: true,
		Statement: "Retention deletes a chain as a whole. It keeps the chain until all its rows have ended, are handled and were kept for the configured time. It also keeps the chain while it has children, while its parent's chain is younger, or while an idempotency key leads to it. It deletes an incarnation or a worker only when it is gone and holds nothing. It deletes all of them soon after it may.",
		Needs:     []history.Kind{history.Purged},
	}
	i.make = func(s *Suite) checker {
		return &leavesChecker{i: i, s: s, chains: make(map[execution.ID]*keptChain), off: !s.config.Retention.Any()}
	}
	return i
}

// keptChain is what the history says of a chain that was not deleted.
type keptChain struct {
	rows, open int
	// ended is when its last row ended so far, key when the key of its first row is free, both by the
	// database's clock. freed is when its last child was deleted.
	ended, key, freed time.Duration
	parent            execution.ID
	children          int
}

type leavesChecker struct {
	i *Invariant
	s *Suite
	// chains are those that were not deleted, by their first rows. order lists the first rows of all
	// chains, also of deleted ones.
	chains map[execution.ID]*keptChain
	order  []execution.ID
	// off says that nothing is judged: the configuration keeps everything, or the database is as it
	// was at an earlier time, so that deleted rows are back.
	off bool
}

// hears implements selective.
func (lc *leavesChecker) hears() []history.Kind {
	return []history.Kind{
		history.Created, history.Transition, history.Orchestrated, history.Purged, history.WorkerPurged, history.DatabaseRewound,
	}
}

func (lc *leavesChecker) observe(e *history.Event, _ *life) {
	if lc.off {
		return
	}
	switch e.Kind {
	case history.DatabaseRewound:
		lc.off = true
	case history.Created:
		lc.created(e)
	case history.Transition:
		if k := lc.chains[e.Chain]; k != nil && oracle.Terminal(e.To) {
			k.ended = max(k.ended, lc.s.database(e.At))
		}
	case history.Orchestrated:
		if k := lc.chains[e.Chain]; k != nil {
			k.open--
		}
	case history.Purged:
		lc.purged(e)
	case history.WorkerPurged:
		lc.workerPurged(e)
	default:
	}
}

func (lc *leavesChecker) created(e *history.Event) {
	k := lc.chains[e.Chain]
	if k == nil {
		k = &keptChain{parent: e.Related}
		lc.chains[e.Chain] = k
		lc.order = append(lc.order, e.Chain)
		if p := lc.chains[e.Related]; p != nil {
			p.children++
		}
	}
	k.rows++
	k.open++
	if e.Key != "" {
		k.key = lc.s.database(e.At) + oracle.KeyLifetime
	}
}

// may is the time of the database from which on retention may delete a chain, and why not before;
// never while something keeps the chain.
func (lc *leavesChecker) may(k *keptChain) (from time.Duration, why string) {
	age := lc.s.config.Retention.Executions
	switch {
	case age == 0:
		return never, "executions are kept for ever"
	case k.open > 0:
		return never, "a row of it has not ended, or its end is not handled"
	case k.children > 0:
		return never, "it has children that were not deleted"
	}
	from, why = k.ended+age, "its last row ended less than retention.executions ago"
	if k.key > from {
		from, why = k.key, "an idempotency key leads to it"
	}
	if p := lc.chains[k.parent]; p != nil {
		switch {
		case p.open > 0:
			return never, "the chain of its parent has not ended, or its end is not handled"
		case p.ended+age > from:
			from, why = p.ended+age, "the chain of its parent ended less than retention.executions ago"
		}
	}
	return from, why
}

func (lc *leavesChecker) purged(e *history.Event) {
	k := lc.chains[e.Execution]
	if k == nil {
		lc.s.violate(lc.i, e.Execution, "retention deleted the chain that begins with execution %d, but no such chain was created, or it was deleted before", e.Execution)
		return
	}
	lc.s.judged(lc.i)
	now := lc.s.database(e.At)
	from, why := lc.may(k)
	switch {
	case from == never:
		lc.s.violate(lc.i, e.Execution, "retention deleted the chain at %v, but must keep it: %s", e.At, why)
	case now < from-lc.s.tolerance:
		lc.s.violate(lc.i, e.Execution, "retention deleted the chain at %v, %v too early: %s", e.At, from-now, why)
	case int(e.Count) != k.rows:
		lc.s.violate(lc.i, e.Execution, "retention deleted %d of the %d rows of the chain", e.Count, k.rows)
	default:
		lc.late(e.Execution, k, from, now)
	}
	delete(lc.chains, e.Execution)
	if p := lc.chains[k.parent]; p != nil {
		p.children--
		p.freed = now
	}
}

// late judges whether a chain that may be deleted since from, and was still there just before now,
// was deleted in time.
func (lc *leavesChecker) late(id execution.ID, k *keptChain, from, now time.Duration) {
	// Keys are forgotten once a minute; then two passes, as one may have looked just before, and one
	// for each statement that a pass waits for.
	from = max(from, k.freed)
	r := &lc.s.config.Retention
	bound := sweepPeriod + drift(sweepPeriod) + 2*(r.Interval+drift(r.Interval)) + lc.s.bounds.Slack + purgeTime
	if now <= from+bound || lc.s.calm.troubled(from-lc.s.skew) || lc.s.setBack > 0 {
		return
	}
	lc.s.violate(lc.i, id, "retention may delete the chain since %v by the database's clock, and the chain was still there %v later; the bound is %v (a pass over the idempotency keys and two passes of retention)", from, now-from, bound)
}

// keptKinds is how many kinds of rows retention deletes.
const keptKinds = 6

// purgeTime is how long a pass of all kinds may take.
const purgeTime = 30 * time.Second

// workerPurged judges the deletion of an incarnation, alone or with its worker.
func (lc *leavesChecker) workerPurged(e *history.Event) {
	t := lc.s.workers.Get(e.Incarnation)
	if t == nil {
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d, which never registered, or was deleted before", e.Incarnation)
		return
	}
	lc.s.judged(lc.i)
	age, latest := lc.s.config.Retention.Incarnations, e.Count > 0
	if latest {
		age = lc.s.config.Retention.Workers
	}
	now := lc.s.database(e.At)
	switch {
	case age == 0:
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d, which the configuration keeps for ever", e.Incarnation)
	case !oracle.Gone(t.lifecycle):
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d, which is %v", e.Incarnation, t.lifecycle)
	case latest && t.superseded:
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d with its worker %d, as the latest one, but a later one has registered", e.Incarnation, e.Worker)
	case !latest && !t.superseded:
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d alone, but it is the latest of worker %d: both must be deleted together", e.Incarnation, e.Worker)
	case now < t.leaseEnds+age-lc.s.tolerance:
		lc.s.violate(lc.i, 0, "retention deleted incarnation %d %v too early: its lease ended at %v by the database's clock", e.Incarnation, t.leaseEnds+age-now, t.leaseEnds)
	}
	for _, l := range lc.s.lives.All() {
		if l.incarnation == e.Incarnation && (l.status == execution.Scheduled || oracle.Claimed(l.status)) {
			lc.s.violate(lc.i, l.id, "retention deleted incarnation %d, which still holds the execution", e.Incarnation)
		}
	}
}

func (lc *leavesChecker) end(bool) {
	if lc.off {
		return
	}
	now := lc.s.database(lc.s.now.At)
	for _, id := range lc.order {
		if k := lc.chains[id]; k != nil {
			if from, _ := lc.may(k); from != never {
				lc.s.judged(lc.i)
				lc.late(id, k, from, now)
			}
		}
	}
}
