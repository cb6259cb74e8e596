package rabbitmqtest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
)

// dispatchMessages are messages like those of the scheduler, about 400 bytes each.
func (w *world) dispatchMessages(queue string, n int) []broker.Message {
	ms := w.newMessages(queue, n)
	for i := range ms {
		e := &ms[i].Envelope
		e.Type, e.Changes = broker.ExecutionScheduled, nil
		e.Dispatches = []broker.Dispatch{{
			Key: execution.Key{ID: execution.ID(i + 1), Epoch: 1}, Worker: 1, Incarnation: 1,
			Action:     execution.Action{Ref: "core.echo", Runtime: "shell", Entrypoint: "echo"},
			Parameters: []byte(`{"text":"some parameters of a usual length, which is to say not many"}`),
		}}
	}
	return ms
}

// BenchmarkPublish measures publish and confirm, in calls of batch messages from several callers.
func BenchmarkPublish(b *testing.B) {
	for _, queueType := range []string{classic, quorum} {
		for _, c := range []struct{ callers, batch int }{{1, 1}, {1, 100}, {4, 100}, {1, 1000}} {
			b.Run(fmt.Sprintf("%s/callers=%d/batch=%d", queueType, c.callers, c.batch), func(b *testing.B) {
				w := newWorld(b)
				s := w.openSession(rabbitmq.Options{})
				queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
				ms := w.dispatchMessages(queue, c.batch)
				b.ResetTimer()
				var wg sync.WaitGroup
				for caller := range c.callers {
					wg.Go(func() {
						for n := caller; n*c.batch < b.N; n += c.callers {
							send := ms[:min(c.batch, b.N-n*c.batch)]
							if i := slices.IndexFunc(s.Publish(b.Context(), send), func(o broker.Outcome) bool { return o != broker.Confirmed }); i >= 0 {
								b.Error("not confirmed")
							}
						}
					})
				}
				wg.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}

// BenchmarkConsume measures receive, decode and acknowledge, one by one.
func BenchmarkConsume(b *testing.B) {
	for _, queueType := range []string{classic, quorum} {
		for _, prefetch := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("%s/prefetch=%d", queueType, prefetch), func(b *testing.B) {
				w := newWorld(b)
				s := w.openSession(rabbitmq.Options{})
				queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: queueType})
				for left := b.N; left > 0; left -= 1000 {
					w.publishConfirmed(s, w.dispatchMessages(queue, min(left, 1000))...)
				}
				b.ResetTimer()
				c := w.startConsumer(s, queue, prefetch)
				for range b.N {
					d, err := c.Receive(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					c.Ack(d)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
			})
		}
	}
}
