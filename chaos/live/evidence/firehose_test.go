package evidence

import (
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
)

// The trace has one message for a block. As with the simulated broker, the history has one for each dispatch,
// with the same number from publish to delivery.
func TestFirehoseReportsEachDispatchOfBlock(t *testing.T) {
	e := broker.Envelope{MessageID: "7.1+1", Type: broker.ExecutionScheduled, Version: broker.VersionBlock, Timestamp: time.Unix(2e9, 0)}
	for id := execution.ID(7); id < 9; id++ {
		e.Dispatches = append(e.Dispatches, broker.Dispatch{Key: execution.Key{ID: id, Epoch: 1}, Worker: 3, Incarnation: 4})
	}
	body, err := broker.Encode(&e)
	if err != nil {
		t.Fatal(err)
	}
	f := NewFirehose("", "dead", time.Now(), func(execution.WorkerID) string { return "worker-3" })
	var told []history.Event
	hear := func(key string, headers amqp.Table) {
		headers["properties"] = amqp.Table{"message_id": e.MessageID}
		f.receiveTrace(&amqp.Delivery{RoutingKey: key, Headers: headers, Body: body}, func(e *history.Event) { told = append(told, *e) })
	}
	queue := broker.WorkerQueue(3)
	hear("publish."+broker.ExchangeExecutions, amqp.Table{"exchange_name": broker.ExchangeExecutions, "routed_queues": []any{queue}})
	hear("deliver."+queue, amqp.Table{})
	of := map[execution.ID]string{}
	numbers := map[execution.ID]uint64{}
	for _, e := range told {
		of[e.Execution] += fmt.Sprintf("%v %d; ", e.Kind, e.Limit)
		if n := numbers[e.Execution]; n != 0 && n != e.Message {
			t.Errorf("execution %d is dispatched by message %d and by %d", e.Execution, n, e.Message)
		}
		numbers[e.Execution] = e.Message
	}
	for id, place := range map[execution.ID]int{7: 1, 8: 2} {
		want := fmt.Sprintf("%v %d; %v %d; %v %d; ", history.Published, place, history.Enqueued, place, history.Delivered, place)
		if of[id] != want {
			t.Errorf("events of execution %d: %q, want %q", id, of[id], want)
		}
	}
	if numbers[7] == numbers[8] {
		t.Errorf("both dispatches have the message number %d", numbers[7])
	}
}

// For the default exchange, RabbitMQ 3.10 reports routing to the queue named by the key even if it doesn't
// exist.
func TestFirehoseIgnoresPublisherProbe(t *testing.T) {
	f := NewFirehose("", "dead", time.Now(), func(execution.WorkerID) string { return "" })
	heard := 0
	for _, queue := range []string{rabbitmq.ProbeKey, "q"} {
		f.receiveTrace(&amqp.Delivery{RoutingKey: "publish.", Headers: amqp.Table{
			"exchange_name": "", "routed_queues": []any{queue}, "properties": amqp.Table{},
		}}, func(*history.Event) { heard++ })
	}
	if heard != 2 {
		t.Errorf("%d events of a probe and a message to queue q, want 2: q's published and enqueued", heard)
	}
}
