package simstore

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// step is one atomic step of a process, at one time of the database's clock.
type step struct {
	db      *Database
	process string
	now     time.Time
	// namedEpoch is the epoch that the writer's guard names, if hasNamedEpoch is true. writer is the
	// incarnation that writes, 0 for an executor or a client.
	namedEpoch    execution.Epoch
	hasNamedEpoch bool
	writer        execution.Incarnation
	// itemErrors are the errors of the call's invalid items.
	itemErrors []error
	// lockErrors are the errors of the call's items whose rows another session has locked.
	lockErrors []error
	// asked is the number of the call's items, if the call can wait for locks.
	asked int
	// refused is the reason why the step did nothing for its caller.
	refused error
	// gone is the incarnation for which the step was made, if that incarnation is over.
	gone store.WorkerKey
	// auditsOther reports whether the audit names a row other than the row that moves: auditedID, or none if
	// that is 0. Only planted mutants do so.
	auditsOther bool
	auditedID   execution.ID
}

// timeAfter returns the time d from now. An interval of the database has a resolution of microseconds.
func (s *step) timeAfter(d time.Duration) time.Time { return s.now.Add(d.Truncate(time.Microsecond)) }

// isOld reports whether at least age has passed since t.
func (s *step) isOld(t time.Time, age time.Duration) bool {
	return s.now.Sub(t) >= age.Truncate(time.Microsecond)
}

// noteNamedEpoch records the epoch that a guard names, for the audit.
func (s *step) noteNamedEpoch(key execution.Key) {
	s.namedEpoch, s.hasNamedEpoch = key.Epoch, true
}

// changeStatus changes a row's status and the fields that belong to it, updates the lists and loads, and
// writes the transition. owner is the incarnation that the audit trail names: that of the row
// before a take-back, else after.
func (s *step) changeStatus(r *row, to execution.Status, by execution.Part, reason execution.Reason, change func(*row)) {
	db := s.db
	from, oldEpoch := r.Status, r.Epoch
	oldWorker, oldIncarnation := r.Worker, r.Incarnation
	if inc := db.incarnation(r.Incarnation); inc != nil && (from == execution.Scheduled || oracle.Claimed(from)) {
		inc.load--
		if from == execution.Scheduled {
			inc.queued--
		}
	}
	db.unlinkRow(int32(r.ID - 1))
	if from == execution.Requested {
		db.requested--
	}
	r.Status = to
	if change != nil {
		change(r)
	}
	if oracle.Terminal(to) && r.Ended.IsZero() {
		r.Ended = s.now
	}
	if inc := db.incarnation(r.Incarnation); inc != nil && (to == execution.Scheduled || oracle.Claimed(to)) {
		inc.load++
		if to == execution.Scheduled {
			inc.queued++
		}
	}
	db.linkRow(listOf(to, !r.OrchestratedAt.IsZero()), int32(r.ID-1))
	if to == execution.Requested {
		db.requested++
		s.freeSlot(r)
		db.enqueueRow(r, s.now)
	}
	e := history.Event{
		Kind: history.Transition, Process: s.process, Execution: r.ID, Chain: r.Chain(), Epoch: r.Epoch, OldEpoch: oldEpoch,
		From: from, To: to, By: by, Reason: reason, Worker: r.Worker, Incarnation: r.Incarnation, Count: int64(r.Dispatches),
		Named: oldEpoch, Writer: s.writer, Due: db.sinceStart(dueOf(r)),
	}
	if s.hasNamedEpoch {
		e.Named = s.namedEpoch
	}
	if r.Incarnation == 0 {
		e.Worker, e.Incarnation = oldWorker, oldIncarnation
	}
	if to == execution.Failed {
		e.Text = r.Result.Error
		if r.Result.Message != "" {
			e.Text += ": " + r.Result.Message
		}
	}
	if s.auditsOther {
		neighbour := db.row(s.auditedID)
		if neighbour == nil {
			return
		}
		e.Execution, e.Chain = s.auditedID, neighbour.Chain()
	}
	db.emit(&e)
}

// dueOf returns the time for which the row waits in its status.
func dueOf(r *row) time.Time {
	switch r.Status {
	case execution.Requested:
		return r.NotBefore
	case execution.Scheduled:
		return r.DispatchDeadline
	case execution.Running, execution.Canceling:
		return r.RunDeadline
	}
	return time.Time{}
}

// emitStaleWrite writes the event that a guarded write matched no row.
func (s *step) emitStaleWrite(key execution.Key, to execution.Status, by execution.Part) {
	s.db.emit(&history.Event{Kind: history.StaleWrite, Process: s.process, Execution: key.ID, Epoch: key.Epoch, To: to, By: by})
}

// releaseRow clears what a dispatch has set: the next epoch begins without an owner.
func (s *step) releaseRow(r *row, delay time.Duration) {
	r.Epoch++
	if r.Worker != 0 {
		r.Avoid = r.Worker
	}
	r.Worker, r.Incarnation = 0, 0
	r.DispatchDeadline, r.ScheduledAt, r.PublishedAt = time.Time{}, time.Time{}, time.Time{}
	r.SchedulingAt, r.SchedulingBy, r.SchedulingExpiresAt = time.Time{}, "", time.Time{}
	r.NotBefore = time.Time{}
	if delay > 0 {
		r.NotBefore = s.timeAfter(delay)
	}
}

// setFailure writes the result of a failure.
func setFailure(r *row, reason execution.Reason, result execution.Result) {
	r.FailureReason = reason
	r.Result = result
}
