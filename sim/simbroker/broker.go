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

// Names of the faults that the broker's own methods cause, as used in Dropped events and by simnet's OnTouch.
const (
	// FaultStop: the broker was shut down in an orderly way while it had sessions.
	FaultStop = "broker-stop"
	// FaultKill: the broker was killed while it had sessions; messages that were not stored yet may
	// be lost.
	FaultKill = "broker-kill"
	// FaultAlarm: a publish was held back.
	FaultAlarm = "broker-alarm"
	// FaultQueueDeleted: a queue was deleted with its messages.
	FaultQueueDeleted = "queue-deleted"
	// FaultUnbound: a dead letter has no route because a queue lost its bindings or was deleted.
	FaultUnbound = "queue-unbound"
)

// Options are the broker's settings. The zero value is the broker as measured.
type Options struct {
	// Name is the name of the server's node in the network; "" means "broker".
	Name string
	// Version is one of Versions; "" means the oldest.
	Version string
	// ConnectTimeout is the longest time that Connect waits for an answer; 0 means 30 s.
	ConnectTimeout time.Duration
	// DiskLow and DiskHigh bound how long storing a message takes before it is confirmed; both 0
	// means 200 µs to 3 ms.
	DiskLow, DiskHigh time.Duration
	// Lateness bounds how late an expired message is removed; 0 means 22 ms, and a negative value means never
	// late.
	Lateness time.Duration
	// DeadLetterRetry is how long a quorum queue waits before it retries a dead letter without a route; 0
	// means 180 s.
	DeadLetterRetry time.Duration
	// ConsumerTimeout is how long a delivery may stay unacknowledged before the session ends; 0
	// means 30 min.
	ConsumerTimeout time.Duration
	// Sample determines which messages are encoded; the type encoding explains why the others are not.
	Sample uint64
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

// Broker is the server. Its methods are for the harness. They run in kernel context or between
// runs, and a history sink must not call them.
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
	stuck bool // see isPoisoned
	// givenUp is called with the process that ends its session because a publish has waited too long; may
	// be nil.
	givenUp func(process string)

	stalls      int       // queues that hang
	idleLetters []*func() // see StopDeadLettering

	consumerTimeout, consumerTick time.Duration
	timedOut                      func()

	exchanges []*exchange // sorted by name
	queues    []*queue    // sorted by name
	peers     []*peer     // open sessions, oldest first
	blocks    []*block
	stalled   []*publish        // held back by the alarm, oldest first
	delayed   []*delayedMessage // held back by a filter, oldest first
	filters   []filter          // sorted by id

	encoding encoding

	lastMessage uint64 // a message uses one number for each of its dispatches
	lastPeer    uint64
	// connects counts each process's attempts to connect, across its restarts.
	connects map[string]uint64

	// Frames that cross the network once for each message are reused.
	spareArrivals    sparePool[arrival]
	spareSettlements sparePool[settlement]

	// Events are reused. If a sink causes another event while it handles one, the new event uses the next
	// slot.
	events []*history.Event
	depth  int
}

// sparePool holds values for reuse. Values that were lost in transit are not returned to it; the garbage
// collector frees them.
type sparePool[T any] []*T

// takeSpare returns a zeroed value.
func (s *sparePool[T]) takeSpare() *T {
	last := len(*s) - 1
	if last < 0 {
		return new(T)
	}
	one := (*s)[last]
	*s = (*s)[:last]
	return one
}

// putSpare zeroes a value that is no longer referenced, and keeps it for reuse.
func (s *sparePool[T]) putSpare(one *T) {
	var zero T
	*one = zero
	*s = append(*s, one)
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
		encoding: newEncoding(opts.Sample),

		consumerTimeout: opts.ConsumerTimeout,
		consumerTick:    consumerTick,
	}
}

// Clock returns the broker's own clock; x-death shows its wall time. Expiry uses true time.
func (b *Broker) Clock() *kernel.Clock { return b.clock }

// Up reports whether the broker is up.
func (b *Broker) Up() bool { return b.up }

// Stop takes the broker down. Its sessions end, and their unsettled messages are requeued. While it is
// down, messages still expire. With kill, a draw decides for each unstored message whether it is lost. A
// second Stop does nothing.
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
	b.emitEvent(&history.Event{Kind: history.BrokerDown, Process: b.opts.Name})
	for _, p := range slices.Clone(b.peers) {
		p.close()
	}
	b.stalled = nil
	for _, q := range b.queues {
		q.goDown(kill)
	}
	b.net.SetServer(b.opts.Name, false)
}

// Start restarts the broker with the content of its queues. Messages that expired meanwhile die at once
// (rule 13). It does nothing if the broker is up.
func (b *Broker) Start() {
	if b.up {
		return
	}
	b.up = true
	b.net.SetServer(b.opts.Name, true)
	b.resetDeadLettering()
	up := history.Event{Kind: history.BrokerUp, Process: b.opts.Name}
	if b.isPoisoned() {
		up.Count = 1
	}
	b.emitEvent(&up)
	for _, q := range slices.Clone(b.queues) {
		q.restartExpiry()
		q.retryHeld()
		q.deliverReady()
	}
	b.flushDelayed()
}

// SetAlarm raises or clears the memory alarm: while it is on, publishes are accepted but neither stored nor
// confirmed, and the clients are notified (rule 35). It survives a restart.
func (b *Broker) SetAlarm(on bool) {
	if b.alarm == on {
		return
	}
	b.alarm = on
	for _, p := range b.peers {
		p.notifyBlocked(on)
	}
	if on {
		return
	}
	stalled := b.stalled
	b.stalled = nil
	now := b.k.Strand()
	for _, p := range stalled {
		p.Arrive()
		b.k.SetStrand(now)
	}
}

// DeleteQueue deletes a queue: its messages are dropped, not dead-lettered, its bindings are removed and
// its consumers are cancelled (rules 15 and 32). It returns false if no queue has that name.
func (b *Broker) DeleteQueue(name string) bool {
	q := b.queueNamed(name)
	if q == nil {
		return false
	}
	b.net.Touch(simnet.Touched{Fault: FaultQueueDeleted, Queue: name})
	// Deleting a hanging queue also ends its process, and with it every request that waits for the queue.
	b.removeQueue(q, FaultQueueDeleted)
	return true
}

// removeQueue deletes a queue because of a fault, or because a client asked for it. fault is empty for a
// client's request; then no fault excuses the loss of its messages.
func (b *Broker) removeQueue(q *queue, fault string) {
	b.queues = slices.DeleteFunc(b.queues, func(other *queue) bool { return other == q })
	for _, e := range b.exchanges {
		e.unbindQueue(q, fault)
	}
	q.deleteContents(fault)
}

// CancelConsumers cancels every consumer of a queue, as the broker does when a queue's leader
// moves. Unsettled deliveries stay with their session, which stays open (rule 32). It returns the
// number of consumers.
func (b *Broker) CancelConsumers(name string) int {
	q := b.queueNamed(name)
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

// block is what keeps a queue from having consumers.
type block struct {
	queue string
	touch func()
	// waiting are the subscriptions that wait for the end of the block, oldest first.
	waiting []func()
}

// BlockConsumers cancels every consumer of a queue. Until the returned function is called, new
// subscriptions wait without a reply. It calls touch if it cancels a consumer, and whenever a subscription
// must wait.
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

// subscribeWhenUnblocked runs a subscription to a queue as soon as the queue is not blocked.
func (b *Broker) subscribeWhenUnblocked(queue string, subscribe func()) {
	for _, x := range b.blocks {
		if x.queue == queue {
			x.touch()
			x.waiting = append(x.waiting, func() { b.subscribeWhenUnblocked(queue, subscribe) })
			return
		}
	}
	b.queueNamed(queue).runWhenResumed(subscribe, nil)
}

// Unbind removes a queue's bindings and returns a function that restores them. A client that redeclares its
// topology also restores them. Messages published meanwhile have no route (rule 4).
func (b *Broker) Unbind(name string) (restore func()) {
	q := b.queueNamed(name)
	var lost []broker.Binding
	for _, e := range b.exchanges {
		for _, r := range e.bindings {
			if r.queue == q {
				lost = append(lost, broker.Binding{Exchange: e.name, Pattern: r.pattern, Queue: name})
			}
		}
		e.unbindQueue(q, FaultUnbound)
	}
	return func() {
		for _, binding := range lost {
			// If the queue was deleted meanwhile, its next declaration binds it.
			_ = b.bindQueue(binding)
		}
	}
}

// queueNamed returns the queue with that name, or nil.
func (b *Broker) queueNamed(name string) *queue {
	i, ok := slices.BinarySearchFunc(b.queues, name, func(q *queue, name string) int {
		return strings.Compare(q.decl.Name, name)
	})
	if !ok {
		return nil
	}
	return b.queues[i]
}

// exchangeNamed returns the exchange with that name, or nil. The default exchange is not listed.
func (b *Broker) exchangeNamed(name string) *exchange {
	i, ok := slices.BinarySearchFunc(b.exchanges, name, func(e *exchange, name string) int {
		return strings.Compare(e.name, name)
	})
	if !ok {
		return nil
	}
	return b.exchanges[i]
}

// emitEvent writes an event to the history, with time and step.
func (b *Broker) emitEvent(e *history.Event) {
	if b.sink == nil {
		return
	}
	if b.depth == len(b.events) {
		b.events = append(b.events, new(history.Event))
	}
	slot := b.events[b.depth]
	*slot = *e
	slot.At = b.k.Now()
	slot.Step = b.k.Step()
	b.depth++
	b.sink.Observe(slot)
	b.depth--
}

// emitMessageEvent writes an event about one message.
func (b *Broker) emitMessageEvent(kind history.Kind, m *message, queue, process, fault string, count int) {
	b.emitDispatchEvents(m, &history.Event{Kind: kind, Queue: queue, Process: process, Fault: fault, Count: int64(count)})
}

// emitDispatchEvents writes an event about a message; it modifies e. The history shows a message with
// several dispatches as several messages, one for each dispatch, each with its own number. They always move
// together, so a rule about the message of one dispatch needs no exception.
func (b *Broker) emitDispatchEvents(m *message, e *history.Event) {
	if b.sink == nil {
		return
	}
	e.Message, e.Type = m.id, uint8(m.envelope.Type)
	ds := m.envelope.Dispatches
	if m.forged || len(ds) == 0 {
		b.emitEvent(e)
		return
	}
	for i := range ds {
		e.Execution, e.Epoch = ds[i].Key.ID, ds[i].Key.Epoch
		if len(ds) > 1 {
			e.Message, e.Limit = m.id+uint64(i), int64(i+1)
		}
		b.emitEvent(e)
	}
}

var _ broker.Broker = (*client)(nil)
