package executor

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// workerNeed is what an execution requires of its worker.
type workerNeed struct {
	runtime string
	pinned  execution.WorkerID
}

// givenWarnings records the scheduler's warnings, so that each outage is logged once and not in every pass.
// Only the scheduling task uses it. It has at most one entry for each worker and each need.
type givenWarnings struct {
	// stale is the last heartbeat of each worker that a warning named.
	stale map[execution.WorkerID]lastBeat
	// absent is the time since which no worker has fitted each need that a warning named.
	absent map[workerNeed]time.Duration
}

// lastBeat identifies an outage of a worker by the last heartbeat before it.
type lastBeat struct {
	incarnation execution.Incarnation
	beat        uint64
}

func newGivenWarnings() givenWarnings {
	return givenWarnings{stale: make(map[execution.WorkerID]lastBeat), absent: make(map[workerNeed]time.Duration)}
}

// warnOfStale logs each worker that would get work if its lease were valid, once for each outage.
func (s *scheduler) warnOfStale(workers []store.WorkerRow) {
	for i := range workers {
		w := &workers[i]
		if w.Lifecycle != execution.Active || w.LeaseValid() {
			continue
		}
		last := lastBeat{w.Incarnation, w.Beat}
		if s.warned.stale[w.ID] == last {
			continue
		}
		s.warned.stale[w.ID] = last
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "worker with a stale heartbeat is passed over",
			slog.Int64("worker", int64(w.ID)), slog.String("name", w.Name), slog.Int64("incarnation", int64(w.Incarnation)),
			slog.Duration("since_heartbeat", w.SinceBeat))
	}
}

// warnOfAbsence logs that no worker fits a row, once for all rows with the same need and for each absence.
func (s *scheduler) warnOfAbsence(row *execution.Execution, since time.Duration, why string) {
	n := workerNeed{row.Action.Runtime, row.Pinned}
	if told, known := s.warned.absent[n]; known && told == since {
		return
	}
	s.warned.absent[n] = since
	message := textNoWorkers
	if strings.HasPrefix(why, textNoFreshHeartbeats) {
		message = textNoFreshHeartbeats
	}
	s.log.LogAttrs(context.Background(), slog.LevelWarn, message, slog.Int64("execution", int64(row.ID)),
		slog.String("runtime", n.runtime), slog.Int64("pinned", int64(n.pinned)), slog.String("why", why))
}
