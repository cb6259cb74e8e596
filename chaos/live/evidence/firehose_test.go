package evidence

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/history"
	"handoff/core/broker/rabbitmq"
)

// RabbitMQ 3.10 says of a message to the default exchange that it was routed to the queue that its key names, even if
// there is none.
func TestAProbeOfThePublisherIsNoMessage(t *testing.T) {
	f := &Firehose{start: time.Now(), seen: make(map[uint64]message), numbers: make(map[string]uint64), died: make(map[string]int)}
	heard := 0
	for _, queue := range []string{rabbitmq.ProbeKey, "q"} {
		f.hear(&amqp.Delivery{RoutingKey: "publish.", Headers: amqp.Table{
			"exchange_name": "", "routed_queues": []any{queue}, "properties": amqp.Table{},
		}}, func(e *history.Event) { heard++ })
	}
	if heard != 2 {
		t.Errorf("heard %d events of a probe and a message to queue q, want 2: q's published and enqueued", heard)
	}
}
