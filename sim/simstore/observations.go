package simstore

import (
	"context"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// ObserveReclaims implements store.Executor.
func (c *Client) ObserveReclaims(ctx context.Context, rs []store.Reclaim) ([]store.Observed, error) {
	return callEach(ctx, c, "ObserveReclaims", rs, func(s *step, rc *store.Reclaim) store.Observed {
		if s.refuseInvalidText(string(rc.Result.Output)) {
			return store.Observed{}
		}
		r := s.db.row(rc.Key.ID)
		to, reason, _, lawful := s.judgeReclaim(r, rc)
		if !lawful || to == execution.None || slices.ContainsFunc(s.db.observations, func(o store.Observation) bool {
			return o.Key == rc.Key && o.Part == rc.By.String()
		}) {
			return store.Observed{}
		}
		s.addObservation(store.Observation{
			Part: rc.By.String(), Key: rc.Key, Worker: store.WorkerKey{ID: r.Worker, Incarnation: r.Incarnation}, Would: to.String(), Reason: reason.String(),
		})
		s.db.emit(&history.Event{
			Kind: history.Observed, Process: s.process, Execution: r.ID, Epoch: r.Epoch, To: to, By: rc.By, Reason: reason,
			Worker: r.Worker, Incarnation: r.Incarnation,
		})
		return store.Observed{New: true, Would: to}
	})
}

func (s *step) addObservation(o store.Observation) {
	s.db.observed++
	o.ID, o.At = s.db.observed, s.now
	s.db.observations = append(s.db.observations, o)
}

// ObserveWorkers implements store.Executor.
func (c *Client) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	return callEach(ctx, c, "ObserveWorkers", ws, func(s *step, w *store.ProbedWorker) bool {
		if s.refuseInvalidText(w.Reason) {
			return false
		}
		lasting := slices.IndexFunc(s.db.observations, func(o store.Observation) bool {
			return o.Key.ID == 0 && o.Worker.Incarnation == w.Incarnation && o.EndedAt.IsZero()
		})
		began := int64(0)
		switch inc := s.currentIncarnation(w.WorkerKey); {
		case w.Ready && lasting >= 0:
			s.db.observations[lasting].EndedAt = s.now
		case !w.Ready && lasting < 0 && inc != nil && inc.lifecycle == execution.Active:
			s.addObservation(store.Observation{Part: store.PartProber, Worker: w.WorkerKey, Would: store.WouldAvoid, Reason: w.Reason})
			began = 1
		default:
			return false
		}
		s.db.emit(&history.Event{Kind: history.Observed, Process: s.process, Worker: w.ID, Incarnation: w.Incarnation, Count: began})
		return true
	})
}

// PurgeObservations implements store.Executor.
func (c *Client) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	return writeStep(ctx, c, "PurgeObservations", func(s *step) (purged int) {
		for purged < limit && purged < len(s.db.observations) && s.isOld(s.db.observations[purged].At, age) {
			purged++
		}
		s.db.observations = slices.Delete(s.db.observations, 0, purged)
		return purged
	})
}

// Observations implements store.Client.
func (c *Client) Observations(ctx context.Context, q store.ObservationQuery) ([]store.Observation, error) {
	return readStep(ctx, c, "Observations", func(s *step) (page []store.Observation) {
		for _, o := range slices.Backward(s.db.observations) {
			if len(page) < q.Limit && q.Matches(&o) {
				page = append(page, o)
			}
		}
		return page
	})
}
