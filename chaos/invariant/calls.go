package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// Calls follows the calls of one worker process to the database and to its machine, from its start to its
// end. It knows what the process must know about its lease and its claimed runs, and which replies it got.
// Several invariants judge its reactions. Only the simulated world reports calls, each in the task that makes
// it.
//
// Times are on the process's monotonic clock, which the core measures with too.
type Calls struct {
	s        *Suite
	process  string
	capacity int

	single   *singleRunChecker
	graceful *gracefulChecker
	result   *resultChecker
	alerts   *alertChecker
	work     *workChecker
	away     *awayChecker
	service  *inServiceChecker

	lease   leaseKnowledge
	renewal renewalNeed
	ends    countedEnds
	behind  lookBehindState
	// gone reports whether the process got a reply that its incarnation is over. draining is when the process
	// first reported to the database that it drains, by the run's clock; negative if it has not.
	gone     bool
	draining time.Duration
	// runs holds the executions that the process has claimed or is trying to claim.
	runs map[execution.Key]*callsOfRun
}

// callsOfRun holds a worker process's calls for one execution and the replies to them.
type callsOfRun struct {
	// sent is when the latest claim was sent. asked is when the effective claim was sent; if that is unknown,
	// the first claim that may have taken effect. limit is when the run timeout ends.
	sent, asked, limit time.Duration
	// uncertain reports whether a claim got no answer, and unwritten whether a write of the end got none.
	uncertain, unwritten bool
	lost, cancelled      bool
	// started reports whether the machine was asked to start the action, and refused whether it failed to.
	started, refused bool
	// byItself reports whether the action ended by itself. It then ended with the status to, for reason, and
	// the worker learned of it at the time exited.
	byItself bool
	exited   time.Duration
	// killed is when the worker learned that the action had ended on its request; 0 if it has not.
	killed time.Duration
	to     execution.Status
	reason execution.Reason
	// ended is when the worker first sent the end to the database.
	ended    time.Duration
	over     bool
	attempts [lastCall + 1]attempt
}

// Calls returns a Calls for a worker process that has just started. It judges the calls reported to it.
func (s *Suite) Calls(process string, capacity int) *Calls {
	c := &Calls{s: s, process: process, capacity: capacity}
	for later := s.later; later != nil; later = later.later {
		later.called = true
	}
	for _, one := range s.checkers {
		switch one := one.(type) {
		case *singleRunChecker:
			c.single = one
		case *gracefulChecker:
			c.graceful = one
		case *resultChecker:
			c.result = one
		case *alertChecker:
			c.alerts = one
		case *workChecker:
			c.work = one
		case *awayChecker:
			c.away = one
		case *inServiceChecker:
			c.service = one
		}
	}
	c.Registered(0)
	c.gone = true
	return c
}

// Registered begins a new incarnation. asked is when the process sent the request.
func (c *Calls) Registered(asked time.Duration) {
	c.lease, c.renewal = leaseKnowledge{renewed: asked}, renewalNeed{}
	c.ends, c.behind = countedEnds{}, lookBehindState{sure: true, answered: -lookBehind}
	c.gone, c.draining = false, -1
	c.runs = make(map[execution.Key]*callsOfRun)
}

// Gone records a reply saying that the process's incarnation is over.
func (c *Calls) Gone() { c.gone = true }

// Drains notes that the process is reporting to the database that it drains.
func (c *Calls) Drains() {
	if c.draining < 0 {
		c.draining = c.s.currentTime()
	}
	c.behind.sure = false
}

// currentTime returns the current time of the run.
func (s *Suite) currentTime() time.Duration {
	if s.clock == nil {
		return s.now.At
	}
	_, at := s.clock()
	return at
}

// Told records what the reply to a heartbeat said about an execution: lost, or else to be cancelled.
func (c *Calls) Told(key execution.Key, lost bool) {
	if r := c.runs[key]; r != nil {
		r.lost, r.cancelled = r.lost || lost, r.cancelled || !lost
	}
}

// Cancelled notes that the process has read a request to cancel an execution.
func (c *Calls) Cancelled(key execution.Key) { c.Told(key, false) }

// Claims judges a claim that the process is about to send.
func (c *Calls) Claims(now time.Duration, key execution.Key) {
	c.judgeNextQuestion(now)
	r := c.runs[key]
	if r == nil {
		r = new(callsOfRun)
		c.runs[key] = r
		c.judgeFirstClaim(key)
		c.behind.noteHeld(c)
	}
	r.sent = now
	c.judgeRepetition(now, key, r, callClaim, "")
}

// Claimed notes the answer to a claim. timeout is the run timeout of the row.
func (c *Calls) Claimed(now time.Duration, key execution.Key, o Answer, timeout time.Duration) {
	r := c.runs[key]
	if r == nil {
		return
	}
	// The error for a batch of claims may be about another claim. Each claim is then repeated separately,
	// without a pause.
	r.attempts[callClaim].noteAnswer(now, o.Failed && !(o.Wrong && o.Shared))
	if o.Applied || o.Unknown && !r.uncertain {
		r.asked = r.sent
	}
	r.uncertain = r.uncertain || o.Unknown
	switch {
	case o.Applied || !o.Failed && r.uncertain && o.Ours:
		r.limit = r.asked + timeout
	case !o.Failed || o.Wrong && !o.Shared && !r.uncertain:
		c.forgetRun(now, key)
		if !o.Failed && !o.Late {
			c.behind.countWasted(c, now)
		}
	}
}

// Answer is the answer to a statement about one execution.
type Answer struct {
	// Applied reports whether the statement took effect, Ours whether the row was already as the statement
	// would have made it, and Late whether the deadline had passed.
	Applied, Ours, Late bool
	// Failed reports whether the answer was an error. Unknown reports whether the statement may have taken
	// effect despite the error. Wrong reports whether the error isn't known to be transient. Shared reports
	// whether the statement was about several executions: the error may be about another, so the claim is
	// repeated.
	Failed, Unknown, Wrong, Shared bool
}

func (c *Calls) forgetRun(now time.Duration, key execution.Key) {
	c.judgeNextQuestion(now)
	delete(c.runs, key)
}

// Finishes judges the end of a run that the process is about to write. words holds its error and message.
func (c *Calls) Finishes(now time.Duration, e End, words string) {
	c.judgeNextQuestion(now)
	r := c.runs[e.Key]
	if r == nil {
		return
	}
	if !r.over {
		r.over, r.ended = true, now
		c.judgeResultWait(now, e.Key, r)
	}
	c.judgeReason(now, &e, r)
	c.judgeRepetition(now, e.Key, r, callFinish, words)
}

// End is how a run ended, as reported by its worker.
type End struct {
	Key    execution.Key
	To     execution.Status
	Reason execution.Reason
}

// Finished notes the answer to the write of an end.
func (c *Calls) Finished(now time.Duration, e End, o Answer) {
	r := c.runs[e.Key]
	if r == nil {
		return
	}
	r.attempts[callFinish].noteAnswer(now, o.Failed)
	if !o.Failed && (o.Applied || r.unwritten && o.Ours) {
		if e.Reason != execution.WorkerShutdown {
			ended := r.ended
			// The result may have waited for others while its worker was paused. That time isn't part of the
			// run.
			switch {
			case r.byItself:
				ended = r.exited
			case r.killed > 0:
				ended = r.killed
			}
			c.ends.addEnd(now, ended-r.asked, oracle.BlamesWorker(e.Reason))
		}
		c.forgetRun(now, e.Key)
	}
	r.unwritten = r.unwritten || o.Unknown
}

// Keeps judges a refused end that the process is about to store as a dead letter.
func (c *Calls) Keeps(now time.Duration, e End, words string) {
	if r := c.runs[e.Key]; r != nil {
		c.judgeReason(now, &e, r)
		c.judgeRepetition(now, e.Key, r, callKeep, words)
	}
}

// Kept records whether the refused end was stored.
func (c *Calls) Kept(now time.Duration, key execution.Key, failed bool) {
	if r := c.runs[key]; r != nil {
		r.attempts[callKeep].noteAnswer(now, failed)
		if !failed {
			c.forgetRun(now, key)
		}
	}
}
