package simbroker

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// Names of the faults that the broker's own methods are, as Dropped events and simnet's OnTouch name
// them.
const (
	// FaultStop: the broker was shut down in order while it had sessions.
	FaultStop = "broker-stop"
	// FaultKill: the broker was killed while it had sessions; what it had not stored may be lost.
	FaultKill = "broker-kill"
	// FaultAlarm: a publish was held back.
	FaultAlarm = "broker-alarm"
	// FaultQueueDeleted: a queue was deleted with what it held.
	FaultQueueDeleted = "queue-deleted"
	// FaultUnbound: a dead letter had no route since a queue lost its bindings or was deleted.
	FaultUnbound = "queue-unbound"
)

// Options are the broker's settings. The zero value is the broker that was measured.
type Options struct {
	// Name is the server's node in the network; empty means "broker".
	Name string
	// Version is one of Versions; empty means the oldest.
	Version string
	// ConnectTimeout is how long Connect waits for an answer at most; 0 means 30 s.
	ConnectTimeout time.Duration
	// DiskLow and DiskHigh bound how long a message takes to be stored, before it is confirmed; both
	// 0 means 200 µs to 3 ms.
	DiskLow, DiskHigh time.Duration
	// Lateness bounds how late an expired message is removed; 0 means 22 ms, negative means never
	// late.
	Lateness time.Duration
	// DeadLetterRetry is after what time a quorum queue tries a dead letter again that had no route;
	// 0 means 180 s.
	DeadLetterRetry time.Duration
	// ConsumerTimeout is how long a delivery may stay unacknowledged before the session ends; 0 means 30 min.
	ConsumerTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "broker"
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = 30 * time.Second
	}
	if o.DiskLow == 0 && o.DiskHigh == 0 {
		o.DiskLow, o.DiskHigh = 200*time.Microsecond, 3*time.Millisecond
	}
	if o.Lateness == 0 {
		o.Lateness = 22 * time.Millisecond
	}
	if o.DeadLetterRetry == 0 {
		o.DeadLetterRetry = 180 * time.Second
	}
	if o.ConsumerTimeout == 0 {
		o.ConsumerTimeout = 30 * time.Minute
	}
	return o
}

// Broker is the server. Its methods are for the harness: they run in kernel context or between runs,
// and must not be called from inside a history sink.
type Broker struct {
	k     *kernel.Kernel
	net   *simnet.Network
	sink  history.Sink
	opts  Options
	clock *kernel.Clock
	like  behaviour

	disk, lateness, loss, late *kernel.Stream

	up    bool
	alarm bool
	stuck bool // see poisoned

	stalls      int       // queues that hang
	idleLetters []*func() // see StopDeadLettering

	consumerTimeout, consumerTick time.Duration
	timedOut                      func()

	exchanges []*exchange // sorted by name
	queues    []*queue    // sorted by name
	peers     []*peer     // open sessions, oldest first
	blocks    []*block
	stalled   []*publish // held back by the alarm, oldest first
	delayed   []*delayed // held back by a filter, oldest first
	filters   []filter   // sorted by id

	lastMessage uint64 // a block has a number for each dispatch
	lastPeer    uint64
	// connects counts the attempts of each process to connect, across its restarts.
	connects map[string]uint64

	// Events are reused; a sink that makes the broker report something while it is being told
	// something gets the next one.
	events []*history.Event
	depth  int
}

// New returns a broker that is up and empty. Events go to sink; nil drops them.
func New(k *kernel.Kernel, net *simnet.Network, sink history.Sink, opts Options) *Broker {
	opts = opts.withDefaults()
	return &Broker{
		k:        k,
		net:      net,
		sink:     sink,
		opts:     opts,
		connects: make(map[string]uint64),
		clock:    k.NewClock(opts.Name),
		like:     behaviourOf(opts.Version),
		disk:     k.Stream("broker/disk"),
		lateness: k.Stream("broker/lateness"),
		loss:     k.Stream("broker/loss"),
		late:     k.Stream("broker/late-reads"),
		up:       true,

		consumerTimeout: opts.ConsumerTimeout,
		consumerTick:    consumerTick,
	}
}

// Clock is the broker's own clock; x-death shows its wall time. Expiry goes by true time.
func (b *Broker) Clock() *kernel.Clock { return b.clock }

// Up says whether the broker is up.
func (b *Broker) Up() bool { return b.up }

// Stop takes the broker down: its sessions end, what they had not settled is requeued, and nothing
// happens until Start but the passing of time, in which messages expire. With kill, each message
// that was not stored yet is kept or lost by a draw. Stopping twice does nothing.
func (b *Broker) Stop(kill bool) {
	if !b.up {
		return
	}
	fault := FaultStop
	if kill {
		fault = FaultKill
	}
	if len(b.peers) > 0 {
		b.net.Touch(simnet.Touched{Fault: fault, Process: b.opts.Name})
	}
	b.up = false
	b.observe(history.Event{Kind: history.BrokerDown, Process: b.opts.Name})
	for _, p := range slices.Clone(b.peers) {
		p.close()
	}
	b.stalled = nil
	for _, q := range b.queues {
		q.goDown(kill)
	}
	b.net.SetServer(b.opts.Name, false)
}

// Start brings the broker up again with what its queues hold. What expired in the meantime dies at
// once (rule 13). Starting a broker that is up does nothing.
func (b *Broker) Start() {
	if b.up {
		return
	}
	b.up = true
	b.net.SetServer(b.opts.Name, true)
	b.heal()
	up := history.Event{Kind: history.BrokerUp, Process: b.opts.Name}
	if b.poisoned() {
		up.Count = 1
	}
	b.observe(up)
	for _, q := range slices.Clone(b.queues) {
		q.used()
		q.retryHeld()
		q.serve()
	}
	b.flushDelayed()
}

// SetAlarm raises or clears the memory alarm: while it is on, publishes are taken but neither stored
// nor confirmed, and the clients are told (rule 35). It outlasts a restart.
func (b *Broker) SetAlarm(on bool) {
	if b.alarm == on {
		return
	}
	b.alarm = on
	for _, p := range b.peers {
		p.tellBlocked(on)
	}
	if on {
		return
	}
	stalled := b.stalled
	b.stalled = nil
	for _, p := range stalled {
		p.Arrive()
	}
}

// DeleteQueue deletes a queue: its messages are dropped, not dead-lettered, its bindings are gone and
// its consumers are cancelled (rules 15 and 32). It returns false when there is none of that name.
func (b *Broker) DeleteQueue(name string) bool {
	q := b.queue(name)
	if q == nil {
		return false
	}
	b.net.Touch(simnet.Touched{Fault: FaultQueueDeleted, Queue: name})
	// Deleting a queue that hangs takes its process away, and what waited for it.
	b.removeQueue(q, FaultQueueDeleted)
	return true
}

// removeQueue deletes a queue because of a fault, or because somebody asked for it. What is lost with it then has no
// fault for an excuse.
func (b *Broker) removeQueue(q *queue, fault string) {
	b.queues = slices.DeleteFunc(b.queues, func(other *queue) bool { return other == q })
	for _, e := range b.exchanges {
		e.unbind(q, fault)
	}
	q.delete(fault)
}

// CancelConsumers cancels every consumer of a queue, as the broker does when a queue's leader moves: what is
// unsettled stays with its session, which stays open (rule 32). It returns how many there were.
func (b *Broker) CancelConsumers(name string) int {
	q := b.queue(name)
	if q == nil {
		return 0
	}
	consumers := q.consumers
	q.consumers = nil
	for _, c := range consumers {
		c.p.consumers = slices.DeleteFunc(c.p.consumers, func(other *consumer) bool { return other == c })
		c.cancelledByServer()
	}
	return len(consumers)
}

// block keeps a queue without consumers.
type block struct {
	queue string
	touch func()
	// waiting are the subscriptions that wait for its end, oldest first.
	waiting []func()
}

// BlockConsumers cancels every consumer of a queue and lets nobody subscribe to it until the returned function is called:
// subscriptions wait without an answer. touch is called whenever that makes a difference.
func (b *Broker) BlockConsumers(name string, touch func()) (unblock func()) {
	if b.CancelConsumers(name) > 0 {
		touch()
	}
	x := &block{queue: name, touch: touch}
	b.blocks = append(b.blocks, x)
	return func() {
		b.blocks = slices.DeleteFunc(b.blocks, func(other *block) bool { return other == x })
		for _, subscribe := range x.waiting {
			subscribe()
		}
	}
}

// subscribing runs a subscription to a queue, now or when nothing blocks it any more.
func (b *Broker) subscribing(queue string, subscribe func()) {
	for _, x := range b.blocks {
		if x.queue == queue {
			x.touch()
			x.waiting = append(x.waiting, func() { b.subscribing(queue, subscribe) })
			return
		}
	}
	b.queue(queue).attend(subscribe, nil)
}

// Unbind takes a queue's bindings away and returns what restores them; a client that declares its
// topology again restores them too. What is published meanwhile has no route (rule 4).
func (b *Broker) Unbind(name string) (restore func()) {
	q := b.queue(name)
	var lost []broker.Binding
	for _, e := range b.exchanges {
		for _, r := range e.bindings {
			if r.queue == q {
				lost = append(lost, broker.Binding{Exchange: e.name, Pattern: r.pattern, Queue: name})
			}
		}
		e.unbind(q, FaultUnbound)
	}
	return func() {
		for _, binding := range lost {
			// A queue that was deleted meanwhile is bound by whoever declares it.
			_ = b.bind(binding)
		}
	}
}

// queue returns the queue of that name, or nil.
func (b *Broker) queue(name string) *queue {
	i, ok := slices.BinarySearchFunc(b.queues, name, func(q *queue, name string) int {
		return strings.Compare(q.decl.Name, name)
	})
	if !ok {
		return nil
	}
	return b.queues[i]
}

// exchange returns the exchange of that name, or nil. The default exchange is not among them.
func (b *Broker) exchange(name string) *exchange {
	i, ok := slices.BinarySearchFunc(b.exchanges, name, func(e *exchange, name string) int {
		return strings.Compare(e.name, name)
	})
	if !ok {
		return nil
	}
	return b.exchanges[i]
}

// observe reports an event, with time and step filled in.
func (b *Broker) observe(e history.Event) {
	if b.sink == nil {
		return
	}
	if b.depth == len(b.events) {
		b.events = append(b.events, new(history.Event))
	}
	slot := b.events[b.depth]
	*slot = e
	slot.At = b.k.Now()
	slot.Step = b.k.Step()
	b.depth++
	b.sink.Observe(slot)
	b.depth--
}

// tell reports what happened to one message.
func (b *Broker) tell(kind history.Kind, m *message, queue, process, fault string, count int) {
	b.tellOf(m, history.Event{Kind: kind, Queue: queue, Process: process, Fault: fault, Count: int64(count)})
}

// tellOf reports an event about a message. A block is as many messages to the history as it has dispatches, with a number
// each, that go every way together: so every rule about the message of a dispatch judges each of them.
func (b *Broker) tellOf(m *message, e history.Event) {
	if b.sink == nil {
		return
	}
	e.Message, e.Type = m.id, uint8(m.envelope.Type)
	ds := m.envelope.Dispatches
	if m.forged || len(ds) == 0 {
		b.observe(e)
		return
	}
	for i := range ds {
		e.Execution, e.Epoch = ds[i].Key.ID, ds[i].Key.Epoch
		if len(ds) > 1 {
			e.Message, e.Limit = m.id+uint64(i), int64(i+1)
		}
		b.observe(e)
	}
}

var _ broker.Broker = (*client)(nil)
