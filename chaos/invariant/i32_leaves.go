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
func (c *leavesChecker) hears() []history.Kind {
	return []history.Kind{
		history.Created, history.Transition, history.Orchestrated, history.Purged, history.WorkerPurged, history.DatabaseRewound,
	}
}

func (c *leavesChecker) observe(e *history.Event, _ *life) {
	if c.off {
		return
	}
	switch e.Kind {
	case history.DatabaseRewound:
		c.off = true
	case history.Created:
		c.created(e)
	case history.Transition:
		if k := c.chains[e.Chain]; k != nil && oracle.Terminal(e.To) {
			k.ended = max(k.ended, c.s.database(e.At))
		}
	case history.Orchestrated:
		if k := c.chains[e.Chain]; k != nil {
			k.open--
		}
	case history.Purged:
		c.purged(e)
	case history.WorkerPurged:
		c.workerPurged(e)
	default:
	}
}

func (c *leavesChecker) created(e *history.Event) {
	k := c.chains[e.Chain]
	if k == nil {
		k = &keptChain{parent: e.Related}
		c.chains[e.Chain] = k
		c.order = append(c.order, e.Chain)
		if p := c.chains[e.Related]; p != nil {
			p.children++
		}
	}
	k.rows++
	k.open++
	if e.Key != "" {
		k.key = c.s.database(e.At) + oracle.KeyLifetime
	}
}

// may is the time of the database from which on retention may delete a chain, and why not before;
// never while something keeps the chain.
func (c *leavesChecker) may(k *keptChain) (from time.Duration, why string) {
	age := c.s.config.Retention.Executions
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
	if p := c.chains[k.parent]; p != nil {
		switch {
		case p.open > 0:
			return never, "the chain of its parent has not ended, or its end is not handled"
		case p.ended+age > from:
			from, why = p.ended+age, "the chain of its parent ended less than retention.executions ago"
		}
	}
	return from, why
}

func (c *leavesChecker) purged(e *history.Event) {
	k := c.chains[e.Execution]
	if k == nil {
		c.s.violate(c.i, e.Execution, "retention deleted the chain that begins with execution %d, but no such chain was created, or it was deleted before", e.Execution)
		return
	}
	c.s.judged(c.i)
	now := c.s.database(e.At)
	from, why := c.may(k)
	switch {
	case from == never:
		c.s.violate(c.i, e.Execution, "retention deleted the chain at %v, but must keep it: %s", e.At, why)
	case now < from-c.s.tolerance:
		c.s.violate(c.i, e.Execution, "retention deleted the chain at %v, %v too early: %s", e.At, from-now, why)
	case int(e.Count) != k.rows:
		c.s.violate(c.i, e.Execution, "retention deleted %d of the %d rows of the chain", e.Count, k.rows)
	default:
		c.late(e.Execution, k, from, now)
	}
	delete(c.chains, e.Execution)
	if p := c.chains[k.parent]; p != nil {
		p.children--
		p.freed = now
	}
}

// late judges whether a chain that may be deleted since from, and was still there just before now,
// was deleted in time.
func (c *leavesChecker) late(id execution.ID, k *keptChain, from, now time.Duration) {
	// Keys are forgotten once a minute; then two passes, as one may have looked just before, and one
	// for each statement that a pass waits for.
	from = max(from, k.freed)
	r := &c.s.config.Retention
	bound := sweepPeriod + drift(sweepPeriod) + 2*(r.Interval+drift(r.Interval)) + c.s.bounds.Slack + purgeTime
	if now <= from+bound || c.s.calm.troubled(from-c.s.skew) || c.s.setBack > 0 {
		return
	}
	c.s.violate(c.i, id, "retention may delete the chain since %v by the database's clock, and the chain was still there %v later; the bound is %v (a pass over the idempotency keys and two passes of retention)", from, now-from, bound)
}

// keptKinds is how many kinds of rows retention deletes.
const keptKinds = 6

// purgeTime is how long a pass of all kinds may take.
const purgeTime = 30 * time.Second

// workerPurged judges the deletion of an incarnation, alone or with its worker.
func (c *leavesChecker) workerPurged(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if t == nil {
		c.s.violate(c.i, 0, "retention deleted incarnation %d, which never registered, or was deleted before", e.Incarnation)
		return
	}
	c.s.judged(c.i)
	age, latest := c.s.config.Retention.Incarnations, e.Count > 0
	if latest {
		age = c.s.config.Retention.Workers
	}
	now := c.s.database(e.At)
	switch {
	case age == 0:
		c.s.violate(c.i, 0, "retention deleted incarnation %d, which the configuration keeps for ever", e.Incarnation)
	case !oracle.Gone(t.lifecycle):
		c.s.violate(c.i, 0, "retention deleted incarnation %d, which is %v", e.Incarnation, t.lifecycle)
	case latest && t.superseded:
		c.s.violate(c.i, 0, "retention deleted incarnation %d with its worker %d, as the latest one, but a later one has registered", e.Incarnation, e.Worker)
	case !latest && !t.superseded:
		c.s.violate(c.i, 0, "retention deleted incarnation %d alone, but it is the latest of worker %d: both must be deleted together", e.Incarnation, e.Worker)
	case now < t.leaseEnds+age-c.s.tolerance:
		c.s.violate(c.i, 0, "retention deleted incarnation %d %v too early: its lease ended at %v by the database's clock", e.Incarnation, t.leaseEnds+age-now, t.leaseEnds)
	}
	for _, l := range c.s.lives.All() {
		if l.incarnation == e.Incarnation && (l.status == execution.Scheduled || oracle.Claimed(l.status)) {
			c.s.violate(c.i, l.id, "retention deleted incarnation %d, which still holds the execution", e.Incarnation)
		}
	}
}

func (c *leavesChecker) end(bool) {
	if c.off {
		return
	}
	now := c.s.database(c.s.now.At)
	for _, id := range c.order {
		if k := c.chains[id]; k != nil {
			if from, _ := c.may(k); from != never {
				c.s.judged(c.i)
				c.late(id, k, from, now)
			}
		}
	}
}
