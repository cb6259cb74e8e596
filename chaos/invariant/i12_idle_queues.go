package invariant

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// Queues reports the state of the broker's queues. Only the simulated world's [Work] implements it.
type Queues interface {
	// Idle reports whether a queue exists, is empty and has no consumer.
	Idle(queue string) bool
}

// idleTick is the interval at which this check looks at the queues of departed workers, idleSweep the
// interval at which executors do. An executor deletes no queue until its own tests of the dead letter path
// have succeeded for idlePatience, because a queue keeps dead messages that have no route (docs/executor.md).
const (
	idleTick     = 15 * time.Second
	idleSweep    = time.Minute
	idlePatience = 5 * time.Minute
)

// idleQueues is the part of invariant 12 about the queues of workers that have been gone for the retention.
// Such queues must be deleted once they are empty and unused (defect D28).
type idleQueues struct {
	i    *Invariant
	s    *Suite
	next time.Duration
	// owners holds the workers that have registered, by number.
	owners []*queueOwner
	// tested is when a test of the dead letter path last reached an executor. A message that can't be
	// dead-lettered blocks such tests while it exists, and no executor then deletes a queue.
	tested time.Duration
	// meddled records faults of these tests' messages. If a message is lost, late or garbled, the test fails,
	// and the executor waits for another idlePatience.
	meddled trouble
}

// queueOwner is a worker that owns two queues.
type queueOwner struct {
	worker execution.WorkerID
	newest execution.Incarnation
	gone   bool
	beat   time.Duration
	// idle holds since when each of the two queues has been idle, 0 for a queue in use.
	idle [2]time.Duration
}

func (iq *idleQueues) ownerOf(worker execution.WorkerID) *queueOwner {
	at, known := slices.BinarySearchFunc(iq.owners, worker, func(o *queueOwner, w execution.WorkerID) int { return cmp.Compare(o.worker, w) })
	if !known {
		iq.owners = slices.Insert(iq.owners, at, &queueOwner{worker: worker})
	}
	return iq.owners[at]
}

func (iq *idleQueues) observeEvent(e *history.Event) {
	switch e.Kind {
	case history.WorkerRegistered:
		o := iq.ownerOf(e.Worker)
		*o = queueOwner{worker: e.Worker, newest: e.Incarnation, beat: e.At}
	case history.HeartbeatRenewed:
		if o := iq.ownerOf(e.Worker); o.newest == e.Incarnation {
			o.beat = e.At
		}
	case history.WorkerLifecycle:
		if o := iq.ownerOf(e.Worker); o.newest == e.Incarnation {
			o.gone = oracle.Gone(e.Lifecycle)
		}
	case history.Delivered:
		if isCanary(e) {
			iq.tested = e.At
		}
	case history.FaultBegan:
		if breaksCanaries(e) {
			iq.meddled.begin(e.At)
		}
	case history.FaultEnded:
		if breaksCanaries(e) {
			iq.meddled.end(e.At)
		}
	default:
	}
	if e.At >= iq.next {
		iq.next = e.At + idleTick
		iq.judgeQueues(e.At)
	}
}

// breaksCanaries reports whether a fault makes tests of the dead letter path fail by affecting their
// messages. Only faults that affect every message do.
func breaksCanaries(e *history.Event) bool {
	kind := fault.Find(e.Text)
	return kind != nil && kind.Under == "messages" && slices.Contains(kind.Excuses, fault.DispatchesFail) && e.Queue == fault.EveryMessage
}

func (iq *idleQueues) judgeQueues(now time.Duration) {
	queues, ok := iq.s.work.(Queues)
	if !ok {
		return
	}
	// An executor handles one batch of workers per sweep.
	within := idleSweep * time.Duration(1+len(iq.owners)/max(1, iq.s.config.Executor.BatchSize))
	if iq.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		within += idlePatience
	}
	within += clockDrift(within) + idleTick + 2*iq.s.promptBound()
	untested := iq.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled &&
		(now-iq.tested > canaryPeriod+clockDrift(canaryPeriod)+canaryTakes || iq.meddled.presentSince(now-canaryTakes))
	for _, o := range iq.owners {
		due := o.beat + iq.s.config.Executor.QueueRetention
		for n, queue := range []string{broker.WorkerQueue(o.worker), broker.CancelQueue(o.worker)} {
			switch {
			case !o.gone || now < due || untested || !queues.Idle(queue):
				o.idle[n] = 0
			case o.idle[n] == 0:
				o.idle[n] = now
			// Executors measure how long the worker has been gone by the database's clock.
			case now-o.idle[n] > within && iq.s.skew == 0 && iq.s.stepped == 0 && iq.s.roads.hasClearExecutor(iq.s.recoveryStart(o.idle[n])):
				iq.s.countOccasion(iq.i)
				iq.s.recordViolation(iq.i, 0, "no executor has deleted queue %s: it has been empty and without a consumer since %v, and still exists at %v; its worker sent its last heartbeat at %v, and queues are kept for %v after that",
					queue, o.idle[n], now, o.beat, iq.s.config.Executor.QueueRetention)
			}
		}
	}
}
