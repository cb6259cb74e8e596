package live

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/fault"
	"handoff/chaos/live/evidence"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file holds the live world's faults that affect the broker's queues.

// holdsConsumer reports whether a subscription to a queue is held back now, and if so, touches the fault.
func (p *process) holdsConsumer(queue string) bool {
	by, _ := p.blocked.Load(queue)
	x, held := by.(*fault.Injection)
	if held {
		x.Touch(fault.Touched{Queue: queue})
	}
	return held
}

// Registered implements fault.Registry.
func (w *world) Registered() (all []fault.Registration) {
	for id, name := range w.database.Workers() {
		all = append(all, fault.Registration{ID: id, Name: name})
	}
	slices.SortFunc(all, func(a, b fault.Registration) int { return int(a.ID) - int(b.ID) })
	return all
}

// DeleteQueue implements fault.Queues.
func (w *world) DeleteQueue(x *fault.Injection, b broker.Binding) error {
	began := time.Now()
	err := w.interceptor.withChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(b.Queue, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting %s: %w", b.Queue, err)
	}
	x.Touch(fault.Touched{Queue: b.Queue})
	w.firehose.Deaf(evidence.Gap{From: began.Add(-evidence.Lag), To: time.Now(), Fault: x.Name, Queue: b.Queue})
	return nil
}

// UnbindQueue implements fault.Queues.
func (w *world) UnbindQueue(x *fault.Injection, b broker.Binding) (func(), error) {
	began := time.Now()
	err := w.interceptor.withChannel(func(ch *amqp.Channel) error { return ch.QueueUnbind(b.Queue, b.Pattern, b.Exchange, nil) })
	if err != nil {
		return nil, fmt.Errorf("unbinding %s: %w", b.Queue, err)
	}
	x.Touch(fault.Touched{Queue: b.Queue})
	return func() {
		err := w.interceptor.withChannel(func(ch *amqp.Channel) error { return ch.QueueBind(b.Queue, b.Pattern, b.Exchange, false, nil) })
		if err != nil {
			x.Fail(fmt.Errorf("binding %s again: %w", b.Queue, err))
		}
		if b.Queue == broker.DeadLetterQueue(w.config.MessageQueue.RabbitMQ.DeadLetter.Exchange) {
			// Dead letters of any queue had no route in the meantime, so they were lost.
			w.firehose.Deaf(evidence.Gap{From: began.Add(-evidence.Lag), To: time.Now(), Fault: x.Name})
		}
	}, nil
}

// BlockConsumers implements fault.Queues. RabbitMQ has no command to cancel a consumer, so the consumers'
// connections are closed once. After they reconnect, their subscriptions to these queues wait in the proxy,
// and everything else passes.
func (w *world) BlockConsumers(x *fault.Injection, bindings []broker.Binding) (func(), error) {
	each := func(f func(p *process, queue string)) {
		for _, b := range bindings {
			for _, p := range w.allProcesses() {
				f(p, b.Queue)
			}
		}
	}
	each(func(p *process, queue string) { p.blocked.Store(queue, x) })
	for _, p := range w.allProcesses() {
		if len(x.Targets) > 0 && !slices.Contains(x.Targets, p.name) || len(x.Targets) == 0 && p.spec != nil {
			continue
		}
		if err := p.reconnectBroker(); err != nil {
			return nil, err
		}
	}
	return func() { each(func(p *process, queue string) { p.blocked.CompareAndDelete(queue, x) }) }, nil
}

// reconnectBroker closes the process's connections to the broker once.
func (p *process) reconnectBroker() error {
	l := p.links[fault.Broker]
	l.Down()
	return l.Up()
}

// Publish implements fault.Publisher, over AMQP. It notifies the firehose that a message concerns no
// execution, whatever its content, and whether it is readable.
func (w *world) Publish(x *fault.Injection, messages []fault.Forged) error {
	err := w.interceptor.withChannel(func(ch *amqp.Channel) error {
		for i := range messages {
			if err := w.publishForged(x, ch, &messages[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("publishing forged messages: %w", err)
	}
	x.Touch(fault.Touched{})
	return nil
}

func (w *world) publishForged(x *fault.Injection, ch *amqp.Channel, f *fault.Forged) error {
	m := amqp.Publishing{
		MessageId: fmt.Sprintf("forged-%d-%d-%s", x.Index, f.Number, f.Queue), DeliveryMode: amqp.Persistent,
		ContentType: broker.ContentType, Body: append([]byte("{\"message_type\": \xff"), make([]byte, f.Size)...),
	}
	if !f.Garbage {
		e := f.Envelope
		e.MessageID, e.Timestamp = m.MessageId, time.Now()
		if e.Type == broker.ExecutionScheduled && e.Dispatches == nil {
			e.Dispatches = []broker.Dispatch{{Key: execution.Key{ID: execution.ID(f.Number + 1), Epoch: 99}}}
		}
		if len(e.Dispatches) > 0 && e.Dispatches[0].Action.Ref == "" {
			e.Dispatches[0].Action = execution.Action{Ref: "forged", Runtime: "shell"}
		}
		body, err := broker.Encode(&e)
		if err != nil {
			return err
		}
		m.Body = body
	}
	if f.HostileHeaders {
		// RabbitMQ itself never writes such values.
		m.Headers = amqp.Table{"x-death": []any{amqp.Table{"queue": f.Queue, "reason": int32(5), "count": "x", "time": "y"}, int32(3), nil}}
	}
	unreadable := ""
	if f.Garbage || f.HostileHeaders {
		unreadable = x.Name
	}
	w.firehose.Forged(m.MessageId, f.Envelope.Type, unreadable)
	return ch.PublishWithContext(w.ctx, "", f.Queue, false, false, m)
}

// Running implements fault.Publisher. It bypasses all links and faults.
func (w *world) Running() (rows []execution.Execution, err error) {
	err = w.onDatabase(func(ctx context.Context, conn *pgx.Conn) error {
		found, err := conn.Query(ctx, "select id, epoch, worker, incarnation from execution where status = 'running' order by id")
		if err == nil {
			rows, err = pgx.CollectRows(found, func(row pgx.CollectableRow) (e execution.Execution, err error) {
				err = row.Scan(&e.ID, &e.Epoch, &e.Worker, &e.Incarnation)
				return e, err
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the running executions: %w", err)
	}
	return rows, nil
}
