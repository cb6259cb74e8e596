package evidence

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
)

// Firehose reads the broker's own record of every message: RabbitMQ's trace, from a queue on the virtual
// host's trace exchange. (An additional queue on the system's exchanges would make everything routable, and
// hide returns.)
//
// The trace contains publishes, with the queues to which they were routed, and deliveries. Deaths appear as
// deliveries from the dead letter queue, with their x-death header. The trace has no times, so an event is
// dated on arrival.
type Firehose struct {
	url       string
	start     time.Time
	worker    func(execution.WorkerID) string
	deadQueue string

	mu       sync.Mutex
	numbers  map[string]uint64
	died     map[string]int
	seen     map[uint64]messageState
	received []Item
	gaps     []Gap
}

// messageState holds the firehose's information about a message.
type messageState struct {
	kind broker.Type
	// keys holds the keys of its dispatches.
	keys  []execution.Key
	what  Interception
	fault string
	// held counts the delayed publishes that the harness must repeat.
	held int
	// copies counts the duplicates that the harness publishes. The trace can't distinguish them from the
	// process's own publish, so the first publish counts as the process's.
	copies    int
	published bool
}

// Interception is the effect of a fault on a message.
type Interception uint8

// The harness's effects on messages.
const (
	// Corrupted: its body is unreadable.
	Corrupted Interception = iota + 1
	// Lost: it is redirected to SinkQueue, which keeps nothing.
	Lost
	// Late: it is redirected to SinkQueue too, and published again later.
	Late
)

// SinkQueue is the queue to which lost messages are sent.
const SinkQueue = "chaos.sink"

// Gap is a period in which the firehose may have missed events.
type Gap struct {
	From, To time.Time
	Fault    string
	// Queue is the only affected queue; empty for all.
	Queue string
}

// NewFirehose returns a firehose that receives nothing until Listen is called. deadQueue is the dead letter
// queue.
func NewFirehose(url, deadQueue string, start time.Time, worker func(execution.WorkerID) string) *Firehose {
	return &Firehose{
		url: url, start: start, worker: worker, deadQueue: deadQueue,
		numbers: make(map[string]uint64), died: make(map[string]int), seen: make(map[uint64]messageState),
	}
}

// canaryPrefix is the prefix of the message ids of the executors' canaries, which the firehose ignores.
const canaryPrefix = "handoff.canary."

// Listen subscribes, and returns once it will receive all further messages, provided that tracing is on. It
// passes events to take until the connection or ctx ends.
func (f *Firehose) Listen(ctx context.Context, take func(*history.Event)) error {
	conn, err := amqp.DialConfig(f.url, amqp.Config{Heartbeat: 60 * time.Second, Dial: amqp.DefaultDial(10 * time.Second)})
	if err != nil {
		return fmt.Errorf("connecting to the firehose: %w", err)
	}
	fail := func(err error) error {
		_ = conn.Close()
		return fmt.Errorf("subscribing to the firehose: %w", err)
	}
	ch, err := conn.Channel()
	if err != nil {
		return fail(err)
	}
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		return fail(err)
	}
	if err := ch.QueueBind(q.Name, "#", "amq.rabbitmq.trace", false, nil); err != nil {
		return fail(err)
	}
	deliveries, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		return fail(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	go func() {
		defer stop()
		for d := range deliveries {
			f.receiveTrace(&d, take)
		}
		_ = conn.Close()
	}()
	return nil
}

// Deaf records a gap in which events may have been missed.
func (f *Firehose) Deaf(g Gap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gaps = append(f.gaps, g)
}

// Intercepted records the effect that a fault is about to have on a message. body is the original body.
func (f *Firehose) Intercepted(id string, body []byte, what Interception, fault string) {
	f.updateMessage(id, body, func(m *messageState) { m.what, m.fault = what, fault })
}

// Copied records that the harness is about to publish a message once more.
func (f *Firehose) Copied(id string, body []byte) {
	f.updateMessage(id, body, func(m *messageState) { m.copies++ })
}

// updateMessage changes the state of a message.
func (f *Firehose) updateMessage(id string, body []byte, change func(*messageState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.knownMessage(id, body)
	change(&m)
	f.seen[f.messageNumber(id)] = m
}

// knownMessage returns a message's state, which it reads from the body if the message is new. f.mu must be
// held.
func (f *Firehose) knownMessage(id string, body []byte) messageState {
	n := f.messageNumber(id)
	m, known := f.seen[n]
	if !known {
		m.decodeBody(body)
		f.seen[n] = m
	}
	return m
}

// Forged records a message that an attacker is about to publish. It concerns no execution, whatever its
// content. fault is the cause of its unreadable body; empty if it is readable.
func (f *Firehose) Forged(id string, kind broker.Type, fault string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := messageState{kind: kind, fault: fault}
	if fault != "" {
		m.kind, m.what = broker.NoType, Corrupted
	}
	f.seen[f.messageNumber(id)] = m
}

// decodeBody sets the type and the dispatches of a message, unless its body is unreadable.
func (m *messageState) decodeBody(body []byte) {
	envelope, err := broker.Decode(body)
	if err != nil {
		return
	}
	m.kind = envelope.Type
	for i := range envelope.Dispatches {
		m.keys = append(m.keys, envelope.Dispatches[i].Key)
	}
}

// corruptingFault returns the fault that made the body unreadable; empty if it is readable.
func (m messageState) corruptingFault() string {
	if m.what != Corrupted {
		return ""
	}
	return m.fault
}

// messageNumber returns the number of a message id, and assigns a new number to a new id. f.mu must be held.
func (f *Firehose) messageNumber(id string) uint64 {
	n := f.numbers[id]
	if n == 0 {
		n = uint64(len(f.numbers) + 1)
		f.numbers[id] = n
	}
	return n
}

func (f *Firehose) receiveTrace(d *amqp.Delivery, take func(*history.Event)) {
	now := time.Now().Round(0)
	properties, _ := d.Headers["properties"].(amqp.Table)
	id, _ := properties["message_id"].(string)
	if strings.HasPrefix(id, canaryPrefix) {
		return
	}
	f.mu.Lock()
	events := f.expandBlock(id, f.traceEvents(d, id, properties))
	unreadable := f.seen[f.messageNumber(id)].corruptingFault()
	for i := range events {
		events[i].At = now.Sub(f.start)
		f.received = append(f.received, Item{Wall: now, Event: events[i], Unreadable: unreadable})
	}
	f.mu.Unlock()
	for i := range events {
		take(&events[i])
	}
}

// expandBlock turns each event about a block into one event for each of its dispatches. As in the simulated
// broker's history, each dispatch appears as a separate message that always moves together with the others.
// f.mu must be held.
func (f *Firehose) expandBlock(id string, events []history.Event) []history.Event {
	keys := f.seen[f.messageNumber(id)].keys
	if len(keys) < 2 {
		return events
	}
	all := make([]history.Event, 0, len(events)*len(keys))
	for i := range events {
		e := events[i]
		for n, key := range keys {
			e.Execution, e.Epoch, e.Limit = key.ID, key.Epoch, int64(n+1)
			if n > 0 {
				e.Message = f.messageNumber(id + "/" + strconv.Itoa(n+1))
			}
			all = append(all, e)
		}
	}
	return all
}

// traceEvents turns one message of the trace into events. f.mu must be held.
func (f *Firehose) traceEvents(d *amqp.Delivery, id string, properties amqp.Table) []history.Event {
	n := f.messageNumber(id)
	m := f.knownMessage(id, d.Body)
	base := history.Event{Message: n, Type: uint8(m.kind)}
	if len(m.keys) > 0 {
		base.Execution, base.Epoch = m.keys[0].ID, m.keys[0].Epoch
	}
	if queue, ok := strings.CutPrefix(d.RoutingKey, "deliver."); ok {
		return f.deliveryEvents(base, queue, d, properties, id, m.corruptingFault())
	}
	queues, _ := d.Headers["routed_queues"].([]any)
	// For the default exchange, RabbitMQ 3.10 lists the queue named by the key even if no such queue exists.
	if len(queues) == 1 && queues[0] == rabbitmq.ProbeKey {
		return nil
	}
	if exchange, _ := d.Headers["exchange_name"].(string); exchange != broker.ExchangeExecutions && len(queues) == 0 {
		return nil
	}
	base.Kind, base.Count = history.Published, int64(len(queues))
	if len(queues) == 0 {
		base.Kind = history.PublishReturned
		return []history.Event{base}
	}
	events := []history.Event{base}
	if m.held > 0 && queues[0] != SinkQueue {
		m.held--
		events = nil // its publish was recorded before
	} else if m.copies > 0 && m.published {
		m.copies--
		events = nil // it is the harness's own copy
	}
	m.published = true
	f.seen[n] = m
	for _, q := range queues {
		e := base
		e.Kind, e.Count = history.Enqueued, 0
		e.Queue, _ = q.(string)
		switch {
		case e.Queue != SinkQueue:
			events = append(events, e)
		case m.what == Late:
			m.held++
			f.seen[n] = m
		default:
			dropped := e
			dropped.Kind, dropped.Fault = history.Dropped, m.fault
			events = append(events, e, dropped)
		}
	}
	return events
}

func (f *Firehose) deliveryEvents(base history.Event, queue string, d *amqp.Delivery, properties amqp.Table, id, fault string) []history.Event {
	var events []history.Event
	if queue == f.deadQueue {
		events = f.deathEvents(base, properties, id, fault)
	}
	base.Queue = queue
	if redelivered, _ := d.Headers["redelivered"].(int32); redelivered != 0 && len(events) == 0 {
		e := base
		e.Kind = history.Requeued
		events = append(events, e)
	}
	base.Kind = history.Delivered
	if id, ok := workerOf(queue); ok {
		base.Process = f.worker(id)
	}
	return append(events, base)
}

// deathEvents returns the death of a message that leaves the dead letter queue for the first time after that
// death.
func (f *Firehose) deathEvents(base history.Event, properties amqp.Table, id, fault string) []history.Event {
	headers, _ := properties["headers"].(amqp.Table)
	list, _ := headers["x-death"].([]any)
	total := 0
	for _, item := range list {
		if table, ok := item.(amqp.Table); ok {
			count, _ := table["count"].(int64)
			total += int(count)
		}
	}
	if total <= f.died[id] || len(list) == 0 {
		return nil
	}
	f.died[id] = total
	latest, _ := list[0].(amqp.Table)
	queue, _ := latest["queue"].(string)
	reason, _ := latest["reason"].(string)
	e := base
	e.Kind, e.Queue, e.Fault = history.Expired, queue, fault
	switch reason {
	case broker.DeathRejected.String():
		e.Kind = history.Rejected
	case broker.DeathDeliveryLimit.String():
		e.Kind = history.ReturnedTooOften
	}
	letter, stored := base, base
	letter.Kind, letter.Queue, letter.Count = history.DeadLettered, queue, 1
	stored.Kind, stored.Queue = history.Enqueued, f.deadQueue
	return []history.Event{e, letter, stored}
}

// workerOf returns the id of the worker that owns a queue.
func workerOf(queue string) (execution.WorkerID, bool) {
	if !broker.IsWorkerQueue(queue) {
		return 0, false
	}
	digits := strings.Trim(queue, "abcdefghijklmnopqrstuvwxyz.")
	n, err := strconv.ParseInt(digits, 10, 64)
	return execution.WorkerID(n), err == nil
}

// Heard returns all events and gaps so far.
func (f *Firehose) Heard() ([]Item, []Gap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.received), slices.Clone(f.gaps)
}
