package fault

import "handoff/core/broker"

// This file holds the common parts of faults that strike queues.

// ofQueue is the queue that a fault names as its whole value: one of the executors' queues, or a
// worker or selector of workers, which stands for the workers' own queues.
type ofQueue struct{ Target string }

// Read implements Fault.
func (o *ofQueue) Read(r *Reader) { o.Target = r.Queue(r.Value) }

// Strikes implements Fault.
func (o *ofQueue) Strikes() Strikes { return Strikes{Target: o.Target} }

// bindings returns the queues that the fault strikes in this run, with their routing.
func (o *ofQueue) bindings(x *Injection, w Registry) []broker.Binding {
	return bindings(x, o.Target, x.Config.MessageQueue.RabbitMQ, w)
}
