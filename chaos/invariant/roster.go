package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// roster holds every incarnation that may get work, according to the history.
type roster struct {
	s             *Suite
	byIncarnation dense.Table[execution.Incarnation, *candidate]
	// candidates holds the incarnations that may still get work, the oldest first.
	candidates []*candidate
	cordoned   map[execution.WorkerID]bool
	// departed holds, by runtime, when a former candidate could last be given work.
	departed map[string]time.Duration
}

func newRoster(s *Suite) roster {
	return roster{s: s, cordoned: make(map[execution.WorkerID]bool), departed: make(map[string]time.Duration)}
}

// observeWorkers applies an event about workers, except reports of their health, which the roster's owner
// handles.
func (r *roster) observeWorkers(e *history.Event) {
	switch e.Kind {
	case history.WorkerRegistered:
		r.addCandidate(e)
	case history.WorkerLifecycle:
		if w := r.byIncarnation.Get(e.Incarnation); w != nil {
			w.applyLifecycle(e, r.cordoned[e.Worker])
		}
	case history.HeartbeatRenewed:
		if w := r.byIncarnation.Get(e.Incarnation); w != nil {
			w.renewLease(e, r.s.databaseTime(e.At), r.cordoned[e.Worker])
		}
	case history.WorkerCordoned:
		r.cordoned[e.Worker] = e.Count == 1
		for _, w := range r.candidates {
			if w.worker == e.Worker {
				w.updatePeriods(e.At, e.Count == 1)
			}
		}
	default:
	}
}

func (r *roster) addCandidate(e *history.Event) {
	for _, w := range r.candidates {
		if w.worker == e.Worker && !w.left {
			w.endFitPeriod(e.At)
			w.left, w.fitSince, w.goodSince = true, never, never
		}
		if w.left && w.load == 0 {
			r.noteDeparture(w)
		}
	}
	r.candidates = slices.DeleteFunc(r.candidates, func(w *candidate) bool { return w.left && w.load == 0 })
	x := r.s.config.Executor
	w := &candidate{
		worker: e.Worker, incarnation: e.Incarnation, runtimes: strings.Fields(e.Text), capacity: int(e.Limit), leaseEnds: e.Due, leaseOver: e.At + e.Due - r.s.databaseTime(e.At),
		state: execution.Starting, fitSince: never, goodSince: never, wellSince: never, idleSince: never, roomSince: never, busySince: never, fitUntil: -1, wellUntil: -1,
		brief: 2*x.ReconcileInterval + x.StatementTimeout,
	}
	r.byIncarnation.Set(e.Incarnation, w)
	r.candidates = append(r.candidates, w)
}

// someWorkerFits reports whether some worker, full or not, has fitted an execution for longer than forAWhile.
// An executor that decided earlier could not know of a shorter period.
func (r *roster) someWorkerFits(l *life, at, forAWhile time.Duration) bool {
	now := r.s.databaseTime(at)
	return slices.ContainsFunc(r.candidates, func(w *candidate) bool {
		return (l.pinned == 0 || l.pinned == w.worker) && w.acceptsRuntime(l.runtime, now) && at-w.fitSince > forAWhile
	})
}

// noteDeparture records when a worker that is being removed could last be given work.
func (r *roster) noteDeparture(w *candidate) {
	for _, runtime := range w.runtimes {
		r.departed[runtime] = max(r.departed[runtime], w.fitUntil)
	}
}

// lastFit returns the end of the last period longer than brief in which some worker could be given an
// execution, negative if there was none.
func (r *roster) lastFit(l *life, at time.Duration) time.Duration {
	last := time.Duration(-1)
	if gone, known := r.departed[l.runtime]; known && l.pinned == 0 {
		last = gone
	}
	for _, w := range r.candidates {
		if slices.Contains(w.runtimes, l.runtime) && (l.pinned == 0 || l.pinned == w.worker) {
			last = max(last, w.lastFit(at))
		}
	}
	return last
}
