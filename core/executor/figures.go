package executor

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// sampleFigures sets the gauges that only the database knows, as often as the alert rules expect. Every
// replica on which somebody listens does; whoever reads them takes the largest.
func (s *Service) sampleFigures(ctx context.Context) {
	for {
		if err := s.sample(); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "figures could not be read, the last ones stand", slog.Any("error", err))
		}
		if s.host.Sleep(ctx, s.config.Executor.FiguresInterval) != nil {
			return
		}
	}
}

func (s *Service) sample() error {
	var survey store.Survey
	var workers []store.WorkerRow
	if err := s.db(func(ctx context.Context) (err error) {
		if survey, err = s.store.Survey(ctx); err != nil {
			return err
		}
		workers, err = s.store.Workers(ctx)
		return err
	}); err != nil {
		return err
	}
	var by [execution.Statuses]store.Waiting
	for _, w := range survey.Waiting {
		by[w.Status] = w
	}
	for status := execution.Requested; !status.Terminal(); status++ {
		l := telemetry.Labels{status.String()}
		s.recorder.Set(telemetry.Executions, int64(by[status].Count), l)
		s.recorder.Set(telemetry.OldestExecution, int64(by[status].Oldest), l)
	}
	s.recorder.Set(telemetry.OrchestrationLag, int64(survey.OrchestrationLag), telemetry.Labels{})
	s.recorder.Set(telemetry.DeadLettersOpen, int64(survey.DeadLettersOpen), telemetry.Labels{})
	s.sampleWorkers(workers)
	return nil
}

// conditions of a worker in telemetry.Workers.
const (
	live = iota
	stale
	deaf
	conditions
)

func (s *Service) sampleWorkers(workers []store.WorkerRow) {
	var counts [execution.Lost + 1][conditions]int64
	var overdue time.Duration
	alive, load := 0, 0
	for i := range workers {
		w := &workers[i]
		condition := live
		switch {
		case !w.LeaseValid():
			condition = stale
		case !w.ConsumerAlive:
			condition = deaf
		}
		counts[w.Lifecycle][condition]++
		if w.Lifecycle.Gone() {
			continue
		}
		overdue = max(overdue, w.LeaseOverFor)
		alive++
		load += w.Load
		s.recorder.Set(telemetry.WorkerLoad, int64(w.Load), telemetry.Labels{strconv.FormatInt(int64(w.ID), 10)})
	}
	for lifecycle := execution.Starting; lifecycle <= execution.Lost; lifecycle++ {
		for condition, name := range [conditions]string{"live", "stale", "deaf"} {
			s.recorder.Set(telemetry.Workers, counts[lifecycle][condition], telemetry.Labels{lifecycle.String(), name})
		}
	}
	s.recorder.Set(telemetry.LeaseOverdue, int64(overdue), telemetry.Labels{})
	s.recorder.Set(telemetry.WorkerLoadMean, int64(load/max(1, alive)), telemetry.Labels{})
}
