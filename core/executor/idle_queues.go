package executor

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// idleQueues deletes the queues of workers that have been gone for the retention; otherwise they
// would stay in the broker for ever (defect D28). RabbitMQ's own x-expires does not help: an
// expiring queue takes its messages along, without dead-lettering them. Here a queue is deleted
// only when it is empty, so its messages have died before. A quorum queue keeps dead letters that
// have no route, and does not report them. So no queue is deleted before the dead letter path has
// worked for long enough that these have been routed.
//
// This is harmless even if the worker comes back at the same moment. Nothing is dispatched to a
// worker before it is active, which it becomes after it has registered, declared its queues and
// begun to consume. If it registers before the executor looks at the database, it is not gone. If
// it registers later, its queues are deleted before it declares them, or before it consumes them,
// or, where the broker can't check this in the same step, although it already consumes them. Then
// the declaration or the subscription fails or ends, and the worker's client opens a new session,
// which declares the queues again. A dispatch that finds no queue meanwhile is returned and taken
// back at once; the timeout monitor finds a dispatch that was lost with a queue.
type idleQueues struct {
	*Service
	// done holds, by worker, the incarnation whose queues are gone, so that not every pass asks the
	// broker again. Only one task reads and writes it.
	done map[execution.WorkerID]execution.Incarnation
	// next is the worker with which the next pass begins. If every pass began with the first
	// worker, a batch of queues that stay in use would keep all later ones from being deleted.
	next execution.WorkerID
}

// idleQueueSweep is the interval of the passes. Retentions are hours.
const idleQueueSweep = time.Minute

func newIdleQueues(s *Service) *idleQueues {
	return &idleQueues{Service: s, done: make(map[execution.WorkerID]execution.Incarnation)}
}

// deleteIdle looks at a bounded number of workers. The next pass goes on behind them, and starts over
// after the last worker. So queues that can't be deleted yet are looked at again.
func (iq *idleQueues) deleteIdle(ctx context.Context) error {
	if !iq.client.Ready() {
		return nil
	}
	workers, err := askStore(iq.db, iq.store.Workers, nil)
	if err != nil {
		return err
	}
	var failed error
	var deleted []store.WorkerKey
	looked, settled := 0, !iq.config.MessageQueue.RabbitMQ.DeadLetter.Enabled
	first, _ := slices.BinarySearchFunc(workers, iq.next, func(w store.WorkerRow, id execution.WorkerID) int { return cmp.Compare(w.ID, id) })
	for i := range workers {
		w := &workers[(first+i)%len(workers)]
		if !w.Lifecycle.Gone() {
			delete(iq.done, w.ID)
			continue
		}
		if w.SinceBeat < iq.config.Executor.QueueRetention {
			continue
		}
		if iq.done[w.ID] == w.Incarnation { // it could not be marked yet
			deleted = append(deleted, w.WorkerKey)
			continue
		}
		if looked++; looked > iq.config.Executor.BatchSize {
			iq.next = w.ID
			break
		}
		if settled = settled || iq.path.hasSettled(ctx); !settled {
			break
		}
		over, err := iq.deleteQueues(w)
		if over {
			iq.done[w.ID] = w.Incarnation
			deleted = append(deleted, w.WorkerKey)
		}
		failed = errors.Join(failed, err)
	}
	return errors.Join(failed, iq.markDeleted(deleted))
}

// markDeleted notes in the database that the queues of workers are deleted, so that no pass of any executor
// reads these workers any more. One that still holds an execution stays, and is marked by a later pass.
func (iq *idleQueues) markDeleted(deleted []store.WorkerKey) error {
	for len(deleted) > 0 {
		batch := deleted[:min(len(deleted), iq.config.Executor.BatchSize)]
		deleted = deleted[len(batch):]
		marked, err := askStore(iq.db, iq.store.MarkQueuesDeleted, batch)
		if err != nil {
			return err
		}
		for i, ok := range marked {
			if ok {
				delete(iq.done, batch[i].ID)
			}
		}
	}
	return nil
}

// deleteQueues deletes the queues of one worker, and says whether all of them are gone.
func (iq *idleQueues) deleteQueues(w *store.WorkerRow) (over bool, err error) {
	over = true
	for _, queue := range broker.WorkerQueues(iq.config.MessageQueue.RabbitMQ, w.ID) {
		ctx, cancel := iq.host.WithTimeout(context.Background(), iq.config.Executor.StatementTimeout)
		fate, err := iq.client.DeleteIdle(ctx, queue)
		cancel()
		if err != nil {
			return false, err
		}
		if fate == broker.QueueDeleted {
			iq.log.LogAttrs(context.Background(), slog.LevelInfo, "deleted a queue of a worker that is long gone",
				slog.String("queue", queue.Name), slog.Duration("gone", w.SinceBeat))
		}
		over = over && fate != broker.QueueInUse
	}
	return over, nil
}
