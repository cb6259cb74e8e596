// Package worker registers a worker, keeps its lease, claims the executions dispatched to it, runs them, and
// writes how they ended.
//
// A worker process runs a sequence of sessions, one for each incarnation that it registers. Within a session
// it owns what it has claimed. A session ends early if the worker could not renew its lease or was marked
// lost. Then the worker ends every action, and registers again. A worker whose name another process has
// registered exits.
//
// The order for one execution is: registry, claim, acknowledge, run, finish. From the claim on, recovery
// depends on the lease and not on the message. An acknowledgement after the run would exceed the broker's
// delivery timeout; one before the claim would lose work (defect D30).
package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Service is one worker process.
type Service struct {
	name     string
	runtimes []string
	health   string
	host     host.Host
	store    store.Worker
	broker   broker.Broker
	runner   Runner
	config   config.Config
	log      *slog.Logger
	// limited is the logger for lines that any client of the broker can cause, so their rate is limited.
	limited  *slog.Logger
	recorder telemetry.Recorder
	topology func(execution.WorkerID) broker.Topology

	// process and attempt number the registrations.
	process, attempt uint64
	// notifier publishes over its own connection, which outlives the sessions. It is created after the first
	// registration, because the topology contains the worker's id.
	notifier *broker.Notifier
	// closing ends when the process ends. It stops publishing, and the retries of results that the database
	// does not accept.
	closing context.Context
}

// Options configure a Service.
type Options struct {
	// Name identifies the worker across restarts; no two live processes may share it.
	Name     string
	Runtimes []string
	// HealthURL is the URL at which executors find the worker's health endpoint; empty for none.
	HealthURL string
	Host      host.Host
	Store     store.Worker
	Broker    broker.Broker
	Runner    Runner
	Config    config.Config
	Log       *slog.Logger
	Recorder  telemetry.Recorder
	// Topology overrides the topology of the configuration; nil for no override. Planted mutants use it.
	Topology func(execution.WorkerID) broker.Topology
}

// New returns a service; Run starts it.
func New(o Options) *Service {
	topology := o.Topology
	if topology == nil {
		topology = func(id execution.WorkerID) broker.Topology {
			return broker.WorkerTopology(o.Config.MessageQueue.RabbitMQ, id)
		}
	}
	s := &Service{
		name: o.Name, runtimes: o.Runtimes, health: o.HealthURL, host: o.Host, store: o.Store, broker: o.Broker, runner: o.Runner,
		config: o.Config, log: o.Log.With(slog.String("worker", o.Name)), recorder: o.Recorder, topology: topology,
		process: o.Host.Uint64N(1<<63) + 1,
	}
	s.limited = telemetry.Limited(s.log, s.host.Monotonic, s.recorder)
	return s
}

// ErrSuperseded is Run's error when another process has registered the same name.
var ErrSuperseded = store.ErrSuperseded

// Run works until ctx ends or an operator requests a drain, and every claimed execution has ended; then it
// returns nil. When another process takes the worker's name, Run ends all actions and returns ErrSuperseded.
// It does not register again: two such processes would take the name from each other forever.
func (s *Service) Run(ctx context.Context) error {
	closing, closed := s.host.WithCancel(context.Background())
	defer closed()
	s.closing = closing
	for {
		key, sent, err := s.registerIncarnation(ctx)
		if err != nil {
			return nil //nolint:nilerr // registering is retried until a stop
		}
		s.startPublishing(key.ID)
		t := newSession(s, key, sent)
		why := t.serveUntilEnd(ctx)
		switch {
		case why == endSuperseded:
			return ErrSuperseded
		case ctx.Err() != nil || t.wasAskedToStop():
			return nil
		}
		if !t.hasSuccessor() {
			s.log.LogAttrs(ctx, slog.LevelWarn, "session ended, registering anew", slog.String("why", why.String()))
		}
		// Registering abandons the executions of the old incarnation, so its results are written first.
		if !t.awaitResults(ctx) {
			return nil
		}
		// After the session had ended for another reason, one of its calls may have reported a successor.
		if t.hasSuccessor() {
			return ErrSuperseded
		}
	}
}

// startPublishing opens the connection for hints, once.
func (s *Service) startPublishing(id execution.WorkerID) {
	if s.notifier != nil {
		return
	}
	client := broker.NewClient(s.host, s.broker, s.topology(id), s.config.MessageQueue.RabbitMQ, s.limited)
	s.notifier = broker.NewNotifier(s.host, client, s.name, s.limited)
	s.host.Go("publishing client", func() { client.Run(s.closing) })
	s.host.Go("notifier", func() { s.notifier.Run(s.closing) })
}

// registerIncarnation registers a new incarnation, and retries until ctx ends. It returns the incarnation and
// when the request was sent: the lease counts from then.
func (s *Service) registerIncarnation(ctx context.Context) (key store.WorkerKey, sent time.Duration, err error) {
	backoff := broker.NewBackoff(s.host, 200*time.Millisecond, 5*time.Second)
	for failures := 0; ; failures++ {
		sent = s.host.Monotonic()
		s.attempt++
		var registered store.Registered
		// Each attempt may take twice as long as the previous one: with a fixed bound, a worker on a slow
		// network path would never register. Half of the lease must be left when the answer arrives.
		patience := min(s.config.Worker.StatementTimeout<<min(failures, 10), s.config.Worker.Lease()/2)
		err := s.callWithin(ctx, max(s.config.Worker.StatementTimeout, patience), func(ctx context.Context) (err error) {
			newest, err := s.store.Newest(ctx, s.name)
			if err != nil {
				return err
			}
			registered, err = s.store.Register(ctx, store.Registration{
				Process: s.process, Attempt: s.attempt, After: newest, Name: s.name, Runtimes: s.runtimes, Capacity: s.config.Worker.Concurrency, Lease: s.config.Worker.Lease(),
				HealthURL: s.health,
			})
			return err
		})
		if err == nil {
			return registered.WorkerKey, sent, nil
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "registering failed, trying again", slog.Any("error", err))
		if err := backoff.Wait(ctx); err != nil {
			return key, 0, err
		}
	}
}

// db makes one database call, bounded by the statement timeout, which is part of the fence margin.
func (s *Service) db(f func(ctx context.Context) error) error {
	ctx, cancel := s.host.WithTimeout(context.Background(), s.config.Worker.StatementTimeout)
	defer cancel()
	return f(ctx)
}

// callWithin makes one database call that is useless once ctx has ended.
func (s *Service) callWithin(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := s.host.WithTimeout(ctx, patience)
	defer cancel()
	return f(ctx)
}

// endReasonOf translates a store error that ends the session; it returns endNone for any other error.
func endReasonOf(err error) endReason {
	switch {
	case errors.Is(err, store.ErrSuperseded):
		return endSuperseded
	case errors.Is(err, store.ErrLost):
		return endLost
	}
	return endNone
}
