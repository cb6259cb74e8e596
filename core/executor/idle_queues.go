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

// idleQueues deletes the queues of workers that have been gone for longer than the retention (defect D28).
// RabbitMQ's own x-expires does not help: it discards the messages of an expiring queue without
// dead-lettering them. Here a queue is deleted only when it is empty. A quorum queue silently keeps dead
// letters that have no route. So no queue is deleted before the dead letter path has worked long enough for
// the broker to route these.
//
// This is harmless even if the worker returns at the same moment. Nothing is dispatched to a worker before it
// has registered, declared its queues, begun to consume and become active. If it registers before the
// executor reads the database, it is not gone. If it registers later, its queues may be deleted before it
// declares or consumes them. They may even be deleted while being consumed, if the broker can't check for
// consumers in the same step. Then the declaration or subscription fails, and the worker's client opens a new
// session, which declares the queues again. A dispatch that finds no queue is returned and reclaimed at once;
// the timeout monitor finds a dispatch that was lost with a queue.
type idleQueues struct {
	*Service
	// done holds, by worker, the incarnation whose queues are gone, so that later passes skip it. Only one
	// task uses it.
	done map[execution.WorkerID]execution.Incarnation
	// next is the worker with which the next pass begins. If every pass began with the first worker, a batch
	// of queues in use would block all later ones.
	next execution.WorkerID
}

// idleQueueSweep is the interval between passes. It need not be short, because retentions are hours.
const idleQueueSweep = time.Minute

func newIdleQueues(s *Service) *idleQueues {
	return &idleQueues{Service: s, done: make(map[execution.WorkerID]execution.Incarnation)}
}

// deleteIdle checks a bounded number of workers. The next pass continues with the following ones, and
// restarts after the last worker, so queues that can't be deleted yet are retried.
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
		if iq.done[w.ID] == w.Incarnation { // an earlier pass could not mark it
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

// markDeleted records in the database that the queues of workers are deleted, so that no executor's pass
// reads these workers again. A worker that still holds an execution is marked by a later pass.
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

// deleteQueues deletes the queues of one worker, and reports whether all of them are gone.
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
