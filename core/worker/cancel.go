package worker

import (
	"context"
	"log/slog"

	"handoff/core/broker"
	"handoff/core/execution"
)

// cancelPrefetch bounds the hints that wait to be looked at.
const cancelPrefetch = 20

// listenForCancel ends executions that a hint names, until ctx ends. A hint about what the worker does not
// hold, or holds at another epoch, has no effect: nothing is remembered of it (flaw D60). Whatever is lost
// here, the reply to the next heartbeat says again.
func (t *tenure) listenForCancel(ctx context.Context) {
	t.client.Consume(ctx, broker.Subscription{Queue: broker.CancelQueue(t.key.ID), Prefetch: cancelPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		if d.Malformed == nil && d.Envelope.Type == broker.ExecutionCancel {
			for _, change := range d.Envelope.Changes {
				t.cancel(change.Key)
			}
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
