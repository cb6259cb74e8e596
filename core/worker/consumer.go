package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// consume takes deliveries until ctx ends or the session does.
func (t *session) consume(ctx context.Context) {
	t.client.Consume(ctx, broker.Subscription{
		Queue: broker.WorkerQueue(t.key.ID), Prefetch: t.config.Worker.Concurrency, Alive: t.setConsuming, Cancelled: t.isDraining,
		Handle: func(c broker.Consumer, d broker.Delivery) bool {
			return t.receive(delivery{c, d})
		},
	})
}

func (t *session) isDraining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draining
}

// receive takes one delivery: it gets a free run slot at once, or waits for one, unacknowledged. Nothing
// expires it meanwhile, which is why a claim has a deadline of its own (defect D20). It returns false when the
// session is over.
//
// What is no dispatch is stored and acknowledged, never rejected: it may carry a header that ends the broker's dead
// lettering (S5).
func (t *session) receive(d delivery) bool {
	if why := unreadable(&d.Delivery); why != "" {
		t.unread.Keep(d.consumer, d.Delivery, broker.WorkerQueue(t.key.ID), why)
		t.waste()
		return true
	}
	if t.ended() != endNone {
		return false
	}
	if double, any := t.queue(d); any {
		double.consumer.Ack(double.Delivery)
	}
	if t.admit() < host.Forever {
		// Wakes admitAll, so that it also waits for the end of this delivery's time.
		t.held.freed.Set()
	}
	return true
}

// unreadable says why a delivery is no dispatch; empty if it is one.
func unreadable(d *broker.Delivery) string {
	switch {
	case d.Malformed != nil:
		return d.Malformed.Error()
	case d.Envelope.Type != broker.ExecutionScheduled || d.Envelope.Dispatch == nil:
		return "not a dispatch"
	}
	return ""
}

// execute takes one delivery from the claim to the end of its execution.
func (t *session) execute(d waiting, e *entry) {
	defer func() {
		t.held.remove(e, t.host.Monotonic())
		if e.cancelled {
			t.beatNow.Set()
		}
	}()
	row, sent, claimed := t.claim(d, e)
	if !claimed {
		return
	}
	t.measureHandoff(e, row, sent)
	t.notifier.Changed(broker.Change{Key: e.key, From: execution.Scheduled, To: execution.Running})
	// At info: a worker runs few at a time, and these two lines are what its operator looks for.
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "starting execution",
		slog.Int64("execution", int64(e.key.ID)), slog.Int64("epoch", int64(e.key.Epoch)), slog.String("action", row.Action.Ref))
	f := t.run(e, row, sent)
	took := t.host.Monotonic() - sent
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "execution ended", slog.Int64("execution", int64(e.key.ID)), slog.Int64("epoch", int64(e.key.Epoch)),
		slog.String("status", f.To.String()), slog.String("reason", f.Reason.String()), slog.Duration("took", took))
	t.finish(f, took)
}

// measureHandoff reports how long the handoff of an execution took, from its dispatch to its claim, both by the
// database's clock. If every slot was taken at any time since the dispatch, the execution may have waited for that and
// not for its message, so nothing is reported. sent is when the claim was sent, on the monotonic clock.
func (t *session) measureHandoff(e *entry, row *execution.Execution, sent time.Duration) {
	if row.ScheduledAt.IsZero() || row.StartedAt.IsZero() {
		return
	}
	took := max(0, row.StartedAt.Sub(row.ScheduledAt))
	if e.wasFull && e.fullUntil >= sent-took {
		return
	}
	t.recorder.Observe(telemetry.StageSeconds, took, telemetry.Labels{telemetry.StageHandoff})
}

// claim makes the worker the owner, or settles the message for what it found instead. After an
// unknown outcome it asks again, and recognises its own claim by epoch and incarnation.
//
// sent is when the claim was sent that took effect; or the first one that may have, if nobody knows which did. What could
// not have taken effect costs the run none of its time, however long the database was away.
func (t *session) claim(d waiting, e *entry) (row *execution.Execution, sent time.Duration, claimed bool) {
	backoff := broker.NewBackoff(t.host, 100*time.Millisecond, 2*time.Second)
	uncertain, first := false, time.Duration(0)
	for !t.lease.fence() && t.ended() == endNone {
		var results []store.ClaimResult
		sent = t.host.Monotonic()
		err := t.db(func(ctx context.Context) (err error) {
			results, err = t.store.Claim(ctx, t.key, []store.Claim{{Key: e.key, Beat: e.beat}})
			return err
		})
		if err == nil {
			r := &results[0]
			if uncertain && !r.Applied {
				sent = first
			}
			return &r.Row, sent, t.settle(d, e, r, uncertain)
		}
		if gone(err) != endNone {
			break
		}
		if errors.Is(err, store.ErrLeaseOver) {
			// The database's clock may have been set forwards: the next beat renews the lease, or the fence ends
			// the wait.
			t.beatNow.Set()
			_ = backoff.Wait(context.Background())
			continue
		}
		if !store.Retriable(err) && !uncertain {
			// Another worker's claims may be taken, as in a migration, so the dead letter handler shall act at once. What
			// an earlier claim may have made this worker's is nobody else's: then it asks until it knows.
			t.limited.LogAttrs(context.Background(), slog.LevelError, "claim refused by the database", slog.Any("error", err))
			for _, d := range append([]delivery{d.delivery}, t.held.answer(e)...) {
				d.consumer.Reject(d.Delivery, false)
			}
			return nil, 0, false
		}
		if !uncertain && errors.Is(err, store.ErrUnknownOutcome) {
			uncertain, first = true, sent
		}
		t.limited.LogAttrs(context.Background(), slog.LevelWarn, "claim not answered, trying again", slog.Int64("execution", int64(e.key.ID)), slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
	// The message stays unsettled: it goes back to the queue with the session.
	return nil, 0, false
}

// settle acknowledges or rejects the message of a claim that was answered.
func (t *session) settle(d waiting, e *entry, r *store.ClaimResult, uncertain bool) (claimed bool) {
	row, key := &r.Row, d.Envelope.Dispatch.Key
	all := append([]delivery{d.delivery}, t.held.answer(e)...)
	ours := uncertain && row.Key() == key && row.Status == execution.Running && row.Incarnation == t.key.Incarnation
	if r.Applied || ours {
		for _, d := range all {
			d.consumer.Ack(d.Delivery)
		}
		return true
	}
	t.held.refuse(e)
	switch {
	case r.DeadlinePassed:
		// Too late: the dead letter handler shall act at once.
		t.tellFull(d.since)
		for _, d := range all {
			d.consumer.Reject(d.Delivery, false)
		}
	default:
		// A claim whose answer was lost, and a cancellation since: nothing runs here, and the next beat says so. That
		// beat is sent when this entry is gone.
		e.cancelled = uncertain && row.Key() == key && row.Status == execution.Canceling && row.Incarnation == t.key.Incarnation
		t.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{execution.Worker.String()})
		for _, d := range all {
			d.consumer.Ack(d.Delivery)
		}
		t.waste()
	}
	t.limited.LogAttrs(context.Background(), slog.LevelInfo, "claim refused", slog.Int64("execution", int64(key.ID)),
		slog.Int64("epoch", int64(key.Epoch)), slog.String("now", row.Status.String()), slog.Int64("at", int64(row.Epoch)))
	return false
}
