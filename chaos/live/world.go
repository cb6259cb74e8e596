package live

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
	"handoff/chaos/netproxy"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/store/postgres"
)

// world is one run.
type world struct {
	sandbox  *Sandbox
	scenario *scenario.Scenario // scaled
	profile  config.Profile
	config   config.Config // scaled
	options  Options
	label    string // distinguishes its processes and files from those of other runs on the sandbox
	folder   string
	began    time.Time
	// ready is when the cluster became ready, since the start of the run. It is time 0 of the scenario.
	ready time.Duration

	ctx    context.Context //nolint:containedctx // of everything that the run starts
	cancel context.CancelFunc

	db          *servers.DB
	mq          *servers.MQ
	store       *postgres.Store
	pool        *pgxpool.Pool
	proxies     *netproxy.Proxies
	environment environment

	database   *evidence.Database
	firehose   *evidence.Firehose
	noise      *noiseWatch
	lastDepths map[string]int
	// silent is the error after repeated failed queries for the queues' depths. It ends the run. Only
	// awaitRest writes silent and unanswered.
	silent     error
	unanswered unansweredCount

	processes   []*process // executors, then workers, then twins
	injector    *run.Injector
	interceptor *interceptor
	alerts      *run.Alerts // nil when the scenario expects none
	scraper     *scraper
	// starting counts the servers that are restarting.
	starting atomic.Int32
	// untraced reports whether nothing reads the broker's firehose, because a soak judges no messages.
	untraced bool
	client   *netproxy.Link
	workload *run.Workload
	// clients counts the tasks of the process that submits the workload.
	clients sync.WaitGroup

	// A fault holds one of these locks while its server is down, so that other faults wait until the server
	// is up.
	down struct{ broker, database sync.Mutex }

	// working counts running calls of Clock.After. It doesn't grow once stopping is set.
	working sync.WaitGroup

	mu       sync.Mutex
	stopping bool
	happened []evidence.Item
	// stuck counts, for each queue, the faults that have suspended its process.
	stuck map[string]int
	why   string
	// unable is an error of the harness itself that ended the run; nil for none.
	unable error
}

// newWorld makes the database, the virtual host, the links and the daemons. It starts no daemon.
func (sa *Sandbox) newWorld(ctx context.Context, s *scenario.Scenario, p config.Profile, o Options) (_ *world, err error) {
	sa.runs++
	w := &world{
		sandbox: sa, scenario: s, profile: p, config: s.Config(p), options: o, label: fmt.Sprintf("run-%d", sa.runs), proxies: netproxy.New(), began: time.Now().Round(0),
	}
	w.ctx, w.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	w.folder = filepath.Join(sa.folder, w.label)
	if err := os.MkdirAll(w.folder, 0o755); err != nil {
		return nil, err
	}
	if w.db, err = sa.servers.Postgres.CreateDatabase(ctx); err != nil {
		return nil, fmt.Errorf("making a database: %w", err)
	}
	if w.mq, err = sa.servers.RabbitMQ.CreateVhost(ctx); err != nil {
		return nil, fmt.Errorf("making a virtual host: %w", err)
	}
	if err := w.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	w.database = evidence.NewDatabase(w.db.URL, w.began)
	dead := broker.DeadLetterQueue(w.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
	w.firehose = evidence.NewFirehose(w.mq.URL, dead, w.began, w.database.Worker)
	w.injector, w.interceptor = w.newInjector(w.scenarioClock()), &interceptor{w: w}
	w.expectAlerts(s.Expect(p).Alerts)
	if w.client, err = w.proxies.Link(w.label+"/"+client+"/"+fault.Broker, mustHost(w.mq.URL)); err != nil {
		return nil, err
	}
	w.interceptor.watchLink(w.client, &process{w: w, name: client})
	w.environment = machine{w}
	if sa.stack != nil {
		w.environment = &project{w: w, stack: sa.stack}
	}
	return w, w.makeProcesses()
}

// prepareDatabase migrates the schema, installs the evidence triggers, creates the daemons' role, and stores
// the actions.
func (w *world) prepareDatabase(ctx context.Context) (err error) {
	url, err := rewriteAddress(w.db.URL, mustHost(w.db.URL), client)
	if err != nil {
		return err
	}
	if w.store, err = postgres.Open(ctx, url, postgres.Options{Migrate: true}); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if w.pool, err = pgxpool.New(ctx, w.db.URL); err != nil {
		return fmt.Errorf("opening the database: %w", err)
	}
	if err := evidence.Install(ctx, w.db.URL); err != nil {
		return err
	}
	if err := w.makeRole(ctx); err != nil {
		return err
	}
	all, err := prepareActions(w.scenario, w.options.Seed, w.folder)
	if err != nil {
		return err
	}
	if err := w.store.PutActions(ctx, all); err != nil {
		return fmt.Errorf("storing the actions: %w", err)
	}
	return nil
}

// mustHost returns the host and port of a server's address.
func mustHost(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "" // package servers creates only valid addresses
	}
	return u.Host
}

// sinceStart returns the time since the run began.
func (w *world) sinceStart() time.Duration { return time.Since(w.began) }

// recordEvent records an act or an observation of the harness at the current time.
func (w *world) recordEvent(e history.Event) {
	wall := time.Now().Round(0)
	e.At = wall.Sub(w.began)
	w.mu.Lock()
	w.happened = append(w.happened, evidence.Item{Wall: wall, Event: e})
	w.mu.Unlock()
	w.observeEvent(&e)
}

// observeEvent passes on every event as it happens, so that it can trigger faults.
func (w *world) observeEvent(e *history.Event) { w.injector.Observe(e) }

// takeOwnEvents removes and returns the harness's own events so far.
func (w *world) takeOwnEvents() []evidence.Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := w.happened
	w.happened = nil
	return own
}

func (w *world) ownEvents() []evidence.Item {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.happened
}

// failRun records why the product failed, for example because a process ended by itself. The first failure
// ends the run.
func (w *world) failRun(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.why == "" {
		w.why = why
	}
}

// failHarness records an error of the harness itself. It ends the run, too, but implies nothing about the
// product.
func (w *world) failHarness(err error) {
	w.mu.Lock()
	if w.why == "" {
		w.unable = err
	}
	w.mu.Unlock()
	w.failRun(err.Error())
}

func (w *world) failReason() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}

// startNoiseWatch starts the noise watch. It reaches the database through a separate proxy without faults.
func (w *world) startNoiseWatch() error {
	link, err := w.proxies.Link(w.label+"/watchdog/"+fault.Database, mustHost(w.db.URL))
	if err != nil {
		return err
	}
	address, err := rewriteAddress(w.db.URL, link.Address, "watchdog")
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return err
		}
		err = conn.Ping(ctx)
		return errors.Join(err, conn.Close(ctx))
	}
	// Faults may cause later errors. A watch without any answer would record nothing, so it fails here.
	if err := ask(w.ctx); err != nil {
		return fmt.Errorf("watching the database through a proxy: %w", err)
	}
	w.noise = watchNoise(w.began, w.folder, ask)
	return nil
}

// startRun starts the cluster, and then the workload and the faults.
func (w *world) startRun() error {
	if err := w.startTrace(w.ctx); err != nil {
		return err
	}
	if err := w.interceptor.declareSink(); err != nil {
		return err
	}
	go w.database.Follow(w.ctx, w.observeEvent)
	for _, p := range w.allProcesses() {
		p.followWitness()
	}
	if err := w.startCluster(); err != nil {
		return err
	}
	w.ready = w.sinceStart()
	for _, p := range w.allProcesses() {
		if p.spec != nil && p.spec.Starts > 0 {
			w.callAfter(p.spec.Starts, func() { _ = p.start() })
		}
	}
	w.injector.Arm()
	w.callAfter(0, w.alerts.Sample)
	return w.startWorkload()
}

// startCluster starts the processes that run from the beginning, and waits until they are ready.
func (w *world) startCluster() error {
	if err := w.startNoiseWatch(); err != nil {
		return err
	}
	for _, p := range w.allProcesses() {
		if p.spec == nil || p.spec.Starts == 0 {
			if err := p.start(); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(w.ctx, readyWithin)
	defer cancel()
	for _, p := range w.allProcesses() {
		if p.daemon.Instance() == nil {
			continue
		}
		if err := p.daemon.Ready(ctx); err != nil {
			return fmt.Errorf("starting the cluster: %w", err)
		}
	}
	for _, a := range w.scenario.Actions {
		w.recordEvent(history.Event{Kind: history.ActionDefined, Process: client, Action: a.Ref, Count: int64(a.Concurrency)})
	}
	return nil
}

// readyWithin is how long a cluster's start may take, even on a busy machine.
const readyWithin = 3 * time.Minute

// callAfter calls f after the delay d, unless the run has ended by then.
func (w *world) callAfter(d time.Duration, f func()) {
	timer := time.AfterFunc(d, func() {
		w.mu.Lock()
		over := w.stopping || w.ctx.Err() != nil
		if !over {
			w.working.Add(1)
		}
		w.mu.Unlock()
		if !over {
			defer w.working.Done()
			f()
		}
	})
	context.AfterFunc(w.ctx, func() { timer.Stop() })
}

func (w *world) newInjector(clock run.Clock) *run.Injector {
	return run.NewInjector(run.InjectorOptions{
		Scenario: w.scenario, Config: w.config, World: w, Clock: clock, Emit: w.recordEvent, Workers: w.database.Worker,
		Draws: func(label string) run.Draws { return newStream(w.options.Seed, label) },
		Fail:  w.failHarness,
	})
}

// stopFaults prevents further faults, and ends those in effect.
func (w *world) stopFaults() {
	undo := w.injector.Stop()
	// One undo may wait for another: a statement waits until the database is up.
	finish := func() {
		var all sync.WaitGroup
		for _, f := range undo {
			all.Go(f)
		}
		all.Wait()
	}
	finish() // a fault that is about to begin may wait for the end of another
	w.mu.Lock()
	w.stopping = true
	w.mu.Unlock()
	w.working.Wait()
	finish()
	w.serversUp()
}

// close ends everything that the run has started, and removes the run's files.
func (w *world) close() {
	w.cancel()
	w.stopDaemons()
	w.clients.Wait()
	if w.interceptor != nil {
		w.interceptor.close()
	}
	if w.environment != nil {
		w.environment.close()
	}
	w.proxies.Close()
	if w.noise != nil {
		w.noise.stop()
	}
	if w.pool != nil {
		w.pool.Close()
	}
	if w.store != nil {
		w.store.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if w.db != nil {
		_ = w.db.Drop(ctx) // closing the sandbox removes the whole server
		_ = w.dropRole(ctx)
	}
	if w.mq != nil {
		_ = w.mq.Drop(ctx)
	}
	_ = os.RemoveAll(w.folder)
}
