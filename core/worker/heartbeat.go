package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// sendHeartbeats renews the lease until ctx ends or the incarnation is gone. The interval counts from one
// request to the next, as the lease does. It is shortened at random by up to a tenth, so that workers started
// together don't stay in step. After a failed request the next one comes sooner.
func (s *session) sendHeartbeats(ctx context.Context) {
	interval := s.config.Worker.HeartbeatInterval
	active := false
	loop := telemetry.NewLoop(s.recorder, s.host.Monotonic, "heartbeat")
	for {
		began := s.host.Monotonic()
		err := loop.Pass(func() error {
			consuming := s.isConsuming()
			starting, err := s.beatOnce(ctx, consuming)
			// A failover may have lost the change to Active.
			active = active && !starting
			if err != nil || !consuming || active {
				return err
			}
			// Only a worker that would receive a dispatch becomes active.
			err = s.setLifecycle(execution.Active)
			active = err == nil
			return err
		})
		soon := s.config.Worker.HeartbeatPause()
		early := time.Duration(s.host.Uint64N(uint64(interval/10) + 1)) //nolint:gosec // less than the interval
		next := max(soon, began+interval-early-s.host.Monotonic())
		if err != nil {
			if endReasonOf(err) != endNone || ctx.Err() != nil {
				return
			}
			s.log.LogAttrs(ctx, slog.LevelWarn, "heartbeat failed, trying again", slog.Any("error", err))
			next = soon
		}
		loop.Interval(next)
		if _, err := s.beatNow.Wait(ctx, next); err != nil {
			return
		}
	}
}

// beatOnce sends a heartbeat, and reports whether the database still has the worker as starting.
func (s *session) beatOnce(ctx context.Context, consuming bool) (starting bool, err error) {
	sent := s.host.Monotonic()
	number, held := s.held.nextBeat()
	full, wasFull := s.lastFull(sent)
	figures := s.record.sumFigures()
	acknowledged := s.raiseAcknowledged(0)
	var reply store.BeatReply
	// A third of the remaining time leaves room for a late answer, and for another attempt on another
	// connection. With the statement timeout alone, a slightly slower network path would lose every lease:
	// each failed attempt closes its connection, and the next attempt must first open one.
	fence, _ := s.lease.fenceDeadlines()
	err = s.callWithin(ctx, max(s.config.Worker.StatementTimeout, (fence-sent)/3), func(ctx context.Context) (err error) {
		reply, err = s.store.Heartbeat(ctx, store.Beat{
			WorkerKey: s.key, Number: number, Acknowledged: acknowledged, Lease: s.config.Worker.Lease(), ConsumerAlive: consuming, Held: held,
			Messages: broker.VersionBlock, WasFull: wasFull, FullAgo: max(0, sent-full), Figures: figures, Health: s.config.Health.Of(figures, 0),
		})
		return err
	})
	if err != nil {
		return false, err
	}
	s.raiseAcknowledged(number)
	s.noteReportedFull(full, wasFull)
	if s.lease.renewFrom(sent) {
		_, kill := s.lease.fenceDeadlines()
		s.held.extendFences(kill)
	}
	if reply.Incomplete != nil {
		s.limited.LogAttrs(context.Background(), slog.LevelWarn, "lease renewed, but the database could not say what was lost; the next heartbeat asks again",
			slog.Any("error", reply.Incomplete))
	}
	if reply.Drain {
		s.requestDrain()
	}
	for _, key := range reply.Lost {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "execution lost, ending its action",
			slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
		s.held.endMatching(execution.WorkerLost, 0, func(k execution.Key) bool { return k == key })
	}
	for _, key := range reply.Cancel {
		s.cancelRun(key)
	}
	for i := range reply.Ended {
		o := &reply.Ended[i]
		s.notifier.Changed(broker.Change{Key: o.Row.Key(), From: o.From, To: o.Row.Status})
	}
	return reply.Starting, nil
}

// raiseAcknowledged records that a heartbeat was answered, and returns the largest answered number. A
// database that lacks that heartbeat is a copy without the latest writes, and other writes may be missing,
// too. So it refuses the next heartbeat, and the incarnation abandons all its work.
func (s *session) raiseAcknowledged(number uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beaten = max(s.beaten, number)
	return s.beaten
}

// noteReportedFull records the latest time at which, according to the database, the worker was full.
func (s *session) noteReportedFull(at time.Duration, was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was {
		s.reportedFull = max(s.reportedFull, at)
	}
}

// reportFull reports to the database, before a delivery is rejected, that the worker was full or rested at
// some time since the dispatch. The reclaim checks this. made is the latest time at which the dispatch may
// have been made; came is when its delivery came. One extra heartbeat is enough for all waiting deliveries.
// It is sent only once: without an answer, the dispatch counts once at worst.
func (s *session) reportFull(made, came time.Duration) {
	full, was := s.lastFull(s.host.Monotonic())
	s.mu.Lock()
	known := s.reportedFull >= min(full, came)
	s.mu.Unlock()
	if known || !was || full < made {
		return
	}
	if _, err := s.beatOnce(context.Background(), s.isConsuming()); err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "could not tell the database that every run slot was taken", slog.Any("error", err))
	}
}

// requestDrain begins the drain that an operator requested. Every heartbeat's reply repeats the request until
// the worker drains; repetitions have no effect.
func (s *session) requestDrain() {
	s.mu.Lock()
	first := !s.asked
	s.asked = true
	s.mu.Unlock()
	if first {
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "an operator drains this worker")
		s.ending.Set()
	}
}

func (s *session) setLifecycle(to execution.Lifecycle) error {
	return s.db(func(ctx context.Context) error { return s.store.SetLifecycle(ctx, s.key, to) })
}

func (s *session) isConsuming() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumer != nil
}

// setConsumer sets the consumer, nil for none. An extra heartbeat reports whether the worker now receives
// dispatches.
func (s *session) setConsumer(c broker.Consumer) {
	s.mu.Lock()
	s.consumer = c
	s.mu.Unlock()
	s.beatNow.Set()
}
