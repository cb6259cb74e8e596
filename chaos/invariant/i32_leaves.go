package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// timelyRetention returns invariant 32: a configured retention deletes exactly the rows that are no longer
// needed.
func timelyRetention() *Invariant {
	i := &Invariant{
		Number: 32, Name: "retention deletes in time", Across: true,
		Statement: "Retention deletes a chain as a whole. It keeps the chain until all its rows have ended, are handled and were kept for the configured time. It also keeps the chain while it has children, while its parent's chain is younger, or while an idempotency key leads to it. It deletes an incarnation or a worker only when it is gone and holds nothing. It deletes all of them soon after it may.",
		Needs:     []history.Kind{history.Purged},
	}
	i.make = func(s *Suite) checker {
		return &retentionChecker{i: i, s: s, chains: make(map[execution.ID]*keptChain), off: !s.config.Retention.Any()}
	}
	return i
}

// keptChain is the state of a chain that was not deleted, according to the history.
type keptChain struct {
	rows, open int
	// ended is when its latest row ended, key when its idempotency key expires, and freed when its last child
	// was deleted, all by the database's clock.
	ended, key, freed time.Duration
	parent            execution.ID
	children          int
}

type retentionChecker struct {
	i *Invariant
	s *Suite
	// chains holds the chains that were not deleted, by first row. order lists the first rows of all chains,
	// including deleted chains.
	chains map[execution.ID]*keptChain
	order  []execution.ID
	// off reports whether nothing is judged, because the configuration keeps everything, or because the
	// database was rewound, which restores deleted rows.
	off bool
}

// observedKinds implements selective.
func (lc *retentionChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.Created, history.Transition, history.Orchestrated, history.Purged, history.WorkerPurged, history.DatabaseRewound,
	}
}

func (lc *retentionChecker) observeEvent(e *history.Event, _ *life) {
	if lc.off {
		return
	}
	switch e.Kind {
	case history.DatabaseRewound:
		lc.off = true
	case history.Created:
		lc.addRow(e)
	case history.Transition:
		if k := lc.chains[e.Chain]; k != nil && oracle.Terminal(e.To) {
			k.ended = max(k.ended, lc.s.databaseTime(e.At))
		}
	case history.Orchestrated:
		if k := lc.chains[e.Chain]; k != nil {
			k.open--
		}
	case history.Purged:
		lc.judgePurge(e)
	case history.WorkerPurged:
		lc.judgeWorkerPurge(e)
	default:
	}
}

func (lc *retentionChecker) addRow(e *history.Event) {
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
		k.key = lc.s.databaseTime(e.At) + oracle.KeyLifetime
	}
}

// purgeableFrom returns when, by the database's clock, retention may first delete a chain, and why not
// earlier. It returns never while something still needs the chain.
func (lc *retentionChecker) purgeableFrom(k *keptChain) (from time.Duration, why string) {
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

func (lc *retentionChecker) judgePurge(e *history.Event) {
	k := lc.chains[e.Execution]
	if k == nil {
		lc.s.recordViolation(lc.i, e.Execution, "retention deleted the chain that begins with execution %d, but no such chain was created, or it was deleted before", e.Execution)
		return
	}
	lc.s.countOccasion(lc.i)
	now := lc.s.databaseTime(e.At)
	from, why := lc.purgeableFrom(k)
	switch {
	case from == never:
		lc.s.recordViolation(lc.i, e.Execution, "retention deleted the chain at %v, but must keep it: %s", e.At, why)
	case now < from-lc.s.tolerance:
		lc.s.recordViolation(lc.i, e.Execution, "retention deleted the chain at %v, %v too early: %s", e.At, from-now, why)
	case int(e.Count) != k.rows:
		lc.s.recordViolation(lc.i, e.Execution, "retention deleted %d of the %d rows of the chain", e.Count, k.rows)
	default:
		lc.judgeLatePurge(e.Execution, k, from, now)
	}
	delete(lc.chains, e.Execution)
	if p := lc.chains[k.parent]; p != nil {
		p.children--
		p.freed = now
	}
}

// judgeLatePurge judges whether a chain that could be deleted since from, and still existed just before now,
// should already have been deleted.
func (lc *retentionChecker) judgeLatePurge(id execution.ID, k *keptChain, from, now time.Duration) {
	// The bound is one pass over the keys, which comes once a minute, and two passes of retention, because
	// one may have looked just before from.
	from = max(from, k.freed)
	r := &lc.s.config.Retention
	bound := sweepPeriod + clockDrift(sweepPeriod) + 2*(r.Interval+clockDrift(r.Interval)) + lc.s.bounds.Slack + purgeTime
	if now <= from+bound || lc.s.hindrances.hinderedSince(from-lc.s.skew) || lc.s.setBack > 0 {
		return
	}
	lc.s.recordViolation(lc.i, id, "retention may delete the chain since %v by the database's clock, and the chain was still there %v later; the bound is %v (a pass over the idempotency keys and two passes of retention)", from, now-from, bound)
}

// keptKinds is the number of kinds of rows that retention deletes.
const keptKinds = 6

// purgeTime is the maximum duration of a pass over all kinds.
const purgeTime = 30 * time.Second

// judgeWorkerPurge judges the deletion of an incarnation, with or without its worker.
func (lc *retentionChecker) judgeWorkerPurge(e *history.Event) {
	t := lc.s.workers.Get(e.Incarnation)
	if t == nil {
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d, which never registered, or was deleted before", e.Incarnation)
		return
	}
	lc.s.countOccasion(lc.i)
	age, latest := lc.s.config.Retention.Incarnations, e.Count > 0
	if latest {
		age = lc.s.config.Retention.Workers
	}
	now := lc.s.databaseTime(e.At)
	switch {
	case age == 0:
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d, which the configuration keeps for ever", e.Incarnation)
	case !oracle.Gone(t.lifecycle):
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d, which is %v", e.Incarnation, t.lifecycle)
	case latest && t.superseded:
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d with its worker %d, as the latest one, but a later one has registered", e.Incarnation, e.Worker)
	case !latest && !t.superseded:
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d alone, but it is the latest of worker %d: both must be deleted together", e.Incarnation, e.Worker)
	case now < t.leaseEnds+age-lc.s.tolerance:
		lc.s.recordViolation(lc.i, 0, "retention deleted incarnation %d %v too early: its lease ended at %v by the database's clock", e.Incarnation, t.leaseEnds+age-now, t.leaseEnds)
	}
	for _, l := range lc.s.lives.All() {
		if l.incarnation == e.Incarnation && (l.status == execution.Scheduled || oracle.Claimed(l.status)) {
			lc.s.recordViolation(lc.i, l.id, "retention deleted incarnation %d, which still holds the execution", e.Incarnation)
		}
	}
}

func (lc *retentionChecker) endRun(bool) {
	if lc.off {
		return
	}
	now := lc.s.databaseTime(lc.s.now.At)
	for _, id := range lc.order {
		if k := lc.chains[id]; k != nil {
			if from, _ := lc.purgeableFrom(k); from != never {
				lc.s.countOccasion(lc.i)
				lc.judgeLatePurge(id, k, from, now)
			}
		}
	}
}
