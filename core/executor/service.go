// Package executor finds workers for executions, hands them off, reclaims them when their worker is gone, and
// handles their ends.
//
// Every part is safe on every replica: it proposes a guarded step, and the database accepts one of several
// proposals. No part depends on a message: hints make it fast, and polling makes it correct.
//
// An unknown outcome is treated like a crash at that point: a reconciler loop finds every possible leftover
// by its status and age. So an executor may die anywhere, although some parts have memory. Some of this
// memory only saves work or log lines: if the marker loses confirmed dispatches, they are published once
// more. The rest is a second clock alongside the database's: which heartbeats this executor has seen, since
// when no worker fits, when the database was away. A restarted executor restarts these watches, so it decides
// late rather than early, with two exceptions. It can't detect a step of the database's clock before its
// first reading (databaseClock). And its brake counts no workers that were lost before its start.
package executor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/core/unread"
)

// Service is one executor process.
type Service struct {
	id       string
	host     host.Host
	store    store.Executor
	config   config.Config
	broker   broker.Broker
	client   *broker.Client
	notifier *broker.Notifier
	log      *slog.Logger
	// limited is the logger for lines that any client of the broker can cause, so their rate is limited.
	limited  *slog.Logger
	recorder telemetry.Recorder
	unread   *unread.Keeper

	scheduler  *scheduler
	marker     *marker
	completion *completionListener
	owners     *ownerWatch
	// databaseClock is the second clock for run deadlines.
	databaseClock *databaseClock
	outage        *outage
	prober        Prober
	probes        *probes
	path          *deadLetterPath
	unreadable    unreadableRows
}

// Options configure a Service.
type Options struct {
	// Name is the process's name. Its claims carry the name and a random number, so that a restarted process
	// never mistakes its predecessor's claims for its own.
	Name     string
	Host     host.Host
	Store    store.Executor
	Broker   broker.Broker
	Config   config.Config
	Log      *slog.Logger
	Recorder telemetry.Recorder
	// Prober probes workers' health endpoints; nil for no probes.
	Prober Prober
	// Topology overrides the topology of the configuration; nil for no override. Planted mutants use it.
	Topology *broker.Topology
}

// New returns a service; Run starts it.
func New(o Options) *Service {
	topology := broker.ExecutorTopology(o.Config.MessageQueue.RabbitMQ)
	if o.Topology != nil {
		topology = *o.Topology
	}
	s := &Service{
		id:       fmt.Sprintf("%s/%08x", o.Name, o.Host.Uint64N(1<<32)),
		host:     o.Host,
		store:    o.Store,
		broker:   o.Broker,
		config:   o.Config,
		log:      o.Log.With(slog.String("executor", o.Name)),
		recorder: o.Recorder,
		prober:   o.Prober,
		probes:   &probes{observing: o.Config.Executor.HealthProbes == config.Observe},
	}
	s.limited = telemetry.Limited(s.log, s.host.Monotonic, s.recorder)
	s.outage = newOutage(o.Config, o.Host.Monotonic())
	s.client = broker.NewClient(o.Host, o.Broker, topology, o.Config.MessageQueue.RabbitMQ, s.limited)
	s.notifier = broker.NewNotifier(o.Host, s.client, s.id, s.limited)
	s.scheduler = newScheduler(s)
	s.marker = newMarker(s)
	s.completion = newCompletionListener(s)
	s.owners = newOwnerWatch(o.Host, o.Config.Worker.Lease())
	s.databaseClock = &databaseClock{host: o.Host}
	s.path = newDeadLetterPath(s)
	s.unread = unread.New(unread.Options{
		Host: s.host, Store: o.Store, Log: s.limited, Recorder: s.recorder, Timeout: o.Config.Executor.StatementTimeout, Stored: s.path.requestTest,
	})
	return s
}

// Notifier publishes hints over the service's own connection, while Run runs. Code that creates
// executions in the same process uses it for its hints.
func (s *Service) Notifier() *broker.Notifier { return s.notifier }

// Wake makes the scheduler look for work now, without waiting for a hint through the broker. Code that
// creates executions in the same process calls it. It never blocks.
func (s *Service) Wake() { s.scheduler.wakeIn(0) }

// WorkerName returns the name of a worker that the lease monitor has seen, and "" for any other. It does not
// call the database.
func (s *Service) WorkerName(id execution.WorkerID) string { return s.owners.workerName(id) }

// Connected reports whether a session is open and not blocked, so that it can publish now.
func (s *Service) Connected() bool { return s.client.Ready() }

// Limited returns the names of queues that have an unwanted delivery limit; see broker.Session.
func (s *Service) Limited() []string { return s.client.Limited() }

// Run runs every part until ctx ends. Then it lets passes in progress finish, marks the last
// dispatches, publishes the last hints and returns.
func (s *Service) Run(ctx context.Context) {
	if !s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		s.log.LogAttrs(ctx, slog.LevelWarn, "dead lettering is disabled: if a live worker leaves a confirmed dispatch unclaimed, only the timeout monitor takes it back",
			slog.Duration("after", s.config.Executor.ScheduledTimeout))
	}
	s.logObservers(ctx)
	c := s.config.Executor
	parts := []host.Task{
		s.host.Go("scheduler", func() { s.scheduler.run(ctx) }),
		s.host.Go("marker of dispatches", func() { s.marker.run(ctx) }),
		s.host.Go("completion listener", func() { s.completion.run(ctx) }),
		s.host.Go("reconciler of children", func() { s.completion.settleWhatIsLeft(ctx) }),
		s.host.Go("requested consumer", func() { s.scheduler.hints.consumeQueue(ctx, broker.QueueRequested) }),
		s.host.Go("completed consumer", func() { s.completion.hints.consumeQueue(ctx, broker.QueueCompleted) }),
		s.host.Go("unreadable messages", func() { s.unread.Run(ctx) }),
		s.host.Go("execution manager", func() { s.completion.hints.consumeQueue(ctx, broker.QueueStatusChanged) }),
		s.runEvery(ctx, "timeout monitor", c.TimeoutCheckInterval, s.monitorTimeouts),
		s.host.Go("lease monitor", func() { newLeaseMonitor(s).run(ctx) }),
		s.runEvery(ctx, "reconciler of claims", c.ReconcileInterval, s.reconcileClaims),
		s.runEvery(ctx, "reconciler of owners", c.ReconcileInterval, s.reconcileOwners),
		s.runEvery(ctx, "reconciler of dispatches", c.ReconcileInterval, s.reconcileUnpublished),
		s.runEvery(ctx, "purge of dead letters", purgeInterval, s.purgeDeadLetters),
		s.runEvery(ctx, "purge of observations", purgeInterval, s.purgeObservations),
		s.runEvery(ctx, "reconciler of terminal executions", c.ReconcileInterval, s.reconcileTerminal),
		s.runEvery(ctx, "reconciler of cancellations", c.ReconcileInterval, s.reconcileCancellations),
		s.runEvery(ctx, "reconciler of idle queues", idleQueueSweep, newIdleQueues(s).deleteIdle),
		s.runEvery(ctx, "reconciler of slots", slotSweep, s.reconcileSlots),
		s.runEvery(ctx, "reconciler of idempotency keys", keySweep, s.reconcileKeys),
	}
	if s.config.Retention.Any() {
		r := newRetention(s)
		parts = append(parts, s.host.Go("retention", func() { r.run(ctx) }))
	}
	if s.recorder.Listens() {
		parts = append(parts, s.host.Go("figures", func() { newSampler(s).run(ctx) }))
	}
	if s.prober != nil && s.config.Health.Enabled && c.HealthProbes != config.Off {
		parts = append(parts, s.runEvery(ctx, "health probes", c.HealthCheckInterval, s.probeWorkers))
	}
	if s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		parts = append(parts, s.host.Go("dead letter handler", func() { s.handleDeadLetters(ctx) }),
			s.host.Go("dead letter canary", func() { s.path.run(ctx) }))
	}
	// The connection outlives the parts, so that their last hints can still be sent.
	connected, disconnect := s.host.WithCancel(context.Background())
	parting := []host.Task{
		s.host.Go("broker client", func() { s.client.Run(connected) }),
		s.host.Go("notifier", func() { s.notifier.Run(connected) }),
	}
	for _, p := range parts {
		_ = p.Wait(context.Background())
	}
	s.marker.markRemaining()
	flushing, cancel := s.host.WithTimeout(context.Background(), c.StatementTimeout)
	s.notifier.Flush(flushing)
	cancel()
	disconnect()
	for _, p := range parting {
		_ = p.Wait(context.Background())
	}
}

// db makes one database call, bounded by the statement timeout. A stop does not interrupt a call, which would
// make its outcome unknown.
func (s *Service) db(f func(ctx context.Context) error) error {
	ctx, cancel := s.host.WithTimeout(context.Background(), s.config.Executor.StatementTimeout)
	defer cancel()
	err := f(ctx)
	if !store.Retriable(err) {
		s.outage.noteAnswer(s.host.Monotonic())
	}
	return err
}

// askStore makes one database call that returns a value, bounded by db.
func askStore[Q, A any](db func(func(ctx context.Context) error) error, call func(context.Context, Q) (A, error), q Q) (answer A, err error) {
	err = db(func(ctx context.Context) (err error) {
		answer, err = call(ctx, q)
		return err
	})
	return answer, err
}

// newLoop returns a telemetry.Loop, which reports a loop's passes.
func (s *Service) newLoop(name string) *telemetry.Loop {
	return telemetry.NewLoop(s.recorder, s.host.Monotonic, name)
}

// runEvery runs pass at once and then every interval, until ctx ends. A pass checks ctx between its batches.
// Errors are logged, and the next pass starts from the database's current state.
func (s *Service) runEvery(ctx context.Context, name string, interval time.Duration, pass func(ctx context.Context) error) host.Task {
	return s.host.Go(name, func() { s.repeatPass(ctx, name, pass, func() time.Duration { return interval }) })
}

// repeatPass is runEvery with a pause that is computed after each pass.
func (s *Service) repeatPass(ctx context.Context, name string, pass func(ctx context.Context) error, pause func() time.Duration) {
	loop := s.newLoop(name)
	for {
		if err := loop.Pass(func() error { return pass(ctx) }); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, name+" pass failed, the next one starts anew", slog.Any("error", err))
		}
		interval := pause()
		loop.Interval(interval)
		if s.host.Sleep(ctx, interval) != nil {
			return
		}
	}
}
