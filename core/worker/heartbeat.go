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

// beat renews the lease until ctx ends or the incarnation is gone. The interval counts from one
// request to the next, as the lease does. It is shortened at random by up to a tenth; otherwise
// workers started together would send heartbeats together for ever. After a failure the next one
// comes sooner.
func (t *session) beat(ctx context.Context) {
	interval := t.config.Worker.HeartbeatInterval
	active := false
	loop := telemetry.NewLoop(t.recorder, t.host.Monotonic, "heartbeat")
	for {
		began := t.host.Monotonic()
		err := loop.Pass(func() error {
			consuming := t.consuming()
			starting, err := t.beatOnce(ctx, consuming)
			// A failover may have lost that the worker became active.
			active = active && !starting
			if err != nil || !consuming || active {
				return err
			}
			// Only a worker that would receive a dispatch becomes active.
			err = t.setLifecycle(execution.Active)
			active = err == nil
			return err
		})
		soon := t.config.Worker.HeartbeatPause()
		early := time.Duration(t.host.Uint64N(uint64(interval/10) + 1)) //nolint:gosec // less than the interval
		next := max(soon, began+interval-early-t.host.Monotonic())
		if err != nil {
			if gone(err) != endNone || ctx.Err() != nil {
				return
			}
			t.log.LogAttrs(ctx, slog.LevelWarn, "heartbeat failed, trying again", slog.Any("error", err))
			next = soon
		}
		loop.Interval(next)
		if _, err := t.beatNow.Wait(ctx, next); err != nil {
			return
		}
	}
}

// beatOnce sends a heartbeat, and says whether the worker is still starting as the database knows.
func (t *session) beatOnce(ctx context.Context, consuming bool) (starting bool, err error) {
	sent := t.host.Monotonic()
	number, held := t.held.nextBeat()
	full, wasFull := t.lastFull(sent)
	figures := t.record.figures()
	acknowledged := t.acknowledged(0)
	var reply store.BeatReply
	// A third of the remaining time: so a lease has room for a late answer, and for another attempt
	// on another connection if the first one is dead. With the statement timeout alone, a slightly
	// slower network path would cost every lease: each failed attempt closes its connection, and
	// the next has to open one first.
	fence, _ := t.lease.deadline()
	err = t.within(ctx, max(t.config.Worker.StatementTimeout, (fence-sent)/3), func(ctx context.Context) (err error) {
		reply, err = t.store.Heartbeat(ctx, store.Beat{
			WorkerKey: t.key, Number: number, Acknowledged: acknowledged, Lease: t.config.Worker.Lease(), ConsumerAlive: consuming, Held: held,
			Messages: broker.VersionBlock, WasFull: wasFull, FullAgo: max(0, sent-full), Figures: figures, Health: t.config.Health.Of(figures, 0),
		})
		return err
	})
	if err != nil {
		return false, err
	}
	t.acknowledged(number)
	t.toldFull(full, wasFull)
	if t.lease.renew(sent) {
		_, kill := t.lease.deadline()
		t.held.extend(kill)
	}
	if reply.Incomplete != nil {
		t.limited.LogAttrs(context.Background(), slog.LevelWarn, "lease renewed, but the database could not say what was lost; the next heartbeat asks again",
			slog.Any("error", reply.Incomplete))
	}
	if reply.Drain {
		t.askToStop()
	}
	for _, key := range reply.Lost {
		t.log.LogAttrs(context.Background(), slog.LevelWarn, "execution lost, ending its action",
			slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
		t.held.end(execution.WorkerLost, 0, func(k execution.Key) bool { return k == key })
	}
	for _, key := range reply.Cancel {
		t.cancel(key)
	}
	for i := range reply.Ended {
		o := &reply.Ended[i]
		t.notifier.Changed(broker.Change{Key: o.Row.Key(), From: o.From, To: o.Row.Status})
	}
	return reply.Starting, nil
}

// acknowledged notes that a heartbeat was answered, and returns the largest answered number. If a
// database does not know that heartbeat, it was replaced by a copy that lacks the latest writes.
// Nobody can tell what else is missing, so that database refuses the heartbeat, and the incarnation
// gives up all its work.
func (t *session) acknowledged(number uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.beaten = max(t.beaten, number)
	return t.beaten
}

// toldFull notes the latest moment at which, as the database knows, the worker was full.
func (t *session) toldFull(at time.Duration, was bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was {
		t.told = max(t.told, at)
	}
}

// tellFull tells the database, before a delivery is rejected, that every slot was taken, or that the
// worker rested, at some time since its dispatch: the take-back checks this. The dispatch was made at the moment made or
// before, and the delivery came at the moment came. One extra heartbeat is enough for all waiting
// deliveries. There is one attempt: if the database does not answer, at worst the dispatch counts
// once.
func (t *session) tellFull(made, came time.Duration) {
	full, was := t.lastFull(t.host.Monotonic())
	t.mu.Lock()
	known := t.told >= min(full, came)
	t.mu.Unlock()
	if known || !was || full < made {
		return
	}
	if _, err := t.beatOnce(context.Background(), t.consuming()); err != nil {
		t.log.LogAttrs(context.Background(), slog.LevelInfo, "could not tell the database that every run slot was taken", slog.Any("error", err))
	}
}

// askToStop begins the drain that an operator requested. Every heartbeat repeats the request until
// the worker drains; only the first counts.
func (t *session) askToStop() {
	t.mu.Lock()
	first := !t.asked
	t.asked = true
	t.mu.Unlock()
	if first {
		t.log.LogAttrs(context.Background(), slog.LevelInfo, "an operator drains this worker")
		t.ending.Set()
	}
}

func (t *session) setLifecycle(to execution.Lifecycle) error {
	return t.db(func(ctx context.Context) error { return t.store.SetLifecycle(ctx, t.key, to) })
}

func (t *session) consuming() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.consumer != nil
}

// setConsuming tells the database, with an extra heartbeat, whether the worker would receive
// dispatches.
func (t *session) setConsuming(c broker.Consumer) {
	t.mu.Lock()
	t.consumer = c
	t.mu.Unlock()
	t.beatNow.Set()
}
