package simbroker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

const (
	hour      = time.Hour
	heartbeat = 5 * time.Second
)

var background = context.Background()

// record keeps the history and, for each queue, the balance of its messages.
type record struct {
	events  []history.Event
	balance map[string]int
}

func (r *record) Observe(e *history.Event) {
	r.events = append(r.events, *e)
	switch e.Kind {
	case history.Enqueued:
		r.balance[e.Queue]++
	case history.Acked, history.DeadLettered, history.Dropped:
		r.balance[e.Queue]--
	}
}

// count returns the number of events of a kind in a queue, or in all queues if queue is empty.
func (r *record) count(kind history.Kind, queue string) int {
	n := 0
	for _, e := range r.events {
		if e.Kind == kind && (queue == "" || e.Queue == queue) {
			n++
		}
	}
	return n
}

// at returns the time of the first event of a kind.
func (r *record) at(t *testing.T, kind history.Kind) time.Duration {
	t.Helper()
	for _, e := range r.events {
		if e.Kind == kind {
			return e.At
		}
	}
	t.Fatalf("no event of kind %d", kind)
	return 0
}

type world struct {
	t       *testing.T
	k       *kernel.Kernel
	n       *simnet.Network
	b       *Broker
	r       *record
	touched map[string]int
	working int // number of processes whose function has not returned
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	return newWorldLike(t, seed, "")
}

// newWorldLike returns a world whose broker behaves like a release of RabbitMQ.
func newWorldLike(t *testing.T, seed uint64, version string) *world {
	t.Helper()
	k := kernel.New(kernel.Options{Chooser: kernel.NewRandom(seed), MaxSteps: 1_000_000})
	t.Cleanup(k.Close)
	w := &world{t: t, k: k, n: simnet.New(k), r: &record{balance: map[string]int{}}, touched: map[string]int{}}
	w.n.OnTouch(func(t simnet.Touched) { w.touched[t.Fault]++ })
	w.b = New(k, w.n, w.r, Options{Version: version})
	return w
}

// spawn starts a process that runs fn over one session.
func (w *world) spawn(name string, fn func(p *kernel.Process, s broker.Session)) *kernel.Process {
	p := w.k.NewProcess(name)
	w.working++
	p.Go("main", func() {
		defer func() { w.working-- }()
		s, err := w.b.Client(p, heartbeat).Connect(background)
		if err != nil {
			w.t.Errorf("%s: Connect: %v", name, err)
			return
		}
		fn(p, s)
	})
	return p
}

// run runs until the given time and checks conservation. Within an hour, every process must be done,
// because a hanging process has checked nothing.
func (w *world) run(until time.Duration) {
	w.t.Helper()
	if stop := w.k.Run(nil, until); stop == kernel.StopPanic || stop == kernel.StopMaxSteps {
		w.t.Fatal(stop, w.k.Failure())
	}
	w.conserved()
	if until >= hour && w.working > 0 {
		w.t.Errorf("%d processes hang", w.working)
	}
}

func (w *world) conserved() {
	w.t.Helper()
	for _, d := range w.b.Depths() {
		if w.r.balance[d.Queue] != d.Total() {
			w.t.Errorf("queue %s: the history leaves %d, the queue holds %+v", d.Queue, w.r.balance[d.Queue], d)
		}
	}
}

func (w *world) sleep(d time.Duration) {
	wait := w.k.NewWait()
	w.k.WakeAfter(d, wait)
	_ = wait.Await(background)
}

// within calls fn with a context that ends after d.
func (w *world) within(d time.Duration, fn func(ctx context.Context)) {
	ctx, cancel := w.k.WithTimeout(background, d)
	defer cancel()
	fn(ctx)
}

func (w *world) declare(s broker.Session, t broker.Topology) {
	if err := s.Declare(background, t); err != nil {
		w.t.Errorf("Declare: %v", err)
	}
}

// consume subscribes; each test chooses the prefetch.
func (w *world) consume(s broker.Session, queue string, prefetch int) broker.Consumer {
	c, err := s.Consume(background, queue, prefetch)
	if err != nil {
		w.t.Errorf("Consume: %v", err)
	}
	return c
}

// receive returns the next delivery, or none after a second.
func (w *world) receive(c broker.Consumer) (d broker.Delivery, ok bool) {
	w.within(time.Second, func(ctx context.Context) {
		var err error
		d, err = c.Receive(ctx)
		ok = err == nil
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("Receive: %v", err)
		}
	})
	return d, ok
}

// drain acknowledges deliveries until none arrives for a second, and returns their numbers.
func (w *world) drain(c broker.Consumer) []execution.ID {
	var ids []execution.ID
	for {
		d, ok := w.receive(c)
		if !ok {
			return ids
		}
		if len(d.Envelope.Dispatches) > 0 {
			ids = append(ids, numberOf(d))
		}
		c.Ack(d)
	}
}

// dispatch returns a message with a number. Numbers begin at 0, and the ids of executions at 1.
func dispatch(exchange, key string, number int) broker.Message {
	return broker.Message{Exchange: exchange, RoutingKey: key, Envelope: broker.Envelope{
		MessageID: fmt.Sprintf("%d.1", number+1), Type: broker.ExecutionScheduled, Version: broker.WireVersion,
		Dispatches: []broker.Dispatch{{Key: execution.Key{ID: execution.ID(number + 1), Epoch: 1}}},
	}}
}

// numberOf returns the number of a received dispatch.
func numberOf(d broker.Delivery) execution.ID { return d.Envelope.Dispatches[0].Key.ID - 1 }

func dispatches(exchange, key string, from, to int) []broker.Message {
	var ms []broker.Message
	for i := from; i < to; i++ {
		ms = append(ms, dispatch(exchange, key, i))
	}
	return ms
}

// publish publishes and expects every outcome to be want.
func (w *world) publish(s broker.Session, want broker.Outcome, ms ...broker.Message) {
	for i, o := range s.Publish(background, ms) {
		if o != want {
			w.t.Errorf("outcome of message %d: %v, want %v", i, o, want)
		}
	}
}

// plain returns one queue of a type behind the default exchange.
func plain(queueType string) broker.Topology {
	return broker.Topology{Queues: []broker.Queue{{Name: "q", Type: queueType}}}
}

// mortal returns a topology with a queue whose messages expire, and its dead letter path.
func mortal(queueType string, kind broker.ExchangeKind, ttl time.Duration) broker.Topology {
	return broker.Topology{
		Exchanges: []broker.Exchange{{Name: "x", Kind: broker.Topic}, {Name: "dlx", Kind: kind}},
		Queues: []broker.Queue{
			{Name: "q", Type: queueType, TTL: ttl, DeadLetterExchange: "dlx"},
			{Name: "dead", Type: queueType},
		},
		Bindings: []broker.Binding{
			{Exchange: "x", Pattern: "work", Queue: "q"},
			{Exchange: "dlx", Pattern: "#", Queue: "dead"},
		},
	}
}

func equalIDs(got []execution.ID, want ...execution.ID) bool {
	return fmt.Sprint(got) == fmt.Sprint(want)
}
