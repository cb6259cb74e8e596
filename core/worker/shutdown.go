package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// drain is the graceful stop. First the worker tells the database, so that nothing new is
// dispatched to it. Then it ends the consumer. Then it gives unclaimed dispatches back, so that
// they run elsewhere at once. Running executions may finish within the shutdown timeout, while the
// heartbeat goes on: a draining worker is alive (defects D36 to D40). The rest is ended as
// worker_shutdown.
func (t *session) drain() {
	c := t.config.Worker
	deadline := t.host.Monotonic() + c.ShutdownTimeout
	t.mu.Lock()
	t.draining = true
	consumer := t.consumer
	t.mu.Unlock()
	t.held.freed.Set()

	t.log.LogAttrs(context.Background(), slog.LevelInfo, "deregistering worker",
		slog.Int64("id", int64(t.key.ID)), slog.Int64("incarnation", int64(t.key.Incarnation)))
	told := t.persist(deadline, func() error { return t.setLifecycle(execution.Draining) })
	if consumer != nil {
		ctx, cancel := t.host.WithTimeout(context.Background(), c.StatementTimeout)
		_ = consumer.Cancel(ctx)
		cancel()
	}
	if told {
		t.release(deadline)
	}
	// One deadline covers all of it. If the incarnation is gone, nothing of it matters.
	idle := func(held, _ int) bool { return held == 0 || t.ended() != endNone }
	if !t.await(deadline-t.host.Monotonic(), idle) {
		held, _ := t.held.counts()
		t.log.LogAttrs(context.Background(), slog.LevelWarn, "shutdown timeout over, ending what still runs", slog.Int("executions", held))
		t.held.close(execution.WorkerShutdown, c.KillGrace)
		t.await(c.KillGrace+c.StatementTimeout, idle)
	}
	t.persist(0, func() error { return t.setLifecycle(execution.Stopped) })
	ctx, cancel := t.host.WithTimeout(context.Background(), c.StatementTimeout)
	t.notifier.Flush(ctx)
	cancel()
}

// release gives unclaimed epochs back and then settles their messages. In the other order a crash
// in between would leave an epoch that no message and no worker holds.
func (t *session) release(deadline time.Duration) {
	var keys []execution.Key
	released := t.persist(deadline, func() error {
		return t.db(func(ctx context.Context) (err error) {
			keys, err = t.store.Release(ctx, t.key)
			return err
		})
	})
	if !released {
		return
	}
	t.notifier.Requested(keys...)
	for _, d := range t.unclaimed() {
		d.ack()
	}
}

// persist repeats a write until it is answered or the deadline, on the monotonic clock, has passed.
// It always makes the first attempt.
func (t *session) persist(deadline time.Duration, write func() error) bool {
	backoff := broker.NewBackoff(t.host, 100*time.Millisecond, time.Second)
	for {
		err := write()
		if err == nil {
			return true
		}
		if !store.Retriable(err) || t.host.Monotonic() >= deadline || t.ended() != endNone {
			t.log.LogAttrs(context.Background(), slog.LevelWarn, "a step of the shutdown was given up, the executor will find it", slog.Any("error", err))
			return false
		}
		t.log.LogAttrs(context.Background(), slog.LevelWarn, "a step of the shutdown failed, trying again", slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
}
