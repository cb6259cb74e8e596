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

// maxExpired is the largest number of an incarnation's expiries that are kept.
const maxExpired = 100

// Workers implements store.Executor and store.Client.
func (c *Client) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	// The rows are copied into the caller's memory when the answer has arrived: a step that is applied
	// late must not write there.
	found, err := c.looks.askReusing(ctx, c, "Workers", false, nil, (*step).everyWorker)
	if err != nil {
		return nil, err
	}
	return append(into[:0], found...), nil
}

func (s *step) everyWorker(memory *[]store.WorkerRow) []store.WorkerRow {
	found := slices.Grow((*memory)[:0], len(s.db.workers))
	for i := range s.db.workers {
		if w := &s.db.workers[i]; w.name != "" && w.queuesDeletedAfter != w.current {
			found = append(found, store.WorkerRow{})
			s.workerRow(execution.WorkerID(i+1), &found[len(found)-1])
		}
	}
	*memory = found
	return found
}

// MarkQueuesDeleted implements store.Executor.
func (c *Client) MarkQueuesDeleted(ctx context.Context, ws []store.WorkerKey) ([]bool, error) {
	return callEach(ctx, c, "MarkQueuesDeleted", ws, func(s *step, w *store.WorkerKey) bool {
		inc := s.db.incarnation(w.Incarnation)
		if inc == nil || inc.worker != w.ID || s.db.workers[w.ID-1].current != w.Incarnation || !oracle.Gone(inc.lifecycle) || inc.load > 0 {
			return false
		}
		s.db.workers[w.ID-1].queuesDeletedAfter = w.Incarnation
		return true
	})
}

// FindWorkers implements store.Client.
func (c *Client) FindWorkers(ctx context.Context, q store.WorkerQuery) ([]store.WorkerRow, error) {
	return readStep(ctx, c, "FindWorkers", func(s *step) (found []store.WorkerRow) {
		for i := range s.db.workers {
			if s.db.workers[i].name == "" {
				continue // it was purged
			}
			var w store.WorkerRow
			if s.workerRow(execution.WorkerID(i+1), &w); q.Matches(&w) && len(found) < q.Limit {
				found = append(found, w)
			}
		}
		return found
	})
}

// workerRow fills a zero row in place, because rows are large.
func (s *step) workerRow(id execution.WorkerID, row *store.WorkerRow) {
	w := &s.db.workers[id-1]
	inc := s.db.incarnation(w.current)
	row.WorkerKey = store.WorkerKey{ID: id, Incarnation: w.current}
	row.Name, row.Lifecycle, row.Runtimes, row.Capacity = w.name, inc.lifecycle, inc.runtimes, inc.capacity
	row.ConsumerAlive, row.Beat, row.SinceBeat, row.LeaseOverFor = inc.consumerAlive, inc.beat, s.now.Sub(inc.beatAt), elapsedSince(s.now, inc.leaseExpires)
	row.Load, row.Queued, row.Cordoned, row.CordonReason, row.CordonChangedBy = inc.load, inc.queued, w.cordoned, w.cordonReason, w.cordonChangedBy
	row.Figures, row.HealthURL, row.Messages = inc.figures, inc.healthURL, inc.messages
	if inc.isFull() && inc.load > inc.queued {
		row.FullFor = s.now.Sub(inc.claimedAt)
	}
	if inc.beat > 0 {
		row.LastBeat = inc.beatAt
	}
	if !inc.reported.IsZero() && row.Figures.Consecutive+row.Figures.Failed > 0 {
		row.Figures.LastFailure += s.now.Sub(inc.reported)
	}
	for _, at := range slices.Backward(inc.expired) {
		row.Expired = append(row.Expired, s.now.Sub(at))
	}
}

// isFull reports whether all run slots of the incarnation are taken.
func (i *incarnation) isFull() bool { return i.load-i.queued >= i.capacity }

// waitsAtFullWorker reports whether a row waits at an active worker that is full, or was full at some time
// since the dispatch.
func (s *step) waitsAtFullWorker(r *row) bool {
	inc := s.currentIncarnation(store.WorkerKey{ID: r.Worker, Incarnation: r.Incarnation})
	return inc != nil && inc.lifecycle == execution.Active && (inc.isFull() || !inc.fullAt.IsZero() && !inc.fullAt.Before(r.ScheduledAt))
}

// SetCordon implements store.Client.
func (c *Client) SetCordon(ctx context.Context, cordon store.Cordon) (bool, error) {
	return runTransaction(ctx, c, "SetCordon", tripsOfSetCordon, func(s *step) bool { return s.setCordon(cordon) })
}

// Operate applies an operator's command to a worker, for the harness, which does not use the API.
func (da *Database) Operate(c store.Cordon) bool {
	return (&step{db: da, process: "operator", now: da.clockNow()}).setCordon(c)
}

// WorkerID returns the id of the worker with this name, or 0 if it has never registered.
func (da *Database) WorkerID(name string) execution.WorkerID { return da.byName[name] }

func (s *step) setCordon(cordon store.Cordon) bool {
	if s.refuseInvalidText(cordon.Reason, cordon.Actor) || s.db.WorkerName(cordon.Worker) == "" {
		return false
	}
	w := &s.db.workers[cordon.Worker-1]
	w.cordoned, w.cordonReason, w.cordonChangedBy = cordon.On, cordon.Reason, cordon.Actor
	if !cordon.On {
		w.cordonReason = ""
	}
	s.db.emit(&history.Event{Kind: history.WorkerCordoned, Process: s.process, Worker: cordon.Worker, Count: oneIf(cordon.On)})
	if cordon.Drain {
		s.db.incarnation(w.current).drain = true
	}
	return true
}

// storeFigures stores a worker's report of its runs.
func (s *step) storeFigures(inc *incarnation, b *store.Beat) {
	bad := b.Figures.Consecutive+b.Figures.Failed > 0
	changed := inc.figures.Consecutive != b.Figures.Consecutive || inc.figures.Failed != b.Figures.Failed || bad && inc.figures.Total != b.Figures.Total
	inc.figures, inc.reported = b.Figures, s.now
	if !changed {
		return
	}
	e := history.Event{
		Kind: history.HealthReported, Process: s.process, Worker: b.ID, Incarnation: b.Incarnation,
		Count: int64(b.Figures.Consecutive), Limit: int64(b.Figures.Failed), Message: uint64(b.Figures.Total),
	}
	if bad {
		e.Due = s.db.sinceStart(s.now.Add(-b.Figures.LastFailure))
	}
	s.db.emit(&e)
}

// noteExpiry records that a dispatch stayed unclaimed past its deadline at an incarnation that stayed active.
func (s *step) noteExpiry(i execution.Incarnation) {
	inc := s.db.incarnation(i)
	if inc == nil {
		return
	}
	// Copies of the database share the list, so it is never changed in place.
	latest := insertByTime(slices.Clone(inc.expired), s.now)
	inc.expired = latest[max(0, len(latest)-maxExpired):]
}

// insertByTime adds a time to a sorted list, behind all times that are not later. It is the last, unless the
// database's clock has been set back meanwhile.
func insertByTime(list []time.Time, at time.Time) []time.Time {
	i := len(list)
	for i > 0 && list[i-1].After(at) {
		i--
	}
	return slices.Insert(list, i, at)
}
