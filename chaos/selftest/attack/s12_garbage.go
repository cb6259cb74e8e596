//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
	"handoff/core/execution"
)

// garbageFlood sends a worker very many unreadable messages and then work. It has its own system.
func garbageFlood(ctx context.Context, l *lab, r *result) error {
	s, err := l.up(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.close() }() // it only holds garbage
	w, err := s.worker(ctx, workerOptions{name: "worker-1"})
	if err != nil {
		return err
	}
	id, err := s.workerID(ctx, "worker-1")
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.ordinary", "shell", "true", 60); err != nil {
		return err
	}
	queue := broker.WorkerQueue(execution.WorkerID(id))
	began := time.Now()
	waiting, err := s.flood(ctx, queue)
	if err != nil {
		return err
	}
	r.tell("garbage sent", "%d in %s", garbage, shownDuration(time.Since(began)))
	r.tell("of it still in the queue when the execution is created", "%d", waiting)
	created := time.Now()
	execution, err := s.create(ctx, "attack.ordinary", id)
	if err != nil {
		return err
	}
	e, err := s.await(ctx, execution, startPatience, ended...)
	if err != nil {
		return err
	}
	if waited, ok := startedAfter(e); ok {
		r.duration("start of a good execution behind them", waited, garbageStart)
	} else {
		r.expect("start of a good execution behind them", "not within "+shownDuration(time.Since(created)), "≤ "+shownDuration(garbageStart), false)
	}
	rows := -1
	until(ctx, 30*time.Second, func() bool {
		now, _ := s.number(ctx, "select count(*) from dead_letter")
		still := now == rows
		rows = now
		pause(ctx, 2*time.Second)
		return still
	})
	r.tell("dead letters stored", "%d, %s after the first message", rows, shownDuration(time.Since(began)))
	for _, name := range []string{w.Instance().Log(), s.executor.Instance().Log()} {
		if info, err := os.Stat(name); err == nil {
			what := "log of the worker"
			if name != w.Instance().Log() {
				what = "log of the executor"
			}
			r.memory(what, info.Size(), garbageLog)
		}
	}
	alive := w.Instance().Running() && s.executor.Instance().Running()
	r.expect("worker and executor", fmt.Sprintf("run: %v", alive), "run", alive)
	return nil
}

// startPatience is how long the attack waits for the good execution.
const startPatience = 40 * time.Second

// startedAfter is how long an execution waited for its start, by the database's clock. It returns
// false if the execution has not started.
func startedAfter(e ran) (time.Duration, bool) {
	created, err := time.Parse(time.RFC3339Nano, e.Created)
	if err != nil || e.Started == nil {
		return 0, false
	}
	started, err := time.Parse(time.RFC3339Nano, *e.Started)
	return started.Sub(created), err == nil
}

// flood publishes the garbage, and returns how much of it was still in the queue when the broker
// had received all.
func (s *system) flood(ctx context.Context, queue string) (waiting int, err error) {
	conn, ch, err := s.amqp()
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // confirmed below
	if err := ch.Confirm(false); err != nil {
		return 0, err
	}
	var last *amqp.DeferredConfirmation
	for i := range garbage {
		last, err = ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: fmt.Appendf(nil, "garbage %d", i), DeliveryMode: amqp.Persistent})
		if err != nil {
			return 0, err
		}
	}
	if _, err := last.WaitContext(ctx); err != nil {
		return 0, err
	}
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return q.Messages, err
}
