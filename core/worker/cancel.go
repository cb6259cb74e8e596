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

// keepUnread stores a message that says nothing to the worker, then acknowledges it. It is held until it is stored,
// neither lost nor sent round in a hot loop (flaw D25); false when ctx ended first. One that the database will never
// take is only logged: it must not stand in the way of all others.
func (t *tenure) keepUnread(ctx context.Context, c broker.Consumer, d broker.Delivery, queue, why string) bool {
	letter := store.DeadLetter{Queue: queue, Reason: "malformed", Body: d.Body, Outcome: why, Open: true}
	backoff := broker.NewBackoff(t.host, 200*time.Millisecond, 10*time.Second)
	for {
		err := t.db(func(ctx context.Context) error { return t.store.StoreDeadLetters(ctx, letter) })
		switch {
		case err == nil:
			t.log.LogAttrs(ctx, slog.LevelError, "unreadable message stored as a dead letter", slog.String("queue", queue), slog.String("why", why))
		case !store.Retriable(err):
			t.log.LogAttrs(ctx, slog.LevelError, "unreadable message can't be stored, only this line keeps it", slog.String("queue", queue), slog.String("why", why), slog.Any("error", err))
		default:
			if backoff.Wait(ctx) != nil {
				return false
			}
			continue
		}
		t.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{"malformed", "malformed"})
		c.Ack(d)
		return true
	}
}

// cancelPrefetch bounds the hints that wait to be looked at.
const cancelPrefetch = 20

// listenForCancel ends executions that a hint names, until ctx ends. A hint about what the worker does not
// hold, or holds at another epoch, has no effect: nothing is remembered of it (flaw D60). Whatever is lost
// here, the reply to the next heartbeat says again.
func (t *tenure) listenForCancel(ctx context.Context) {
	queue := broker.CancelQueue(t.key.ID)
	t.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: cancelPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		switch {
		case d.Malformed != nil:
			return t.keepUnread(ctx, c, d, queue, d.Malformed.Error())
		case d.Envelope.Type != broker.ExecutionCancel:
			return t.keepUnread(ctx, c, d, queue, "not a cancellation")
		}
		for _, change := range d.Envelope.Changes {
			t.cancel(change.Key)
		}
		c.Ack(d)
		return true
	}})
}

// cancel ends the action of an execution that was asked to end. Who asked has written so in the database
// before: the worker only answers with how it ended.
func (t *tenure) cancel(key execution.Key) {
	if !t.held.holds(key) {
		return
	}
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "cancellation requested, ending the action",
		slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
	t.held.end(execution.CancelRequested, t.config.Worker.KillGrace, func(k execution.Key) bool { return k == key })
}
