package live

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/execution"
)

const (
	// attackBatch is how many messages are published before the harness does something else on its channel.
	attackBatch = 500
	// bigBody is the length of a big body, in bytes.
	bigBody = 256 << 10
)

// injectPublish publishes an attacker's messages over AMQP. What it says of executions it has from the database, as
// somebody would who reads what is published.
func injectPublish(x *injection) (func(), error) {
	defer x.end()
	running, err := x.w.running()
	if err != nil {
		return nil, err
	}
	for at := 0; at < x.fault.Count; at += attackBatch {
		err := x.w.interceptor.with(func(ch *amqp.Channel) error {
			for n := at; n < min(at+attackBatch, x.fault.Count); n++ {
				for _, queue := range x.attacked() {
					if err := x.publishForged(ch, queue, n, running); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("publishing what nobody has asked for: %w", err)
		}
	}
	x.touch()
	return nil, nil
}

// attacked names the queues that the messages go to.
func (x *injection) attacked() (queues []string) {
	if x.fault.What != scenario.ForgedCancel {
		for _, b := range x.bindings() {
			queues = append(queues, b.Queue)
		}
		return queues
	}
	for id, name := range x.w.database.Workers() {
		for _, p := range x.targets {
			if p.name == name {
				queues = append(queues, broker.CancelQueue(id))
			}
		}
	}
	return queues
}

// publishForged publishes the nth message to a queue. The firehose is told that it is about no execution, whatever it
// says, and whether it can be read.
func (x *injection) publishForged(ch *amqp.Channel, queue string, n int, running []execution.Execution) error {
	m := amqp.Publishing{
		MessageId: fmt.Sprintf("forged-%d-%d-%s", x.fault.Index, n, queue), DeliveryMode: amqp.Persistent,
		ContentType: broker.ContentType, Body: []byte("{\"message_type\": \xff"),
	}
	envelope := broker.Envelope{MessageID: m.MessageId, Timestamp: time.Now(), Version: broker.WireVersion}
	unreadable := true
	switch x.fault.What {
	case scenario.ForgedCancel:
		envelope.Type = broker.ExecutionCancel
		for i := range running {
			envelope.Changes = append(envelope.Changes, broker.Change{Key: running[i].Key(), From: execution.Running, To: execution.Canceling})
		}
		unreadable = false
	case scenario.ForgedDispatch, scenario.HostileHeaders:
		envelope.Type = broker.ExecutionScheduled
		envelope.Dispatch = &broker.Dispatch{Key: execution.Key{ID: execution.ID(n + 1), Epoch: 99}, Action: execution.Action{Ref: "forged", Runtime: "shell"}}
		if len(running) > 0 && x.fault.What == scenario.ForgedDispatch {
			row := &running[n%len(running)]
			envelope.Dispatch.Key = execution.Key{ID: row.ID, Epoch: row.Epoch + execution.Epoch(n%3)}
			envelope.Dispatch.Worker, envelope.Dispatch.Incarnation = row.Worker, row.Incarnation
		}
		unreadable = x.fault.What == scenario.HostileHeaders
	case scenario.BigBody:
		m.Body = append(m.Body, make([]byte, bigBody)...)
	default:
	}
	if envelope.Type != broker.NoType {
		body, err := broker.Encode(&envelope)
		if err != nil {
			return err
		}
		m.Body = body
	}
	if x.fault.What == scenario.HostileHeaders {
		// None of it is of a type that RabbitMQ writes.
		m.Headers = amqp.Table{"x-death": []any{amqp.Table{"queue": queue, "reason": int32(5), "count": "x", "time": "y"}, int32(3), nil}}
	}
	fault := ""
	if unreadable {
		fault = x.fault.Name
	}
	x.w.firehose.Forged(m.MessageId, envelope.Type, fault)
	return ch.PublishWithContext(x.w.ctx, "", queue, false, false, m)
}

// running reads the executions that run, past every link and every fault.
func (w *world) running() (rows []execution.Execution, err error) {
	w.down.database.Lock() // a server that is down is waited for
	defer w.down.database.Unlock()
	ctx, cancel := w.within()
	defer cancel()
	conn, err := pgx.Connect(ctx, w.db.URL)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	found, err := conn.Query(ctx, "select id, epoch, worker, incarnation from execution where status = 'running' order by id")
	if err != nil {
		return nil, fmt.Errorf("reading what runs: %w", err)
	}
	return pgx.CollectRows(found, func(row pgx.CollectableRow) (e execution.Execution, err error) {
		err = row.Scan(&e.ID, &e.Epoch, &e.Worker, &e.Incarnation)
		return e, err
	})
}
