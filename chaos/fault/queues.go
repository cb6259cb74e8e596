package fault

import "handoff/core/broker"

// This file holds the common parts of faults that strike queues.

// queueTarget is the queue that a fault names as its whole value: one of the executors' queues, or a worker
// or worker selector, which stands for the dispatch and cancel queues of these workers.
type queueTarget struct{ Target string }

// Read implements Fault.
func (q *queueTarget) Read(r *Reader) { q.Target = r.Queue(r.Value) }

// Strikes implements Fault.
func (q *queueTarget) Strikes() Strikes { return Strikes{Target: q.Target} }

// targetBindings returns the queues that the fault strikes in this run, with their routing.
func (q *queueTarget) targetBindings(x *Injection, w Registry) []broker.Binding {
	return queueBindings(x, q.Target, x.Config.MessageQueue.RabbitMQ, w)
}
