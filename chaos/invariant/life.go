package invariant

import (
	"cmp"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// life is the state of one unfinished execution according to the history. An execution is finished when it is
// terminal, handled and without a live action. Checkers read a life; Suite.applyEvent updates it after all of
// them have seen the event.
type life struct {
	id, chain  execution.ID
	status     execution.Status
	epoch      execution.Epoch
	retry      int64
	dispatches int64
	maxRetries int64
	// claimed reports whether the execution was running before the latest change of its status.
	claimed bool
	// firstRetries is the maxRetries of the chain's first row.
	firstRetries int64
	// runTimeout and dispatchTimeout are the row's timeouts. A runTimeout of 0 means that it is unknown, and
	// a dispatchTimeout of 0 that the configuration's applies.
	runTimeout, dispatchTimeout time.Duration
	notBefore                   time.Duration
	reason                      execution.Reason
	runtime                     string
	pinned                      execution.WorkerID
	// left is the worker that had the execution before the last transition, 0 for none.
	left execution.WorkerID
	// avoid is the worker from which the execution was last reclaimed, or on which its predecessor failed.
	// The execution goes to another worker if there is any, even an unhealthy one.
	avoid execution.WorkerID

	// entered is when the present status began, and due until when the status waits (see history.Event.Due).
	entered time.Duration
	due     time.Duration
	// waits is the time since which it has been due for a worker. A fruitless claim doesn't change this time.
	waits time.Duration
	// claimLost is when the reconciler reclaimed a scheduling claim whose executor may have lost it in a
	// fault. Until then no executor could schedule the execution.
	claimLost time.Duration
	// stamped is the time entered, by the database's clock.
	stamped time.Duration

	// The following fields are about the present dispatch.
	worker      execution.WorkerID
	incarnation execution.Incarnation
	published   bool // the broker has routed it
	marked      bool // the database knows that it was confirmed
	dying       bool // its message has expired or was rejected
	returned    bool
	// sentLate reports whether the message reached the broker after more than half of the time for its claim.
	sentLate bool
	// observed reports whether an observing monitor has recorded what it would do about the present dispatch.
	observed bool
	// observedAt is when the monitor last made that record, by the database's clock.
	observedAt time.Duration
	// by is the process that wrote the present status.
	by string
	// exit and exited are the reason and the status with which the action of the present epoch ended.
	exit   execution.Reason
	exited execution.Status
	// expired, rejected and tooOften (requeued too often) report how copies of its message died.
	expired, rejected, tooOften bool
	// scheduler is the process that wrote the dispatch. orphanSentLate reports whether this process restarted
	// before the message was sent, and the message arrived when the dispatch could no longer be claimed.
	scheduler      string
	orphanSentLate bool
	// action is its action's index in Suite.actions. slot is the concurrency slot that it holds, 0 for none.
	action    uint16
	slot      uint16
	delivered time.Duration // when the message came to the worker that has it, 0 if no worker has it
	arrived   time.Duration // when the present dispatch first came to its worker, 0 if it has not
	died      time.Duration // when its message reached the dead letter queue
	behind    int32         // number of dead letters that were ahead of it
	before    int32         // number of unhandled ends when it ended
	cameBack  time.Duration // when its message was returned
	// givenUp reports whether the dead letter was given up because the database didn't accept it within
	// letterHeld.
	givenUp bool

	// parent is the first row of the parent's chain, 0 if it waits for no parent.
	parent execution.ID
	// orphan reports whether the end of the parent's chain was handled, and parentEnded when. ahead bounds
	// the number of batches until this child is settled, counting all children that waited at that time.
	orphan      bool
	parentEnded time.Duration
	ahead       int32

	claims       int32 // of the present epoch
	started      int32 // actions of the present epoch
	running      int32 // actions alive
	orchestrated bool
	nextRetry    execution.ID

	// effort is only for invariant 18. ran is the end of the last run, and only for invariant 13.
	effort budget
	ran    runExit
	// hidden reports whether the row is unreadable. shown is when that last changed. No message announces
	// that the row has become readable; executors find it with their next look.
	hidden bool
	shown  time.Duration
	// endsBefore is the value of Suite.endsHandled when the execution ended.
	endsBefore int
}

// session is the state of one incarnation of a worker according to the history.
type session struct {
	worker    execution.WorkerID
	process   string
	lifecycle execution.Lifecycle
	since     time.Duration // since when it has had this lifecycle
	leaving   time.Duration // when it began to drain, or ended without draining
	leaseEnds time.Duration
	renewed   time.Duration
	joined    time.Duration
	// answered is when the database stored the latest heartbeat whose reply the worker got. beats holds the
	// heartbeats stored since. They are kept only by a suite that judges after a loss, and only if the
	// workers' calls are reported; see Suite.called.
	answered    time.Duration
	beats       []storedBeat
	superseded  bool
	supersededA time.Duration
	// late reports whether the time between two renewals was so long that the worker may have fenced itself
	// before the second one, already under way, was stored. Its later calls belong to another incarnation.
	late bool
	// outage reports whether an observing prober has recorded that the health endpoint doesn't answer, and
	// outageAt when it did, by the database's clock.
	outage   bool
	outageAt time.Duration
	// looked is when invariant 12 next checks the executions that were scheduled to this worker when it was
	// lost.
	looked time.Duration
}

// letterHeld is how long an executor keeps a dead letter that it can't handle before it gives up
// (docs/executor.md).
const letterHeld = 30 * time.Second

// goneSince reports since when the incarnation has ended or been superseded, and whether it has.
func (s *session) goneSince() (since time.Duration, gone bool) {
	switch {
	case oracle.Gone(s.lifecycle):
		return s.since, true
	case s.superseded:
		return s.supersededA, true
	}
	return 0, false
}

// hindranceLog records the faults that could hinder an executor. Meanwhile no bound on detection applies.
type hindranceLog struct {
	lasting int
	lastEnd time.Duration
}

// hinderedSince reports whether a fault could hinder an executor at or after since.
func (c *hindranceLog) hinderedSince(since time.Duration) bool {
	return c.lasting > 0 || c.lastEnd >= since
}

// applyEvent applies an event that every checker has seen.
func (s *Suite) applyEvent(e *history.Event, l *life) {
	s.roads.applyEvent(e)
	switch e.Kind {
	case history.Created:
		s.applyCreated(e)
	case history.Transition:
		if l != nil {
			s.noteSettled(l)
			if e.From == execution.Scheduling && e.By == execution.Reconciler && s.hindrances.hinderedSince(l.entered-s.config.Executor.StatementTimeout) {
				l.claimLost = e.At
			}
			l.applyTransition(e)
			if e.To == execution.Requested && e.From != execution.Scheduling {
				l.waits = max(e.At, e.Due-s.skew)
			}
			l.stamped, l.endsBefore = s.databaseTime(e.At), s.endsHandled
			s.retireIfFinished(l)
		}
	case history.RowUnreadable, history.RowLocked:
		if l != nil {
			l.hidden, l.shown = e.Count > 0, e.At
		}
		if e.Kind == history.RowLocked {
			s.lockedRows += 2*int(e.Count) - 1
		}
	case history.SlotTaken, history.SlotFreed:
		if l != nil {
			if l.slot = uint16(e.Count); e.Kind == history.SlotFreed {
				l.slot = 0
			}
		}
	case history.ChildStarted:
		if l != nil {
			s.noteSettled(l)
			l.parent, l.due, l.waits = 0, max(l.due, s.databaseTime(e.At)), e.At
		}
	case history.CancelRequested:
		s.cancelled[e.Chain] = true
	case history.Orchestrated:
		if p := s.roads.byName[e.Process]; p == nil || !p.worker {
			s.endsHandled++
		}
		if e.Related == 0 {
			s.ended.setStatus(e.Chain, e.From)
			s.orphanChildren(e)
			delete(s.cancelled, e.Chain)
		}
		if l != nil {
			l.orchestrated, l.nextRetry = true, e.Related
			if next := s.lives.Get(e.Related); next != nil {
				next.avoid, next.firstRetries = l.left, l.firstRetries
			}
			s.retireIfFinished(l)
		}
	case history.ActionStarted:
		if l != nil {
			l.running++
			if e.Epoch == l.epoch {
				l.started++
			}
		}
	case history.ActionEnded:
		if l != nil {
			l.running--
			if e.Epoch == l.epoch {
				l.exit, l.exited = e.Reason, e.To
			}
			s.retireIfFinished(l)
		}
	case history.Published:
		if l != nil && l.status == execution.Scheduled && e.Epoch == l.epoch && !l.published {
			l.orphanSentLate = s.databaseTime(e.At) > l.due && s.started[l.scheduler] > l.entered
			l.sentLate = s.databaseTime(e.At) > l.stamped+(l.due-l.stamped)/2
		}
		l.applyMessageEvent(e)
	case history.Delivered:
		if l != nil && e.Epoch == l.epoch {
			l.delivered = max(e.At, 1)
			l.arrived = cmp.Or(l.arrived, l.delivered)
		}
	case history.Requeued:
		if l != nil && e.Epoch == l.epoch {
			l.delivered = 0
		}
	case history.Acked:
		// The message was unreadable. The worker then learns of the dispatch from the database, and no
		// message is left to settle.
		if l != nil && e.Epoch == l.epoch && e.Fault != "" {
			l.delivered = 0
		}
		// A dead letter that the database didn't accept within letterHeld is given up; no part acts on it.
		if l != nil && e.Epoch == l.epoch && l.died != 0 && e.At-l.died > letterHeld-clockDrift(letterHeld) && s.ledger.hasStruck(databaseFails, e.Process, 0, l.died) {
			l.givenUp = true
		}
	case history.PublishReturned, history.PublishedMarked, history.Expired, history.Rejected, history.ReturnedTooOften, history.DeadLettered:
		l.applyMessageEvent(e)
	case history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed:
		s.applyWorkerEvent(e)
		s.fleet.applyEvent(e, s.workers.Get(e.Incarnation))
	case history.Observed:
		if t := s.workers.Get(e.Incarnation); t != nil && e.Execution == 0 {
			t.outage, t.outageAt = e.Count > 0, s.databaseTime(e.At)
		}
		if l != nil && l.epoch == e.Epoch {
			l.observed, l.observedAt = true, s.databaseTime(e.At)
		}
	case history.FaultBegan:
		s.hindrances.lasting += int(e.Count)
	case history.FaultEnded:
		s.hindrances.lasting -= int(e.Count)
		s.hindrances.lastEnd = e.At
	case history.ProcessStarted:
		s.roads.roadOf(e.Process).missed = s.stepped
		s.started[e.Process], s.hindrances.lastEnd = e.At, e.At
	case history.BrokerUp, history.DatabaseUp:
		s.hindrances.lastEnd = e.At
	case history.ClockStepped:
		s.latest, s.stepped = max(s.latest, s.databaseTime(e.At)), e.At
		s.skew += e.Due
		s.fleet.skew = s.skew
		for _, l := range s.lives.All() {
			// The execution is due by the database's clock, so a step forwards makes it due earlier, and a
			// step back later.
			if l.waits > e.At {
				l.waits = max(e.At, l.waits-e.Due)
			}
		}
		s.setBack = max(s.setBack, e.At+s.latest-s.databaseTime(e.At))
	case history.Dropped:
		if l != nil && e.Epoch == l.epoch {
			l.delivered = 0
		}
		// A dead letter destroyed by a fault has no effect.
		if l != nil && e.Fault != "" && e.Epoch == l.epoch {
			l.died = 0
		}
	default:
	}
}

// latestShownTime returns the latest time that the database's clock may have shown between since and now. A
// decision may be based on an earlier reading.
func (s *Suite) latestShownTime(since, now time.Duration) time.Duration {
	if s.stepped >= since {
		return max(s.latest, s.databaseTime(now))
	}
	return s.databaseTime(now)
}

func (s *Suite) applyCreated(e *history.Event) {
	var l *life
	if n := len(s.free); n > 0 {
		l, s.free = s.free[n-1], s.free[:n-1]
		*l = life{}
	} else {
		l = new(life)
	}
	l.id, l.chain, l.status, l.retry, l.maxRetries = e.Execution, e.Chain, e.To, e.Count, e.Limit
	l.firstRetries = e.Limit
	l.runTimeout, l.dispatchTimeout = e.RunTimeout, e.DispatchTimeout
	l.notBefore, l.due, l.entered, l.reason = e.Due, e.Due, e.At, e.Reason
	l.stamped, l.waits = s.databaseTime(e.At), max(e.At, e.Due-s.skew)
	l.action, l.parent = s.actionIndex(e.Action), e.Related
	l.runtime, l.pinned, l.by = e.Text, e.Worker, e.Process
	if l.parent != 0 {
		s.addChild(l, e.At)
	}
	s.lives.Set(e.Execution, l)
	s.created = max(s.created, e.Execution)
}

func (l *life) applyTransition(e *history.Event) {
	l.claimed = e.From == execution.Running
	l.status, l.epoch, l.entered, l.due, l.reason = e.To, e.Epoch, e.At, e.Due, e.Reason
	l.by = e.Process
	l.dispatches = e.Count
	switch {
	case e.To == execution.Running:
		l.claims++
	case e.Epoch != e.OldEpoch:
		l.claims, l.started, l.delivered, l.arrived = 0, 0, 0, 0
		l.published, l.marked, l.returned, l.dying, l.died = false, false, false, false, 0
		l.expired, l.rejected, l.tooOften, l.sentLate, l.observed = false, false, false, false, false
		l.exit, l.exited = execution.NoReason, execution.None
		l.scheduler, l.orphanSentLate, l.givenUp = e.Process, false, false
	}
	if l.left = 0; e.From == execution.Scheduled || oracle.Claimed(e.From) {
		l.left = l.worker
	}
	if e.From == execution.Scheduled && e.To == execution.Requested {
		l.avoid = l.worker
	}
	if e.To == execution.Scheduled || e.To == execution.Running {
		l.worker, l.incarnation = e.Worker, e.Incarnation
	}
}

// applyMessageEvent applies an event about the message of the present dispatch. The broker may be faster than
// the reply to the process that committed the dispatch, but never faster than the commit.
func (l *life) applyMessageEvent(e *history.Event) {
	if l == nil || e.Epoch != l.epoch {
		return
	}
	switch e.Kind {
	case history.Published:
		l.published = true
	case history.PublishReturned:
		l.returned, l.cameBack = true, e.At
	case history.PublishedMarked:
		l.marked = true
	case history.DeadLettered:
		if l.died == 0 && l.dying {
			l.died = max(e.At, 1)
		}
	default:
		// No part can act on an unreadable dead letter, so the timeout monitor must end the wait.
		l.expired, l.rejected = l.expired || e.Kind == history.Expired, l.rejected || e.Kind == history.Rejected
		l.tooOften = l.tooOften || e.Kind == history.ReturnedTooOften
		l.dying = e.Fault == ""
	}
}

// retireIfFinished removes an execution once no more events about it are expected.
func (s *Suite) retireIfFinished(l *life) {
	if oracle.Terminal(l.status) && l.orchestrated && l.running == 0 {
		s.lives.Delete(l.id)
		s.free = append(s.free, l)
	}
}

func (s *Suite) applyWorkerEvent(e *history.Event) {
	switch e.Kind {
	case history.WorkerRegistered:
		all := s.registered.Make(e.Worker)
		if n := len(*all); n > 0 { // it supersedes the incarnations before it
			if t := s.workers.Get((*all)[n-1]); t != nil && t.worker == e.Worker && !t.superseded {
				t.superseded, t.supersededA = true, e.At
			}
		}
		*all = append(*all, e.Incarnation)
		s.workers.Set(e.Incarnation, &session{
			worker: e.Worker, process: e.Process, lifecycle: execution.Starting, since: e.At, leaseEnds: e.Due, renewed: e.At, joined: e.At,
		})
	case history.WorkerLifecycle:
		if t := s.workers.Get(e.Incarnation); t != nil {
			if t.lifecycle < execution.Draining {
				t.leaving = e.At
			}
			t.lifecycle, t.since = e.Lifecycle, e.At
		}
	case history.HeartbeatRenewed:
		if t := s.workers.Get(e.Incarnation); t != nil {
			w := &s.config.Worker
			counted := (oracle.Lease(w) - w.FenceMargin) * (driftTolerance - 1) / driftTolerance
			t.late = t.late || e.At-t.renewed > counted-max(w.StatementTimeout, counted/3)
			t.leaseEnds, t.renewed = e.Due, e.At
			if s.called {
				t.beats = append(t.beats, storedBeat{number: uint64(e.Count), at: e.At}) //nolint:gosec // never negative
			}
		}
	default:
	}
}

// finalStatuses holds the final statuses of chains, one byte each, in pages. Handoff assigns chain numbers
// densely, but a large number in a file must not cost memory for all smaller numbers.
type finalStatuses map[execution.ID]*[endsPage]execution.Status

const endsPage = 256

func (e finalStatuses) setStatus(chain execution.ID, as execution.Status) {
	if chain < 0 {
		return
	}
	page := e[chain/endsPage]
	if page == nil {
		page = new([endsPage]execution.Status)
		e[chain/endsPage] = page
	}
	page[chain%endsPage] = as
}

// finalStatus returns the final status of a chain, None if its end was not handled.
func (e finalStatuses) finalStatus(chain execution.ID) execution.Status {
	if page := e[chain/endsPage]; page != nil && chain >= 0 {
		return page[chain%endsPage]
	}
	return execution.None
}

// actionIndex returns the index of an action's name in Suite.actions. A life stores that instead of the name.
func (s *Suite) actionIndex(ref string) uint16 {
	at, known := s.actionAt[ref]
	if !known {
		at = uint16(len(s.actions)) //nolint:gosec // readers of histories bound how many actions there are
		s.actions = append(s.actions, ref)
		s.actionAt[ref] = at
	}
	return at
}

// freeRetry reports whether a retry of this execution doesn't count against its maxRetries.
func (s *Suite) freeRetry(l *life) bool {
	return oracle.FreeRetry(l.status, l.reason, l.claimed, int(l.firstRetries), int(l.maxRetries), s.config.Retry.FreeShutdowns)
}
