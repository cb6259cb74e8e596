package executor

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// deadLetterPrefetch bounds the dead letters that are held while the database is away.
const deadLetterPrefetch = 50

// handleDeadLetters consumes the dead letter queue until ctx ends. A dead letter says that a
// message died, not that its execution is unclaimed: a prefetched message that is requeued past its
// expiry dies while its execution runs (flaw D20). So the row decides.
func (s *Service) handleDeadLetters(ctx context.Context) {
	queue := broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
	s.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: deadLetterPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		return s.keepTrying(ctx, func() error { return s.handleOrKeep(d) }, func() { c.Ack(d) })
	}})
}

// keepTrying repeats act with backoff while the database is away, then settles. The message is held
// meanwhile: neither lost, nor sent round in a hot loop (flaw D25). It returns false when ctx ended
// first.
func (s *Service) keepTrying(ctx context.Context, act func() error, settle func()) bool {
	backoff := broker.NewBackoff(s.host, 200*time.Millisecond, 10*time.Second)
	for {
		err := act()
		if err == nil {
			settle()
			return true
		}
		s.log.LogAttrs(ctx, slog.LevelWarn, "message held, its handling is tried again", slog.Any("error", err))
		if backoff.Wait(ctx) != nil {
			return false
		}
	}
}

// handleOrKeep handles a dead letter. One that the database will never take is kept without its body, and
// if even that is refused it is only logged: it must not stand in the way of all others.
func (s *Service) handleOrKeep(d broker.Delivery) error {
	err := s.handleDeadLetter(d)
	if err == nil || store.Retriable(err) {
		return err
	}
	s.log.LogAttrs(context.Background(), slog.LevelError, "dead letter can't be handled", slog.Any("error", err))
	letter := store.DeadLetter{Reason: "unhandled", Outcome: err.Error()}
	if len(d.Deaths) > 0 {
		letter.Queue = d.Deaths[0].Queue
	}
	err = s.db(func(ctx context.Context) error { return s.store.StoreDeadLetter(ctx, letter) })
	if store.Retriable(err) {
		return err
	}
	return nil
}

// handleDeadLetter acts on one dead letter and keeps it for inspection.
func (s *Service) handleDeadLetter(d broker.Delivery) error {
	letter := store.DeadLetter{Body: d.Body}
	if len(d.Deaths) > 0 {
		letter.Queue, letter.Reason = d.Deaths[0].Queue, d.Deaths[0].Reason.String()
	}
	dispatch := d.Envelope.Dispatch
	// Only the death of a dispatch in a worker's queue is about a handoff (flaw D18).
	if d.Malformed != nil || d.Envelope.Type != broker.ExecutionScheduled || dispatch == nil || !broker.IsWorkerQueue(letter.Queue) {
		letter.Outcome = "not a dispatch"
		s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{letter.Reason, "malformed"})
		return s.db(func(ctx context.Context) error { return s.store.StoreDeadLetter(ctx, letter) })
	}
	letter.Key = dispatch.Key
	var err error
	if letter.Outcome, err = s.reclaimDeadLettered(dispatch.Key, d.Deaths[0].Reason); err != nil {
		return err
	}
	s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{letter.Reason, letter.Outcome})
	return s.db(func(ctx context.Context) error { return s.store.StoreDeadLetter(ctx, letter) })
}

// reclaimDeadLettered takes the execution back if it still waits at the epoch of the dead message,
// and says in a word what it found.
func (s *Service) reclaimDeadLettered(key execution.Key, death broker.DeathReason) (outcome string, err error) {
	var rows []execution.Execution
	if err := s.db(func(ctx context.Context) (err error) {
		rows, err = s.store.Executions(ctx, []execution.ID{key.ID})
		return err
	}); err != nil {
		return "", err
	}
	switch {
	case len(rows) == 0:
		return "unknown execution", nil
	case rows[0].Epoch != key.Epoch:
		return "another epoch", nil
	case rows[0].Status != execution.Scheduled:
		return rows[0].Status.String(), nil
	}
	reason, text := execution.QueueTimeout, textTTLExpired
	if death == broker.DeathRejected {
		// The worker refused it: too late to be claimed, or unreadable.
		reason, text = execution.DispatchTimeout, textNotPickedUp
	}
	r := s.unclaimed(&rows[0], execution.DeadLetterHandler, reason, text)
	r.Ground, r.Counts = store.DeadLettered, true
	taken, err := s.reclaim([]store.Reclaim{r})
	if err == nil && taken == 0 {
		return "claimed or taken meanwhile", nil
	}
	return "reclaimed", err
}

// keepMalformed stores a message that could not be read and acknowledges it.
func (s *Service) keepMalformed(ctx context.Context, c broker.Consumer, d broker.Delivery, queue string) {
	s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{"malformed", "malformed"})
	letter := store.DeadLetter{Queue: queue, Reason: "malformed", Body: d.Body, Outcome: d.Malformed.Error()}
	s.keepTrying(ctx, func() error {
		return s.db(func(ctx context.Context) error { return s.store.StoreDeadLetter(ctx, letter) })
	}, func() { c.Ack(d) })
}
