package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// drainAndStop stops the worker gracefully. It first sets the lifecycle to draining, so that nothing new is
// dispatched to it. Then it ends the consumer, and releases unclaimed dispatches, so that other workers can
// run them at once. Running executions may finish within the shutdown timeout, while heartbeats continue
// (defects D36 to D40). The remaining ones are ended with the reason worker_shutdown.
func (s *session) drainAndStop() {
	c := s.config.Worker
	deadline := s.host.Monotonic() + c.ShutdownTimeout
	s.mu.Lock()
	s.draining = true
	consumer := s.consumer
	s.mu.Unlock()
	s.held.freed.Set()

	s.log.LogAttrs(context.Background(), slog.LevelInfo, "deregistering worker",
		slog.Int64("id", int64(s.key.ID)), slog.Int64("incarnation", int64(s.key.Incarnation)))
	told := s.persistUntil(deadline, func() error { return s.setLifecycle(execution.Draining) })
	if consumer != nil {
		ctx, cancel := s.host.WithTimeout(context.Background(), c.StatementTimeout)
		_ = consumer.Cancel(ctx)
		cancel()
	}
	if told {
		s.releaseUnclaimed(deadline)
	}
	// One deadline covers all steps. If the incarnation is gone, there is nothing to wait for.
	idle := func(held, _ int) bool { return held == 0 || s.whyEnded() != endNone }
	if !s.awaitRegistry(deadline-s.host.Monotonic(), idle) {
		held, _ := s.held.countHeld()
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "shutdown timeout over, ending what still runs", slog.Int("executions", held))
		s.held.close(execution.WorkerShutdown, c.KillGrace)
		s.awaitRegistry(c.KillGrace+c.StatementTimeout, idle)
	}
	s.persistUntil(0, func() error { return s.setLifecycle(execution.Stopped) })
	ctx, cancel := s.host.WithTimeout(context.Background(), c.StatementTimeout)
	s.notifier.Flush(ctx)
	cancel()
}

// releaseUnclaimed releases unclaimed epochs and then settles their messages. If it settled the messages
// first, a crash in between would leave an epoch that no message and no worker holds.
func (s *session) releaseUnclaimed(deadline time.Duration) {
	var keys []execution.Key
	released := s.persistUntil(deadline, func() error {
		return s.db(func(ctx context.Context) (err error) {
			keys, err = s.store.Release(ctx, s.key)
			return err
		})
	})
	if !released {
		return
	}
	s.notifier.Requested(keys...)
	for _, d := range s.takeUnclaimed() {
		d.ack()
	}
}

// persistUntil repeats a write until it is answered or the deadline, on the monotonic clock, has passed. It
// makes at least one attempt.
func (s *session) persistUntil(deadline time.Duration, write func() error) bool {
	backoff := broker.NewBackoff(s.host, 100*time.Millisecond, time.Second)
	for {
		err := write()
		if err == nil {
			return true
		}
		if !store.Retriable(err) || s.host.Monotonic() >= deadline || s.whyEnded() != endNone {
			s.log.LogAttrs(context.Background(), slog.LevelWarn, "a step of the shutdown was given up, the executor will find it", slog.Any("error", err))
			return false
		}
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "a step of the shutdown failed, trying again", slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
}
