package executor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// sampler sets the gauges whose values only the database and the broker know, as often as the alert rules
// expect. Every replica with a metrics listener does so; readers take the largest value. A gauge whose source
// fails twice in a row is dropped, because an old value would look healthy. telemetry.SampleAge is the age of
// each source's values.
type sampler struct {
	*Service
	database, broker figureSource
	// shown holds the workers whose own gauges this process has set.
	shown map[execution.WorkerID]bool
	// slots holds the actions whose gauges this process has set.
	slots map[string]bool
	// open is the number of open dead letters at the last pass.
	open int
	// held is the transaction that held back the stream of changes at the last pass, 0 for none. heldSince is
	// when this process first saw it do so.
	held      uint64
	heldSince time.Duration
}

// figureSource is a server from which gauges are read.
type figureSource struct {
	name   string
	gauges []telemetry.Figure
	// read is when it last answered, or when the sampler started; failed is the number of failed passes since
	// then.
	read   time.Duration
	failed int
}

// tolerated is the number of consecutive failed passes after which a source's gauges are still kept.
const tolerated = 1

func newSampler(s *Service) *sampler {
	now := s.host.Monotonic()
	return &sampler{
		Service: s, shown: make(map[execution.WorkerID]bool), slots: make(map[string]bool),
		database: figureSource{name: telemetry.SourceDatabase, read: now, gauges: []telemetry.Figure{
			telemetry.Executions, telemetry.OldestExecution, telemetry.OrchestrationLag, telemetry.Workers, telemetry.LeaseOverdue,
			telemetry.HeartbeatAge, telemetry.WorkerLoad, telemetry.WorkerLoadMean, telemetry.QueueDepth, telemetry.QueueDepthMean,
			telemetry.SlotsInUse, telemetry.DeadLettersOpen, telemetry.UnreadableRows, telemetry.StreamHeld,
			telemetry.UnclaimedAge, telemetry.UnfitAge,
		}},
		broker: figureSource{name: telemetry.SourceBroker, read: now, gauges: []telemetry.Figure{
			telemetry.BrokerBlocked, telemetry.DeadLetterQueueMessages, telemetry.DeadLetterQueueConsumers,
		}},
	}
}

// readSource reads a source, and sets the age of its values.
func (s *sampler) readSource(of *figureSource, read func() error) error {
	err := read()
	now := s.host.Monotonic()
	if err == nil {
		of.read, of.failed = now, 0
	} else if of.failed++; of.failed == tolerated+1 {
		for _, f := range of.gauges {
			s.recorder.Drop(f)
		}
		if of == &s.database {
			clear(s.shown)
			clear(s.slots)
			s.held = 0
		}
	}
	s.recorder.Set(telemetry.SampleAge, int64(now-of.read), telemetry.Labels{of.name})
	return err
}

func (s *sampler) run(ctx context.Context) {
	loop := s.newLoop("figures")
	s.meetBroker(ctx)
	for {
		if err := loop.Pass(func() error {
			return errors.Join(s.readSource(&s.database, s.sampleDatabase), s.readSource(&s.broker, s.sampleBroker))
		}); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "figures could not be read: they are shown for one more interval, then dropped until they can be", slog.Any("error", err))
		}
		loop.Interval(s.config.Executor.FiguresInterval)
		if s.host.Sleep(ctx, s.config.Executor.FiguresInterval) != nil {
			return
		}
	}
}

// meetBroker waits for the first session with the broker, for at most a statement timeout. Otherwise the
// first pass after every start would fail.
func (s *sampler) meetBroker(ctx context.Context) {
	within, cancel := s.host.WithTimeout(ctx, s.config.Executor.StatementTimeout)
	defer cancel()
	_, _ = s.client.Session(within)
}

// sampleBroker sets the broker's gauges: whether it blocks publishers, and the size of the dead letter queue.
// A missing queue counts as one without consumers. Without dead lettering, the queue does not exist.
func (s *sampler) sampleBroker() error {
	blocked, err := s.client.Blocked()
	if err != nil {
		return err
	}
	s.recorder.Set(telemetry.BrokerBlocked, flagValue(blocked), telemetry.Labels{})
	if !s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		return nil
	}
	ctx, cancel := s.host.WithTimeout(context.Background(), s.config.Executor.StatementTimeout)
	defer cancel()
	state, err := s.client.QueueState(ctx, broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange))
	if err != nil {
		return err
	}
	s.recorder.Set(telemetry.DeadLetterQueueMessages, int64(state.Ready), telemetry.Labels{})
	s.recorder.Set(telemetry.DeadLetterQueueConsumers, int64(state.Consumers), telemetry.Labels{})
	return nil
}

// flagValue returns 1 if a condition holds, else 0.
func flagValue(holds bool) int64 {
	if holds {
		return 1
	}
	return 0
}

func (s *sampler) sampleDatabase() error {
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
	s.recorder.Set(telemetry.UnclaimedAge, int64(survey.Unclaimed), telemetry.Labels{})
	s.recorder.Set(telemetry.UnfitAge, int64(survey.Unfit), telemetry.Labels{})
	if survey.DeadLettersOpen > s.open {
		// Unreadable messages that workers have stored are a reason to test the path.
		s.path.requestTest()
	}
	s.open = survey.DeadLettersOpen
	s.reportUnreadable(&survey, workers)
	s.countSlots(survey.Slots)
	s.measureStream(survey.Held)
	s.countWorkers(workers)
	s.measureWorkers(workers)
	return nil
}

// countSlots sets the gauges of the actions that have limits, and drops those of the others.
func (s *sampler) countSlots(slots []store.SlotsInUse) {
	for ref := range s.slots { //detlint:ok each is set to the same value
		s.slots[ref] = false
	}
	for _, in := range slots {
		s.slots[in.ActionRef] = true
		s.recorder.Set(telemetry.SlotsInUse, int64(in.Count), telemetry.Labels{in.ActionRef})
	}
	for _, ref := range slices.Sorted(maps.Keys(s.slots)) {
		if !s.slots[ref] {
			delete(s.slots, ref)
			s.recorder.Drop(telemetry.SlotsInUse, telemetry.Labels{ref})
		}
	}
}

// measureStream sets the gauge for how long one transaction has held back the stream of changes.
func (s *sampler) measureStream(held uint64) {
	if held == 0 || held != s.held {
		s.held, s.heldSince = held, s.host.Monotonic()
	}
	s.recorder.Set(telemetry.StreamHeld, int64(s.host.Monotonic()-s.heldSince), telemetry.Labels{})
}

// The conditions of a worker in telemetry.Workers.
const (
	live = iota
	stale
	deaf
	conditions
)

// workerCondition returns a worker's condition and health. A stale or deaf worker counts as unhealthy,
// because it can't run anything.
func (s *sampler) workerCondition(w *store.WorkerRow) (condition int, health execution.Health) {
	switch {
	case !w.LeaseValid():
		return stale, execution.Unhealthy
	case !w.ConsumerAlive:
		return deaf, execution.Unhealthy
	}
	return live, assessWorker(w, &s.config, s.probes.isAvoided(w.Incarnation)).health
}

// countWorkers sets the number of workers in each state, including states without workers.
func (s *sampler) countWorkers(workers []store.WorkerRow) {
	var counts [execution.Lost + 1][conditions][execution.Unhealthy + 1]int64
	for i := range workers {
		condition, health := s.workerCondition(&workers[i])
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

// measureWorkers sets the gauges for the leases, heartbeats and queues of the workers that are not gone.
func (s *sampler) measureWorkers(workers []store.WorkerRow) {
	var overdue time.Duration
	var beat [execution.Lost + 1]time.Duration
	alive, load, queued := 0, 0, 0
	for i := range workers {
		w := &workers[i]
		if w.Lifecycle.Gone() {
			if s.shown[w.ID] {
				s.dropWorkerGauges(w.ID)
			}
			continue
		}
		overdue = max(overdue, w.LeaseOverFor)
		beat[w.Lifecycle] = max(beat[w.Lifecycle], w.SinceBeat)
		alive++
		load, queued = load+w.Load, queued+w.Queued
		s.shown[w.ID] = true
		s.setWorkerGauges(w.ID, w.Load, w.Queued)
	}
	s.recorder.Set(telemetry.LeaseOverdue, int64(overdue), telemetry.Labels{})
	for lifecycle := execution.Starting; !lifecycle.Gone(); lifecycle++ {
		s.recorder.Set(telemetry.HeartbeatAge, int64(beat[lifecycle]), telemetry.Labels{lifecycle.String()})
	}
	s.recorder.Set(telemetry.WorkerLoadMean, int64(load/max(1, alive)), telemetry.Labels{})
	s.recorder.Set(telemetry.QueueDepthMean, int64(queued/max(1, alive)), telemetry.Labels{})
}

func (s *sampler) setWorkerGauges(w execution.WorkerID, load, queued int) {
	l := telemetry.Labels{strconv.FormatInt(int64(w), 10)}
	s.recorder.Set(telemetry.WorkerLoad, int64(load), l)
	s.recorder.Set(telemetry.QueueDepth, int64(queued), l)
}

// dropWorkerGauges drops the gauges of a worker that is gone.
func (s *sampler) dropWorkerGauges(w execution.WorkerID) {
	delete(s.shown, w)
	l := telemetry.Labels{strconv.FormatInt(int64(w), 10)}
	s.recorder.Drop(telemetry.WorkerLoad, l)
	s.recorder.Drop(telemetry.QueueDepth, l)
}
