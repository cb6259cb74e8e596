package simstore

import (
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// ClaimForScheduling implements store.Executor.
func (c *Client) ClaimForScheduling(ctx context.Context, claim store.SchedulingClaim) ([]execution.Execution, error) {
	return writeStep(ctx, c, "ClaimForScheduling", func(s *step) []execution.Execution {
		if s.refuseInvalidText(claim.Executor) {
			return nil
		}
		return s.claimOthers(s.claimNamed(&claim), &claim)
	})
}

// claimNamed claims rows of the named lanes, oldest due first. It does not look at lanes with a
// limit of 0.
func (s *step) claimNamed(claim *store.SchedulingClaim) (claimed []execution.Execution) {
	c := &s.db.claiming
	c.mergeDemands(claim)
	c.found = c.found[:0]
	for i := range c.wants {
		w := &c.wants[i]
		if q := s.db.requests[w.lane]; q != nil && w.limit > 0 {
			c.takeDueRows(s.db, q, w.limit, s.now, w)
		}
	}
	c.sortOldestFirst(0)
	kept := c.found[:0]
	for _, x := range c.found {
		if c.reserveRoom(&x) {
			kept = append(kept, x)
		} else {
			x.putBack()
		}
	}
	claimed = slices.Grow(claimed, len(kept))
	for i := range kept {
		claimed = s.claimRow(claimed, &kept[i], claim)
	}
	return claimed
}

// claimOthers claims rows of lanes that are not named.
func (s *step) claimOthers(claimed []execution.Execution, claim *store.SchedulingClaim) []execution.Execution {
	c := &s.db.claiming
	c.found = c.found[:0]
	for _, q := range s.db.lanes {
		from := len(c.found)
		left := claim.Others - from
		if left <= 0 {
			break
		}
		if c.named[q.lane] != 0 {
			continue
		}
		c.takeDueRows(s.db, q, left, s.now, nil)
		c.sortOldestFirst(from)
		for len(c.found) > claim.Others {
			c.found[len(c.found)-1].putBack()
			c.found = c.found[:len(c.found)-1]
		}
	}
	claimed = slices.Grow(claimed, len(c.found))
	for i := range c.found {
		if x := &c.found[i]; x.reserveSlot() {
			claimed = s.claimRow(claimed, x, claim)
		} else {
			x.putBack()
		}
	}
	return claimed
}

func (s *step) claimRow(claimed []execution.Execution, x *candidate, claim *store.SchedulingClaim) []execution.Execution {
	r := s.db.row(x.id)
	if r.Action.Concurrency > 0 {
		s.takeSlot(r)
	}
	s.changeStatus(r, execution.Scheduling, execution.Scheduler, execution.NoReason, func(r *row) {
		r.SchedulingAt = s.now
		r.SchedulingBy = claim.Executor
		r.SchedulingExpiresAt = s.timeAfter(claim.Expiry)
	})
	return append(claimed, r.Execution)
}

// holdsClaim reports whether an executor still has its claim on a row; it guards every write to a claimed
// row.
func (s *step) holdsClaim(r *row, key execution.Key, executor string) bool {
	return r != nil && r.Status == execution.Scheduling && r.Epoch == key.Epoch && r.SchedulingBy == executor
}

// refusedOutcome returns the outcome of a refused write: the row as it is.
func refusedOutcome(r *row) store.Outcome {
	if r == nil {
		return store.Outcome{}
	}
	return store.Outcome{From: r.Status, Row: r.Execution}
}

// appliedOutcome returns the outcome of a write that took effect.
func appliedOutcome(from execution.Status, r *row) store.Outcome {
	return store.Outcome{Applied: true, From: from, Row: r.Execution}
}

// Dispatch implements store.Executor.
func (c *Client) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	return callEach(ctx, c, "Dispatch", ds, func(s *step, d *store.Dispatch) store.DispatchResult { return s.dispatchRow(executor, d) })
}

func (s *step) dispatchRow(executor string, d *store.Dispatch) store.DispatchResult {
	s.noteNamedEpoch(d.Key)
	r := s.db.row(d.Key.ID)
	if !s.holdsClaim(r, d.Key, executor) {
		s.emitStaleWrite(d.Key, execution.Scheduled, execution.Scheduler)
		return store.DispatchResult{Outcome: refusedOutcome(r)}
	}
	inc := s.currentIncarnation(d.Worker)
	if inc == nil || !s.canTakeWork(inc) || d.Limit > 0 && inc.load >= d.Limit {
		return store.DispatchResult{Outcome: refusedOutcome(r), WorkerUnfit: true}
	}
	s.changeStatus(r, execution.Scheduled, execution.Scheduler, execution.NoReason, func(r *row) {
		r.Epoch++
		r.Worker, r.Incarnation = d.Worker.ID, d.Worker.Incarnation
		r.ScheduledAt = s.now
		r.DispatchDeadline = s.timeAfter(d.Timeout)
		r.UnschedulableSince = time.Time{}
	})
	return store.DispatchResult{Outcome: appliedOutcome(execution.Scheduling, r)}
}

// canTakeWork reports whether an incarnation may get work.
func (s *step) canTakeWork(inc *incarnation) bool {
	return inc.lifecycle == execution.Active && !s.now.After(inc.leaseExpires) && inc.consumerAlive && !s.db.workers[inc.worker-1].cordoned
}

// currentIncarnation returns the incarnation if it is its worker's newest, and otherwise nil.
func (s *step) currentIncarnation(w store.WorkerKey) *incarnation {
	inc := s.db.incarnation(w.Incarnation)
	if inc == nil || inc.worker != w.ID || s.db.workers[w.ID-1].current != w.Incarnation {
		return nil
	}
	return inc
}

// MarkPublished implements store.Executor.
//
// A step is one moment, so no row is ever locked by another step: only those that another session has locked
// are left over.
func (c *Client) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	c.reportIfEmpty("MarkPublished", len(keys))
	return writeStep(ctx, c, "MarkPublished", func(s *step) (left []execution.Key) {
		for _, key := range keys {
			if r := s.db.row(key.ID); r != nil && r.Status == execution.Scheduled && r.Epoch == key.Epoch {
				if r.PublishedAt.IsZero() && s.isLocked(key.ID) {
					left = append(left, key)
					continue
				}
				s.markPublished(r)
			}
		}
		return left
	})
}

// markPublished records that a row's dispatch has reached the broker, unless that is already known.
func (s *step) markPublished(r *row) {
	if r.PublishedAt.IsZero() {
		r.PublishedAt = s.now
		s.db.emit(&history.Event{Kind: history.PublishedMarked, Process: s.process, Execution: r.ID, Epoch: r.Epoch})
	}
}

// Park implements store.Executor.
func (c *Client) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	return callEach(ctx, c, "Park", ps, func(s *step, p *store.Park) store.Outcome { return s.parkRow(executor, p) })
}

func (s *step) parkRow(executor string, p *store.Park) store.Outcome {
	s.noteNamedEpoch(p.Key)
	if s.refuseInvalidText(string(p.Result.Output)) {
		return store.Outcome{}
	}
	r := s.db.row(p.Key.ID)
	if !s.holdsClaim(r, p.Key, executor) {
		s.emitStaleWrite(p.Key, execution.Requested, execution.Scheduler)
		return refusedOutcome(r)
	}
	since := r.UnschedulableSince
	switch {
	case !p.Unschedulable:
		since = time.Time{}
	case since.IsZero():
		since = s.now
	default:
		later := func(ago time.Duration) {
			if known := s.timeAfter(-ago); known.After(since) {
				since = known
			}
		}
		if p.Patience > 0 && r.SchedulingAt.Sub(r.due) > p.Patience {
			later(p.Watched)
		}
		if p.Seen > 0 {
			later(p.Seen)
		}
	}
	if p.Unschedulable && s.isOld(since, p.Grace) {
		if s.refuseInvalidJSON(p.Result.Output) {
			return store.Outcome{}
		}
		s.changeStatus(r, execution.Failed, execution.Scheduler, execution.NoWorkers, func(r *row) {
			setFailure(r, execution.NoWorkers, p.Result)
			r.UnschedulableSince = since
		})
	} else {
		s.changeStatus(r, execution.Requested, execution.Scheduler, execution.NoReason, func(r *row) {
			s.releaseRow(r, p.Delay)
			r.UnschedulableSince = since
		})
	}
	return appliedOutcome(execution.Scheduling, r)
}
