package simstore

import (
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// tripsOfPurge is the number of round trips of a purge of executions, which examines them under its locks.
const tripsOfPurge = 4

// Purge implements store.Executor. The model has no audit, so it purges no transitions.
func (c *Client) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	trips := 1
	if p.What == store.KeptExecutions {
		trips = tripsOfPurge
	}
	return runTransaction(ctx, c, "Purge", trips, func(s *step) (done store.Purged) {
		if p.Limit <= 0 {
			return done
		}
		switch p.What {
		case store.KeptExecutions:
			return s.purgeExecutions(&p)
		case store.KeptRefusedResults:
			return s.purgeRefusals(&p)
		case store.KeptExpiries:
			return s.purgeExpiries(&p)
		case store.KeptIncarnations:
			return s.purgeIncarnations(&p)
		case store.KeptWorkers:
			return s.purgeWorkers(&p)
		default:
			return done
		}
	})
}

// purgeExecutions examines a page of rows, and removes the chains that begin in it.
func (s *step) purgeExecutions(p *store.Purge) (done store.Purged) {
	db := s.db
	looked, old := 0, false
	var over []*row
	for id := execution.ID(p.After) + 1; int(id) <= db.rows.n && looked < p.Limit; id++ {
		r := db.row(id)
		if r == nil {
			continue
		}
		if looked == 0 && s.isOld(r.Created, store.VisibleAfter) {
			done.First = int64(id)
		}
		looked++
		done.Next = int64(id)
		old = old || s.isOld(r.Created, p.Age)
		if r.Original == 0 && r.SettlingAt.IsZero() && s.mayLeave(r, p.Age) {
			over = append(over, r)
		}
	}
	if done.More = old && looked == p.Limit; !done.More {
		done.Next = 0
	}
	var taken execution.ID
	for n, first := range over {
		rows := s.db.chainRows(first.ID)
		if n > 0 && done.Removed+len(rows) > p.Limit {
			done.Next, done.More = int64(taken), true
			break
		}
		taken = first.ID
		if p.DryRun {
			done.Removed += len(rows)
			continue
		}
		done.Removed += s.removeChain(first.ID, p.Age)
	}
	return done
}

// chainRows returns the rows of a chain, in its order.
func (da *Database) chainRows(first execution.ID) (rows []*row) {
	for r := da.row(first); r != nil; r = da.row(da.retries[retryKey{first, r.RetryCount + 1}]) {
		rows = append(rows, r)
	}
	return rows
}

// isChainOver reports whether all rows of a chain ended at least age ago, their ends are handled, and no
// idempotency key leads to any of them.
func (s *step) isChainOver(first execution.ID, age time.Duration) bool {
	return !slices.ContainsFunc(s.db.chainRows(first), func(r *row) bool {
		return !oracle.Terminal(r.Status) || r.OrchestratedAt.IsZero() || !s.isOld(r.Ended, age) || r.IdempotencyKey != ""
	})
}

// mayLeave reports whether a chain is no longer needed.
func (s *step) mayLeave(first *row, age time.Duration) bool {
	return s.isChainOver(first.ID, age) && s.db.progeny[first.ID] == 0 && (first.Parent == 0 || s.isChainOver(first.Parent, age))
}

// removeChain deletes a chain that has ended, even if it is still needed.
func (s *step) removeChain(first execution.ID, age time.Duration) (removed int) {
	db := s.db
	rows := db.chainRows(first)
	if slices.ContainsFunc(rows, func(r *row) bool { return !oracle.Terminal(r.Status) }) {
		return 0
	}
	for _, r := range rows {
		if r.IdempotencyKey != "" {
			s.forgetKey(r)
		}
		s.freeSlot(r)
		db.unlinkRow(int32(r.ID - 1))
		if r.Parent != 0 {
			if db.progeny[r.Parent]--; db.progeny[r.Parent] == 0 {
				delete(db.progeny, r.Parent)
			}
		}
		delete(db.retries, retryKey{first, r.RetryCount})
		delete(db.foreign, r.ID)
		db.left = append(db.left, r.Execution)
		*r = row{}
	}
	delete(db.children, first)
	db.settling = slices.DeleteFunc(db.settling, func(id execution.ID) bool { return id == first })
	db.emit(&history.Event{Kind: history.Purged, Process: s.process, Execution: first, Count: int64(len(rows)), Due: age})
	return len(rows)
}

func (s *step) purgeRefusals(p *store.Purge) (done store.Purged) {
	for done.Removed < min(p.Limit, len(s.db.refusals)) && s.isOld(s.db.refusals[done.Removed], p.Age) {
		done.Removed++
	}
	if !p.DryRun {
		s.db.refusals = s.db.refusals[done.Removed:]
	}
	done.More = done.Removed == p.Limit
	return done
}

func (s *step) purgeExpiries(p *store.Purge) (done store.Purged) {
	if p.DryRun {
		for i := range s.db.incarnations {
			for _, at := range s.db.incarnations[i].expired {
				if s.isOld(at, p.Age) {
					done.Removed = min(done.Removed+1, p.Limit)
				}
			}
		}
		done.More = done.Removed == p.Limit
		return done
	}
	for done.Removed < p.Limit {
		var oldest *incarnation
		for i := range s.db.incarnations {
			inc := &s.db.incarnations[i]
			if len(inc.expired) > 0 && s.isOld(inc.expired[0], p.Age) && (oldest == nil || inc.expired[0].Before(oldest.expired[0])) {
				oldest = inc
			}
		}
		if oldest == nil {
			return done
		}
		oldest.expired = oldest.expired[1:]
		done.Removed++
	}
	done.More = true
	return done
}

func (s *step) purgeIncarnations(p *store.Purge) (done store.Purged) {
	looked := 0
	for i := execution.Incarnation(p.After) + 1; int(i) <= len(s.db.incarnations) && looked < p.Limit; i++ {
		inc := s.db.incarnation(i)
		if inc == nil {
			continue
		}
		looked++
		done.Next = int64(i)
		if s.db.workers[inc.worker-1].current != i && s.isUnused(inc, p.Age) {
			done.Removed++
			if !p.DryRun {
				s.removeIncarnation(i, 0, p.Age)
			}
		}
	}
	if done.More = looked == p.Limit; !done.More {
		done.Next = 0
	}
	return done
}

// isUnused reports whether an incarnation is gone, its lease ended at least age ago, and it holds nothing.
func (s *step) isUnused(inc *incarnation, age time.Duration) bool {
	return inc != nil && oracle.Gone(inc.lifecycle) && s.isOld(inc.leaseExpires, age) && inc.load == 0
}

func (s *step) removeIncarnation(i execution.Incarnation, latest int64, age time.Duration) {
	inc := s.db.incarnation(i)
	s.db.emit(&history.Event{
		Kind: history.WorkerPurged, Process: s.process, Worker: inc.worker, Incarnation: i, Count: latest, Due: age,
	})
	*inc = incarnation{lifecycle: execution.Lost}
}

func (s *step) purgeWorkers(p *store.Purge) (done store.Purged) {
	db := s.db
	looked := 0
	for id := execution.WorkerID(p.After) + 1; int(id) <= len(db.workers) && looked < p.Limit; id++ {
		w := &db.workers[id-1]
		if w.name == "" {
			continue
		}
		looked++
		done.Next = int64(id)
		if w.cordoned || w.queuesDeletedAfter != w.current || s.incarnationCount(id) > 1 || !s.isUnused(db.incarnation(w.current), p.Age) || s.pinnedTo(id) {
			continue
		}
		done.Removed++
		if p.DryRun {
			continue
		}
		s.removeIncarnation(w.current, 1, p.Age)
		delete(db.byName, w.name)
		*w = worker{}
	}
	if done.More = looked == p.Limit; !done.More {
		done.Next = 0
	}
	return done
}

// incarnationCount returns the number of a worker's remaining incarnations.
func (s *step) incarnationCount(id execution.WorkerID) (n int) {
	for i := range s.db.incarnations {
		if s.db.incarnations[i].worker == id {
			n++
		}
	}
	return n
}

// pinnedTo reports whether an execution that has not ended may only run at this worker.
func (s *step) pinnedTo(id execution.WorkerID) bool {
	for i := range s.db.rows.n {
		if r := s.db.rows.rowAt(int32(i)); r.Pinned == id && r.Status != execution.None && !oracle.Terminal(r.Status) {
			return true
		}
	}
	return false
}
