package stress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/executor"
	"handoff/core/host"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/metered"
	"handoff/core/submission"
	"handoff/core/testenv"
	"handoff/core/worker"
	"handoff/sim/simbroker"
	"handoff/sim/simstore"
)

const (
	executors = 2
	workers   = 4
	// short is how long the disturbances last, in real time; HANDOFF_STRESS overrides it. A run then
	// continues until everything in goesRound has happened, and until nothing is left to do, each for at most
	// testenv.Patience.
	short = 8 * time.Second
)

// system holds executors, workers and a client over the models.
type system struct {
	t       *testing.T
	clock   *fastClock
	servers *servers
	config  config.Config
	counts  *counts
	log     *slog.Logger

	mu     sync.Mutex
	pulses map[string]*worker.Pulse
	ids    []execution.ID
}

// process is one running executor or worker.
type process struct {
	stop  context.CancelFunc
	ended chan struct{}
}

// wait waits until the process has ended.
func (p *process) wait() { <-p.ended }

// ports returns one process's machine and its clients of the servers.
func (s *system) ports(name string) (h host.Host, db *database, b broker.Broker, leave func()) {
	h = countingHost{daemon.New(daemon.Options{Clock: s.clock}), s.counts}
	r, leave := s.servers.connect(name)
	s.servers.mu.Lock()
	defer s.servers.mu.Unlock()
	return h, &database{s.servers.db.Client(r.p), s.servers, r}, s.servers.client(r, s.config.MessageQueue.RabbitMQ.Heartbeat), leave
}

func (s *system) executor(name string) *process {
	h, db, b, leave := s.ports(name)
	ctx, stop := context.WithCancel(context.Background())
	p := &process{stop: stop, ended: make(chan struct{})}
	service := executor.New(executor.Options{
		Name: name, Host: h, Config: s.config, Log: s.log, Recorder: recorder{s.counts},
		Store: metered.Executor(db, recorder{s.counts}), Broker: b, Prober: s,
	})
	go func() {
		defer close(p.ended)
		defer leave()
		service.Run(ctx)
	}()
	// Make the calls that requests to an executor's health endpoint would make.
	go func() {
		for ctx.Err() == nil {
			_, _ = service.Connected(), service.DeadLetterPath()
			_ = h.Sleep(ctx, time.Second)
		}
	}()
	return p
}

func (s *system) worker(name string) *process {
	h, db, b, leave := s.ports(name)
	ctx, stop := context.WithCancel(context.Background())
	p := &process{stop: stop, ended: make(chan struct{})}
	pulse := worker.NewPulse(h, s.config.Worker.Lease())
	s.mu.Lock()
	s.pulses[name] = pulse
	s.mu.Unlock()
	service := worker.New(worker.Options{
		Name: name, Runtimes: []string{"shell"}, HealthURL: name, Host: h, Config: s.config, Log: s.log, Recorder: recorder{s.counts},
		Store: pulse.Watch(metered.Worker(db, recorder{s.counts})), Broker: b, Runner: &runner{h, s.clock},
	})
	go func() {
		defer close(p.ended)
		defer leave()
		if errors.Is(service.Run(ctx), worker.ErrSuperseded) {
			s.counts.add("worker superseded")
		}
	}()
	return p
}

// Probe implements executor.Prober.
func (s *system) Probe(_ context.Context, url string) error {
	s.counts.add("probe")
	s.mu.Lock()
	pulse := s.pulses[url]
	s.mu.Unlock()
	return pulse.Ready()
}

// actions are short; some have a concurrency limit, and some a short timeout.
var actions = []execution.Action{
	{Ref: "plain", Runtime: "shell", MaxRetries: 2},
	{Ref: "limited", Runtime: "shell", MaxRetries: 1, Concurrency: 3},
	{Ref: "hasty", Runtime: "shell", MaxRetries: 1, Timeout: 2 * time.Second, DispatchTimeout: 5 * time.Second},
}

// submit creates executions and cancels some of them, until ctx ends.
func (s *system) submit(ctx context.Context) {
	h, db, b, leave := s.ports("client")
	defer leave()
	connected, disconnect := context.WithCancel(context.Background())
	c := broker.NewClient(h, b, broker.ExecutorTopology(s.config.MessageQueue.RabbitMQ), s.config.MessageQueue.RabbitMQ, s.log)
	notifier := broker.NewNotifier(h, c, "client", s.log)
	tasks := []host.Task{h.Go("client", func() { c.Run(connected) }), h.Go("notifier", func() { notifier.Run(connected) })}
	defer func() {
		disconnect()
		for _, task := range tasks {
			_ = task.Wait(context.Background())
		}
	}()
	for db.PutActions(ctx, actions) != nil && ctx.Err() == nil {
	}
	submitter := &submission.Submitter{Host: h, Store: db, Notifier: notifier, Timeout: s.config.Executor.StatementTimeout}
	for n := 0; ctx.Err() == nil; n++ {
		var items []store.NewExecution
		for i := range 1 + h.Uint64N(8) {
			item := store.NewExecution{ActionRef: actions[h.Uint64N(uint64(len(actions)))].Ref, IdempotencyKey: fmt.Sprintf("%d/%d", n, i)}
			if len(s.ids) > 0 && h.Uint64N(5) == 0 {
				item.Parent = s.ids[h.Uint64N(uint64(len(s.ids)))]
			}
			items = append(items, item)
		}
		created, err := submitter.Submit(ctx, items)
		for i := range created {
			if err == nil && created[i].ID != 0 {
				s.ids = append(s.ids, created[i].ID)
			}
		}
		if len(s.ids) > 0 && h.Uint64N(2) == 0 {
			id := s.ids[len(s.ids)-1-int(h.Uint64N(uint64(min(10, len(s.ids)))))]
			answers, err := db.Cancel(ctx, []execution.ID{id}, "client")
			for i := range answers {
				if row := &answers[i].Row; err == nil && row.Status == execution.Canceling {
					notifier.Cancel(row.Worker, row.Key())
				}
			}
		}
		_ = h.Sleep(ctx, time.Duration(h.Uint64N(uint64(time.Second))))
	}
}

// churn runs a process and restarts it repeatedly until ctx ends; it returns the last process, which still
// runs. Half of the successors begin before their predecessor ends, as twins that take its name.
func (s *system) churn(ctx context.Context, name string, start func(name string) *process) *process {
	draws := rand.New(rand.NewPCG(1, uint64(len(name))))
	var others []*process
	p := start(name)
	for s.pause(ctx, 5*time.Second, 40*time.Second, draws) {
		if draws.IntN(2) == 0 {
			p.stop()
			p.wait()
		} else {
			others = append(others, p)
		}
		p = start(name)
		if len(others) > 2 {
			others[0].stop()
			others[0].wait()
			others = others[1:]
		}
	}
	for _, other := range others {
		other.stop()
		other.wait()
	}
	return p
}

// pause waits for a virtual time between two bounds, and returns false if ctx ends first.
func (s *system) pause(ctx context.Context, least, most time.Duration, draws *rand.Rand) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After((least + time.Duration(draws.Int64N(int64(most-least)))) / scale):
		return true
	}
}

// disturb repeatedly breaks and repairs servers and links, until ctx ends.
func (s *system) disturb(ctx context.Context) {
	draws := rand.New(rand.NewPCG(2, 2))
	m := s.servers
	for s.pause(ctx, time.Second, 8*time.Second, draws) {
		who := fmt.Sprintf("worker-%d", 1+draws.IntN(workers))
		id := execution.WorkerID(1 + draws.IntN(workers))
		end := []string{simstore.Server, "broker"}[draws.IntN(2)]
		var mend func()
		least, most := time.Second, 5*time.Second
		switch draws.IntN(10) {
		case 0:
			m.with(func() { m.net.Cut(who, end, "cut"); m.net.Cut(end, who, "cut") })
			mend = func() { m.net.Heal(who, end, "cut"); m.net.Heal(end, who, "cut") }
			most = 40 * time.Second // longer than a lease
		case 1:
			m.with(func() { m.broker.Stop(true) })
			mend = m.broker.Start
		case 2:
			m.with(m.db.Stop)
			mend = m.db.Start
		case 3:
			m.with(func() { m.db.SetRollback(300_000, "rollback", "40001", "could not serialize access") })
			mend = func() { m.db.SetRollback(0, "", "", "") }
		case 4:
			m.with(func() { m.db.SetReadOnly("read-only") })
			mend = func() { m.db.SetReadOnly("") }
		case 5:
			m.with(func() { m.broker.CancelConsumers(broker.WorkerQueue(id)) })
		case 6, 7:
			queue := []string{broker.WorkerQueue(id), broker.CancelQueue(id), broker.QueueCompleted, broker.QueueRequested}[draws.IntN(4)]
			m.with(func() {
				for range 30 {
					m.broker.Forge(queue, simbroker.Forged{Garbage: true, Fault: "garbage"})
				}
			})
		case 8:
			m.with(func() { m.broker.SetAlarm(true) })
			mend = func() { m.broker.SetAlarm(false) }
		case 9:
			m.with(func() { m.db.Operate(store.Cordon{Worker: id, On: true, Drain: draws.IntN(2) == 0}) })
			mend = func() { m.db.Operate(store.Cordon{Worker: id}) }
		}
		if mend != nil {
			s.pause(ctx, least, most, draws)
			m.with(mend)
		}
	}
}

// TestConcurrentLoadEndsCompletely fails if the race detector reports a race, or if work is left at the end.
func TestConcurrentLoadEndsCompletely(t *testing.T) {
	if !raceDetector && os.Getenv("HANDOFF_STRESS") == "" {
		t.Skip("the race detector is its judge: go test -race ./sim/stress, part of make race")
	}
	lasts := short
	if given := os.Getenv("HANDOFF_STRESS"); given != "" {
		var err error
		if lasts, err = time.ParseDuration(given); err != nil {
			t.Fatalf("HANDOFF_STRESS=%s: a duration such as 10m is needed: %v", given, err)
		}
	}
	counted, c := newCounts(), newFastClock()
	s := &system{
		t: t, clock: c, counts: counted, config: settings(), log: slog.New(slog.DiscardHandler), pulses: make(map[string]*worker.Pulse),
		servers: newServers(t, c, 1, counted),
	}
	began := time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	left := make([]*process, executors+workers)
	all.Go(func() { s.submit(ctx) })
	all.Go(func() { s.disturb(ctx) })
	for i := range left {
		all.Go(func() {
			if i < executors {
				left[i] = s.churn(ctx, fmt.Sprintf("executor-%d", i+1), s.executor)
			} else {
				left[i] = s.churn(ctx, fmt.Sprintf("worker-%d", i-executors+1), s.worker)
			}
		})
	}
	for time.Since(began) < lasts || len(counted.missing()) > 0 && time.Since(began) < lasts+testenv.Patience() {
		s.clock.Clock.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	disturbed := time.Since(began)
	s.settle(left)
	s.servers.close()
	t.Logf("%d executions, disturbed for %v and at rest %v later (%d times that on their clocks):\n%s", len(s.ids), disturbed, time.Since(began)-disturbed, scale, counted)
	for _, what := range counted.missing() {
		t.Errorf("too seldom, so nothing was learned of it: %s", what)
	}
}

// settle waits until nothing is left to do, and then stops all processes. It restarts workers that were
// drained or superseded, so that executions dispatched to them can be claimed.
func (s *system) settle(left []*process) {
	deadline := time.Now().Add(testenv.Patience())
	for {
		var unfinished int
		var idle bool
		s.servers.with(func() { unfinished, idle = s.servers.db.Unfinished(), s.servers.broker.Idle() })
		if unfinished == 0 && idle {
			break
		}
		if time.Now().After(deadline) {
			s.t.Errorf("%d executions have not ended %v after everything was mended, and messages are left: %t", unfinished, testenv.Patience(), !idle)
			s.servers.with(func() {
				for _, d := range s.servers.broker.Depths() {
					s.t.Logf("%+v", d)
				}
			})
			break
		}
		for i := range left {
			select {
			case <-left[i].ended:
				if i >= executors {
					left[i] = s.worker(fmt.Sprintf("worker-%d", i-executors+1))
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
	for _, p := range left {
		p.stop()
	}
	for i, p := range left {
		select {
		case <-p.ended:
		case <-time.After(testenv.Patience()):
			s.t.Fatalf("process %d of %d (%d executors, then workers) has not stopped %v after it was asked to", i+1, len(left), executors, testenv.Patience())
		}
	}
}

// settings returns the default configuration, with small batches and loops that run often.
func settings() config.Config {
	c := config.Default(config.Hardened)
	c.Executor.BatchSize = 7
	c.Executor.DispatchTimeout = 20 * time.Second
	c.Executor.ScheduledTimeout = 50 * time.Second
	c.MessageQueue.RabbitMQ.WorkerQueueTTLMS = 30_000
	c.Executor.ReapGrace = 2 * time.Second
	c.Executor.ReconcileInterval = 500 * time.Millisecond
	c.Executor.TimeoutCheckInterval = 500 * time.Millisecond
	c.Executor.HealthCheckInterval = time.Second
	c.Executor.FiguresInterval = time.Second
	c.Worker.Concurrency = 3
	c.Worker.HeartbeatInterval = time.Second
	c.Worker.HeartbeatStalenessMultiplier = 12
	c.Worker.ShutdownTimeout = 5 * time.Second
	c.Retry.MaxBackoffSecs = 5
	return c
}
