package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/core/unread"
)

// endReason is the reason why a session ended.
type endReason uint8

const (
	endNone endReason = iota
	endStopped
	endSuperseded
	endLost
	endFenced
)

// String returns the name of the reason in logs.
func (e endReason) String() string {
	return [...]string{"not ended", "stopped", "superseded", "marked lost", "lease not renewed"}[e]
}

// session is the life of one incarnation.
type session struct {
	*Service
	key    store.WorkerKey
	lease  *lease
	held   *registry
	record *runRecord
	// results holds the results that wait to be written.
	results *results
	client  *broker.Client
	// ending wakes serveUntilEnd when the session ends early or a stop is requested. beatNow wakes the
	// heartbeat when it has something to report.
	ending  host.Signal
	beatNow host.Signal
	// hinted wakes checkHints. futile wakes lookBehind.
	hinted host.Signal
	futile host.Signal
	unread *unread.Keeper
	starts startBackoff

	mu   sync.Mutex
	over endReason
	// succeeded reports whether another process has taken the worker's name, even if that was after the
	// session's end.
	succeeded bool
	draining  bool
	// asked reports whether an operator has requested that the worker drain and stop.
	asked bool
	// consumer is nil while the worker does not receive dispatches.
	consumer broker.Consumer
	// waiting holds the deliveries that wait for a run slot, the oldest first. Their messages are not
	// acknowledged.
	waiting []delivery
	// reportedFull is the latest monotonic time at which the worker was full, according to the database.
	reportedFull time.Duration
	// beaten is the largest number of a heartbeat that was answered.
	beaten uint64
	// leftover holds deliveries that came while draining: their epochs are released, then they are
	// acknowledged.
	leftover []delivery
	// wasted is the number of futile messages since lookBehind last tried to query the database.
	wasted int
}

func newSession(s *Service, key store.WorkerKey, sent time.Duration) *session {
	t := &session{
		Service: s, key: key, lease: newLease(s.host, s.config.Worker, sent), held: newRegistry(s.host, s.config.Worker.Concurrency),
		record: newRunRecord(s.host, s.config.Health.Window),
		client: broker.NewClient(s.host, s.broker, s.topology(key.ID), s.config.MessageQueue.RabbitMQ, s.limited),
		ending: s.host.NewSignal(), beatNow: s.host.NewSignal(), hinted: s.host.NewSignal(), futile: s.host.NewSignal(),
	}
	t.results = &results{host: s.host, lease: t.lease}
	t.unread = unread.New(unread.Options{
		Host: s.host, Store: s.store, Log: s.limited, Recorder: s.recorder, Timeout: s.config.Worker.StatementTimeout,
		// A message that is held blocks the messages behind it.
		Refused: t.futile.Set,
	})
	return t
}

// serveUntilEnd runs the session until its end. When it returns, no action of this incarnation is alive.
func (s *session) serveUntilEnd(ctx context.Context) endReason {
	work, stopWork := s.host.WithCancel(context.Background())
	watching, stopWatching := s.host.WithCancel(ctx)
	tasks := []host.Task{
		s.host.Go("broker client", func() { s.client.Run(work) }),
		s.host.Go("heartbeat", func() { s.sendHeartbeats(work) }),
		s.host.Go("fence", func() { s.guardLease(work) }),
		s.host.Go("consumer", func() { s.consumeQueue(work) }),
		s.host.Go("waiting deliveries", func() { s.keepAdmitting(work) }),
		s.host.Go("cancel consumer", func() { s.listenForCancel(work) }),
		s.host.Go("cancellations that hints tell of", func() { s.checkHints(work) }),
		s.host.Go("unreadable messages", func() { s.unread.Run(work) }),
		s.host.Go("work behind futile messages", func() { s.lookBehind(work) }),
		s.host.Go("stop watcher", func() {
			// This signal is never set, so the wait ends only with the context.
			_, _ = s.host.NewSignal().Wait(watching, host.Forever)
			s.ending.Set()
		}),
	}
	_, _ = s.ending.Wait(context.Background(), host.Forever)
	why := s.whyEnded()
	if why == endNone {
		s.drainAndStop()
		why = endStopped
	}
	s.awaitRegistry(host.Forever, func(_, alive int) bool { return alive == 0 })
	stopWatching()
	stopWork()
	for _, task := range tasks {
		_ = task.Wait(context.Background())
	}
	return why
}

// endEarly ends the session and every action for the reason why; the first reason stays. Past the fence, the
// grace is the rest of the margin.
func (s *session) endEarly(why endReason) {
	s.mu.Lock()
	first := s.over == endNone
	if first {
		s.over = why
	}
	s.succeeded = s.succeeded || why == endSuperseded
	s.mu.Unlock()
	if !first {
		return
	}
	reason, grace := execution.WorkerLost, time.Duration(0)
	if why == endFenced {
		_, kill := s.lease.fenceDeadlines()
		reason, grace = execution.HeartbeatStale, max(0, min(s.config.Worker.KillGrace, kill-s.host.Monotonic()))
	}
	s.held.close(reason, grace)
	s.ending.Set()
}

// db makes one database call. If the error shows that the incarnation is over, it ends the session.
func (s *session) db(f func(ctx context.Context) error) error {
	return s.endIfGone(s.Service.db(f))
}

// callWithin is db for a call that is useless once ctx has ended.
func (s *session) callWithin(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	return s.endIfGone(s.Service.callWithin(ctx, patience, f))
}

// endIfGone ends the session if the error shows that the incarnation is over, and returns the error.
func (s *session) endIfGone(err error) error {
	if why := endReasonOf(err); why != endNone {
		s.endEarly(why)
	}
	return err
}

// wasAskedToStop reports whether an operator has requested a drain.
func (s *session) wasAskedToStop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// hasSuccessor reports whether another process is known to have taken the worker's name.
func (s *session) hasSuccessor() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.succeeded
}

func (s *session) whyEnded() endReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// guardLease ends the session when the worker can no longer rely on its lease.
func (s *session) guardLease(ctx context.Context) {
	for !s.lease.checkFence() {
		at, _ := s.lease.fenceDeadlines()
		if s.host.Sleep(ctx, at-s.host.Monotonic()) != nil {
			return
		}
	}
	s.recorder.Add(telemetry.LeasesFenced, 1, telemetry.Labels{})
	s.log.LogAttrs(ctx, slog.LevelWarn, "lease not renewed in time, ending every action")
	s.endEarly(endFenced)
}

// awaitResults waits until the database has accepted or refused every result of the session. It
// returns false if ctx ended.
func (s *session) awaitResults(ctx context.Context) bool {
	for {
		if held, _ := s.held.countHeld(); held == 0 {
			return true
		}
		if _, err := s.held.changed.Wait(ctx, host.Forever); err != nil {
			return false
		}
	}
}

// awaitRegistry waits until done returns true or d has passed; it calls done whenever the registry changes.
// It reports whether done returned true.
func (s *session) awaitRegistry(d time.Duration, done func(held, alive int) bool) bool {
	deadline := s.host.Monotonic() + min(d, host.Forever/2)
	for !done(s.held.countHeld()) {
		left := deadline - s.host.Monotonic()
		if left <= 0 {
			return false
		}
		if d == host.Forever {
			left = host.Forever
		}
		_, _ = s.held.changed.Wait(context.Background(), left)
	}
	return true
}
