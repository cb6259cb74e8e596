package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// earned is invariant 17: every bad end has a cause in the run. A long queue, many executions or
// long runs are no cause, because overload is not failure.
func earned() *Invariant {
	i := &Invariant{
		Number: 17, Name: "earned",
		Statement: "Every bad end has a cause in the run: each failure, abandonment, timeout, cancellation, lost worker and counted dispatch follows from a fault, an action or a request. Waiting behind other work is no cause.",
		Needs:     []history.Kind{history.Created, history.Transition, history.Orchestrated},
		Whole:     []history.Kind{history.FaultBegan, history.CancelRequested, history.HeartbeatRenewed, history.ActionEnded},
		Part: "only that every cancellation was requested, that every skipped child has a parent that did not complete, and that nothing fails for waiting at a worker " +
			"that was full the whole time; an audit does not record the faults and actions that explain other bad ends",
	}
	i.make = func(s *Suite) checker {
		return &earnedChecker{i: i, s: s, ledger: newLedger(), table: earnings()}
	}
	return i
}

type earnedChecker struct {
	i      *Invariant
	s      *Suite
	ledger *ledger
	table  []earning
	slots  dense.Table[execution.Incarnation, *slots]
	// loss is the loss of a worker, if the last event was one; otherwise its Kind is NoKind.
	loss history.Event
	// skipped holds the children that were skipped before the handling of their parent's end was
	// recorded.
	skipped []skippedChild
}

// skippedChild is a child that waits for the evidence that its parent's chain has not completed.
type skippedChild struct {
	id, parent execution.ID
	at         time.Duration
}

// ending is one bad end with all that the checker knows about it.
type ending struct {
	*earnedChecker
	row *earning
	e   *history.Event
	l   *life
	t   *session
	at  *slots // nil where t is
}

// whole says that the history records faults, runs and heartbeats. Otherwise only part of the rule
// is judged.
func (c *earnedChecker) whole() bool { return !c.i.InPart(c.s.holds) }

// hears implements selective.
func (c *earnedChecker) hears() []history.Kind { return besidesRuns() }

func (c *earnedChecker) timed() {}

func (c *earnedChecker) observe(e *history.Event, l *life) {
	c.judgeLoss(e)
	switch e.Kind {
	case history.WorkerLifecycle:
		if e.Lifecycle == execution.Lost && c.whole() {
			c.loss = *e
			c.s.wake(e.At) // judged at the next event of any kind
		}
	case history.Transition:
		if l != nil && !oracle.Terminal(e.From) {
			c.transition(e, l)
		}
		if at := c.slots.Get(e.Incarnation); at != nil && oracle.Claimed(e.From) != oracle.Claimed(e.To) {
			at.run(e)
		}
	case history.Orchestrated:
		if len(c.skipped) > 0 {
			c.handled(e)
		}
	case history.WorkerRegistered:
		c.ledger.observe(e)
		c.slots.Set(e.Incarnation, &slots{runtimes: e.Text, capacity: e.Limit})
	case history.HeartbeatRenewed:
		if at := c.slots.Get(e.Incarnation); at != nil {
			at.beats = [3]time.Duration{e.At, at.beats[0], at.beats[1]}
		}
	default:
		c.ledger.observe(e)
	}
}

func (c *earnedChecker) transition(e *history.Event, l *life) {
	counted := e.From == execution.Scheduled && e.Count > l.dispatches
	if e.To != execution.Failed && e.To != execution.Timeout && e.To != execution.Abandoned && e.To != execution.Cancelled && !counted {
		return
	}
	end := ending{earnedChecker: c, e: e, l: l, t: c.s.workers.Get(l.incarnation), at: c.slots.Get(l.incarnation)}
	if why := end.crowded(counted); why != "" {
		c.s.violate(c.i, e.Execution, "%s although it only had to wait: %s; waiting behind others is no cause", end.describe(counted), why)
		return
	}
	for n := range c.table {
		row := &c.table[n]
		if row.reason == e.Reason && (row.by == execution.NoPart || row.by == e.By) {
			end.row = row
			break
		}
	}
	if end.row == nil {
		c.s.judged(c.i)
		c.s.violate(c.i, e.Execution, "%s, and the table of causes has no row for this reason", end.describe(counted))
		return
	}
	if why := end.unearned(); why != "" {
		c.s.violate(c.i, e.Execution, "%s although nothing in this run explains it: %s", end.describe(counted), why)
	}
}

// describe says how the execution ended, when, and by which part.
func (c *ending) describe(counted bool) string {
	e := c.e
	what := "failed"
	switch {
	case counted && e.To == execution.Requested:
		what = "had a dispatch counted against " + c.worker()
	case e.To == execution.Abandoned:
		what = "was abandoned"
	case e.To == execution.Timeout:
		what = "timed out"
	case e.To == execution.Cancelled:
		what = "ended"
	}
	return fmt.Sprintf("execution %d %s as %v at %v (by the %v, %s)", e.Execution, what, reasonName(e.Reason), e.At, e.By, e.Process)
}

func reasonName(r execution.Reason) string {
	if r == execution.NoReason {
		return "no reason"
	}
	return r.String()
}

// worker is the name of the worker that held the execution.
func (c *ending) worker() string {
	if c.t == nil || c.t.process == "" {
		return fmt.Sprintf("worker %d", c.l.worker)
	}
	return c.t.process
}

// unearned returns the complaint about an end without a cause, "" if it has one.
func (c *ending) unearned() string {
	row := c.row
	if !c.whole() && c.e.Reason != execution.CancelRequested && c.e.Reason != execution.ParentFailed {
		return ""
	}
	c.s.judged(c.i)
	// An action may end for any reason of its own.
	if c.e.By == execution.Worker && c.l.exited == execution.Failed && c.l.exit == c.e.Reason {
		return ""
	}
	if row.instead != nil {
		why := row.instead(c)
		if why == "" || row.causes == 0 || row.reason == execution.NoWorkers {
			return why
		}
		if c.faulty(row.causes) {
			return ""
		}
		return why
	}
	if c.faulty(row.causes) {
		return ""
	}
	return c.innocent(row.causes)
}

// faulty says whether a fault explains the end.
func (c *ending) faulty(of cause) bool {
	if of&dispatchesFail != 0 && (!c.l.published || c.l.sentLate) {
		of |= executorFails
	}
	process := ""
	if c.t != nil {
		process = c.t.process
	}
	return c.ledger.struck(of, process, c.l.worker, c.row.from(c)-c.s.tolerance)
}

// innocent describes the worker's state and lists the causes that would explain the end.
func (c *ending) innocent(of cause) string {
	was := "is not known"
	if c.t != nil && c.at != nil {
		was = fmt.Sprintf("was %v, last renewed its lease at %v and held %d executions with a capacity of %d", c.t.lifecycle, c.t.renewed, c.at.running, c.at.capacity)
	}
	return fmt.Sprintf("its worker %s %s; a cause would be %s since %v", c.worker(), was, of.describe(c.worker()), max(0, c.row.from(c)))
}

// crowded says, in words, that the execution waited at a worker without room and that the executor
// could know it: since then, a heartbeat of the worker has reported that it was full. It returns ""
// otherwise.
func (c *ending) crowded(counted bool) string {
	t, e := c.at, c.e
	unclaimed := counted || e.To == execution.Failed && (e.Reason == execution.QueueTimeout || e.Reason == execution.DispatchTimeout)
	if e.From != execution.Scheduled || !unclaimed || t == nil || c.t == nil || t.capacity == 0 {
		return ""
	}
	if _, gone := c.t.gone(); gone {
		return ""
	}
	c.s.judged(c.i)
	if t.full() && t.fullSince <= c.l.entered {
		return fmt.Sprintf("its worker %s has held %d executions with a capacity of %d since %v, and it was dispatched there at %v", c.worker(), t.running, t.capacity, t.fullSince, c.l.entered)
	}
	// The guard compares two moments of the database's clock, the last at which the worker was full
	// and the dispatch, so a step between them misleads it.
	if !c.whole() || c.s.stepped > c.l.entered {
		return ""
	}
	known := t.known()
	switch {
	case t.full() && max(t.fullSince, c.l.entered) <= known:
		return fmt.Sprintf("its worker %s has held %d executions with a capacity of %d since %v, and said so with its heartbeat at %v", c.worker(), t.running, t.capacity, t.fullSince, c.t.renewed)
	case t.fullUntil > 0 && max(t.fullFrom, c.l.entered) <= min(t.fullUntil, known):
		return fmt.Sprintf("its worker %s held %d executions with a capacity of %d from %v to %v, and said so with its heartbeat at %v; it was dispatched there at %v",
			c.worker(), t.capacity, t.capacity, t.fullFrom, t.fullUntil, c.t.renewed, c.l.entered)
	}
	return ""
}

// ownEnd: the action itself ended with this reason.
func (c *ending) ownEnd() string {
	switch {
	case c.l.exited == execution.None:
		return fmt.Sprintf("no action of this execution has ended at epoch %d", c.e.OldEpoch)
	case c.l.exited != execution.Failed:
		return fmt.Sprintf("its action ended as %v", c.l.exited)
	}
	return fmt.Sprintf("its action failed as %v", c.l.exit)
}

// asked: a client requested the cancellation of the chain.
func (c *ending) asked() string {
	if c.s.cancelled[c.l.chain] {
		return ""
	}
	return fmt.Sprintf("nobody has asked to cancel its chain, %d", c.l.chain)
}

// parentEnded: the parent's chain has ended without completing. The handling of that end is written
// in the same transaction as this end, and may follow it in the history.
func (c *ending) parentEnded() string {
	parent := c.l.parent
	if parent == 0 {
		// An audit names the parent only at the end of the skipped child.
		parent = c.e.Related
	}
	if parent == 0 {
		return "it waits for no parent"
	}
	switch c.s.ended.of(parent) {
	case execution.None:
		c.skipped = append(c.skipped, skippedChild{c.e.Execution, parent, c.e.At})
		return ""
	case execution.Completed:
		return fmt.Sprintf("its parent, execution %d, has completed", parent)
	default:
		return ""
	}
}

// handled judges the skipped children of a chain whose end is being handled.
func (c *earnedChecker) handled(e *history.Event) {
	if e.Related != 0 {
		return
	}
	c.skipped = slices.DeleteFunc(c.skipped, func(child skippedChild) bool {
		if child.parent != e.Chain {
			return false
		}
		if e.From == execution.Completed {
			c.s.violate(c.i, child.id, "execution %d ended as parent_failed at %v although its parent, execution %d, has completed", child.id, child.at, child.parent)
		}
		return true
	})
	// Children of this handling were written together with it. Older ones have waited too long for
	// theirs.
	if len(c.skipped) > 0 && e.At > c.skipped[0].at+c.s.bounds.Slack {
		c.orphans()
	}
}

func (c *earnedChecker) orphans() {
	child := c.skipped[0]
	c.s.violate(c.i, child.id, "execution %d ended as parent_failed at %v although the chain of its parent, execution %d, has not ended", child.id, child.at, child.parent)
	c.skipped = c.skipped[:0]
}

// ranItsTime: the action has run for its whole timeout. The worker counts from the moment at which
// it sent the claim, up to one statement before the claim took effect.
func (c *ending) ranItsTime() string {
	now := c.s.database(c.e.At)
	// The worker counts from the moment at which it sent the claim, which may have waited for a
	// connection first. If the dispatch came to it more than once, the first message decides. If none
	// came, the worker found the dispatch in the database, nobody saw when.
	early := c.s.config.Worker.StatementTimeout
	if c.l.arrived > 0 {
		early = min(early, max((c.l.due-c.l.stamped)/2, c.l.entered-c.l.arrived))
	}
	if now >= c.l.due-early-c.s.tolerance || c.heldClaim() {
		return ""
	}
	return fmt.Sprintf("its run deadline is still %v away; it was claimed at %v", c.l.due-now, c.l.entered)
}

// silentClaim also accepts that the worker sent its claim over a connection that had gone silent.
// The worker notices that within the time of a statement and sends the claim again. So this only
// excuses a dispatch that had hardly more time than that.
func (c *ending) silentClaim() string {
	left := c.l.due - c.s.skew - c.l.arrived
	if c.t != nil && c.l.arrived > 0 && left <= c.s.config.Worker.StatementTimeout+callTime && c.ledger.process(c.t.process).silent.since(c.l.arrived) {
		return ""
	}
	return c.innocent(c.row.causes)
}

// heldClaim says that the claim may have been on its way for as long as the run may take. The network
// can hold a claim back and deliver it after a cut. The worker got no answer to it, so it counts the
// run from then on, even if it has sent the claim again since. It sent the first claim when the
// dispatch came to it, at the earliest. Only trouble on the way to the database since then explains
// such a delay, and only until the link has recovered.
func (c *ending) heldClaim() bool {
	timeout := c.l.due - c.l.stamped
	if c.e.By != execution.Worker || c.t == nil || c.l.arrived == 0 || c.e.At < c.l.arrived+timeout-timeout/driftTolerance {
		return false
	}
	return c.ledger.struck(toDatabase|databaseFails, c.t.process, c.t.worker, max(c.l.arrived, c.s.recovered(c.l.entered)))
}

// noWorkers: no worker offers the runtime, or each worker that offers it has its own cause for
// being unfit.
func (c *ending) noWorkers() string {
	from := c.row.from(c) - c.s.tolerance
	if c.ledger.struck(c.row.causes&servers&^(dispatchesFail|makesNoQueue), "", 0, from) {
		return ""
	}
	for _, m := range c.s.fleet.members {
		if c.l.pinned != 0 && m.worker != c.l.pinned || !slices.Contains(strings.Fields(c.slots.Get(m.incarnation).runtimes), c.l.runtime) {
			continue
		}
		began := from
		if m.lifecycle >= execution.Draining {
			// The cause of its departure was present when it began to leave, possibly long ago.
			began = min(from, m.leaving-c.recovery())
		}
		if c.ledger.struck(c.row.causes&^servers, m.process, m.worker, began) || c.hasNoQueue(m, began) {
			continue
		}
		if t := c.s.workers.Get(m.incarnation); t != nil && t.since >= from && t.lifecycle <= execution.Active {
			// The worker has only just arrived and may not have been ready.
			continue
		}
		return fmt.Sprintf("worker %s offers %s, is %v and last renewed its lease at %v; a cause would be %s since %v",
			m.process, c.l.runtime, m.lifecycle, m.renewed, c.row.causes.describe(m.process), max(0, from))
	}
	return ""
}

// hasNoQueue says that a worker can't have got a queue since a moment: the broker created none, and
// the worker was not yet in service or has lost its queue since.
func (c *ending) hasNoQueue(m *member, from time.Duration) bool {
	return c.ledger.struck(makesNoQueue, "", 0, from) &&
		(m.lifecycle < execution.Active || c.ledger.struck(losesQueue, m.process, m.worker, c.ledger.noQueueFrom-c.recovery()))
}

// lost judges the loss of a worker that an executor marked lost.
func (c *earnedChecker) lost(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if t == nil {
		return
	}
	c.s.judged(c.i)
	// A worker is lost for the same causes as its runs.
	end := ending{earnedChecker: c, e: e, l: &life{worker: e.Worker}, t: t, at: c.slots.Get(e.Incarnation), row: &earning{causes: noRenewal, from: sinceRenewal}}
	if !end.faulty(noRenewal) {
		c.s.violate(c.i, 0, "worker %s (incarnation %d) was marked lost by %s at %v although nothing in this run explains it: %s",
			t.process, e.Incarnation, e.Process, e.At, end.innocent(noRenewal))
	}
}

// judgeLoss judges the last loss of a worker once the next event has come. If that event is the
// registration of a successor, the old incarnation was superseded; it was not lost for want of a
// heartbeat. Then only the executions that it held are judged, when they end.
func (c *earnedChecker) judgeLoss(next *history.Event) {
	if c.loss.Kind == history.NoKind {
		return
	}
	loss := c.loss
	c.loss = history.Event{}
	if next.Kind != history.WorkerRegistered || next.Worker != loss.Worker {
		c.lost(&loss)
	}
}

func (c *earnedChecker) end(bool) {
	c.judgeLoss(&history.Event{})
	if len(c.skipped) > 0 {
		c.orphans()
	}
}
