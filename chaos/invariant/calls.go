package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// Calls follows one worker process from one start to its end by its calls to the database and to
// its machine: what it knows of its lease and its claimed runs, and what it was told. Several
// invariants judge how the process reacts. Only the simulated world reports calls, each in the task
// that makes it.
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
	// gone says that the process was told that its incarnation is over. draining is the time of the
	// run at which it told the database that it drains, negative if it didn't.
	gone     bool
	draining time.Duration
	// runs are the executions that it has claimed or is trying to claim.
	runs map[execution.Key]*callsOfRun
}

// callsOfRun is what a worker process did about one execution and was told about it.
type callsOfRun struct {
	// sent is when the latest claim was sent. asked is when the effective claim was sent; if that
	// is unknown, the first claim that may have taken effect. limit is the end of the run timeout.
	sent, asked, limit time.Duration
	// uncertain says that a claim got no answer, unwritten that a write of the end got none.
	uncertain, unwritten bool
	lost, cancelled      bool
	// started says that the machine was asked to start the action, refused that it could not.
	started, refused bool
	// byItself says that the action ended by itself, as to for reason. exited is when the worker
	// learned of it.
	byItself bool
	exited   time.Duration
	// killed is when the worker learned that the action had ended as it was told to; 0 if it has
	// not.
	killed time.Duration
	to     execution.Status
	reason execution.Reason
	// ended is when the worker first wrote the end.
	ended    time.Duration
	over     bool
	attempts [lastCall + 1]attempt
}

// Calls begins to judge the calls of a worker process that has just started.
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

// Gone notes that the process was told that its incarnation is over.
func (c *Calls) Gone() { c.gone = true }

// Drains notes that the process is telling the database that it drains.
func (c *Calls) Drains() {
	if c.draining < 0 {
		c.draining = c.s.currentTime()
	}
	c.behind.sure = false
}

// currentTime is the current time of the run.
func (s *Suite) currentTime() time.Duration {
	if s.clock == nil {
		return s.now.At
	}
	_, at := s.clock()
	return at
}

// Told notes the answer to a heartbeat about one of the process's executions: lost, or to be
// cancelled.
func (c *Calls) Told(key execution.Key, lost bool) {
	if r := c.runs[key]; r != nil {
		r.lost, r.cancelled = r.lost || lost, r.cancelled || !lost
	}
}

// Cancelled notes that the process has read a request to cancel an execution.
func (c *Calls) Cancelled(key execution.Key) { c.Told(key, false) }

// Claims judges a claim before it is sent.
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
	// An error of several claims may be about another one. Then each of them is sent alone, at once.
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
	// Applied says that it took effect, Ours that the row already is as the statement would make
	// it, Late that the deadline had passed.
	Applied, Ours, Late bool
	// Failed says that the answer was an error. Unknown: after this error nobody knows whether the
	// statement took effect. Wrong: the error isn't known to be transient. Shared: the statement was
	// about several executions, so the error may be about another one, and the claim is sent again.
	Failed, Unknown, Wrong, Shared bool
}

func (c *Calls) forgetRun(now time.Duration, key execution.Key) {
	c.judgeNextQuestion(now)
	delete(c.runs, key)
}

// Finishes judges the end of a run before it is written. words are the error and message to be
// stored.
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
			// The result may have waited for others while its worker was paused; that time is no part
			// of the run.
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

// Keeps judges a refused end before it is stored as a dead letter.
func (c *Calls) Keeps(now time.Duration, e End, words string) {
	if r := c.runs[e.Key]; r != nil {
		c.judgeReason(now, &e, r)
		c.judgeRepetition(now, e.Key, r, callKeep, words)
	}
}

// Kept notes the answer to that.
func (c *Calls) Kept(now time.Duration, key execution.Key, failed bool) {
	if r := c.runs[key]; r != nil {
		r.attempts[callKeep].noteAnswer(now, failed)
		if !failed {
			c.forgetRun(now, key)
		}
	}
}
