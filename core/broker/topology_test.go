package broker

import (
	"testing"

	"handoff/core/config"
)

// What waits in the dead letter queue is stored nowhere else yet: dead_letter.ttl_ms bounds the table, and a TTL on the
// queue would throw away what no executor has seen.
func TestOnlyTheQueuesOfWorkersLetDispatchesExpire(t *testing.T) {
	c := config.Default(config.Hardened).MessageQueue.RabbitMQ
	c.DeadLetter.TTLMS = 1000
	for _, q := range append(ExecutorTopology(c).Queues, WorkerTopology(c, 7).Queues...) {
		switch {
		case q.Name == WorkerQueue(7):
			if q.TTL != c.WorkerQueueTTL() || q.DeadLetterExchange != c.DeadLetter.Exchange {
				t.Errorf("%s lets messages expire after %v, to the exchange %q", q.Name, q.TTL, q.DeadLetterExchange)
			}
		case q.Name == CancelQueue(7):
		case q.TTL != 0 || q.DeadLetterExchange != "":
			t.Errorf("%s lets messages expire after %v, to the exchange %q", q.Name, q.TTL, q.DeadLetterExchange)
		}
	}
}
