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

// end is the reason why a session ended.
type end uint8

const (
	endNone end = iota
	endStopped
	endSuperseded
	endLost
	endFenced
)

// String is the name of the reason in logs.
func (e end) String() string {
	return [...]string{"not ended", "stopped", "superseded", "marked lost", "lease not renewed"}[e]
}

// session is the life of one incarnation.
type session struct {
	*Service
	key    store.WorkerKey
	lease  *lease
	held   *registry
	record *record
	// results are the results that wait to be written.
	results *results
	client  *broker.Client
	// ending wakes serve when the session ends early or a stop is requested. beatNow wakes the
	// heartbeat when it has something to report.
	ending  host.Signal
	beatNow host.Signal
	// hinted wakes the task that asks about cancellations. futile wakes the task that asks what is
	// dispatched here.
	hinted host.Signal
	futile host.Signal
	unread *unread.Keeper
	starts starts

	mu   sync.Mutex
	over end
	// succeeded says that the worker was told of a successor, also if the session was over by then.
	succeeded bool
	draining  bool
	// asked says that an operator wants the worker to drain and stop.
	asked bool
	// consumer is nil while the worker would not receive a dispatch.
	consumer broker.Consumer
	// waiting holds the deliveries that found every run slot taken, the oldest first.
	waiting []waiting
	// told is the latest moment, on the monotonic clock, at which, as the database knows, the
	// worker was full.
	told time.Duration
	// beaten is the largest number of an answered heartbeat.
	beaten uint64
	// leftover was received while draining: its epochs are given back, then it is acknowledged.
	leftover []delivery
	// wasted counts the futile messages since lookBehind last asked the database.
	wasted int
}

func newSession(s *Service, key store.WorkerKey, sent time.Duration) *session {
	t := &session{
		Service: s, key: key, lease: newLease(s.host, s.config.Worker, sent), held: newRegistry(s.host, s.config.Worker.Concurrency),
		record: newRecord(s.host, s.config.Health.Window),
		client: broker.NewClient(s.host, s.broker, s.topology(key.ID), s.config.MessageQueue.RabbitMQ, s.limited),
		ending: s.host.NewSignal(), beatNow: s.host.NewSignal(), hinted: s.host.NewSignal(), futile: s.host.NewSignal(),
	}
	t.results = &results{host: s.host, lease: t.lease}
	t.unread = unread.New(unread.Options{
		Host: s.host, Store: s.store, Log: s.limited, Recorder: s.recorder, Timeout: s.config.Worker.StatementTimeout,
		// A message that is held keeps the messages behind it from coming.
		Refused: t.futile.Set,
	})
	return t
}

// serve runs the session until its end. When it returns, no action of this incarnation is alive.
func (s *session) serve(ctx context.Context) end {
	work, stopWork := s.host.WithCancel(context.Background())
	watching, stopWatching := s.host.WithCancel(ctx)
	tasks := []host.Task{
		s.host.Go("broker client", func() { s.client.Run(work) }),
		s.host.Go("heartbeat", func() { s.beat(work) }),
		s.host.Go("fence", func() { s.guard(work) }),
		s.host.Go("consumer", func() { s.consume(work) }),
		s.host.Go("waiting deliveries", func() { s.admitAll(work) }),
		s.host.Go("cancel consumer", func() { s.listenForCancel(work) }),
		s.host.Go("cancellations that hints tell of", func() { s.checkHints(work) }),
		s.host.Go("unreadable messages", func() { s.unread.Run(work) }),
		s.host.Go("work behind futile messages", func() { s.lookBehind(work) }),
		s.host.Go("stop watcher", func() {
			// Nobody sets this signal: it waits for the context alone.
			_, _ = s.host.NewSignal().Wait(watching, host.Forever)
			s.ending.Set()
		}),
	}
	_, _ = s.ending.Wait(context.Background(), host.Forever)
	why := s.ended()
	if why == endNone {
		s.drain()
		why = endStopped
	}
	s.await(host.Forever, func(_, alive int) bool { return alive == 0 })
	stopWatching()
	stopWork()
	for _, task := range tasks {
		_ = task.Wait(context.Background())
	}
	return why
}

// endEarly ends the session for a reason, and every action with it; the first reason stays. Past
// the fence, the grace is only what is left of the margin.
func (s *session) endEarly(why end) {
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
		_, kill := s.lease.deadline()
		reason, grace = execution.HeartbeatStale, max(0, min(s.config.Worker.KillGrace, kill-s.host.Monotonic()))
	}
	s.held.close(reason, grace)
	s.ending.Set()
}

// db makes one database call. If the answer says that the incarnation is over, it ends the session.
func (s *session) db(f func(ctx context.Context) error) error {
	return s.heed(s.Service.db(f))
}

// within is db for a call that is useless once ctx has ended.
func (s *session) within(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	return s.heed(s.Service.within(ctx, patience, f))
}

// heed ends the session if the error says that the incarnation is over, and returns the error.
func (s *session) heed(err error) error {
	if why := gone(err); why != endNone {
		s.endEarly(why)
	}
	return err
}

// askedToStop says that the session ended with a drain that an operator requested.
func (s *session) askedToStop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// hasSuccessor says that the worker was told that another process has its name.
func (s *session) hasSuccessor() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.succeeded
}

func (s *session) ended() end {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over
}

// guard fences the worker: it ends the session when the worker can no longer rely on its lease.
func (s *session) guard(ctx context.Context) {
	for !s.lease.fence() {
		at, _ := s.lease.deadline()
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
		if held, _ := s.held.counts(); held == 0 {
			return true
		}
		if _, err := s.held.changed.Wait(ctx, host.Forever); err != nil {
			return false
		}
	}
}

// await waits until done returns true or d has passed; it calls done whenever the registry changes.
// It returns whether done returned true.
func (s *session) await(d time.Duration, done func(held, alive int) bool) bool {
	deadline := s.host.Monotonic() + min(d, host.Forever/2)
	for !done(s.held.counts()) {
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
