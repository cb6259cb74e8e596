package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/executor/healthprobe"
	"handoff/core/host"
	hostdaemon "handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/metered"
	"handoff/core/store/postgres"
	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
	"handoff/core/worker"
	"handoff/core/worker/subprocess"
)

// daemon is one worker process.
type daemon struct {
	// plant plants a mutant in the service's options; nil except in builds with the tag mutant.
	plant func(*worker.Options)

	// healthURL is the URL of the health endpoint, once it listens; empty without one.
	healthURL  string
	config     config.Config
	deployment config.Deployment
	log        *slog.Logger
	host       host.Host
	figures    *exporter.Exporter
	// isolation describes how far this machine can isolate actions.
	isolation *subprocess.State
	// secretFile is the path of the configuration file if it holds a password, else empty.
	secretFile string
}

// runWorker works until ctx ends and all claimed executions have ended, then returns nil.
func (d *daemon) runWorker(ctx context.Context) error {
	d.host = hostdaemon.New(hostdaemon.Options{})
	d.figures = exporter.New()
	d.logStart(ctx)
	context.AfterFunc(ctx, func() { d.log.LogAttrs(ctx, slog.LevelInfo, "worker stopping; SIGINT ends it at once") })
	runner, err := d.prepareRunner(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer runner.Close()
	pulse := worker.NewPulse(d.host, d.config.Worker.Lease())
	stopServing, err := d.listenHealth(ctx, pulse)
	if err != nil {
		return err
	}
	// The health endpoint serves until the process ends, because a draining worker is alive.
	defer stopServing()

	db, err := d.openStore(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer db.Close()
	d.figures.Pools([]string{"work", "heartbeats"},
		func() telemetry.PoolUse { all, _ := db.Use(); return all },
		func() telemetry.PoolUse { _, heartbeats := db.Use(); return heartbeats })
	mq := rabbitmq.New(rabbitmq.Options{
		URL: d.deployment.MessageQueue.RabbitMQ.URL, Heartbeat: d.config.MessageQueue.RabbitMQ.Heartbeat,
		Name: d.deployment.Worker.Name, Log: d.log,
	})
	options := worker.Options{
		Name: d.deployment.Worker.Name, Runtimes: d.deployment.Worker.Runtimes,
		HealthURL: d.healthURL,
		Host:      d.host, Store: db, Broker: mq,
		Runner: runner,
		Config: d.config, Log: d.log, Recorder: d.figures,
	}
	if d.plant != nil {
		d.plant(&options)
	}
	options.Store = metered.Worker(pulse.Watch(options.Store), options.Recorder)
	return worker.New(options).Run(ctx)
}

// logStart logs the start, and how long a stop may take, because killing the worker sooner loses runs.
func (d *daemon) logStart(ctx context.Context) {
	c := d.config.Worker
	d.log.LogAttrs(ctx, slog.LevelInfo, "worker starting",
		slog.String("worker", d.deployment.Worker.Name), slog.Any("runtimes", d.deployment.Worker.Runtimes), slog.Int("concurrency", c.Concurrency),
		slog.String("profile", string(d.config.Profile)),
		slog.String("database", config.MaskURL(d.deployment.Database.URL)),
		slog.String("broker", config.MaskURL(d.deployment.MessageQueue.RabbitMQ.URL)))
	longest := c.ShutdownTimeout + c.KillGrace + 6*c.StatementTimeout
	d.log.LogAttrs(ctx, slog.LevelInfo, "a stop waits for running actions up to worker.shutdown_timeout: stop_grace_period (Compose) or "+
		"terminationGracePeriodSeconds (Kubernetes) must be longer; Docker's default of 10s is too short",
		slog.String("shutdown_timeout", c.ShutdownTimeout.String()), slog.String("stop_grace_period_at_least", longest.String()))
}

// storeOptions returns the options of the worker's store. A call that has waited for a lock still needs time
// to retry row by row, so it waits for half of its timeout.
func storeOptions(c *config.Config) postgres.Options {
	return postgres.Options{
		MaxConns: c.Database.Connections, HeartbeatConns: c.Database.HeartbeatConnections, PingTimeout: c.Database.PingTimeout,
		LockTimeout: c.Worker.StatementTimeout / 2,
	}
}

// openStore connects to the database, and retries until it is available and has the schema.
func (d *daemon) openStore(ctx context.Context) (*postgres.Store, error) {
	backoff := broker.NewBackoff(d.host, 200*time.Millisecond, 5*time.Second)
	for {
		db, err := postgres.Open(ctx, d.deployment.Database.URL, storeOptions(&d.config))
		if err == nil {
			if err = db.SchemaReady(ctx); err == nil {
				return db, nil
			}
			db.Close()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		switch {
		case errors.Is(err, postgres.ErrNoSchema):
			d.log.LogAttrs(ctx, slog.LevelInfo, "waiting for the database's schema: an executor brings it up to date when it starts, and so does `executor migrate up`", slog.Any("error", err))
		case !store.Retriable(err):
			return nil, fmt.Errorf("connecting to the database: %w", err)
		default:
			d.log.LogAttrs(ctx, slog.LevelWarn, "connecting to the database failed, trying again", slog.Any("error", err))
		}
		if err := backoff.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// listenHealth serves the health endpoints until the returned function is called.
func (d *daemon) listenHealth(ctx context.Context, p *worker.Pulse) (stop func(), err error) {
	address := d.deployment.Worker.HealthListen
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the health endpoints can't listen on %s: %w", address, err)
	}
	if d.healthURL = d.deployment.Worker.HealthURL; d.healthURL == "" {
		machine, err := os.Hostname()
		if err != nil {
			machine = d.deployment.Worker.Name
		}
		d.healthURL = healthprobe.URL(listener.Addr().String(), machine, hostdaemon.LoopbackName())
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "health endpoints listening", slog.String("address", listener.Addr().String()), slog.String("executors_ask", d.healthURL))
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := api.Logged(d.log, api.HealthHandler(healthChecks(p), d.figures.Handler(), d.isolation))
		if err := api.Serve(serving, listener, h, d.log, time.Second); err != nil && !errors.Is(err, net.ErrClosed) {
			// The worker continues, because whatever monitors the endpoint detects the failure.
			d.log.LogAttrs(ctx, slog.LevelError, "the health endpoints are gone", slog.Any("error", err))
		}
	}()
	return func() {
		end()
		<-done
	}, nil
}

// healthChecks returns the checks of /readyz.
func healthChecks(p *worker.Pulse) []api.Check {
	return []api.Check{
		{Name: "lease", Run: func(context.Context) error { return p.Lease() }},
		{Name: "consumer", Run: func(context.Context) error { return p.Consumer() }},
	}
}
