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
	"handoff/core/host"
	hostdaemon "handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/metered"
	"handoff/core/store/postgres"
	"handoff/core/telemetry/exporter"
	"handoff/core/worker"
	"handoff/core/worker/subprocess"
)

// daemon is one worker process.
type daemon struct {
	// plant changes what the service is made of; nil but in a build that can be given a known defect.
	plant func(*worker.Options)

	// healthURL is where the health endpoint answers, once it listens; empty without one.
	healthURL  string
	config     config.Config
	deployment config.Deployment
	log        *slog.Logger
	host       host.Host
	figures    *exporter.Exporter
}

// run works until ctx ends and what was claimed has come to its end, which is nil.
func (d *daemon) run(ctx context.Context) error {
	d.host = hostdaemon.New(hostdaemon.Options{})
	d.figures = exporter.New()
	d.announce(ctx)
	context.AfterFunc(ctx, func() { d.log.LogAttrs(ctx, slog.LevelInfo, "worker stopping; a second signal ends it at once") })
	pulse := &pulse{host: d.host, lease: d.config.Worker.Lease()}
	stopServing, err := d.listen(ctx, pulse)
	if err != nil {
		return err
	}
	// The health endpoint answers to the very end: a worker that drains is alive.
	defer stopServing()

	db, err := d.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer db.Close()
	mq := rabbitmq.New(rabbitmq.Options{
		URL: d.deployment.MessageQueue.RabbitMQ.URL, Heartbeat: d.config.MessageQueue.RabbitMQ.Heartbeat,
		Name: d.deployment.Worker.Name, Log: d.log,
	})
	options := worker.Options{
		Name: d.deployment.Worker.Name, Runtimes: d.deployment.Worker.Runtimes,
		HealthURL: d.healthURL,
		Host:      d.host, Store: db, Broker: mq,
		Runner: subprocess.New(subprocess.Options{Host: d.host, Actions: d.deployment.Worker.ActionsDir}),
		Config: d.config, Log: d.log, Recorder: d.figures,
	}
	if d.plant != nil {
		d.plant(&options)
	}
	options.Store = metered.Worker(pulse.watch(options.Store), options.Recorder)
	return worker.New(options).Run(ctx)
}

// announce says who starts, and how long a stop may take: whoever kills it sooner loses runs.
func (d *daemon) announce(ctx context.Context) {
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

// open connects to the database as often as it takes, and waits until an executor has made the schema.
func (d *daemon) open(ctx context.Context) (*postgres.Store, error) {
	backoff := broker.NewBackoff(d.host, 200*time.Millisecond, 5*time.Second)
	for {
		db, err := postgres.Open(ctx, d.deployment.Database.URL, postgres.Options{})
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
			d.log.LogAttrs(ctx, slog.LevelInfo, "waiting for an executor, or for `executor migrate up`, to bring the database's schema up to date")
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

// healthURL is where executors find the health endpoint that listens on an address. One that listens
// everywhere is found by the machine's name.
func healthURL(address, worker string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			host = worker
		}
	}
	return "http://" + net.JoinHostPort(host, port) + "/healthz"
}

// listen serves the health endpoints. The returned function ends that.
func (d *daemon) listen(ctx context.Context, p *pulse) (stop func(), err error) {
	address := d.deployment.Worker.HealthListen
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the health endpoints can't listen on %s: %w", address, err)
	}
	if d.healthURL = d.deployment.Worker.HealthURL; d.healthURL == "" {
		d.healthURL = healthURL(listener.Addr().String(), d.deployment.Worker.Name)
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "health endpoints listening", slog.String("address", listener.Addr().String()))
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		h := api.Logged(d.log, api.HealthHandler(p.checks(), d.figures.Handler()))
		if err := api.Serve(serving, listener, h, d.log, time.Second); err != nil && !errors.Is(err, net.ErrClosed) {
			// Work goes on: what watches the endpoint will notice.
			d.log.LogAttrs(ctx, slog.LevelError, "the health endpoints are gone", slog.Any("error", err))
		}
	}()
	return func() {
		end()
		<-done
	}, nil
}
