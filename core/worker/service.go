// Package worker is the worker: it registers, keeps its lease, claims what is dispatched to it, runs
// it, and writes how it ended.
//
// A worker process lives through sessions, one for each incarnation that it registers. Within a
// session it owns what it has claimed; when the session ends, because the worker could not renew its
// lease or was marked lost, every action is ended before anything else happens, and the process
// registers anew. A worker that was superseded by another process of its name exits.
//
// The order around one execution is: registry, claim, acknowledge, run, finish. From the claim on
// the lease is the recovery record and not the message: an acknowledgement that waits for the end of
// the run trips the broker's delivery timeout, and one before the claim loses work (defect D30).
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
	// limited is for lines that anybody can cause who can publish to the broker.
	limited  *slog.Logger
	recorder telemetry.Recorder
	topology func(execution.WorkerID) broker.Topology

	// process and attempt number the registrations.
	process, attempt uint64
	// notifier publishes over a connection of its own, which outlives the sessions. It is made with
	// the first registration, because the topology is the worker's.
	notifier *broker.Notifier
	// closing ends what must not outlive the process: its publishing, and results that no database
	// takes.
	closing context.Context
}

// Options are what a Service is made of.
type Options struct {
	// Name identifies the worker across restarts; no two live processes may share it.
	Name     string
	Runtimes []string
	// HealthURL is where executors find the worker's health endpoint; empty for none.
	HealthURL string
	Host      host.Host
	Store     store.Worker
	Broker    broker.Broker
	Runner    Runner
	Config    config.Config
	Log       *slog.Logger
	Recorder  telemetry.Recorder
	// Topology overrides what the configuration implies; nil for that. Planted mutants use it.
	Topology func(execution.WorkerID) broker.Topology
}

// New returns a service that Run starts.
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

// ErrSuperseded is returned by Run when another process registered the same name.
var ErrSuperseded = store.ErrSuperseded

// Run works until ctx ends, or an operator asks for a drain, and everything that was claimed has been finished or ended:
// nil then. It returns ErrSuperseded, after ending its actions, when another process took its name; it never registers
// again after that, because two processes that do would take the name from each other for ever.
func (s *Service) Run(ctx context.Context) error {
	closing, closed := s.host.WithCancel(context.Background())
	defer closed()
	s.closing = closing
	for {
		key, sent, err := s.register(ctx)
		if err != nil {
			return nil //nolint:nilerr // only a stop ends the attempts to register
		}
		s.startPublishing(key.ID)
		t := newSession(s, key, sent)
		why := t.serve(ctx)
		switch {
		case why == endSuperseded:
			return ErrSuperseded
		case ctx.Err() != nil || t.askedToStop():
			return nil
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "session ended, registering anew", slog.String("why", why.String()))
		// Registering gives up what the old incarnation holds, so its results are written first.
		if !t.awaitResults(ctx) {
			return nil
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

// register makes a new incarnation, as often as it takes, and returns it with the moment at which
// the request was sent: the lease counts from there.
func (s *Service) register(ctx context.Context) (key store.WorkerKey, sent time.Duration, err error) {
	backoff := broker.NewBackoff(s.host, 200*time.Millisecond, 5*time.Second)
	for failures := 0; ; failures++ {
		sent = s.host.Monotonic()
		s.attempt++
		var registered store.Registered
		// Each attempt may take twice as long as the one before: with the same bound for ever no worker would ever be
		// there over a path that is slower. Half a lease is the most that may be gone when the answer comes.
		patience := min(s.config.Worker.StatementTimeout<<min(failures, 10), s.config.Worker.Lease()/2)
		err := s.within(ctx, max(s.config.Worker.StatementTimeout, patience), func(ctx context.Context) (err error) {
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

// within makes one database call that is worth nothing once ctx has ended.
func (s *Service) within(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := s.host.WithTimeout(ctx, patience)
	defer cancel()
	return f(ctx)
}

// gone translates a store error that ends the session; endNone for any other.
func gone(err error) end {
	switch {
	case errors.Is(err, store.ErrSuperseded):
		return endSuperseded
	case errors.Is(err, store.ErrLost):
		return endLost
	}
	return endNone
}
