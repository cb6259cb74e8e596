package simstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// newestInChain returns the newest row of the chain that begins with a row.
func (da *Database) newestInChain(chain execution.ID) *row {
	id := chain
	for n := 1; ; n++ {
		next, exists := da.retries[retryKey{chain, n}]
		if !exists {
			return da.row(id)
		}
		id = next
	}
}

// Cancel implements store.Client.
func (c *Client) Cancel(ctx context.Context, ids []execution.ID, actor string) ([]store.Cancellation, error) {
	c.reportIfEmpty("Cancel", len(ids))
	return runTransaction(ctx, c, "Cancel", tripsOfCancel*max(1, len(ids)), func(s *step) (answers []store.Cancellation) {
		for _, id := range ids {
			answers = append(answers, s.cancelChain(id, actor))
		}
		return answers
	})
}

func (s *step) cancelChain(id execution.ID, actor string) store.Cancellation {
	r := s.db.row(id)
	if r == nil {
		return store.Cancellation{}
	}
	first := s.db.row(r.Chain())
	r = s.db.newestInChain(first.ID)
	if s.refuseIfLocked(r.ID) {
		return store.Cancellation{}
	}
	from := r.Status
	if oracle.Terminal(from) && (!r.OrchestratedAt.IsZero() || !mayRetry(r)) {
		s.emitStaleWrite(r.Key(), execution.Cancelled, execution.API)
		return store.Cancellation{Outcome: refusedOutcome(r)}
	}
	s.requestCancel(first, r, actor)
	s.noteNamedEpoch(r.Key())
	switch from {
	case execution.Requested, execution.Scheduling, execution.Scheduled:
		s.changeStatus(r, execution.Cancelled, execution.API, execution.CancelRequested, func(r *row) {
			r.AwaitsParent = false
			setFailure(r, execution.CancelRequested, store.CancelledResult())
		})
	case execution.Running:
		s.changeStatus(r, execution.Canceling, execution.API, execution.CancelRequested, func(r *row) { r.CancelingAt = s.now })
	default:
	}
	return store.Cancellation{Outcome: appliedOutcome(from, r)}
}

// requestCancel records on the first row of a chain that the chain's cancellation was requested.
func (s *step) requestCancel(first, last *row, actor string) {
	if !first.CancelRequestedAt.IsZero() {
		return
	}
	first.CancelRequestedAt, first.CancelRequestedBy = s.now, actor
	s.db.emit(&history.Event{
		Kind: history.CancelRequested, Process: s.process, Execution: last.ID, Chain: first.ID, From: last.Status, Action: last.Action.Ref,
	})
}

// mayRetry reports whether a retry could follow a terminal row. The adapter of the real server asks the core
// in the same way.
func mayRetry(r *row) bool {
	ended := r.Status != execution.Completed && r.Status != execution.Cancelled
	return ended && r.FailureReason.Retriable() && (r.RetryCount < r.Action.MaxRetries || r.MayBeFree()) //nolint:forbidigo // as core/store/postgres/chain.go does
}

// adoptChild makes a new child wait for its parent's chain, or starts or skips it immediately if that chain
// has ended. It returns whether the child was skipped.
func (s *step) adoptChild(id, parent execution.ID) bool {
	last := s.db.newestInChain(parent)
	if last.OrchestratedAt.IsZero() {
		s.db.children[parent] = append(s.db.children[parent], id)
		s.db.row(parent).hasChildren = true
		return false
	}
	return !s.settleChild(s.db.row(id), parent, last.Status)
}

// settleChild starts a waiting child if its parent's chain has completed; otherwise it skips it. It
// returns whether the child was started.
func (s *step) settleChild(r *row, chain execution.ID, ended execution.Status) bool {
	if ended == execution.Completed {
		r.AwaitsParent = false
		s.db.emit(&history.Event{Kind: history.ChildStarted, Process: s.process, Execution: r.ID, Related: chain})
		s.db.enqueueRow(r, s.now)
		return true
	}
	s.noteNamedEpoch(r.Key())
	s.changeStatus(r, execution.Cancelled, execution.ExecutionManager, execution.ParentFailed, func(r *row) {
		r.AwaitsParent = false
		setFailure(r, execution.ParentFailed, store.SkippedResult())
	})
	return false
}

// SettleChildren implements store.Executor.
func (c *Client) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	return callEach(ctx, c, "SettleChildren", chains, func(s *step, chain *execution.ID) store.Settled {
		first := s.db.row(*chain)
		if first == nil || first.SettlingAt.IsZero() || most <= 0 {
			return store.Settled{}
		}
		settled := s.settleChildren(first.ID, s.db.newestInChain(first.ID).Status, most)
		s.markSettling(first, settled.More)
		return settled
	})
}

// settleChildren settles at most `most` of the children that wait for a chain.
func (s *step) settleChildren(chain execution.ID, ended execution.Status, most int) (settled store.Settled) {
	db := s.db
	waiting := db.children[chain]
	for len(waiting) > 0 {
		r := db.row(waiting[0])
		if r != nil && r.AwaitsParent && len(settled.Started)+len(settled.Skipped) == most {
			break
		}
		waiting = waiting[1:]
		switch {
		case r == nil || !r.AwaitsParent:
		case s.settleChild(r, chain, ended):
			settled.Started = append(settled.Started, r.ID)
		default:
			settled.Skipped = append(settled.Skipped, r.ID)
		}
	}
	settled.More = len(waiting) > 0
	if db.children[chain] = waiting; !settled.More {
		delete(db.children, chain)
	}
	return settled
}

// markSettling sets or clears the mark on the first row of a chain that says that the chain's children are to
// be settled. The list is ordered by the dates of the marks, like the index of the real database.
func (s *step) markSettling(first *row, settles bool) {
	db := s.db
	db.settling = slices.DeleteFunc(db.settling, func(id execution.ID) bool { return id == first.ID })
	if first.SettlingAt = (time.Time{}); !settles {
		return
	}
	first.SettlingAt = s.now
	at, _ := slices.BinarySearchFunc(db.settling, first, func(id execution.ID, f *row) int {
		r := db.row(id)
		return cmp.Or(r.SettlingAt.Compare(f.SettlingAt), cmp.Compare(r.ID, f.ID))
	})
	db.settling = slices.Insert(db.settling, at, first.ID)
}

// ForgetKeys implements store.Executor.
func (c *Client) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return writeStep(ctx, c, "ForgetKeys", func(s *step) (forgotten int) {
		for ; len(s.db.keyed) > 0 && forgotten < limit; forgotten++ {
			r := s.db.row(s.db.keyed[0])
			if !s.isOld(r.Created, age) {
				break
			}
			s.forgetKey(r)
		}
		return forgotten
	})
}

// rememberKey records that a new row has an idempotency key. It is the youngest of those that have one,
// unless the database's clock has been set back meanwhile.
func (da *Database) rememberKey(id execution.ID) {
	at, created := len(da.keyed), da.row(id).Created
	for at > 0 && da.row(da.keyed[at-1]).Created.After(created) {
		at--
	}
	da.keyed = slices.Insert(da.keyed, at, id)
}

// forgetKey frees a row's idempotency key.
func (s *step) forgetKey(r *row) {
	db := s.db
	delete(db.byKey, r.IdempotencyKey)
	r.IdempotencyKey = ""
	switch at := slices.Index(db.keyed, r.ID); {
	case at == 0:
		db.keyed = db.keyed[1:]
	case at > 0:
		db.keyed = slices.Delete(db.keyed, at, at+1)
	}
}

// List implements store.Client.
func (c *Client) List(ctx context.Context, q store.ExecutionQuery) ([]store.Listed, error) {
	return readStep(ctx, c, "List", func(s *step) (page []store.Listed) {
		if q.IDs != nil {
			wanted := slices.Clone(q.IDs)
			slices.Sort(wanted)
			for _, id := range slices.Backward(slices.Compact(wanted)) {
				if r := s.db.row(id); r != nil {
					page = append(page, s.listedOrUnreadable(listedByID(&r.Execution, q)))
				}
			}
			return page
		}
		for id := execution.ID(s.db.Rows()); id > 0 && len(page) < q.Limit; id-- {
			if r := s.db.row(id); r != nil && q.Matches(&r.Execution) {
				row := toListed(&r.Execution)
				if q.OnlyIDs {
					row = store.Listed{Execution: execution.Execution{ID: id}}
				} else {
					row = s.listedOrUnreadable(row)
				}
				page = append(page, row)
			}
		}
		return page
	})
}

// toListed returns a row in the form in which lists contain it.
func toListed(e *execution.Execution) store.Listed {
	small := *e
	small.Parameters, small.Result, small.Action.Entrypoint = nil, execution.Result{}, ""
	return store.Listed{Execution: small}
}

// listedOrUnreadable returns a row of a list, or its replacement if it can't be read.
func (s *step) listedOrUnreadable(row store.Listed) store.Listed {
	if err := s.db.unreadableError(row.ID); err != nil {
		return store.Listed{Execution: execution.Execution{ID: row.ID}, Unreadable: err.Error()}
	}
	return row
}

// listedByID returns a row in the form in which queries by id return it.
func listedByID(e *execution.Execution, q store.ExecutionQuery) store.Listed {
	row := toListed(e)
	if q.Digests {
		row.Size = len(e.Parameters)
		if e.Parameters != nil {
			row.Digest = sha256.Sum256(e.Parameters)
		}
	}
	if q.WithParameters {
		row.Parameters = e.Parameters
	}
	return row
}

// Chain implements store.Client.
func (c *Client) Chain(ctx context.Context, id execution.ID) ([]store.Listed, error) {
	return readStep(ctx, c, "Chain", func(s *step) (chain []store.Listed) {
		r := s.db.row(id)
		if r == nil {
			return nil
		}
		first := r.Chain()
		for r = s.db.row(first); r != nil && len(chain) < store.MaxChain; r = s.db.row(s.db.retries[retryKey{first, r.RetryCount + 1}]) {
			chain = append(chain, s.listedOrUnreadable(toListed(&r.Execution)))
		}
		return chain
	})
}
