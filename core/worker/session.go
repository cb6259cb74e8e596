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

// end is why a session ended.
type end uint8

const (
	endNone end = iota
	endStopped
	endSuperseded
	endLost
	endFenced
)

// String names it for logs.
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
	// results are what waits to be written.
	results *results
	client  *broker.Client
	// ending wakes serve when the session ends early or a stop is asked for, beatNow the heartbeat
	// when it has something to tell.
	ending  host.Signal
	beatNow host.Signal
	// hinted wakes whoever asks about cancellations, futile whoever asks what is dispatched here.
	hinted host.Signal
	futile host.Signal
	unread *unread.Keeper

	mu       sync.Mutex
	over     end
	draining bool
	// asked says that an operator wants the worker to drain and stop.
	asked bool
	// consumer is nil while the worker would not receive a dispatch.
	consumer broker.Consumer
	// waiting holds the deliveries that found every run slot taken, the oldest first.
	waiting []waiting
	// told is the latest moment, on the monotonic clock, at which the database knows the worker to have been full.
	told time.Duration
	// beaten is the largest number of a heartbeat that was answered.
	beaten uint64
	// leftover was received while draining: its epochs are given back before it is acknowledged.
	leftover []delivery
	// wasted counts the messages of the worker's queue that came to nothing since lookBehind asked the database last.
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
		// What stands behind messages that are held does not come before them.
		Refused: t.futile.Set,
	})
	return t
}

// serve runs the session to its end. When it returns, no action of this incarnation is alive.
func (t *session) serve(ctx context.Context) end {
	work, stopWork := t.host.WithCancel(context.Background())
	watching, stopWatching := t.host.WithCancel(ctx)
	tasks := []host.Task{
		t.host.Go("broker client", func() { t.client.Run(work) }),
		t.host.Go("heartbeat", func() { t.beat(work) }),
		t.host.Go("fence", func() { t.guard(work) }),
		t.host.Go("consumer", func() { t.consume(work) }),
		t.host.Go("waiting deliveries", func() { t.admitAll(work) }),
		t.host.Go("cancel consumer", func() { t.listenForCancel(work) }),
		t.host.Go("cancellations that hints tell of", func() { t.checkHints(work) }),
		t.host.Go("unreadable messages", func() { t.unread.Run(work) }),
		t.host.Go("work behind futile messages", func() { t.lookBehind(work) }),
		t.host.Go("stop watcher", func() {
			// A signal that nobody sets: this waits for the context alone.
			_, _ = t.host.NewSignal().Wait(watching, host.Forever)
			t.ending.Set()
		}),
	}
	_, _ = t.ending.Wait(context.Background(), host.Forever)
	why := t.ended()
	if why == endNone {
		t.drain()
		why = endStopped
	}
	t.await(host.Forever, func(_, alive int) bool { return alive == 0 })
	stopWatching()
	stopWork()
	for _, task := range tasks {
		_ = task.Wait(context.Background())
	}
	return why
}

// endEarly ends the session for a reason, and with it every action; the first reason stays. Past the
// fence there is only as much grace as the margin has left.
func (t *session) endEarly(why end) {
	t.mu.Lock()
	first := t.over == endNone
	if first {
		t.over = why
	}
	t.mu.Unlock()
	if !first {
		return
	}
	reason, grace := execution.WorkerLost, time.Duration(0)
	if why == endFenced {
		_, kill := t.lease.deadline()
		reason, grace = execution.HeartbeatStale, max(0, min(t.config.Worker.KillGrace, kill-t.host.Monotonic()))
	}
	t.held.close(reason, grace)
	t.ending.Set()
}

// db makes one database call. Whichever call tells that the incarnation is over, the session ends with it.
func (t *session) db(f func(ctx context.Context) error) error {
	return t.heed(t.Service.db(f))
}

// within is db for a call that is worth nothing once ctx has ended.
func (t *session) within(ctx context.Context, patience time.Duration, f func(ctx context.Context) error) error {
	return t.heed(t.Service.within(ctx, patience, f))
}

// heed ends the session if an error says so, and returns the error.
func (t *session) heed(err error) error {
	if why := gone(err); why != endNone {
		t.endEarly(why)
	}
	return err
}

// askedToStop says that an operator asked for the drain with which the session ended.
func (t *session) askedToStop() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

func (t *session) ended() end {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.over
}

// guard fences the worker: when its lease can't be trusted any longer, the session ends.
func (t *session) guard(ctx context.Context) {
	for !t.lease.fence() {
		at, _ := t.lease.deadline()
		if t.host.Sleep(ctx, at-t.host.Monotonic()) != nil {
			return
		}
	}
	t.recorder.Add(telemetry.LeasesFenced, 1, telemetry.Labels{})
	t.log.LogAttrs(ctx, slog.LevelWarn, "lease not renewed in time, ending every action")
	t.endEarly(endFenced)
}

// awaitResults waits until every result of the session was taken or refused by the database. It returns false if ctx ended.
func (t *session) awaitResults(ctx context.Context) bool {
	for {
		if held, _ := t.held.counts(); held == 0 {
			return true
		}
		if _, err := t.held.changed.Wait(ctx, host.Forever); err != nil {
			return false
		}
	}
}

// await waits until done, looked at whenever the registry changes, or until d has passed. It returns
// whether it was done.
func (t *session) await(d time.Duration, done func(held, alive int) bool) bool {
	deadline := t.host.Monotonic() + min(d, host.Forever/2)
	for !done(t.held.counts()) {
		left := deadline - t.host.Monotonic()
		if left <= 0 {
			return false
		}
		if d == host.Forever {
			left = host.Forever
		}
		_, _ = t.held.changed.Wait(context.Background(), left)
	}
	return true
}
