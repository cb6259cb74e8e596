package broker

import (
	"testing"

	"handoff/core/config"
)

// Messages in the dead letter queue are stored nowhere else yet. dead_letter.ttl_ms applies to the
// table; a TTL on the queue would drop messages that no executor has seen.
func TestOnlyWorkerQueuesExpireMessages(t *testing.T) {
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
