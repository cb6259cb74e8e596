package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/executor"
	"handoff/core/executor/healthprobe"
	"handoff/core/host"
	hostdaemon "handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/metered"
	"handoff/core/store/postgres"
	"handoff/core/submission"
	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
	"handoff/docs"
)

// drainRequests is how long a stop waits for requests in progress.
const drainRequests = 15 * time.Second

// daemon is one executor process.
type daemon struct {
	// plant plants a mutant in the service's options; nil except in builds with the tag mutant.
	plant func(*executor.Options)

	name       string
	config     config.Config
	deployment config.Deployment
	actions    []execution.Action
	log        *slog.Logger

	host  host.Host
	store *postgres.Store
	// requests is the API's store, with separate connections, so that requests can't block the scheduler and
	// the monitors; nil without an API.
	requests *postgres.Store
	broker   *rabbitmq.Broker
	// figures collects the metrics for /metrics.
	figures *exporter.Exporter
	// loopback reports whether only this machine can reach the API.
	loopback bool
	// handler answers API requests. Until the database is open, it reports that the process is starting.
	handler atomic.Pointer[http.Handler]
}

// loadActions reads the action files, if the configuration is valid.
func loadActions(p config.Parsed) ([]execution.Action, yamlfile.Errors) {
	if p.Effective == nil || p.Deployment.Executor.Actions == "" {
		return nil, nil
	}
	return config.LoadActions(p.Deployment.Executor.Actions, p.Config)
}

// runExecutor serves until ctx ends, then returns nil, or until a permanent failure.
func (d *daemon) runExecutor(ctx context.Context) error {
	d.host = hostdaemon.New(hostdaemon.Options{})
	d.figures = exporter.New()
	d.log.LogAttrs(ctx, slog.LevelInfo, "executor starting", slog.String("executor", d.name), slog.String("profile", string(d.config.Profile)),
		slog.String("database", config.MaskURL(d.deployment.Database.URL)),
		slog.String("broker", config.MaskURL(d.deployment.MessageQueue.RabbitMQ.URL)))

	// If one part fails, the others end, too.
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	stopServing, err := d.listenAPI(ctx, fail)
	if err != nil {
		return err
	}
	defer stopServing()
	if err := d.openStores(ctx); err != nil {
		return d.endError(ctx, err)
	}
	defer d.store.Close()
	if d.requests != nil {
		defer d.requests.Close()
	}

	d.showPools()

	d.broker = rabbitmq.New(rabbitmq.Options{
		URL: d.deployment.MessageQueue.RabbitMQ.URL, Heartbeat: d.config.MessageQueue.RabbitMQ.Heartbeat, Name: d.name, Log: d.log,
	})
	options := executor.Options{
		Name: d.name, Host: d.host, Store: d.store, Broker: d.broker, Config: d.config, Log: d.log, Recorder: d.figures,
		Prober: healthprobe.New(hostdaemon.LoopbackName()),
	}
	if d.plant != nil {
		d.plant(&options)
	}
	options.Store = metered.Executor(options.Store, options.Recorder)
	service := executor.New(options)
	d.serveAPI(service)

	// The API ends before the service does, so that the hints from its last requests are still sent.
	running, endService := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { service.Run(running) })
	if d.plant == nil {
		parts.Go(func() { d.declareTopology(ctx, fail) })
	}
	<-ctx.Done()
	d.log.LogAttrs(ctx, slog.LevelInfo, "executor stopping")
	stopServing()
	endService()
	parts.Wait()
	return d.endError(ctx, nil)
}

// endError returns why the process ends: nil for a requested stop.
func (d *daemon) endError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, context.Canceled) {
			return nil
		}
		return cause
	}
	return err
}

// listenAPI opens the API's address at once, so that a taken port is reported early and probes get an answer.
// The returned function ends serving and waits for requests in progress.
func (d *daemon) listenAPI(ctx context.Context, fail context.CancelCauseFunc) (stop func(), err error) {
	address := d.deployment.API.Listen
	if address == "" {
		return func() {}, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("the API can't listen on %s: %w", address, err)
	}
	if err := d.mayServe(ctx, listener); err != nil {
		_ = listener.Close()
		return nil, err
	}
	listener, err = d.withTLS(listener)
	if err != nil {
		return nil, err
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "API listening", slog.String("address", listener.Addr().String()), slog.Bool("tls", d.deployment.API.TLS.CertFile != ""))
	d.setHandler(api.Logged(d.log, api.StartingHandler(docs.PlaybookHandler())))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.handler.Load()).ServeHTTP(w, r) })

	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := api.Serve(serving, listener, h, d.log, drainRequests); err != nil {
			fail(err)
		}
	}()
	return func() {
		end()
		<-done
	}, nil
}

// withTLS returns the listener with TLS, if the configuration names a certificate.
func (d *daemon) withTLS(l net.Listener) (net.Listener, error) {
	files := d.deployment.API.TLS
	if files.CertFile == "" {
		return l, nil
	}
	certificate, err := api.LoadCertificate(files.CertFile, files.KeyFile, d.log)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("the API can't serve TLS: %w", err)
	}
	return tls.NewListener(l, certificate.Config()), nil
}

// mayServe refuses a listener that other machines can reach without a token, for example if localhost is not
// a loopback address. If the configuration allows such a listener, it only logs a warning.
func (d *daemon) mayServe(ctx context.Context, l net.Listener) error {
	d.loopback = config.Loopback(l.Addr().String())
	if len(d.deployment.Tokens()) > 0 || d.loopback {
		return nil
	}
	if !d.deployment.API.Insecure {
		return fmt.Errorf("api.listen is %s, which is %s here: other machines can reach it, and requests need no token. Listen on 127.0.0.1, set api.token or api.tokens, or say api.insecure: true",
			d.deployment.API.Listen, l.Addr())
	}
	d.log.LogAttrs(ctx, slog.LevelWarn, "the API is open to whoever reaches it: it listens beyond this machine without a token, as api.insecure says", slog.String("listen", d.deployment.API.Listen))
	return nil
}

func (d *daemon) setHandler(h http.Handler) { d.handler.Store(&h) }

// storeOptions returns the options of the executor's stores. A call that has waited for a lock still needs
// time to retry row by row, so it waits for half of its timeout.
func storeOptions(c *config.Config, connections int) postgres.Options {
	return postgres.Options{MaxConns: connections, PingTimeout: c.Database.PingTimeout, LockTimeout: c.Executor.StatementTimeout / 2}
}

// openStores connects to the database, migrates it if the configuration says so, and stores the actions. It
// retries until it succeeds, an error is permanent, or ctx ends.
func (d *daemon) openStores(ctx context.Context) error {
	var known, applied int64
	err := d.retryStep(ctx, "connecting to the database", func() (err error) {
		o := storeOptions(&d.config, d.config.Database.Connections)
		o.Migrate = d.deployment.Database.Migrate
		d.store, err = postgres.Open(ctx, d.deployment.Database.URL, o)
		if err != nil {
			return err
		}
		if known, applied, err = d.store.Schema(ctx); err != nil {
			d.store.Close()
		}
		return err
	})
	if errors.Is(err, postgres.ErrNoSchema) {
		return fmt.Errorf("the database's schema is at version %d, this program needs %d, and database.migrate is false: "+
			"run `executor migrate up` with a role that may alter tables, then start again", applied, known)
	}
	if err == nil && applied > known {
		d.log.LogAttrs(ctx, slog.LevelInfo, "the database's schema is newer than this program, which can work with it", slog.Int64("database", applied), slog.Int64("known", known))
	}
	if err == nil && d.deployment.API.Listen != "" {
		err = d.retryStep(ctx, "connecting to the database for the API", func() (err error) {
			d.requests, err = postgres.Open(ctx, d.deployment.Database.URL, storeOptions(&d.config, d.config.Database.APIConnections))
			return err
		})
		if err != nil {
			d.store.Close()
		}
	}
	if err != nil || len(d.actions) == 0 {
		return err
	}
	err = d.retryStep(ctx, "storing the actions", func() error {
		within, cancel := context.WithTimeout(ctx, d.config.Executor.StatementTimeout)
		defer cancel()
		return d.store.PutActions(within, d.actions)
	})
	if err != nil {
		d.store.Close()
		if d.requests != nil {
			d.requests.Close()
		}
		return err
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "actions stored", slog.Int("actions", len(d.actions)), slog.String("from", d.deployment.Executor.Actions))
	return nil
}

// showPools adds the use of the database connection pools to the metrics.
func (d *daemon) showPools() {
	names, uses := []string{"work"}, []func() telemetry.PoolUse{func() telemetry.PoolUse { work, _ := d.store.Use(); return work }}
	if d.requests != nil {
		names = append(names, "api")
		uses = append(uses, func() telemetry.PoolUse { requests, _ := d.requests.Use(); return requests })
	}
	d.figures.Pools(names, uses...)
}

// retryStep repeats a step while the database is away.
func (d *daemon) retryStep(ctx context.Context, what string, step func() error) error {
	backoff := broker.NewBackoff(d.host, 200*time.Millisecond, 5*time.Second)
	for {
		err := step()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !store.Retriable(err) {
			return fmt.Errorf("%s: %w", what, err)
		}
		d.log.LogAttrs(ctx, slog.LevelWarn, what+" failed, trying again", slog.Any("error", err))
		if err := backoff.Wait(ctx); err != nil {
			return err
		}
	}
}

func (d *daemon) serveAPI(service *executor.Service) {
	if d.deployment.API.Listen == "" {
		return
	}
	checks := []api.Check{api.DatabaseCheck(d.store), api.BrokerCheck(service.Connected), api.LimitCheck(service.Limited), api.UnreadableCheck(service.Unreadable), api.SchemaCheck(d.store.SchemaReady)}
	// This check would reveal a planted mutant before any execution does.
	if d.config.MessageQueue.RabbitMQ.DeadLetter.Enabled && d.plant == nil {
		checks = append(checks, api.Check{Name: "dead_letters", Run: func(context.Context) error { return service.DeadLetterPath() }})
	}
	counted := metered.API(d.requests, d.figures)
	d.setHandler(api.NewServer(api.Options{
		Submitter: &submission.Submitter{Host: d.host, Store: counted, Notifier: service.Notifier(), Wake: service.Wake, Timeout: d.config.Executor.StatementTimeout},
		Store:     counted,
		Config:    d.config,
		Tokens:    d.deployment.Tokens(),
		Checks:    checks,
		Metrics:   d.figures.Handler(),
		Playbooks: docs.PlaybookHandler(),
		Log:       d.log,

		WorkerName: service.WorkerName,

		AllowedHosts: d.deployment.API.AllowedHosts, Loopback: d.loopback,
	}).Handler())
}

// declareTopology declares the broker topology, and retries until it succeeds. A queue that exists with other
// settings fails the start. Without this step, the service would retry forever, because it declares the
// topology in every new session.
func (d *daemon) declareTopology(ctx context.Context, fail context.CancelCauseFunc) {
	backoff := broker.NewBackoff(d.host, d.config.MessageQueue.RabbitMQ.ReconnectMin, time.Minute)
	for {
		err := d.declareOnce(ctx)
		switch {
		case err == nil:
			d.log.LogAttrs(ctx, slog.LevelInfo, "broker topology declared")
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, broker.ErrPrecondition):
			fail(err)
			return
		case errors.Is(err, broker.ErrUnavailable):
			// The service's own connection logs this error.
		default:
			d.log.LogAttrs(ctx, slog.LevelError, "declaring the broker topology failed, trying again", slog.Any("error", err))
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

func (d *daemon) declareOnce(ctx context.Context) error {
	session, err := d.broker.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	return session.Declare(ctx, broker.ExecutorTopology(d.config.MessageQueue.RabbitMQ))
}
