package invariant

import (
	"time"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// Calls is one worker process, of one start, as its calls of the database and of its machine show it: what it knows of its
// lease, of the runs that it has claimed and of what it was told. Several invariants judge what it does with that. Only the
// simulated world shows calls, and it tells of each in the task that makes it.
//
// Moments are on the monotonic clock of the process, on which the core measures, too.
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

	lease  leaseOf
	ends   endsOf
	behind behindOf
	// gone says that it was told that its incarnation is over, draining since when, in the run's time, it has told the
	// database that it drains, negative for not at all.
	gone     bool
	draining time.Duration
	// runs are those that it has claimed, or tries to.
	runs map[execution.Key]*callsOfRun
}

// callsOfRun is what a worker process has done about one execution, and was told of it.
type callsOfRun struct {
	// sent is when it was claimed last, asked when the claim was sent that took effect; if nobody knows which did, the first
	// one that may have.
	sent, asked, limit time.Duration
	// uncertain and unwritten say that a claim, or a write of the end, got no answer.
	uncertain, unwritten bool
	lost, cancelled      bool
	// started says that the action was asked to start, refused that it could not.
	started, refused bool
	// byItself says that the action ended by itself, to and reason how, and exited when the worker learned of it.
	byItself bool
	exited   time.Duration
	to       execution.Status
	reason   execution.Reason
	// ended is when its end was first written.
	ended time.Duration
	over  bool
	again [lastCall + 1]attempt
}

// Calls has the calls of a worker process judged, which has just started; nil if nobody judges any.
func (s *Suite) Calls(process string, capacity int) *Calls {
	c := &Calls{s: s, process: process, capacity: capacity}
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
		}
	}
	c.Registered(0)
	c.gone = true
	return c
}

// Registered begins another incarnation. asked is when the process began to ask for it.
func (c *Calls) Registered(asked time.Duration) {
	c.lease = leaseOf{renewed: asked}
	c.ends, c.behind = endsOf{}, behindOf{sure: true, answered: -lookBehind}
	c.gone, c.draining = false, -1
	c.runs = make(map[execution.Key]*callsOfRun)
}

// Gone notes that the process was told that its incarnation is over.
func (c *Calls) Gone() { c.gone = true }

// Drains notes that the process tells the database that it drains.
func (c *Calls) Drains() {
	if c.draining < 0 {
		c.draining = c.s.present()
	}
	c.behind.sure = false
}

// present is the moment of the run.
func (s *Suite) present() time.Duration {
	if s.clock == nil {
		return s.now.At
	}
	_, at := s.clock()
	return at
}

// Told notes what the answer to a heartbeat says of an execution that the process holds.
func (c *Calls) Told(key execution.Key, lost bool) {
	if r := c.runs[key]; r != nil {
		r.lost, r.cancelled = r.lost || lost, r.cancelled || !lost
	}
}

// Cancelled notes that the process has read that an execution is to be cancelled.
func (c *Calls) Cancelled(key execution.Key) { c.Told(key, false) }

// Claims judges a claim that is about to be sent.
func (c *Calls) Claims(now time.Duration, key execution.Key) {
	c.look(now)
	r := c.runs[key]
	if r == nil {
		r = new(callsOfRun)
		c.runs[key] = r
		c.begins(key)
		c.behind.holds(c)
	}
	r.sent = now
	c.repeats(now, key, r, callClaim, "")
}

// Claimed notes the answer to a claim. timeout is the run timeout of the row.
func (c *Calls) Claimed(now time.Duration, key execution.Key, o Answer, timeout time.Duration) {
	r := c.runs[key]
	if r == nil {
		return
	}
	r.again[callClaim].answered(now, o.Failed)
	if o.Applied || o.Unknown && !r.uncertain {
		r.asked = r.sent
	}
	r.uncertain = r.uncertain || o.Unknown
	switch {
	case o.Applied || !o.Failed && r.uncertain && o.Ours:
		r.limit = r.asked + timeout
	case !o.Failed || o.Wrong && !r.uncertain:
		c.forget(now, key)
		if !o.Failed && !o.Late {
			c.behind.wastes(c, now)
		}
	}
}

// Answer is what a statement about one execution was answered.
type Answer struct {
	// Applied says that it took effect; Ours that the row is as the statement was to make it; Late that its time was over.
	Applied, Ours, Late bool
	// Failed says that there was no answer but an error: Unknown one after which nobody knows what happened, Wrong one that
	// does not say that it will pass.
	Failed, Unknown, Wrong bool
}

func (c *Calls) forget(now time.Duration, key execution.Key) {
	c.look(now)
	delete(c.runs, key)
}

// Finishes judges the end of a run that is about to be written. words are what is told of it.
func (c *Calls) Finishes(now time.Duration, e End, words string) {
	c.look(now)
	r := c.runs[e.Key]
	if r == nil {
		return
	}
	if !r.over {
		r.over, r.ended = true, now
		c.waited(now, e.Key, r)
	}
	c.tells(now, &e, r)
	c.repeats(now, e.Key, r, callFinish, words)
}

// End is how a run ended, as its worker tells it.
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
	r.again[callFinish].answered(now, o.Failed)
	if !o.Failed && (o.Applied || r.unwritten && o.Ours) {
		if e.Reason != execution.WorkerShutdown {
			ended := r.ended
			if r.byItself {
				// Its result may have waited for others, and its worker stood still meanwhile: that is no part of the run.
				ended = r.exited
			}
			c.ends.add(now, ended-r.asked, oracle.BlamesWorker(e.Reason))
		}
		c.forget(now, e.Key)
	}
	r.unwritten = r.unwritten || o.Unknown
}

// Keeps judges a refused end that is about to be kept.
func (c *Calls) Keeps(now time.Duration, e End, words string) {
	if r := c.runs[e.Key]; r != nil {
		c.tells(now, &e, r)
		c.repeats(now, e.Key, r, callKeep, words)
	}
}

// Kept notes the answer.
func (c *Calls) Kept(now time.Duration, key execution.Key, failed bool) {
	if r := c.runs[key]; r != nil {
		r.again[callKeep].answered(now, failed)
		if !failed {
			c.forget(now, key)
		}
	}
}
