package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// cancelPrefetch is the maximum number of hints that wait for listenForCancel.
const cancelPrefetch = 20

// hintInterval is the shortest time between two queries that hints cause, so that a flood of hints does not
// cause a flood of statements.
const hintInterval = 200 * time.Millisecond

// listenForCancel consumes hints about cancellations until ctx ends. Any client that can publish can send
// such a hint, so a hint only makes the worker query the database (S11). A hint about an execution or epoch
// that the worker does not hold has no effect (defect D60). If a hint is lost, the reply to the next
// heartbeat carries the cancellation.
func (s *session) listenForCancel(ctx context.Context) {
	queue := broker.CancelQueue(s.key.ID)
	s.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: cancelPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		switch {
		case d.Malformed != nil:
			s.unread.Keep(c, d, queue, d.Malformed.Error())
			return true
		case d.Envelope.Type != broker.ExecutionCancel:
			s.unread.Keep(c, d, queue, "not a cancellation")
			return true
		}
		if s.held.noteCancelHints(d.Envelope.Changes) {
			s.hinted.Set()
		}
		c.Ack(d)
		return true
	}})
}

// checkHints queries the database for the executions that hints have named, in one statement, until ctx ends.
// If the database does not answer, the reply to the next heartbeat carries the cancellations.
func (s *session) checkHints(ctx context.Context) {
	for {
		if _, err := s.hinted.Wait(ctx, host.Forever); err != nil {
			return
		}
		if ids := s.held.takeHinted(); len(ids) > 0 {
			var rows []execution.Execution
			err := s.db(func(ctx context.Context) (err error) {
				rows, err = s.store.Executions(ctx, ids)
				return err
			})
			if err != nil {
				s.limited.LogAttrs(ctx, slog.LevelInfo, "could not ask whether executions are to be cancelled, the next heartbeat does", slog.Any("error", err))
			}
			for i := range rows {
				if row := &rows[i]; row.Status == execution.Canceling && row.Incarnation == s.key.Incarnation {
					s.cancelRun(row.Key())
				}
			}
		}
		if s.host.Sleep(ctx, hintInterval) != nil {
			return
		}
	}
}

// cancelRun ends the action of an execution that is being cancelled. The database already has the request, so
// the worker only writes how the execution ended.
func (s *session) cancelRun(key execution.Key) {
	if !s.held.isHeld(key) {
		return
	}
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "cancellation requested, ending the action",
		slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
	s.held.endMatching(execution.CancelRequested, s.config.Worker.KillGrace, func(k execution.Key) bool { return k == key })
}
