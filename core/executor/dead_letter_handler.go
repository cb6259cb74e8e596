package executor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
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

// handleDeadLetters consumes the dead letter queue until ctx ends. A dead letter does not prove that its
// execution is unclaimed: a prefetched message that is requeued after its expiry dies while its execution
// runs (defect D20). So the row decides.
func (s *Service) handleDeadLetters(ctx context.Context) {
	queue := broker.DeadLetterQueue(s.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)
	s.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: deadLetterPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		if d.Malformed == nil && d.Envelope.Type == broker.DeadLetterCanary {
			// A canary only has to arrive (broker.Canary): no dispatch died, and no operator needs to see it.
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
		letters, died, until := lettersOf(&d), s.deathTime(&d), s.host.Monotonic()+unread.Patience
		return s.keepTrying(ctx, func() error { return s.handleOrKeep(letters, died, until) }, func() { c.Ack(d) })
	}})
}

// deathTime returns when a message died, on the monotonic clock. The broker records the death in whole
// seconds of its own clock. Without a record, or if that clock is ahead of this machine's, deathTime returns
// the time of delivery.
func (s *Service) deathTime(d *broker.Delivery) time.Duration {
	now := s.host.Monotonic()
	if len(d.Deaths) == 0 || d.Deaths[0].Time.IsZero() {
		return now
	}
	return now - max(0, s.host.Now().Sub(d.Deaths[0].Time))
}

// keepTrying repeats act with backoff while the database is away, then calls settle. Meanwhile it holds the
// message, so that the message is neither lost nor requeued in a hot loop (defect D25). It returns false if
// ctx ended first.
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

// deadLetter is one part of a dead message: the message itself, or one of its dispatches.
type deadLetter struct {
	store.DeadLetter
	// dispatch is nil if the letter is not about a handoff.
	dispatch *broker.Dispatch
	death    broker.DeathReason
	// done reports whether the letter was handled or abandoned.
	done bool
}

// lettersOf returns the dead letters of a message: one for each dispatch of a block. Only a dispatch that
// died in a worker's queue is about a handoff (defect D18); every other letter waits for an operator.
func lettersOf(d *broker.Delivery) []*deadLetter {
	whole := describeDeath(d)
	e := &d.Envelope
	if e.Type != broker.ExecutionScheduled || len(e.Dispatches) == 0 || !broker.IsWorkerQueue(whole.Queue) {
		whole.Outcome, whole.Open = "not a dispatch", true
		return []*deadLetter{{DeadLetter: whole}}
	}
	letters := make([]*deadLetter, 0, len(e.Dispatches)+len(e.Unread))
	for i := range e.Dispatches {
		letter := whole
		letter.Key = e.Dispatches[i].Key
		letters = append(letters, &deadLetter{DeadLetter: letter, dispatch: &e.Dispatches[i], death: d.Deaths[0].Reason})
	}
	for _, part := range e.Unread {
		letter := whole
		letter.Body, letter.Outcome, letter.Open = part.Body, "malformed", true
		letters = append(letters, &deadLetter{DeadLetter: letter})
	}
	return letters
}

// handleOrKeep handles dead letters, first all in one call. If the database refuses that, it handles each
// alone, so that one bad row does not affect the rest of a block. A letter that is refused even alone is
// retried until the monotonic time patience, because without it an execution waits for its scheduled timeout.
// After that the letter is stored without its body. If even that is refused, it is only logged, so that it
// does not block the others.
func (s *Service) handleOrKeep(letters []*deadLetter, died, patience time.Duration) error {
	letters = slices.DeleteFunc(slices.Clone(letters), func(l *deadLetter) bool { return l.done })
	err := s.handleTogether(letters)
	if store.Retriable(err) {
		return err
	}
	if err == nil {
		for _, l := range letters {
			l.done = true
			s.announceDeadLetter(&l.DeadLetter)
			s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{l.Reason, l.Outcome})
			s.recorder.Observe(telemetry.DeadLetterSeconds, s.host.Monotonic()-died, telemetry.Labels{})
		}
		return nil
	}
	if len(letters) > 1 {
		var left error
		for i := range letters {
			if err := s.handleOrKeep(letters[i:i+1], died, patience); store.Retriable(err) {
				return err
			} else {
				left = errors.Join(left, err)
			}
		}
		return left
	}
	l := letters[0]
	l.Outcome = "unhandled"
	if s.host.Monotonic() < patience {
		return err
	}
	kept := s.storeDeadLetters(store.DeadLetter{Queue: l.Queue, Reason: l.Reason, Outcome: "unhandled: " + err.Error(), Open: true})
	if store.Retriable(kept) {
		return kept
	}
	s.limited.LogAttrs(context.Background(), slog.LevelError, "dead letter can't be handled", slog.Any("error", errors.Join(err, kept)))
	// However many attempts there were, the letter is reported as abandoned only once.
	l.done = true
	s.announceDeadLetter(&l.DeadLetter)
	s.recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{l.Reason, "unhandled"})
	return nil
}

// announceDeadLetter logs and counts a dead letter after it was handled. Each gets a warning, because its
// content did not reach its worker. Only letters of existing executions are counted by action and worker;
// otherwise any client that can publish could create series.
func (s *Service) announceDeadLetter(letter *store.DeadLetter) {
	s.limited.LogAttrs(context.Background(), slog.LevelWarn, "received dead letter",
		slog.Int64("execution", int64(letter.Key.ID)), slog.Int64("epoch", int64(letter.Key.Epoch)), slog.String("queue", letter.Queue),
		slog.String("reason", letter.Reason), slog.String("outcome", letter.Outcome))
	if letter.ActionRef != "" {
		worker := strconv.FormatInt(int64(letter.Worker), 10)
		s.recorder.Add(telemetry.DeadLettered, 1, telemetry.Labels{letter.Reason, letter.ActionRef, worker})
	}
}

func (s *Service) storeDeadLetters(letters ...store.DeadLetter) error {
	for i := range letters {
		letters[i] = letters[i].Bounded()
	}
	return s.db(func(ctx context.Context) error { return s.store.StoreDeadLetters(ctx, letters...) })
}

// describeDeath fills in a dead letter from its message. Its body is shortened when it is stored.
func describeDeath(d *broker.Delivery) store.DeadLetter {
	letter := store.DeadLetter{Body: d.Body, Reason: broker.DeathUnknown.String()}
	if len(d.Deaths) > 0 {
		letter.Queue, letter.Reason = d.Deaths[0].Queue, d.Deaths[0].Reason.String()
		letter.XDeath = broker.EncodeDeaths(d.Deaths)
	}
	return letter
}

// handleTogether reclaims the executions of dead letters, sets the outcome of each letter, and stores them.
func (s *Service) handleTogether(letters []*deadLetter) error {
	if err := s.reclaimDeadLettered(letters); err != nil {
		return err
	}
	all := make([]store.DeadLetter, len(letters))
	for i, l := range letters {
		all[i] = l.DeadLetter
	}
	return s.storeDeadLetters(all...)
}

// reclaimDeadLettered reclaims each execution that still waits at the epoch of its dead dispatch, and sets
// the outcome of each letter. If the execution exists, the letter also gets the action and worker of the
// dispatch.
func (s *Service) reclaimDeadLettered(letters []*deadLetter) error {
	var ids []execution.ID
	for _, l := range letters {
		if l.dispatch != nil {
			ids = append(ids, l.Key.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := askStore(s.db, s.store.Executions, ids)
	if errors.Is(err, store.ErrUnreadable) && len(letters) == 1 {
		letters[0].Open, letters[0].Outcome = true, "unreadable execution"
		return nil
	} else if err != nil {
		return err
	}
	found := make(map[execution.ID]*execution.Execution, len(rows))
	for i := range rows {
		found[rows[i].ID] = &rows[i]
	}
	var waiting []*deadLetter
	for _, l := range letters {
		if l.dispatch == nil {
			continue
		}
		if l.Outcome = l.outcomeFor(found[l.Key.ID]); l.Outcome == "" {
			waiting = append(waiting, l)
		}
	}
	// All letters of a message died for the same reason.
	if len(waiting) > 0 && waiting[0].isLate() {
		if err := s.readDatabaseClock(); err != nil {
			return err
		}
	}
	rs := make([]store.Reclaim, len(waiting))
	for i, l := range waiting {
		rs[i] = s.deadLetterReclaim(found[l.Key.ID], l)
	}
	taken, err := s.reclaimBatch(rs, nil)
	if err != nil {
		return err
	}
	for _, l := range waiting {
		l.Outcome = "claimed or taken meanwhile"
		if slices.Contains(taken, l.Key.ID) {
			l.Outcome = "reclaimed"
		}
	}
	return nil
}

// outcomeFor returns why a dead dispatch of a row needs no action, or "" if the row still waits. row is nil
// if it does not exist. If it does, the letter gets the action and worker.
func (d *deadLetter) outcomeFor(row *execution.Execution) string {
	if row == nil {
		return "unknown execution"
	}
	d.ActionRef, d.Worker = row.Action.Ref, d.dispatch.Worker
	switch {
	case row.Epoch != d.Key.Epoch:
		return "another epoch"
	case row.Status != execution.Scheduled:
		return row.Status.String()
	}
	return ""
}

// isLate reports whether the message died because its time had passed, by the broker's clock or the
// database's.
func (d *deadLetter) isLate() bool {
	return d.death == broker.DeathRejected || d.death == broker.DeathExpired
}

// deadLetterReclaim returns the reclaim of a row whose dispatch died while the row waited.
func (s *Service) deadLetterReclaim(row *execution.Execution, l *deadLetter) store.Reclaim {
	reason, text, counts := causeOfDeath(l.death)
	r := s.unclaimedReclaim(row, execution.DeadLetterHandler, reason, text)
	r.Cause, r.Counts = store.DeadLettered, counts
	if l.isLate() && !s.waitedUnclaimed(row, ownTime(row)) {
		r.Policy, r.Counts = config.Reschedule, false
	}
	return r
}

// causeOfDeath translates the reason in x-death (defect D19), and reports whether the dispatch counts against
// the worker, if it could have claimed it. A worker rejects a dispatch that it can no longer claim in time. A
// full queue does not blame the worker. Nor does the delivery limit: a message is redelivered whenever its
// connection ends before the claim.
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
