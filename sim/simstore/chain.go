package simstore

import (
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// last is the newest row of a chain, named by its first row.
func (db *Database) last(chain execution.ID) *row {
	id := chain
	for n := 1; ; n++ {
		next, exists := db.retries[retryKey{chain, n}]
		if !exists {
			return db.row(id)
		}
		id = next
	}
}

// Cancel implements store.Client.
func (c *Client) Cancel(ctx context.Context, ids []execution.ID) ([]store.Cancellation, error) {
	return ask(ctx, c, func(s *step) (answers []store.Cancellation) {
		for _, id := range ids {
			answers = append(answers, s.cancel(id))
		}
		return answers
	})
}

func (s *step) cancel(id execution.ID) store.Cancellation {
	r := s.db.row(id)
	if r == nil {
		return store.Cancellation{}
	}
	first := s.db.row(r.Chain())
	r = s.db.last(first.ID)
	from := r.Status
	if from.Terminal() && (!r.OrchestratedAt.IsZero() || !mayRetry(r)) {
		s.stale(r.Key(), execution.Cancelled, execution.API)
		return store.Cancellation{Outcome: refusal(r)}
	}
	s.requestCancel(first, r)
	s.naming(r.Key())
	switch from {
	case execution.Requested, execution.Scheduling, execution.Scheduled:
		s.move(r, execution.Cancelled, execution.API, execution.CancelRequested, func(r *row) {
			r.AwaitsParent = false
			fail(r, execution.CancelRequested, store.CancelledResult())
		})
	case execution.Running:
		s.move(r, execution.Canceling, execution.API, execution.CancelRequested, func(r *row) { r.CancelingAt = s.now })
	default:
	}
	return store.Cancellation{Outcome: applied(from, r)}
}

// requestCancel notes on the first row of a chain that its end was asked for.
func (s *step) requestCancel(first, last *row) {
	if !first.CancelRequestedAt.IsZero() {
		return
	}
	first.CancelRequestedAt = s.now
	s.db.emit(history.Event{
		Kind: history.CancelRequested, Process: s.process, Execution: last.ID, Chain: first.ID, From: last.Status, Action: last.Action.Ref,
	})
}

// mayRetry says that a terminal row could be followed by a retry.
func mayRetry(r *row) bool {
	return r.Status != execution.Completed && r.Status != execution.Cancelled && r.FailureReason.Retriable() && r.RetryCount < r.Action.MaxRetries
}

// adopt files a new child with its parent's chain, or decides at once when that has ended. It says whether the child
// was skipped.
func (s *step) adopt(id, parent execution.ID) bool {
	db := s.db
	db.children[parent] = append(db.children[parent], id)
	if last := db.last(parent); !last.OrchestratedAt.IsZero() {
		_, skipped := s.settleChildren(parent, last.Status)
		return slices.Contains(skipped, id)
	}
	return false
}

// settleChildren starts the children that wait for a chain that has completed, and skips those of one
// that has ended otherwise.
func (s *step) settleChildren(chain execution.ID, ended execution.Status) (started, skipped []execution.ID) {
	db := s.db
	for _, id := range db.children[chain] {
		r := db.row(id)
		if !r.AwaitsParent {
			continue
		}
		if ended == execution.Completed {
			r.AwaitsParent = false
			started = append(started, id)
			db.emit(history.Event{Kind: history.ChildStarted, Process: s.process, Execution: id, Related: chain})
			db.request(r, s.now)
			continue
		}
		skipped = append(skipped, id)
		s.naming(r.Key())
		s.move(r, execution.Cancelled, execution.ExecutionManager, execution.ParentFailed, func(r *row) {
			r.AwaitsParent = false
			fail(r, execution.ParentFailed, store.SkippedResult())
		})
	}
	delete(db.children, chain)
	return started, skipped
}

// ForgetKeys implements store.Executor.
func (c *Client) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return ask(ctx, c, func(s *step) (forgotten int) {
		for ; len(s.db.keyed) > 0 && forgotten < limit; forgotten++ {
			r := s.db.row(s.db.keyed[0])
			if !s.old(r.Created, age) {
				break
			}
			delete(s.db.byKey, r.IdempotencyKey)
			r.IdempotencyKey = ""
			s.db.keyed = s.db.keyed[1:]
		}
		return forgotten
	})
}

// List implements store.Client.
func (c *Client) List(ctx context.Context, q store.ExecutionQuery) ([]execution.Execution, error) {
	return look(ctx, c, func(s *step) (page []execution.Execution) {
		for id := execution.ID(s.db.Rows()); id > 0 && len(page) < q.Limit; id-- {
			if r := s.db.row(id); q.Matches(&r.Execution) {
				page = append(page, r.Execution)
			}
		}
		return page
	})
}

// Chain implements store.Client.
func (c *Client) Chain(ctx context.Context, id execution.ID) ([]execution.Execution, error) {
	return look(ctx, c, func(s *step) (chain []execution.Execution) {
		r := s.db.row(id)
		if r == nil {
			return nil
		}
		first := r.Chain()
		for r = s.db.row(first); r != nil; r = s.db.row(s.db.retries[retryKey{first, r.RetryCount + 1}]) {
			chain = append(chain, r.Execution)
		}
		return chain
	})
}
