package executor

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"handoff/core/store"
	"handoff/core/telemetry"
)

// unreadableRows records the rows that this program can't read, as the sampler last found them. Every part
// skips them: they wait for a program that can read them, and do not affect others.
type unreadableRows struct {
	mu                  sync.Mutex
	executions, workers int
	// example describes one of the rows, with the reason.
	example string
}

// Unreadable describes the rows that this program can't read; empty if there are none.
func (s *Service) Unreadable() string {
	u := &s.unreadable
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.executions+u.workers == 0 {
		return ""
	}
	return fmt.Sprintf("%d executions and %d workers are left alone because this executor can't read them, such as: %s. "+
		"A newer program wrote them, or somebody edited them by hand: start a newer executor, or correct the rows", u.executions, u.workers, u.example)
}

// reportUnreadable counts, logs and records the rows that this program can't read.
func (s *Service) reportUnreadable(survey *store.Survey, workers []store.WorkerRow) {
	ctx, example, count := context.Background(), "", 0
	for i := range workers {
		w := &workers[i]
		if w.Unreadable == "" {
			continue
		}
		if count++; count <= store.MostUnreadable {
			example = fmt.Sprintf("worker %d: %s", w.ID, w.Unreadable)
			s.limited.LogAttrs(ctx, slog.LevelWarn, "a worker can't be read and gets no work", slog.Int64("worker", int64(w.ID)), slog.String("name", w.Name),
				slog.String("why", w.Unreadable))
		}
	}
	for _, row := range survey.Unreadable {
		example = row.Why
		s.limited.LogAttrs(ctx, slog.LevelWarn, "an execution can't be read and is left alone", slog.Int64("execution", int64(row.ID)), slog.String("why", row.Why))
	}
	s.recorder.Set(telemetry.UnreadableRows, int64(survey.UnreadableCount), telemetry.Labels{"execution"})
	s.recorder.Set(telemetry.UnreadableRows, int64(count), telemetry.Labels{"worker"})
	u := &s.unreadable
	u.mu.Lock()
	defer u.mu.Unlock()
	u.executions, u.workers, u.example = survey.UnreadableCount, count, example
}
