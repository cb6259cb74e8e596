package stress

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
	"handoff/sim/simstore"
)

// servers wraps the models of the database and the broker for callers that are goroutines. Each call is a
// task of a process inside their kernel, and its caller waits for it outside. Every access to the models
// holds mu.
type servers struct {
	clock  *fastClock
	counts *counts

	mu     sync.Mutex
	k      *kernel.Kernel
	net    *simnet.Network
	db     *simstore.Database
	broker *simbroker.Broker

	nudged chan struct{}
	ending chan struct{}
	ended  chan struct{}
}

func newServers(t *testing.T, c *fastClock, seed uint64, counted *counts) *servers {
	s := &servers{
		clock: c, counts: counted, k: kernel.New(kernel.Options{Chooser: kernel.NewRandom(seed), Start: c.began}),
		nudged: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	s.net = simnet.New(s.k)
	s.db = simstore.New(s.k, s.net, nobody{})
	s.broker = simbroker.New(s.k, s.net, nobody{}, simbroker.Options{})
	s.tick()
	go s.run(t)
	return s
}

// nobody is a sink that discards the history of the models.
type nobody struct{}

// Observe implements history.Sink.
func (nobody) Observe(*history.Event) {}

// tick keeps a timer armed: without any timer, the kernel's time would stop.
func (s *servers) tick() { s.k.After(time.Second, s.tick) }

// run makes the kernel's time follow the clock until close.
func (s *servers) run(t *testing.T) {
	defer close(s.ended)
	for {
		s.mu.Lock()
		if s.k.Run(nil, s.clock.Since(s.clock.began)) == kernel.StopPanic {
			f := s.k.Failure()
			t.Errorf("a model panicked: %v\n%s", f, f.Stack)
			s.mu.Unlock()
			return
		}
		next, _ := s.k.NextTimer()
		s.mu.Unlock()
		select {
		case <-s.nudged:
		case <-time.After((next - s.clock.Since(s.clock.began)) / scale):
		case <-s.ending:
			return
		}
	}
}

func (s *servers) close() {
	close(s.ending)
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	s.k.Close()
}

// with calls a function that uses the models, under the lock.
func (s *servers) with(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	s.nudge()
}

func (s *servers) nudge() {
	select {
	case s.nudged <- struct{}{}:
	default:
	}
}

// remote represents, in the kernel, a process that runs outside it.
type remote struct {
	p     *kernel.Process
	alive kernel.Wait
}

// connect starts a process with this name in the kernel, which exists until leave is called.
func (s *servers) connect(name string) (r *remote, leave func()) {
	r = &remote{}
	up := make(chan struct{})
	s.with(func() {
		r.p = s.k.NewProcess(name)
		r.p.Go("stands", func() {
			r.alive = s.k.NewWait()
			close(up)
			_ = r.alive.Await(context.Background())
		})
	})
	<-up
	return r, func() { s.with(func() { r.alive.Done() }) }
}

// errGone is the error of a call by a process that has ended.
var errGone = errors.New("the process has ended")

// ask makes a call to a model as a task of a remote process. The call's context inside ends when ctx does.
func ask[T any](ctx context.Context, s *servers, r *remote, name string, call func(ctx context.Context) (T, error)) (answer T, err error) {
	s.counts.add("call " + name)
	err = errGone
	over := make(chan struct{})
	var cancel context.CancelFunc
	s.with(func() {
		if !r.p.Alive() {
			close(over)
			return
		}
		var within context.Context
		within, cancel = s.k.WithCancel(context.Background())
		r.p.Go(name, func() {
			defer close(over)
			answer, err = call(within)
		})
	})
	stop := context.AfterFunc(ctx, func() {
		s.with(func() {
			if cancel != nil {
				cancel()
			}
		})
	})
	<-over
	stop()
	return answer, err
}

// client returns one process's client of the broker.
func (s *servers) client(r *remote, heartbeat time.Duration) broker.Broker {
	return &brokerClient{s, r, s.broker.Client(r.p, heartbeat)}
}

type brokerClient struct {
	s     *servers
	r     *remote
	inner broker.Broker
}

// Connect implements broker.Broker.
func (b *brokerClient) Connect(ctx context.Context) (broker.Session, error) {
	inner, err := ask(ctx, b.s, b.r, "Connect", b.inner.Connect)
	if err != nil {
		return nil, err
	}
	return &session{b.s, b.r, inner}, nil
}

type session struct {
	s     *servers
	r     *remote
	inner broker.Session
}

// Declare implements broker.Session.
func (se *session) Declare(ctx context.Context, t broker.Topology) error {
	_, err := ask(ctx, se.s, se.r, "Declare", func(ctx context.Context) (struct{}, error) { return struct{}{}, se.inner.Declare(ctx, t) })
	return err
}

// Limited implements broker.Session.
func (se *session) Limited() []string { return nil }

// DeleteIdle implements broker.Session.
func (se *session) DeleteIdle(ctx context.Context, q broker.Queue) (broker.QueueFate, error) {
	return ask(ctx, se.s, se.r, "DeleteIdle", func(ctx context.Context) (broker.QueueFate, error) { return se.inner.DeleteIdle(ctx, q) })
}

// QueueState implements broker.Session.
func (se *session) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	return ask(ctx, se.s, se.r, "QueueState", func(ctx context.Context) (broker.QueueState, error) { return se.inner.QueueState(ctx, queue) })
}

// Publish implements broker.Session.
func (se *session) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	out, err := ask(ctx, se.s, se.r, "Publish", func(ctx context.Context) ([]broker.Outcome, error) { return se.inner.Publish(ctx, ms), nil })
	if err != nil {
		out = make([]broker.Outcome, len(ms)) // unknown
	}
	return out
}

// Consume implements broker.Session.
func (se *session) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	inner, err := ask(ctx, se.s, se.r, "Consume", func(ctx context.Context) (broker.Consumer, error) { return se.inner.Consume(ctx, queue, prefetch) })
	if err != nil {
		return nil, err
	}
	return &consumer{se.s, se.r, inner}, nil
}

// Blocked implements broker.Session.
func (se *session) Blocked() bool {
	se.s.mu.Lock()
	defer se.s.mu.Unlock()
	return se.inner.Blocked()
}

// Closed implements broker.Session.
func (se *session) Closed() bool {
	se.s.mu.Lock()
	defer se.s.mu.Unlock()
	return se.inner.Closed()
}

// Wait implements broker.Session.
func (se *session) Wait(ctx context.Context) error {
	_, err := ask(ctx, se.s, se.r, "Wait for the end", func(ctx context.Context) (struct{}, error) { return struct{}{}, se.inner.Wait(ctx) })
	return err
}

// Close implements broker.Session.
func (se *session) Close() { se.s.with(se.inner.Close) }

type consumer struct {
	s     *servers
	r     *remote
	inner broker.Consumer
}

// Receive implements broker.Consumer.
func (c *consumer) Receive(ctx context.Context) (broker.Delivery, error) {
	return ask(ctx, c.s, c.r, "Receive", c.inner.Receive)
}

// Ack implements broker.Consumer.
func (c *consumer) Ack(d broker.Delivery) { c.s.with(func() { c.inner.Ack(d) }) }

// Reject implements broker.Consumer.
func (c *consumer) Reject(d broker.Delivery, requeue bool) {
	c.s.with(func() { c.inner.Reject(d, requeue) })
}

// Cancel implements broker.Consumer.
func (c *consumer) Cancel(ctx context.Context) error {
	_, err := ask(ctx, c.s, c.r, "Cancel consumer", func(ctx context.Context) (struct{}, error) { return struct{}{}, c.inner.Cancel(ctx) })
	return err
}
