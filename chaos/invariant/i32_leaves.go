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
		Number: 32, Name: "what is kept leaves in time", Across: true,
		Statement: "A chain leaves as a whole. It stays until all its rows have ended, are handled and were kept for the configured time. It also stays while it has children, while its parent's chain is younger, or while an idempotency key leads to it. An incarnation or a worker leaves only when it is gone and holds nothing. All of them leave soon after they may.",
		Needs:     []history.Kind{history.Purged},
	}
	i.make = func(s *Suite) checker {
		return &leavesChecker{i: i, s: s, chains: make(map[execution.ID]*keptChain), off: !s.config.Retention.Any()}
	}
	return i
}

// keptChain is what the history says of a chain that has not left.
type keptChain struct {
	rows, open int
	// ended is when its last row ended so far, key when the key of its first row is free, both by the
	// database's clock. freed is when the last child left.
	ended, key, freed time.Duration
	parent            execution.ID
	children          int
}

type leavesChecker struct {
	i *Invariant
	s *Suite
	// chains are those that have not left, by their first rows; order lists them by these, with
	// those that have left.
	chains map[execution.ID]*keptChain
	order  []execution.ID
	// off says that nothing is judged: nothing is configured to leave, or the database is as it was
	// at an earlier time, so that rows which had left are back.
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

// may is the time of the database from which on a chain may leave, and why not before; never while
// something keeps it.
func (c *leavesChecker) may(k *keptChain) (from time.Duration, why string) {
	age := c.s.config.Retention.Executions
	switch {
	case age == 0:
		return never, "executions are kept for ever"
	case k.open > 0:
		return never, "a row of it has not ended, or its end is not handled"
	case k.children > 0:
		return never, "it has children that have not left"
	}
	from, why = k.ended+age, "its last row ended less than retention.executions ago"
	if k.key > from {
		from, why = k.key, "an idempotency key leads to it"
	}
	if p := c.chains[k.parent]; p != nil {
		switch {
		case p.open > 0:
			return never, "the chain of its parent goes on"
		case p.ended+age > from:
			from, why = p.ended+age, "the chain of its parent ended less than retention.executions ago"
		}
	}
	return from, why
}

func (c *leavesChecker) purged(e *history.Event) {
	k := c.chains[e.Execution]
	if k == nil {
		c.s.violate(c.i, e.Execution, "a chain left that begins with no execution, or has left already")
		return
	}
	c.s.judged(c.i)
	now := c.s.database(e.At)
	from, why := c.may(k)
	switch {
	case from == never:
		c.s.violate(c.i, e.Execution, "the chain left at %v, and must stay: %s", e.At, why)
	case now < from-c.s.tolerance:
		c.s.violate(c.i, e.Execution, "the chain left at %v, %v too early: %s", e.At, from-now, why)
	case int(e.Count) != k.rows:
		c.s.violate(c.i, e.Execution, "%d of the %d rows of the chain left", e.Count, k.rows)
	default:
		c.late(e.Execution, k, from, now)
	}
	delete(c.chains, e.Execution)
	if p := c.chains[k.parent]; p != nil {
		p.children--
		p.freed = now
	}
}

// late judges whether a chain that may leave since from, and has not done so before now, was in
// time.
func (c *leavesChecker) late(id execution.ID, k *keptChain, from, now time.Duration) {
	// Keys are forgotten once a minute; then two passes, as one may have looked just before, and one
	// for each statement that a pass waits for.
	from = max(from, k.freed)
	r := &c.s.config.Retention
	bound := sweepPeriod + drift(sweepPeriod) + 2*(r.Interval+drift(r.Interval)) + c.s.bounds.Slack + purgeTime
	if now <= from+bound || c.s.calm.troubled(from-c.s.skew) || c.s.setBack > 0 {
		return
	}
	c.s.violate(c.i, id, "the chain may leave since %v of the database's clock, and was still there %v later; the bound is %v (a pass of the keys, two passes of the retention)", from, now-from, bound)
}

// keptKinds is how many kinds of rows leave.
const keptKinds = 6

// purgeTime is how long a pass of all kinds may take.
const purgeTime = 30 * time.Second

// workerPurged judges an incarnation that left, alone or with its worker.
func (c *leavesChecker) workerPurged(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if t == nil {
		c.s.violate(c.i, 0, "incarnation %d left, which has not registered, or has left already", e.Incarnation)
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
		c.s.violate(c.i, 0, "incarnation %d left, and is to be kept for ever", e.Incarnation)
	case !oracle.Gone(t.lifecycle):
		c.s.violate(c.i, 0, "incarnation %d left, and is %v", e.Incarnation, t.lifecycle)
	case latest == t.superseded:
		c.s.violate(c.i, 0, "incarnation %d left as the latest of its worker: %t; by the registrations, another one is later: %t", e.Incarnation, latest, t.superseded)
	case now < t.leaseEnds+age-c.s.tolerance:
		c.s.violate(c.i, 0, "incarnation %d left %v too early: its lease ended at %v of the database's clock", e.Incarnation, t.leaseEnds+age-now, t.leaseEnds)
	}
	for _, l := range c.s.lives.All() {
		if l.incarnation == e.Incarnation && (l.status == execution.Scheduled || oracle.Claimed(l.status)) {
			c.s.violate(c.i, l.id, "incarnation %d left, and holds the execution", e.Incarnation)
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
