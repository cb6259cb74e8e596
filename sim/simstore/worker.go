package simstore

import (
	"context"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// check is the guard of everything that an incarnation does in its own name.
func (s *step) check(w store.WorkerKey) (*incarnation, error) {
	inc := s.db.incarnation(w.Incarnation)
	switch {
	case inc == nil || inc.worker != w.ID:
		return nil, store.ErrLost
	case s.db.workers[w.ID-1].current != w.Incarnation:
		if s.db.incarnation(s.db.workers[w.ID-1].current).process == inc.process {
			return nil, store.ErrLost
		}
		return nil, store.ErrSuperseded
	case inc.lifecycle.Gone():
		return nil, store.ErrLost
	}
	return inc, nil
}

func (s *step) lifecycle(i execution.Incarnation, to execution.Lifecycle) {
	inc := s.db.incarnation(i)
	inc.lifecycle = to
	s.db.emit(history.Event{Kind: history.WorkerLifecycle, Process: s.process, Worker: inc.worker, Incarnation: i, Lifecycle: to})
}

// answer makes a call whose step can refuse the incarnation.
func (c *Client) answer(ctx context.Context, f func(s *step) error) error {
	var refusal error
	err := c.call(ctx, func(s *step) { refusal = f(s) })
	if err != nil {
		return err
	}
	return refusal
}

// Register implements store.Worker.
func (c *Client) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	var registered store.Registered
	err := c.answer(ctx, func(s *step) error {
		db := s.db
		id, known := db.byName[g.Name]
		if !known {
			db.workers = append(db.workers, worker{name: g.Name})
			id = execution.WorkerID(len(db.workers))
			db.byName[g.Name] = id
		}
		w := &db.workers[id-1]
		old := db.incarnation(w.current)
		if old != nil && old.process == g.Process && old.attempt >= g.Attempt {
			return store.ErrLost
		}
		if old != nil && !old.lifecycle.Gone() {
			s.lifecycle(w.current, execution.Lost)
		}
		db.incarnations = append(db.incarnations, incarnation{
			worker: id, lifecycle: execution.Starting, runtimes: g.Runtimes, capacity: g.Capacity, leaseExpires: s.now.Add(g.Lease),
			process: g.Process, attempt: g.Attempt,
		})
		w.current = execution.Incarnation(len(db.incarnations))
		registered.WorkerKey = store.WorkerKey{ID: id, Incarnation: w.current}
		db.emit(history.Event{
			Kind: history.WorkerRegistered, Process: s.process, Worker: id, Incarnation: w.current, Due: db.sinceStart(s.now.Add(g.Lease)),
		})
		return nil
	})
	return registered, err
}

// SetLifecycle implements store.Worker.
func (c *Client) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	return c.answer(ctx, func(s *step) error {
		inc, err := s.check(w)
		if err != nil {
			if old := s.db.incarnation(w.Incarnation); old != nil && old.lifecycle == to {
				return nil
			}
			return err
		}
		if inc.lifecycle < to {
			s.lifecycle(w.Incarnation, to)
		}
		return nil
	})
}

// Heartbeat implements store.Worker.
func (c *Client) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	var reply store.BeatReply
	err := c.answer(ctx, func(s *step) error {
		inc, err := s.check(b.WorkerKey)
		if err != nil {
			return err
		}
		if b.Number > inc.beat {
			// A beat that comes late must not undo a newer one.
			inc.beat = b.Number
			inc.consumerAlive = b.ConsumerAlive
			inc.leaseExpires = s.now.Add(b.Lease)
			s.db.emit(history.Event{
				Kind: history.HeartbeatRenewed, Process: s.process, Worker: b.ID, Incarnation: b.Incarnation,
				Count: int64(b.Number), Due: s.db.sinceStart(inc.leaseExpires),
			})
		}
		for _, key := range b.Held {
			if r := s.db.row(key.ID); r != nil && (r.Epoch != key.Epoch || r.Incarnation != b.Incarnation || r.Status.Terminal()) {
				reply.Lost = append(reply.Lost, key)
			}
		}
		s.writer = b.Incarnation
		s.endUnheld(b)
		return nil
	})
	return reply, err
}

// endUnheld ends what the database believes this incarnation to run and it does not.
func (s *step) endUnheld(b store.Beat) {
	held := make(map[execution.Key]bool, len(b.Held))
	for _, key := range b.Held {
		held[key] = true
	}
	var missing []*row
	s.db.each(listRunning, func(r *row) bool {
		if r.Incarnation == b.Incarnation && r.ClaimBeat < b.Number && !held[r.Key()] {
			missing = append(missing, r)
		}
		return true
	})
	for _, r := range missing {
		s.move(r, execution.Failed, execution.Worker, execution.WorkerLost, func(r *row) {
			fail(r, execution.WorkerLost, execution.Result{Error: "Worker lost", Message: "its worker does not run it", FailedBy: execution.Worker})
		})
	}
}

// Claim implements store.Worker.
func (c *Client) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	var results []store.ClaimResult
	err := c.answer(ctx, func(s *step) error {
		inc, err := s.check(w)
		if err != nil {
			return err
		}
		if s.now.After(inc.leaseExpires) {
			return store.ErrLost
		}
		for _, claim := range cs {
			results = append(results, s.claim(w, claim))
		}
		return nil
	})
	return settled(results, err)
}

func (s *step) claim(w store.WorkerKey, claim store.Claim) store.ClaimResult {
	s.naming(claim.Key)
	s.writer = w.Incarnation
	r := s.db.row(claim.Key.ID)
	if r == nil || r.Status != execution.Scheduled || r.Epoch != claim.Key.Epoch || r.Incarnation != w.Incarnation {
		s.stale(claim.Key, execution.Running, execution.Worker)
		return store.ClaimResult{Outcome: refusal(r)}
	}
	if !s.now.Before(r.DispatchDeadline) {
		s.stale(claim.Key, execution.Running, execution.Worker)
		return store.ClaimResult{Outcome: refusal(r), DeadlinePassed: true}
	}
	s.run(r, claim.Beat)
	return store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: r.Execution}}
}

// run moves a scheduled row to running.
func (s *step) run(r *row, beat uint64) {
	s.move(r, execution.Running, execution.Worker, execution.NoReason, func(r *row) {
		r.StartedAt = s.now
		r.RunDeadline = s.now.Add(r.Action.RunTimeout())
		r.ClaimBeat = beat
	})
}

// Finish implements store.Worker.
func (c *Client) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	var outcomes []store.Outcome
	err := c.call(ctx, func(s *step) {
		for _, f := range fs {
			outcomes = append(outcomes, s.finish(w, f))
		}
	})
	return settled(outcomes, err)
}

func (s *step) finish(w store.WorkerKey, f store.Finish) store.Outcome {
	s.naming(f.Key)
	s.writer = w.Incarnation
	r := s.db.row(f.Key.ID)
	if r == nil || !r.Status.Claimed() || r.Epoch != f.Key.Epoch || r.Incarnation != w.Incarnation {
		s.stale(f.Key, f.To, execution.Worker)
		return refusal(r)
	}
	s.move(r, f.To, execution.Worker, f.Reason, func(r *row) {
		r.FailureReason = f.Reason
		r.Result = f.Result
	})
	return store.Outcome{Applied: true, Row: r.Execution}
}

// Release implements store.Worker.
func (c *Client) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	var released []execution.Key
	err := c.answer(ctx, func(s *step) error {
		inc, err := s.check(w)
		if err != nil {
			return err
		}
		if inc.lifecycle != execution.Draining {
			return nil
		}
		s.writer = w.Incarnation
		var rows []*row
		s.db.each(listScheduled, func(r *row) bool {
			if r.Incarnation == w.Incarnation {
				rows = append(rows, r)
			}
			return true
		})
		for _, r := range rows {
			s.move(r, execution.Requested, execution.Worker, execution.WorkerShutdown, func(r *row) { s.takeBack(r, 0) })
			released = append(released, r.Key())
		}
		return nil
	})
	return settled(released, err)
}

// KeepRefusedResult implements store.Worker.
func (c *Client) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	return c.call(ctx, func(s *step) {
		s.db.refused++
		s.db.emit(history.Event{
			Kind: history.RefusedResult, Process: s.process, Execution: f.Key.ID, Epoch: f.Key.Epoch,
			Worker: w.ID, Incarnation: w.Incarnation, To: f.To, Reason: f.Reason,
		})
	})
}
