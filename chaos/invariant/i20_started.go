package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// started is invariant 20 (defects D9, D30): from the claim on, only the worker can move an
// execution on. A claim that the worker forgets waits until an executor notices, and then its end
// looks like a lost worker.
func started() *Invariant {
	i := &Invariant{
		Number: 20, Name: "claimed is started",
		Statement: "A live worker that has its lease starts or ends each execution that it has claimed, in less time than it takes to renew its lease. It does not report such an execution as lost.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.HeartbeatRenewed, history.FaultBegan},
	}
	i.make = func(s *Suite) checker {
		bound := startBound(s)
		return &startedChecker{
			i: i, s: s, bound: bound, afterDatabase: bound + max(0, connectTimeout-s.config.Worker.StatementTimeout),
			shut: make(map[string]*trouble), slowed: make(map[string]*answersLate),
		}
	}
	return i
}

// retryPause is the longest pause between two attempts of a worker to get a claim answered.
const retryPause = 2 * time.Second

// startBound is the longest time for a start if nothing hinders the worker: an attempt whose answer
// was lost, the pause after it, an attempt that returns the state, and the start itself.
func startBound(s *Suite) time.Duration { return 3*s.config.Worker.StatementTimeout + retryPause }

// connectTimeout is the longest time for one attempt to connect to the database (Options of
// core/store/postgres).
const connectTimeout = 5 * time.Second

// stopsWorker can keep a worker from starting a claimed execution.
const stopsWorker = standsStill | itsClock | hasTwin

// stopsAnswers can keep a worker from learning of its claim.
const stopsAnswers = toDatabase | databaseFails

// startedChecker keeps the claims whose actions have not started: a few at any moment.
type startedChecker struct {
	i     *Invariant
	s     *Suite
	bound time.Duration
	// afterDatabase is the bound that counts from the end of trouble with the database. It is longer
	// because the first attempt may fail as late as an attempt to connect ends. That attempt began in
	// the trouble and keeps its place in the pool even if its caller has given up. If it has the
	// last place, no claim is answered before connectTimeout is over.
	afterDatabase time.Duration
	open          []claimed
	// next is when the oldest of them may be overdue.
	next time.Duration
	// shut holds the processes on a frozen machine (also if the process started later) and those
	// cut off from the database: the database may have stored renewals whose replies the worker
	// never got.
	shut map[string]*trouble
	// slowed holds the processes whose answers come late or are lost.
	slowed map[string]*answersLate
	// narrow are the start times of the slow links that still last, the oldest first.
	narrow []time.Duration
}

// answersLate is the time in which the answers to a process come late or are lost: it began at since
// and, unless some fault of it still lasts, was over at until.
type answersLate struct {
	lasting      int
	since, until time.Duration
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

// fault notes faults that cut processes off.
func (c *startedChecker) fault(e *history.Event) {
	switch e.Text {
	case "freeze", "partition", "slow_link":
	case "latency", "database_slow", "reset":
		if e.Text == "reset" && !slices.Contains(strings.Split(e.Queue, ","), fault.Database) {
			return
		}
		// A single answer that is late or lost ends a lease only if the fence leaves no room for
		// another heartbeat. But all answers within a lease may be.
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
			// Messages that have queued up in a slow link arrive after its end, later by the
			// fault's duration at most.
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

// slow notes a fault that makes answers to processes late or loses them.
func (c *startedChecker) slow(e *history.Event) {
	for name := range strings.SplitSeq(e.Process, ",") {
		t := c.slowed[name]
		if t == nil {
			t = new(answersLate)
			c.slowed[name] = t
		}
		switch {
		case e.Kind == history.FaultEnded:
			t.lasting, t.until = max(0, t.lasting-1), e.At
		case t.lasting == 0:
			t.lasting, t.since = 1, e.At
		default:
			t.lasting++
		}
	}
}

// forALease says whether answers came late or were lost for so long that the process may have fenced
// itself, and still did at a moment or later.
func (t *answersLate) forALease(from, now, fenced time.Duration) bool {
	until := t.until
	if t.lasting > 0 {
		until = now
	}
	return until >= from && until-t.since > fenced
}

// isShut says whether a process was cut off at some time since a moment, or until then got no answer
// in time for a lease.
func (c *startedChecker) isShut(process string, from time.Duration) bool {
	for _, name := range [...]string{process, fault.Database} {
		if t := c.slowed[name]; t != nil && t.forALease(from, c.s.now.At, oracle.Lease(&c.s.config.Worker)-c.s.config.Worker.FenceMargin) {
			return true
		}
		if t := c.shut[name]; t != nil && t.since(from) {
			return true
		}
	}
	return false
}

// settle forgets a claim that has been started or ended.
func (c *startedChecker) settle(e *history.Event) {
	at := slices.IndexFunc(c.open, func(w claimed) bool { return w.id == e.Execution })
	if at < 0 {
		return
	}
	c.s.judged(c.i)
	c.open = slices.Delete(c.open, at, at+1)
}

// has says that an incarnation has its lease and, by a correct clock, has not fenced itself.
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

// heard is the latest time at which the last renewal can have been sent. A worker cut off since
// then may not have got the answer and has fenced itself, although in the database its lease goes
// on.
func (c *startedChecker) heard(t *session) time.Duration {
	return t.renewed - c.s.config.Worker.StatementTimeout
}

// look judges old claims. A claim whose worker was hindered is checked again later.
func (c *startedChecker) look(now time.Duration) {
	c.next = never
	for _, w := range c.open {
		t := c.s.workers.Get(w.incarnation)
		if now-w.at <= c.bound {
			c.next = min(c.next, w.at+c.bound)
			continue
		}
		c.next = min(c.next, now+c.bound/4)
		if !c.has(t, now) || c.isShut(t.process, min(now-c.bound, c.heard(t))) || c.s.ledger.struck(stopsWorker, t.process, t.worker, now-c.bound) ||
			c.s.ledger.struck(stopsAnswers, t.process, t.worker, now-c.afterDatabase) {
			continue
		}
		c.s.violate(c.i, w.id, "%s claimed execution %d at epoch %d at %v and has neither started nor ended it since; its lease holds, nothing hinders it, and the bound is %v",
			t.process, w.id, w.epoch, w.at, c.bound)
	}
}

// ended judges that a worker doesn't report as lost an execution that it claimed and never began.
// Every heartbeat lists the executions that the worker holds, including claims whose outcome it
// doesn't know yet.
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
