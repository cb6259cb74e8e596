package simstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
)

// checkIncarnation refuses a worker's step unless its incarnation is the worker's current one and is not
// gone.
func (s *step) checkIncarnation(w store.WorkerKey) (*incarnation, error) {
	inc, err := s.lawfulIncarnation(w)
	if err != nil {
		s.gone = w
	}
	return inc, err
}

func (s *step) lawfulIncarnation(w store.WorkerKey) (*incarnation, error) {
	inc := s.db.incarnation(w.Incarnation)
	switch {
	case inc == nil || inc.worker != w.ID:
		return nil, store.ErrLost
	case s.db.workers[w.ID-1].current != w.Incarnation:
		if s.db.incarnation(s.db.workers[w.ID-1].current).process == inc.process {
			return nil, store.ErrLost
		}
		return nil, store.ErrSuperseded
	case oracle.Gone(inc.lifecycle):
		return nil, store.ErrLost
	}
	return inc, nil
}

func (s *step) setLifecycle(i execution.Incarnation, to execution.Lifecycle) {
	inc := s.db.incarnation(i)
	inc.lifecycle = to
	s.db.emit(&history.Event{Kind: history.WorkerLifecycle, Process: s.process, Worker: inc.worker, Incarnation: i, Lifecycle: to})
}

// callAsWorker makes a call whose step can refuse the incarnation.
func callAsWorker[T any](ctx context.Context, c *Client, call string, f func(s *step) (T, error)) (T, error) {
	return transactAsWorker(ctx, c, call, 1, f)
}

// transactAsWorker is like callAsWorker, in a transaction of several statements; see runTransaction.
func transactAsWorker[T any](ctx context.Context, c *Client, call string, statements int, f func(s *step) (T, error)) (T, error) {
	return runTransaction(ctx, c, call, statements, withRefusal(f))
}

// callHeartbeat is like callAsWorker, for a heartbeat.
func callHeartbeat[T any](ctx context.Context, c *Client, call string, f func(s *step) (T, error)) (T, error) {
	q := newStatement(c, call, true, 0, withRefusal(f))
	q.on, q.beat = c.beats, true
	return q.makeCall(ctx)
}

// withRefusal wraps a step that can refuse the incarnation.
func withRefusal[T any](f func(s *step) (T, error)) func(s *step) T {
	return func(s *step) (result T) {
		result, s.refused = f(s)
		return result
	}
}

// The numbers of round trips of the transactions, including begin and commit. A heartbeat is one: its
// statements are sent together.
const (
	tripsOfRegister     = 6
	tripsOfSetLifecycle = 5
	tripsOfRelease      = 5
	tripsOfCancel       = 6 // of each chain
	tripsOfSetCordon    = 3
	tripsOfChildren     = 6
)

// Newest implements store.Worker.
func (c *Client) Newest(ctx context.Context, name string) (execution.Incarnation, error) {
	return readStep(ctx, c, "Newest", func(s *step) execution.Incarnation {
		if id := s.db.byName[name]; id != 0 {
			return s.db.workers[id-1].current
		}
		return 0
	})
}

// Register implements store.Worker.
func (c *Client) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	return transactAsWorker(ctx, c, "Register", tripsOfRegister, func(s *step) (store.Registered, error) {
		db := s.db
		if s.refuseInvalidText(append([]string{g.Name}, g.Runtimes...)...) {
			return store.Registered{}, nil
		}
		id, known := db.byName[g.Name]
		if g.Capacity < 0 && (!known || !db.isLateRegistration(id, g)) {
			s.addInvalid("worker %s has a capacity of %d", g.Name, g.Capacity)
			return store.Registered{}, nil
		}
		if !known {
			db.workers = append(db.workers, worker{name: g.Name})
			id = execution.WorkerID(len(db.workers))
			db.byName[g.Name] = id
		}
		if db.isLateRegistration(id, g) {
			return store.Registered{}, store.ErrLost
		}
		w := &db.workers[id-1]
		old := db.incarnation(w.current)
		if old != nil && !oracle.Gone(old.lifecycle) {
			s.setLifecycle(w.current, execution.Lost)
		}
		db.incarnations = append(db.incarnations, incarnation{
			worker: id, lifecycle: execution.Starting, runtimes: g.Runtimes, capacity: g.Capacity, leaseExpires: s.timeAfter(g.Lease),
			beatAt: s.now, process: g.Process, attempt: g.Attempt, healthURL: g.HealthURL,
			drain: db.isAskedToDrain(id, g.Process),
		})
		w.current = execution.Incarnation(len(db.incarnations))
		db.emit(&history.Event{
			Kind: history.WorkerRegistered, Process: s.process, Worker: id, Incarnation: w.current, Due: db.sinceStart(s.timeAfter(g.Lease)),
			Limit: int64(g.Capacity), Text: strings.Join(g.Runtimes, " "),
		})
		return store.Registered{WorkerKey: store.WorkerKey{ID: id, Incarnation: w.current}}, nil
	})
}

// isLateRegistration reports whether the newest registration is a later attempt of the same process, or is of
// another process and unknown to this one.
func (da *Database) isLateRegistration(id execution.WorkerID, g store.Registration) bool {
	current := da.workers[id-1].current
	newest := da.incarnation(current)
	switch {
	case newest == nil:
		return false
	case newest.process == g.Process:
		return newest.attempt >= g.Attempt
	}
	return current != g.After
}

// isAskedToDrain reports whether an operator has asked a process to drain, in any of its incarnations.
func (da *Database) isAskedToDrain(id execution.WorkerID, process uint64) bool {
	return slices.ContainsFunc(da.incarnations, func(i incarnation) bool { return i.worker == id && i.process == process && i.drain })
}

// SetLifecycle implements store.Worker.
func (c *Client) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	_, err := transactAsWorker(ctx, c, "SetLifecycle", tripsOfSetLifecycle, func(s *step) (none struct{}, err error) {
		inc, err := s.checkIncarnation(w)
		if err != nil {
			if old := s.db.incarnation(w.Incarnation); old != nil && old.worker == w.ID && old.lifecycle == to {
				return none, nil
			}
			return none, err
		}
		if inc.lifecycle < to {
			s.setLifecycle(w.Incarnation, to)
		}
		return none, nil
	})
	return err
}

// Heartbeat implements store.Worker.
func (c *Client) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	return callHeartbeat(ctx, c, "Heartbeat", func(s *step) (reply store.BeatReply, err error) {
		inc, err := s.checkIncarnation(b.WorkerKey)
		if err == nil && inc.beat < b.Acknowledged {
			s.gone, err = b.WorkerKey, store.ErrLost
		}
		if err != nil {
			return reply, err
		}
		if b.Number > inc.beat {
			// A late heartbeat must not undo a newer one.
			inc.beat, inc.beatAt = b.Number, s.now
			inc.consumerAlive, inc.messages = b.ConsumerAlive, b.Messages
			inc.leaseExpires = s.timeAfter(b.Lease)
			inc.fullAt = time.Time{}
			if b.WasFull {
				inc.fullAt = s.timeAfter(-b.FullAgo)
			}
			s.db.emit(&history.Event{
				Kind: history.HeartbeatRenewed, Process: s.process, Worker: b.ID, Incarnation: b.Incarnation,
				Count: int64(b.Number), Due: s.db.sinceStart(inc.leaseExpires), Limit: oneIf(b.ConsumerAlive),
			})
			s.storeFigures(inc, &b)
		}
		reply.Drain = inc.drain && inc.lifecycle < execution.Draining
		reply.Starting = inc.lifecycle == execution.Starting
		for _, key := range b.Held {
			if r := s.db.row(key.ID); r != nil && (r.Epoch != key.Epoch || r.Incarnation != b.Incarnation || oracle.Terminal(r.Status)) {
				reply.Lost = append(reply.Lost, key)
			} else if r != nil && r.Status == execution.Canceling {
				reply.Cancel = append(reply.Cancel, key)
			}
		}
		s.writer = b.Incarnation
		reply.Ended, reply.Incomplete = s.endUnheld(b)
		return reply, nil
	})
}

func oneIf(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// endUnheld ends the executions that the incarnation runs according to the database but does not hold.
func (s *step) endUnheld(b store.Beat) (ended []store.Outcome, locked error) {
	held := make(map[execution.Key]bool, len(b.Held))
	for _, key := range b.Held {
		held[key] = true
	}
	var missing []*row
	s.db.forEachRow(listRunning, func(r *row) bool {
		if r.Incarnation == b.Incarnation && r.ClaimBeat < b.Number && !held[r.Key()] {
			missing = append(missing, r)
		}
		return true
	})
	if slices.ContainsFunc(missing, func(r *row) bool { return s.isLocked(r.ID) }) {
		// A single statement ends all of them.
		return nil, fmt.Errorf("%w: canceling statement due to lock timeout (55P03)", store.ErrUnavailable)
	}
	for _, r := range missing {
		from, to, reason := r.Status, execution.Failed, execution.WorkerLost
		if r.Status == execution.Canceling {
			to, reason = execution.Cancelled, execution.CancelRequested
		}
		s.changeStatus(r, to, execution.Worker, reason, func(r *row) {
			setFailure(r, reason, execution.Result{Error: "Worker lost", Message: "its worker does not run it", FailedBy: execution.Worker})
		})
		ended = append(ended, appliedOutcome(from, r))
	}
	slices.SortFunc(ended, func(a, b store.Outcome) int { return cmp.Compare(a.Row.ID, b.Row.ID) })
	return ended, nil
}

// Claim implements store.Worker.
func (c *Client) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	c.reportIfEmpty("Claim", len(cs))
	return orOneByOne(cs, func(cs []store.Claim) ([]store.ClaimResult, error) {
		return callAsWorker(ctx, c, "Claim", func(s *step) (results []store.ClaimResult, err error) {
			inc, err := s.checkIncarnation(w)
			if err != nil {
				return nil, err
			}
			if s.now.After(inc.leaseExpires) {
				return nil, store.ErrLeaseOver
			}
			s.asked = len(cs)
			results = make([]store.ClaimResult, 0, len(cs))
			for _, claim := range cs {
				results = append(results, s.claimForWorker(w, claim))
			}
			return results, nil
		})
	})
}

func (s *step) claimForWorker(w store.WorkerKey, claim store.Claim) store.ClaimResult {
	s.noteNamedEpoch(claim.Key)
	s.writer = w.Incarnation
	if s.refuseIfLocked(claim.Key.ID) {
		return store.ClaimResult{}
	}
	r := s.db.row(claim.Key.ID)
	if r == nil || r.Status != execution.Scheduled || r.Epoch != claim.Key.Epoch || r.Incarnation != w.Incarnation {
		s.emitStaleWrite(claim.Key, execution.Running, execution.Worker)
		return store.ClaimResult{Outcome: refusedOutcome(r)}
	}
	if !s.now.Before(r.DispatchDeadline) {
		s.emitStaleWrite(claim.Key, execution.Running, execution.Worker)
		return store.ClaimResult{Outcome: refusedOutcome(r), DeadlinePassed: true}
	}
	s.startRun(r, claim.Beat)
	return store.ClaimResult{Outcome: appliedOutcome(execution.Scheduled, r)}
}

// startRun moves a scheduled row to running. The worker that claims it has received its dispatch.
func (s *step) startRun(r *row, beat uint64) {
	s.markPublished(r)
	s.changeStatus(r, execution.Running, execution.Worker, execution.NoReason, func(r *row) {
		r.StartedAt = s.now
		r.RunDeadline = s.timeAfter(oracle.RunTimeout(&r.Action))
		r.ClaimBeat = beat
	})
	s.db.incarnation(r.Incarnation).claimedAt = s.now
}

// Finish implements store.Worker.
func (c *Client) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	return callEach(ctx, c, "Finish", fs, func(s *step, f *store.Finish) store.Outcome { return s.finishRun(w, f) })
}

func (s *step) finishRun(w store.WorkerKey, f *store.Finish) store.Outcome {
	s.noteNamedEpoch(f.Key)
	s.writer = w.Incarnation
	if s.refuseIfLocked(f.Key.ID) || s.refuseInvalidText(string(f.Result.Output)) {
		return store.Outcome{}
	}
	r := s.db.row(f.Key.ID)
	if r == nil || !oracle.Claimed(r.Status) || r.Epoch != f.Key.Epoch || r.Incarnation != w.Incarnation || f.To == execution.Cancelled && r.Status != execution.Canceling {
		s.emitStaleWrite(f.Key, f.To, execution.Worker)
		return refusedOutcome(r)
	}
	if s.refuseUnlawful(r, f.To, execution.Worker) || s.refuseInvalidJSON(f.Result.Output) {
		return store.Outcome{}
	}
	from := r.Status
	s.changeStatus(r, f.To, execution.Worker, f.Reason, func(r *row) {
		r.FailureReason = f.Reason
		r.Result = f.Result
	})
	if f.To == execution.Completed && r.Original == 0 && r.Action.Concurrency == 0 && !r.hasChildren {
		s.handleTerminal(r, nil)
	}
	return appliedOutcome(from, r)
}

// Release implements store.Worker.
func (c *Client) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	return transactAsWorker(ctx, c, "Release", tripsOfRelease, func(s *step) (released []execution.Key, err error) {
		inc, err := s.checkIncarnation(w)
		if err != nil || inc.lifecycle != execution.Draining {
			return nil, err
		}
		s.writer = w.Incarnation
		var rows []*row
		s.db.forEachRow(listScheduled, func(r *row) bool {
			if r.Incarnation == w.Incarnation && !s.isLocked(r.ID) {
				rows = append(rows, r)
			}
			return true
		})
		for _, r := range rows {
			s.changeStatus(r, execution.Requested, execution.Worker, execution.WorkerShutdown, func(r *row) { s.releaseRow(r, 0) })
			released = append(released, r.Key())
		}
		return released, nil
	})
}

// Dispatched implements store.Worker.
func (c *Client) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	return readStep(ctx, c, "Dispatched", func(s *step) (found []execution.Execution) {
		s.db.forEachRow(listScheduled, func(r *row) bool {
			if r.Incarnation == w.Incarnation && s.now.Before(r.DispatchDeadline) && len(found) < limit {
				found = append(found, r.Execution)
			}
			return len(found) < limit
		})
		return found
	})
}

// KeepRefusedResult implements store.Worker.
func (c *Client) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	return c.runStep(ctx, "KeepRefusedResult", func(s *step) {
		if f.To == execution.None {
			s.addInvalid("the refused result of execution %d has no status", f.Key.ID)
		}
		if f.To == execution.None || s.refuseInvalidText(string(f.Result.Output)) || s.refuseInvalidJSON(f.Result.Output) {
			return
		}
		s.db.refusals = insertByTime(s.db.refusals, s.now)
		s.db.emit(&history.Event{
			Kind: history.RefusedResult, Process: s.process, Execution: f.Key.ID, Epoch: f.Key.Epoch,
			Worker: w.ID, Incarnation: w.Incarnation, To: f.To, Reason: f.Reason,
		})
	})
}
