package executor

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// sampler sets the gauges that only the database and the broker know, as often as the alert rules
// expect. Every replica with a metrics listener does so; readers take the largest value. While the
// database or the broker can't be asked, its gauges keep their last values, but the dead letter
// queue counts as without consumers (sampleQueue). Those of the other are set.
type sampler struct {
	*Service
	// shown are the workers whose own gauges this process has set; when a worker is gone, its
	// gauges are reset.
	shown map[execution.WorkerID]bool
	// open is how many dead letters were still open at the last pass.
	open int
}

func newSampler(s *Service) *sampler {
	return &sampler{Service: s, shown: make(map[execution.WorkerID]bool)}
}

func (s *sampler) run(ctx context.Context) {
	loop := s.loop("figures")
	s.meetBroker(ctx)
	for {
		if err := loop.Pass(func() error { return errors.Join(s.sample(), s.sampleQueue()) }); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "figures could not be read: they keep their last values, but the dead letter queue counts as without consumers if the broker could not be asked", slog.Any("error", err))
		}
		loop.Interval(s.config.Executor.FiguresInterval)
		if s.host.Sleep(ctx, s.config.Executor.FiguresInterval) != nil {
			return
		}
	}
}

// meetBroker waits for the first session of the broker, for at most a statement timeout: otherwise
// the first pass after every start would count as failed.
func (s *sampler) meetBroker(ctx context.Context) {
	within, cancel := s.host.WithTimeout(ctx, s.config.Executor.StatementTimeout)
	defer cancel()
	_, _ = s.client.Session(within)
}

// sampleQueue sets the broker's figures of the dead letter queue. A missing queue counts as one
// without consumers. An executor that can't ask reports no consumer: it does not consume either,
// and alerts take the largest number of all executors. If it kept the last number, a queue would
// look attended while the broker is away or refuses the question. Without dead lettering there is
// no queue and no figure.
func (s *sampler) sampleQueue() error {
	if !s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		return nil
	}
	ctx, cancel := s.host.WithTimeout(context.Background(), s.config.Executor.StatementTimeout)
	defer cancel()
	state, err := s.client.QueueState(ctx, broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange))
	if err != nil {
		s.recorder.Set(telemetry.DeadLetterQueueConsumers, 0, telemetry.Labels{})
		return err
	}
	s.recorder.Set(telemetry.DeadLetterQueueMessages, int64(state.Ready), telemetry.Labels{})
	s.recorder.Set(telemetry.DeadLetterQueueConsumers, int64(state.Consumers), telemetry.Labels{})
	return nil
}

func (s *sampler) sample() error {
	var survey store.Survey
	var workers []store.WorkerRow
	if err := s.db(func(ctx context.Context) (err error) {
		if survey, err = s.store.Survey(ctx); err != nil {
			return err
		}
		workers, err = s.store.Workers(ctx, nil)
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
	if survey.DeadLettersOpen > s.open {
		// Unreadable messages that workers have stored are a reason to test the path.
		s.path.suspect()
	}
	s.open = survey.DeadLettersOpen
	s.tellUnreadable(&survey, workers)
	for _, in := range survey.Slots {
		s.recorder.Set(telemetry.SlotsInUse, int64(in.Count), telemetry.Labels{in.ActionRef})
	}
	s.countWorkers(workers)
	s.measureWorkers(workers)
	return nil
}

// conditions of a worker in telemetry.Workers.
const (
	live = iota
	stale
	deaf
	conditions
)

// condition returns a worker's condition and health. A stale or deaf worker counts as unhealthy,
// because it is no more use than one that fails.
func (s *sampler) condition(w *store.WorkerRow) (condition int, health execution.Health) {
	switch {
	case !w.LeaseValid():
		return stale, execution.Unhealthy
	case !w.ConsumerAlive:
		return deaf, execution.Unhealthy
	}
	return live, judge(w, &s.config, s.probes.avoided(w.Incarnation)).health
}

// countWorkers sets how many workers are in each state, including states without workers.
func (s *sampler) countWorkers(workers []store.WorkerRow) {
	var counts [execution.Lost + 1][conditions][execution.Unhealthy + 1]int64
	for i := range workers {
		condition, health := s.condition(&workers[i])
		counts[workers[i].Lifecycle][condition][health]++
	}
	for lifecycle := execution.Starting; lifecycle <= execution.Lost; lifecycle++ {
		for condition, name := range [conditions]string{"live", "stale", "deaf"} {
			for health := execution.Healthy; health <= execution.Unhealthy; health++ {
				s.recorder.Set(telemetry.Workers, counts[lifecycle][condition][health], telemetry.Labels{lifecycle.String(), name, health.String()})
			}
		}
	}
}

// measureWorkers sets the figures of the leases, heartbeats and queues of the workers that are not
// gone.
func (s *sampler) measureWorkers(workers []store.WorkerRow) {
	var overdue time.Duration
	var beat [execution.Lost + 1]time.Duration
	alive, load, queued := 0, 0, 0
	for i := range workers {
		w := &workers[i]
		if w.Lifecycle.Gone() {
			if s.shown[w.ID] {
				delete(s.shown, w.ID)
				s.show(w.ID, 0, 0)
			}
			continue
		}
		overdue = max(overdue, w.LeaseOverFor)
		beat[w.Lifecycle] = max(beat[w.Lifecycle], w.SinceBeat)
		alive++
		load, queued = load+w.Load, queued+w.Queued
		s.shown[w.ID] = true
		s.show(w.ID, w.Load, w.Queued)
	}
	s.recorder.Set(telemetry.LeaseOverdue, int64(overdue), telemetry.Labels{})
	for lifecycle := execution.Starting; !lifecycle.Gone(); lifecycle++ {
		s.recorder.Set(telemetry.HeartbeatAge, int64(beat[lifecycle]), telemetry.Labels{lifecycle.String()})
	}
	s.recorder.Set(telemetry.WorkerLoadMean, int64(load/max(1, alive)), telemetry.Labels{})
	s.recorder.Set(telemetry.QueueDepthMean, int64(queued/max(1, alive)), telemetry.Labels{})
}

func (s *sampler) show(w execution.WorkerID, load, queued int) {
	l := telemetry.Labels{strconv.FormatInt(int64(w), 10)}
	s.recorder.Set(telemetry.WorkerLoad, int64(load), l)
	s.recorder.Set(telemetry.QueueDepth, int64(queued), l)
}
