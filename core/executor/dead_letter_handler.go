package executor

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
	"handoff/core/unread"
)

// deadLetterPrefetch bounds the dead letters that are held while the database is away.
const deadLetterPrefetch = 50

// handleDeadLetters consumes the dead letter queue until ctx ends. A dead letter says that a
// message died, not that its execution is unclaimed: a prefetched message that is requeued past its
// expiry dies while its execution runs (defect D20). So the row decides.
func (s *Service) handleDeadLetters(ctx context.Context) {
	queue := broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
	s.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: deadLetterPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		if d.Malformed == nil && d.Envelope.Type == broker.DeadLetterCanary {
			// It has done what it was for (broker.Canary): nothing died, and nobody has to look at it.
			s.recorder.Add(telemetry.Canaries, 1, telemetry.Labels{})
			c.Ack(d)
			return true
		}
		if d.Malformed != nil {
			letter := describeDeath(&d)
			letter.Outcome = "malformed"
			s.unread.KeepAs(c, d, queue, letter)
			return true
		}
		died, until := s.died(&d), s.host.Monotonic()+unread.Patience
		return s.keepTrying(ctx, func() error { return s.handleOrKeep(d, died, until) }, func() { c.Ack(d) })
	}})
}

// died is when a message died, on the monotonic clock. The broker notes it in whole seconds of its own clock; where it
// noted nothing, or that clock is ahead of this machine's, the message counts as dead from its delivery on.
func (s *Service) died(d *broker.Delivery) time.Duration {
	now := s.host.Monotonic()
	if len(d.Deaths) == 0 || d.Deaths[0].Time.IsZero() {
		return now
	}
	return now - max(0, s.host.Now().Sub(d.Deaths[0].Time))
}

// keepTrying repeats act with backoff while the database is away, then settles. The message is held
// meanwhile: neither lost, nor sent round in a hot loop (defect D25). It returns false when ctx ended
// first.
func (s *Service) keepTrying(ctx context.Context, act func() error, settle func()) bool {
	backoff := broker.NewBackoff(s.host, 200*time.Millisecond, 10*time.Second)
	for {
		err := act()
		if err == nil {
			settle()
			return true
		}
		s.limited.LogAttrs(ctx, slog.LevelWarn, "message held, its handling is tried again", slog.Any("error", err))
		if backoff.Wait(ctx) != nil {
			return false
		}
	}
}

// handleOrKeep handles a dead letter. One that the database refuses is tried again for unread.Patience: without its letter
// an execution waits for its scheduled timeout. One that it still refuses at the given moment, on the monotonic clock, is
// kept without its body, and if even that is refused it is only logged: it must not stand in the way of all others.
func (s *Service) handleOrKeep(d broker.Delivery, died, patience time.Duration) error {
	letter := describeDeath(&d)
	err := s.handleDeadLetter(d, &letter)
	if err == nil {
		err = s.keep(letter)
	}
	if store.Retriable(err) {
		return err
	}
	if err != nil {
		letter.Outcome = "unhandled"
		if s.host.Monotonic() < patience {
			return err
		}
	}
	if err == nil {
		s.announce(&letter)
		s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{letter.Reason, letter.Outcome})
		s.recorder.Observe(telemetry.DeadLetterSeconds, s.host.Monotonic()-died, telemetry.Labels{})
		return nil
	}
	kept := s.keep(store.DeadLetter{Queue: letter.Queue, Reason: letter.Reason, Outcome: "unhandled: " + err.Error(), Open: true})
	if store.Retriable(kept) {
		return kept
	}
	s.limited.LogAttrs(context.Background(), slog.LevelError, "dead letter can't be handled", slog.Any("error", errors.Join(err, kept)))
	// It is given up once, however often it had to be tried.
	s.announce(&letter)
	s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{letter.Reason, "unhandled"})
	return nil
}

// announce logs and counts a dead letter, once its handling no longer waits for the database. A warning for each: a
// message died, and what it was to hand over did not reach its worker. Only what is about an execution that exists counts
// by action and worker, so that nobody who can publish makes new series.
func (s *Service) announce(letter *store.DeadLetter) {
	s.limited.LogAttrs(context.Background(), slog.LevelWarn, "received dead letter",
		slog.Int64("execution", int64(letter.Key.ID)), slog.Int64("epoch", int64(letter.Key.Epoch)), slog.String("queue", letter.Queue),
		slog.String("reason", letter.Reason), slog.String("outcome", letter.Outcome))
	if letter.ActionRef != "" {
		worker := strconv.FormatInt(int64(letter.Worker), 10)
		s.recorder.Add(telemetry.DeadLettered, 1, telemetry.Labels{letter.Reason, letter.ActionRef, worker})
	}
}

func (s *Service) keep(letter store.DeadLetter) error {
	return s.db(func(ctx context.Context) error { return s.store.StoreDeadLetters(ctx, letter.Bounded()) })
}

// describeDeath is what a dead letter says of itself. Whoever stores it cuts its body.
func describeDeath(d *broker.Delivery) store.DeadLetter {
	letter := store.DeadLetter{Body: d.Body, Reason: broker.DeathUnknown.String()}
	if len(d.Deaths) > 0 {
		letter.Queue, letter.Reason = d.Deaths[0].Queue, d.Deaths[0].Reason.String()
		letter.XDeath = broker.EncodeDeaths(d.Deaths)
	}
	return letter
}

// handleDeadLetter acts on one dead letter and says in it what came of that. Only the death of a
// dispatch in a worker's queue is about a handoff (defect D18); anything else waits for an operator.
func (s *Service) handleDeadLetter(d broker.Delivery, letter *store.DeadLetter) (err error) {
	dispatch := d.Envelope.Dispatch
	if d.Envelope.Type != broker.ExecutionScheduled || dispatch == nil || !broker.IsWorkerQueue(letter.Queue) {
		letter.Outcome, letter.Open = "not a dispatch", true
		return nil
	}
	letter.Key = dispatch.Key
	letter.Outcome, err = s.reclaimDeadLettered(dispatch, d.Deaths[0].Reason, letter)
	return err
}

// reclaimDeadLettered takes the execution back if it still waits at the epoch of the dead message, and says in a word
// what it found. It notes in the letter what the dispatch was about, if there is such an execution.
func (s *Service) reclaimDeadLettered(dispatch *broker.Dispatch, death broker.DeathReason, letter *store.DeadLetter) (outcome string, err error) {
	key := dispatch.Key
	var rows []execution.Execution
	if err := s.db(func(ctx context.Context) (err error) {
		rows, err = s.store.Executions(ctx, []execution.ID{key.ID})
		return err
	}); errors.Is(err, store.ErrUnreadable) {
		letter.Open = true
		return "unreadable execution", nil
	} else if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "unknown execution", nil
	}
	letter.ActionRef, letter.Worker = rows[0].Action.Ref, dispatch.Worker
	switch {
	case rows[0].Epoch != key.Epoch:
		return "another epoch", nil
	case rows[0].Status != execution.Scheduled:
		return rows[0].Status.String(), nil
	}
	reason, text, counts := causeOfDeath(death)
	r := s.unclaimed(&rows[0], execution.DeadLetterHandler, reason, text)
	r.Cause, r.Counts = store.DeadLettered, counts
	if death == broker.DeathRejected || death == broker.DeathExpired {
		if err := s.readDatabaseClock(); err != nil {
			return "", err
		}
		if !s.lay(&rows[0], ownTime(&rows[0])) {
			r.Policy, r.Counts = config.Reschedule, false
		}
	}
	taken, err := s.reclaim([]store.Reclaim{r})
	if err == nil && taken == 0 {
		return "claimed or taken meanwhile", nil
	}
	return "reclaimed", err
}

// causeOfDeath translates the reason in x-death (defect D19), and says whether the dispatch counts against the
// worker, provided that the worker could have taken it. A worker rejects a dispatch that comes too late to be
// claimed. A full queue says nothing about the worker, and neither does the delivery limit: a message is delivered
// again whenever its connection ends before the claim.
func causeOfDeath(death broker.DeathReason) (reason execution.Reason, text string, counts bool) {
	switch death {
	case broker.DeathRejected:
		return execution.DispatchTimeout, textNotPickedUp, true
	case broker.DeathMaxLength:
		return execution.WorkerUnavailable, textQueueFull, false
	case broker.DeathDeliveryLimit:
		return execution.WorkerUnavailable, textDeliveryLimit, false
	default:
		return execution.QueueTimeout, textTTLExpired, true
	}
}
