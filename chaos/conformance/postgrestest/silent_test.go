package postgrestest_test

import (
	"context"
	"log/slog"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff/chaos/netproxy"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store/postgres"
	"handoff/core/telemetry"
	"handoff/core/worker"
)

// These tests are about connections that have gone silent: a database node dies behind a virtual address, so everything
// that was connected hears nothing any more, and whoever connects anew reaches the next node.

// nobody is a broker that is away. A worker heartbeats without one.
type nobody struct{}

func (nobody) Connect(context.Context) (broker.Session, error) { return nil, broker.ErrUnavailable }

// fences counts how often a worker gave up its lease.
type fences struct {
	telemetry.Recorder
	n atomic.Int64
}

func (f *fences) Add(figure telemetry.Figure, n int64, l telemetry.Labels) {
	if figure == telemetry.LeasesFenced {
		f.n.Add(n)
	}
	f.Recorder.Add(figure, n, l)
}

// patient is a worker's configuration in small: a lease of nine seconds, given up 7.1 s after the last heartbeat.
func patient() config.Config {
	c := config.Default(config.Hardened)
	c.Worker.HeartbeatInterval, c.Worker.StatementTimeout = 3*time.Second, 1500*time.Millisecond
	c.Worker.KillGrace, c.Worker.FenceMargin = 200*time.Millisecond, 1900*time.Millisecond
	return c
}

// overDeadConnections runs a worker whose connections go silent so many times, and returns how often it fenced itself.
func (b *fixture) overDeadConnections(name string, trials int, d config.Database) (fenced int64) {
	proxies := netproxy.New()
	defer proxies.Close()
	u, err := url.Parse(b.url)
	var link *netproxy.Link
	if err == nil {
		link, err = proxies.Link(name, u.Host)
	}
	var db *postgres.Store
	if err == nil {
		u.Host = link.Address
		db, err = postgres.Open(b.ctx, u.String(), postgres.Options{
			MaxConns: d.Connections, HeartbeatConns: d.HeartbeatConnections, PingTimeout: d.PingTimeout,
		})
	}
	if err != nil {
		b.Error(err)
		return 0
	}
	defer db.Close()
	f := &fences{Recorder: telemetry.Discard{}}
	ctx, stop := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = worker.New(worker.Options{
			Name: name, Runtimes: []string{"shell"}, Host: daemon.New(daemon.Options{}), Store: db, Broker: nobody{},
			Config: patient(), Log: slog.New(slog.DiscardHandler), Recorder: f,
		}).Run(ctx)
	}()
	defer func() { stop(); <-done }()
	for range trials {
		before := f.n.Load()
		b.fill(db, d.Connections)
		b.nextBeat(name, f, before) // the trial begins with a fresh lease
		heal := []func(){
			link.Begin(netproxy.Out, netproxy.Effect{Silence: true}), link.Begin(netproxy.In, netproxy.Effect{Silence: true}),
		}
		b.nextBeat(name, f, before)
		for _, h := range heal {
			h()
		}
	}
	return f.n.Load()
}

// fill has a store make all the connections that it may.
func (b *fixture) fill(db *postgres.Store, connections int) {
	for {
		var all sync.WaitGroup
		for range 2 * connections {
			all.Go(func() { _, _ = db.Workers(b.ctx) })
		}
		all.Wait()
		if work, _ := db.Use(); work.Idle == int64(connections) || b.ctx.Err() != nil {
			return
		}
	}
}

// nextBeat waits for the next heartbeat of a worker, or until it has fenced itself.
func (b *fixture) nextBeat(name string, f *fences, before int64) {
	read := func() (execution.Incarnation, uint64) {
		rows, err := b.Workers(b.ctx)
		if err != nil {
			b.Error(err)
		}
		for i := range rows {
			if rows[i].Name == name {
				return rows[i].Incarnation, rows[i].Beat
			}
		}
		return 0, 0
	}
	incarnation, last := read()
	for f.n.Load() == before && b.ctx.Err() == nil {
		now, beat := read()
		if now != incarnation || now != 0 && beat > last {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// No worker gives up its lease because the connections of its pool have gone silent. Before heartbeats had connections
// of their own and pings a time, seven of sixteen did; the second half shows that the trial still finds them.
func TestHeartbeatsOutliveDeadConnections(t *testing.T) {
	trials, workers := 25, []string{"w1", "w2", "w3", "w4"}
	if testing.Short() {
		trials = 2
	}
	b := setup(t)
	var all sync.WaitGroup
	var fenced atomic.Int64
	for _, name := range workers {
		all.Go(func() { fenced.Add(b.overDeadConnections(name, trials, config.Default(config.Hardened).Database)) })
	}
	all.Wait()
	if n := fenced.Load(); n > 0 {
		t.Errorf("the connections of %d workers went silent %d times each: they fenced themselves %d times, want 0", len(workers), trials, n)
	}
	t.Logf("%d trials, %d fenced", len(workers)*trials, fenced.Load())

	if n := b.overDeadConnections("as-before", 4, config.Database{Connections: 16}); n == 0 {
		t.Error("a worker whose heartbeats share a pool of 16, and wait for pings without end, did not fence itself in 4 trials: the trial shows nothing")
	} else {
		t.Logf("as it was before: %d of 4 trials fenced", n)
	}
}
