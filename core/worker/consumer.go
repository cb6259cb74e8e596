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

// consumeQueue consumes deliveries until ctx or the session ends.
func (s *session) consumeQueue(ctx context.Context) {
	s.client.Consume(ctx, broker.Subscription{
		Queue: broker.WorkerQueue(s.key.ID), Prefetch: s.config.Worker.Concurrency, Alive: s.setConsumer, Cancelled: s.isDraining,
		Handle: s.receiveMessage,
	})
}

func (s *session) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// receiveMessage accepts one message. Each of its dispatches gets a free run slot at once or waits for one;
// the message stays unacknowledged. Unacknowledged messages don't expire, so a claim has its own deadline
// (defect D20). receiveMessage returns false when the session is over.
//
// A message that is not a dispatch is stored and acknowledged, never rejected: it may have a header that
// stops the broker's dead lettering (S5).
func (s *session) receiveMessage(c broker.Consumer, d broker.Delivery) bool {
	queue := broker.WorkerQueue(s.key.ID)
	if why := whyUnreadable(&d); why != "" {
		s.unread.Keep(c, d, queue, why)
		s.countFutile()
		return true
	}
	if s.whyEnded() != endNone {
		return false
	}
	m := newMessage(c, d)
	for _, part := range d.Envelope.Unread {
		s.unread.KeepPart(c, queue, part, m.ack)
	}
	for _, double := range s.queueMessage(m) {
		double.ack()
	}
	if s.admitWaiting() < host.Forever {
		// This wakes keepAdmitting, so that it also waits for the new delivery's deadline.
		s.held.freed.Set()
	}
	return true
}

// whyUnreadable returns why a delivery is not a dispatch, or "" if it is one.
func whyUnreadable(d *broker.Delivery) string {
	switch {
	case d.Malformed != nil:
		return d.Malformed.Error()
	case d.Envelope.Type != broker.ExecutionScheduled || len(d.Envelope.Dispatches) == 0:
		return "not a dispatch"
	}
	return ""
}

// run is a delivery that has a run slot, until its execution has ended.
type run struct {
	delivery
	e *entry
	// uncertain reports whether a claim of this run had an unknown outcome. first is when the first such
	// claim was sent.
	uncertain bool
	first     time.Duration
	// row is the database's answer to the granted claim. sent is when that claim was sent.
	row  *execution.Execution
	sent time.Duration
}

// claimAndRun claims deliveries in one statement and runs each in its own task, until its execution has
// ended.
func (s *session) claimAndRun(all []*run) {
	if runs := s.claimRuns(all); len(runs) > 0 {
		s.publishClaims(runs)
		for _, r := range runs[1:] {
			s.host.Go("execution", func() { s.performRun(r) })
		}
		s.performRun(runs[0])
	}
}

// startRuns starts claimed executions, each in its own task.
func (s *session) startRuns(runs []*run) {
	s.publishClaims(runs)
	for _, r := range runs {
		s.host.Go("execution", func() { s.performRun(r) })
	}
}

// publishClaims announces claims in one hint, and measures how long the handoffs took.
func (s *session) publishClaims(runs []*run) {
	changes := make([]broker.Change, len(runs))
	for i, r := range runs {
		s.measureHandoff(r.e, r.row, r.sent)
		changes[i] = broker.Change{Key: r.e.key, From: execution.Scheduled, To: execution.Running}
	}
	s.notifier.Changed(changes...)
}

// performRun runs a claimed execution, and writes its end.
func (s *session) performRun(r *run) {
	// At level info, because a worker runs few executions at a time and operators look for these two lines.
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "starting execution",
		slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)), slog.String("action", r.row.Action.Ref))
	f := s.runAction(r.e, r.row, r.sent)
	took := s.host.Monotonic() - r.sent
	s.log.LogAttrs(context.Background(), slog.LevelInfo, "execution ended", slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)),
		slog.String("status", f.To.String()), slog.String("reason", f.Reason.String()), slog.Duration("took", took))
	s.finishRun(r.e, f, took)
}

// releaseSlot releases the slot of an entry, and returns its unsettled deliveries.
func (s *session) releaseSlot(e *entry) []delivery {
	doubles := s.held.removeEntries(s.host.Monotonic(), e)
	if e.cancelled {
		s.beatNow.Set()
	}
	return doubles
}

// settleDeliveries settles the deliveries of a refused claim. If the broker redelivers one of them before the
// slot is released, releaseSlot returns it, and it is settled in the same way.
func (s *session) settleDeliveries(a *run, as func(delivery)) {
	for _, d := range append([]delivery{a.delivery}, s.held.takeDoubles(a.e)...) {
		as(d)
	}
}

// measureHandoff reports how long the handoff of an execution took, from its dispatch to its claim, both by
// the database's clock. If all slots were taken at any time since the dispatch, the execution may have waited
// for a slot, so nothing is reported. sent is when the claim was sent, on the monotonic clock.
func (s *session) measureHandoff(e *entry, row *execution.Execution, sent time.Duration) {
	if row.ScheduledAt.IsZero() || row.StartedAt.IsZero() {
		return
	}
	took := max(0, row.StartedAt.Sub(row.ScheduledAt))
	if e.wasFull && e.fullUntil >= sent-took {
		return
	}
	s.recorder.Observe(telemetry.StageSeconds, took, telemetry.Labels{telemetry.StageHandoff})
}

// claimRuns makes the worker the owner of executions, in one statement. It settles the messages, returns the
// granted runs, and releases the slots of the rest. After an unknown outcome it retries, and recognises its
// own claims by epoch and incarnation.
//
// The time of a run counts from when the effective claim was sent. If that claim is unknown, it counts from
// the first that may have taken effect. Other claims cost the run no time, however long the database was
// away.
func (s *session) claimRuns(all []*run) (runs []*run) {
	backoff := broker.NewBackoff(s.host, 100*time.Millisecond, 2*time.Second)
	for !s.lease.checkFence() && s.whyEnded() == endNone {
		claims := make([]store.Claim, len(all))
		for i, a := range all {
			claims[i] = store.Claim{Key: a.e.key, Beat: a.e.beat}
		}
		var results []store.ClaimResult
		sent := s.host.Monotonic()
		err := s.db(func(ctx context.Context) (err error) {
			results, err = s.store.Claim(ctx, s.key, claims)
			return err
		})
		if err == nil {
			return s.settleClaims(all, results, sent)
		}
		if endReasonOf(err) != endNone {
			break
		}
		if errors.Is(err, store.ErrLeaseOver) {
			// The database's clock may have been set forwards. Then either the next heartbeat renews the
			// lease, or the fence ends this loop.
			s.beatNow.Set()
			_ = backoff.Wait(context.Background())
			continue
		}
		// Claims that the database answered alongside the error are settled: one refused or locked row must
		// not affect the others.
		together := len(all) > 1
		var done []*run
		if done, all = s.settlePartialClaims(all, results, sent); len(done) > 0 {
			s.startRuns(done)
		}
		if len(all) == 0 {
			return nil
		}
		if !store.Retriable(err) {
			if together {
				for _, a := range all[1:] {
					s.host.Go("execution", func() { s.claimAndRun([]*run{a}) })
				}
				all = all[:1]
				continue
			}
			if !all[0].uncertain {
				// The database may accept other workers' claims, as during a migration, so the dead letter
				// handler should act at once. But if an earlier claim may have taken effect, only this worker
				// can run the execution, so it retries until it has an answer.
				s.limited.LogAttrs(context.Background(), slog.LevelError, "claim refused by the database", slog.Any("error", err))
				s.settleDeliveries(all[0], delivery.reject)
				for _, d := range s.releaseSlot(all[0].e) {
					d.reject()
				}
				return nil
			}
		}
		if errors.Is(err, store.ErrUnknownOutcome) {
			for _, a := range all {
				if !a.uncertain {
					a.uncertain, a.first = true, sent
				}
			}
		}
		s.limited.LogAttrs(context.Background(), slog.LevelWarn, "claim not answered, trying again", slog.Int64("execution", int64(all[0].e.key.ID)),
			slog.Int("executions", len(all)), slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
	// Unsettled messages return to the queue when the session ends.
	for _, a := range all {
		s.releaseSlot(a.e)
	}
	return nil
}

// settlePartialClaims settles the claims that the database answered although the call failed as a whole. It
// returns the granted runs, and the unanswered ones in left.
func (s *session) settlePartialClaims(all []*run, results []store.ClaimResult, sent time.Duration) (runs, left []*run) {
	if len(results) != len(all) {
		return nil, all
	}
	var done []*run
	var answers []store.ClaimResult
	for i, a := range all {
		if results[i].Row.ID == a.e.key.ID {
			done, answers = append(done, a), append(answers, results[i])
		} else {
			left = append(left, a)
		}
	}
	if len(done) == 0 {
		return nil, left
	}
	return s.settleClaims(done, answers, sent), left
}

// settleClaims settles answered claims, and returns the granted runs. Refused claims must not delay granted
// ones: settling them may take a heartbeat.
func (s *session) settleClaims(all []*run, results []store.ClaimResult, sent time.Duration) (runs []*run) {
	type refusal struct {
		a *run
		r *store.ClaimResult
	}
	var refused []refusal
	for i, a := range all {
		r := &results[i]
		ours := a.uncertain && r.Row.Key() == a.Key && r.Row.Status == execution.Running && r.Row.Incarnation == s.key.Incarnation
		if !r.Applied && !ours {
			s.held.refuseClaim(a.e)
			refused = append(refused, refusal{a, r})
			continue
		}
		for _, d := range append([]delivery{a.delivery}, s.held.grantClaim(a.e)...) {
			d.ack()
		}
		from := sent
		if !r.Applied {
			from = a.first
		}
		// The messages are settled, so a run that lasts for hours need not keep them in memory.
		a.delivery, a.row, a.sent = delivery{}, &r.Row, from
		runs = append(runs, a)
	}
	settle := func() {
		for _, one := range refused {
			s.settleRefusedClaim(one.a, one.r)
		}
	}
	switch {
	case len(refused) == 0:
	case len(runs) == 0:
		settle()
	default:
		s.host.Go("refused claims", settle)
	}
	return runs
}

// settleRefusedClaim settles the message of a refused claim, and releases its slot.
func (s *session) settleRefusedClaim(a *run, r *store.ClaimResult) {
	row, key, e := &r.Row, a.Key, a.e
	as := delivery.ack
	switch {
	case r.DeadlinePassed:
		// The claim was too late, so the dead letter handler should act at once. The waiting dispatches of
		// the same message are too late as well.
		as = func(d delivery) {
			d.reject()
			s.forgetWaiting(d.message)
		}
		// By the database's clock, the dispatch is at least as old as its timeout. It may have arrived late
		// because a message ahead of it waited for a slot.
		s.reportFull(min(a.since, s.host.Monotonic()-row.DispatchDeadline.Sub(row.ScheduledAt)), a.since)
		s.settleDeliveries(a, as)
	default:
		// If the claim's answer was lost and the execution has been cancelled since, the next heartbeat
		// reports that the execution does not run here. That heartbeat is sent when this entry is gone.
		e.cancelled = a.uncertain && row.Key() == key && row.Status == execution.Canceling && row.Incarnation == s.key.Incarnation
		s.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{execution.Worker.String()})
		s.settleDeliveries(a, as)
		s.countFutile()
	}
	s.limited.LogAttrs(context.Background(), slog.LevelInfo, "claim refused", slog.Int64("execution", int64(key.ID)),
		slog.Int64("epoch", int64(key.Epoch)), slog.String("now", row.Status.String()), slog.Int64("at", int64(row.Epoch)))
	for _, d := range s.releaseSlot(e) {
		as(d)
	}
}
