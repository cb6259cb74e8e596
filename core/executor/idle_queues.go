package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// idleQueues deletes the queues of workers that have been gone for the retention; without it they stay in the broker
// for ever (defect D28). RabbitMQ's own x-expires is no answer: a queue that expires takes what is in it along, and
// nothing of that is dead-lettered. Here a queue goes only when it is empty, so what was in it has died first. A quorum
// queue keeps dead letters that have no route, and tells nobody: none goes before the dead letter path has worked for
// long enough that they have come round.
//
// It is harmless if the worker comes back at the same moment. Nothing is dispatched to a worker before it is active,
// which it becomes after it has registered, declared its queues and begun to consume. If it registers before the look
// at the database, it is not gone. If it registers later, its queues are deleted before it declares them, or while
// nobody consumes them yet, or, where the broker can't judge that in the same step, below its consumer: then the
// declaration or the subscription fails or ends, and the worker's client opens a new session, which declares them
// again. A dispatch that finds no queue meanwhile is returned and taken back at once; one that was lost with a queue is
// found by the timeout monitor.
type idleQueues struct {
	*Service
	// done are the incarnations whose queues this executor knows to be deleted, by worker, so that it does not ask again
	// at every pass. It is read and written by one task only.
	done map[execution.WorkerID]execution.Incarnation
}

// idleQueueSweep is how often idle queues are looked for. Retentions are hours.
const idleQueueSweep = time.Minute

func newIdleQueues(s *Service) *idleQueues {
	return &idleQueues{Service: s, done: make(map[execution.WorkerID]execution.Incarnation)}
}

// pass looks at a bounded number of workers. What can't be deleted yet is looked at again by the next pass.
func (q *idleQueues) pass(ctx context.Context) error {
	if !q.client.Ready() {
		return nil
	}
	var workers []store.WorkerRow
	if err := q.db(func(ctx context.Context) (err error) {
		workers, err = q.store.Workers(ctx)
		return err
	}); err != nil {
		return err
	}
	var failed error
	looked, settled := 0, !q.config.MessageQueue.RabbitMQ.DeadLetter.Enabled
	for i := range workers {
		w := &workers[i]
		if !w.Lifecycle.Gone() {
			delete(q.done, w.ID)
			continue
		}
		if q.done[w.ID] == w.Incarnation || w.SinceBeat < q.config.Executor.QueueRetention {
			continue
		}
		if looked++; looked > q.config.Executor.BatchSize {
			break
		}
		if settled = settled || q.path.settled(ctx); !settled {
			break
		}
		over, err := q.delete(w)
		if over {
			q.done[w.ID] = w.Incarnation
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// delete deletes the queues of one worker, and says whether none of them is left.
func (q *idleQueues) delete(w *store.WorkerRow) (over bool, err error) {
	over = true
	for _, queue := range broker.WorkerQueues(q.config.MessageQueue.RabbitMQ, w.ID) {
		ctx, cancel := q.host.WithTimeout(context.Background(), q.config.Executor.StatementTimeout)
		fate, err := q.client.DeleteIdle(ctx, queue)
		cancel()
		if err != nil {
			return false, err
		}
		if fate == broker.QueueDeleted {
			q.log.LogAttrs(context.Background(), slog.LevelInfo, "queue of a worker that is long gone deleted",
				slog.String("queue", queue.Name), slog.Duration("gone", w.SinceBeat))
		}
		over = over && fate != broker.QueueInUse
	}
	return over, nil
}
