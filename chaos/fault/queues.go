package fault

import "handoff/core/broker"

// This file is what faults that strike queues have in common.

// ofQueue is the queue that a fault names as its whole value: one of the executors', or a worker or a selector of workers
// for theirs.
type ofQueue struct{ Target string }

// Read implements Fault.
func (f *ofQueue) Read(r *Reader) { f.Target = r.Queue(r.Value) }

// Strikes implements Fault.
func (f *ofQueue) Strikes() Strikes { return Strikes{Target: f.Target} }

// bindings are the queues that the fault strikes in this run, each with what routes to it.
func (f *ofQueue) bindings(x *Injection, w Registry) []broker.Binding {
	return bindings(x, f.Target, x.Config.MessageQueue.RabbitMQ, w)
}
