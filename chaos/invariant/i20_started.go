package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// started is invariant 20 (defects D9, D30): from its claim on nobody but the worker can move an execution on, so a claim
// that the worker forgets waits for somebody to notice, and its end looks like a lost worker.
func started() *Invariant {
	i := &Invariant{
		Number: 20, Name: "claimed is started",
		Statement: "A live worker that has its lease starts what it has claimed, or ends it, in less time than it takes to renew its lease, and does not call it lost.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.HeartbeatRenewed, history.FaultBegan},
	}
	i.make = func(s *Suite) checker {
		return &startedChecker{i: i, s: s, bound: startBound(s), shut: make(map[string]*trouble), slowed: make(map[string]time.Duration)}
	}
	return i
}

// retryPause is the longest pause between two attempts of a worker to have a claim answered.
const retryPause = 2 * time.Second

// startBound is how long a start may take while nothing hinders the worker: an attempt whose answer was lost, the pause
// after it, an attempt that tells how it stands, and the start itself.
func startBound(s *Suite) time.Duration { return 3*s.config.Worker.StatementTimeout + retryPause }

// noAnswer can keep a worker from hearing of its claim, or from starting what it has claimed.
const noAnswer = standsStill | itsClock | toDatabase | hasTwin | databaseFails

// startedChecker keeps the claims whose actions have not started: at any moment a few.
type startedChecker struct {
	i     *Invariant
	s     *Suite
	bound time.Duration
	open  []claimed
	// next is when the oldest of them may be overdue.
	next time.Duration
	// shut are the processes whose machine is frozen, also under a process that was started since, or whose way to the
	// database is cut: the database may have renewals of which the worker has not heard.
	shut map[string]*trouble
	// slowed is since when processes are answered late.
	slowed map[string]time.Duration
	// narrow are when the slow links began that have not ended, the oldest first.
	narrow []time.Duration
}

// claimed is a claim whose action has not started.
type claimed struct {
	id          execution.ID
	epoch       execution.Epoch
	incarnation execution.Incarnation
	at          time.Duration
}

// hears implements selective.
func (c *startedChecker) hears() []history.Kind {
	return []history.Kind{
		history.FaultBegan, history.FaultEnded, history.ActionStarted, history.Transition,
	}
}

func (c *startedChecker) timed() {}

func (c *startedChecker) observe(e *history.Event, l *life) {
	if len(c.open) > 0 && e.At >= c.next {
		c.look(e.At)
	}
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		c.fault(e)
	case history.ActionStarted:
		c.settle(e)
	case history.Transition:
		switch {
		case e.To == execution.Running:
			if len(c.open) == 0 {
				c.next = e.At + c.bound
			}
			c.open = append(c.open, claimed{e.Execution, e.Epoch, e.Incarnation, e.At})
		case oracle.Claimed(e.From) && !oracle.Claimed(e.To):
			c.ended(e, l)
			c.settle(e)
		}
	default:
	}
	if len(c.open) > 0 {
		c.s.wake(c.next)
	}
}

// fault notes what shuts processes off.
func (c *startedChecker) fault(e *history.Event) {
	switch e.Text {
	case "freeze", "partition", "slow_link":
	case "latency", "database_slow":
		// One answer that comes too late ends a lease only where the fence leaves no room for another heartbeat, but all
		// answers of a lease may come too late.
		if w := &c.s.config.Worker; oracle.Lease(w)-w.FenceMargin >= 2*w.HeartbeatInterval {
			c.slow(e)
			return
		}
	default:
		return
	}
	at := e.At
	if e.Text == "slow_link" {
		if e.Kind == history.FaultBegan {
			c.narrow = append(c.narrow, e.At)
		} else if len(c.narrow) > 0 {
			// What has queued up in a narrow link arrives after its end, at most as much later as the fault lasted.
			at += e.At - c.narrow[0]
			if c.narrow = c.narrow[1:]; len(c.narrow) == 0 {
				c.narrow = nil
			}
		}
	}
	for name := range strings.SplitSeq(e.Process, ",") {
		t := c.shut[name]
		if t == nil {
			t = new(trouble)
			c.shut[name] = t
		}
		if e.Kind == history.FaultBegan {
			t.begin(e.At)
		} else {
			t.end(at)
		}
	}
}

// slow notes since when a process has been answered late.
func (c *startedChecker) slow(e *history.Event) {
	for name := range strings.SplitSeq(e.Process, ",") {
		switch _, is := c.slowed[name]; {
		case e.Kind == history.FaultEnded:
			delete(c.slowed, name)
		case !is:
			c.slowed[name] = e.At
		}
	}
}

// isShut says whether a process was shut off at some time since a moment, or has been answered late for a lease.
func (c *startedChecker) isShut(process string, from time.Duration) bool {
	for _, name := range [...]string{process, theDatabase} {
		if since, is := c.slowed[name]; is && c.s.now.At-since > oracle.Lease(&c.s.config.Worker)-c.s.config.Worker.FenceMargin {
			return true
		}
		if t := c.shut[name]; t != nil && t.since(from) {
			return true
		}
	}
	return false
}

// theDatabase is whom a fault of the database names.
const theDatabase = "database"

// settle forgets a claim that has come to something.
func (c *startedChecker) settle(e *history.Event) {
	at := slices.IndexFunc(c.open, func(w claimed) bool { return w.id == e.Execution })
	if at < 0 {
		return
	}
	c.s.judged(c.i)
	c.open = slices.Delete(c.open, at, at+1)
}

// has says that an incarnation has its lease, and has not fenced itself by a clock that is right.
func (c *startedChecker) has(t *session, now time.Duration) bool {
	if t == nil {
		return false
	}
	if _, gone := t.gone(); gone {
		return false
	}
	w := c.s.config.Worker
	return now < t.renewed+(oracle.Lease(&w)-w.FenceMargin)*(driftTolerance-1)/driftTolerance && c.s.database(now) < t.leaseEnds
}

// heard is when the last renewal can have been asked for. A worker that was shut off since then may not have heard its
// answer, and has fenced itself although the database counts its lease on.
func (c *startedChecker) heard(t *session) time.Duration {
	return t.renewed - c.s.config.Worker.StatementTimeout
}

// look judges the claims that are old. One whose worker was hindered is looked at again.
func (c *startedChecker) look(now time.Duration) {
	c.next = never
	for _, w := range c.open {
		t := c.s.workers.Get(w.incarnation)
		if now-w.at <= c.bound {
			c.next = min(c.next, w.at+c.bound)
			continue
		}
		c.next = min(c.next, now+c.bound/4)
		if !c.has(t, now) || c.isShut(t.process, min(now-c.bound, c.heard(t))) || c.s.ledger.struck(noAnswer, t.process, t.worker, now-c.bound) {
			continue
		}
		c.s.violate(c.i, w.id, "%s claimed execution %d at epoch %d at %v and has neither started nor ended it since; its lease holds, nothing hinders it, and the bound is %v",
			t.process, w.id, w.epoch, w.at, c.bound)
	}
}

// ended judges that a worker does not end as lost what it has claimed and never began. It is asked at every heartbeat
// what it holds, and a claim whose outcome it does not know yet is among that.
func (c *startedChecker) ended(e *history.Event, l *life) {
	if e.By != execution.Worker || e.Reason != execution.WorkerLost || l == nil || l.started > 0 {
		return
	}
	t := c.s.workers.Get(e.Incarnation)
	if !c.has(t, e.At) || t.late || t.lifecycle > execution.Active || c.isShut(t.process, min(l.entered-c.bound, c.heard(t))) || c.s.ledger.struck(standsStill|itsClock|hasTwin, t.process, t.worker, l.entered) {
		return
	}
	c.s.judged(c.i)
	c.s.violate(c.i, e.Execution, "%s claimed execution %d at epoch %d at %v, never began it, and ended it as lost by its own heartbeat, although its lease holds",
		e.Process, e.Execution, e.OldEpoch, l.entered)
}

func (c *startedChecker) end(bool) {
	if len(c.open) > 0 {
		c.look(c.s.now.At)
	}
}
