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
		Handle: t.receive,
	})
}

func (t *session) isDraining() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draining
}

// receive takes one message: each of its dispatches gets a free run slot at once, or waits for one, and the message stays
// unacknowledged. Nothing expires it meanwhile, which is why a claim has a deadline of its own (defect D20). It returns false
// when the session is over.
//
// What is no dispatch is stored and acknowledged, never rejected: it may carry a header that ends the broker's dead
// lettering (S5).
func (t *session) receive(c broker.Consumer, d broker.Delivery) bool {
	queue := broker.WorkerQueue(t.key.ID)
	if why := unreadable(&d); why != "" {
		t.unread.Keep(c, d, queue, why)
		t.waste()
		return true
	}
	if t.ended() != endNone {
		return false
	}
	m := newMessage(c, d)
	for _, part := range d.Envelope.Unread {
		t.unread.KeepPart(c, queue, part, m.ack)
	}
	for _, double := range t.queue(m) {
		double.ack()
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
	case d.Envelope.Type != broker.ExecutionScheduled || len(d.Envelope.Dispatches) == 0:
		return "not a dispatch"
	}
	return ""
}

// admitted is a delivery that has a run slot, from its claim on.
type admitted struct {
	waiting
	e *entry
	// uncertain says that a claim of it had an unknown outcome, first when the first such claim was sent.
	uncertain bool
	first     time.Duration
}

// run is an execution that was claimed: what the claim answered, and when that claim was sent.
type run struct {
	e    *entry
	row  *execution.Execution
	sent time.Duration
}

// execute takes deliveries from their claim to the end of their executions. They are claimed together, and each runs in a
// task of its own.
func (t *session) execute(all []*admitted) {
	if runs := t.claim(all); len(runs) > 0 {
		t.tell(runs)
		for _, r := range runs[1:] {
			t.host.Go("execution", func() { t.perform(r) })
		}
		t.perform(runs[0])
	}
}

// begin lets claimed executions run, each in a task of its own.
func (t *session) begin(runs []run) {
	t.tell(runs)
	for _, r := range runs {
		t.host.Go("execution", func() { t.perform(r) })
	}
}

// tell reports claims, in one hint.
func (t *session) tell(runs []run) {
	changes := make([]broker.Change, len(runs))
	for i, r := range runs {
		t.measureHandoff(r.e, r.row, r.sent)
		changes[i] = broker.Change{Key: r.e.key, From: execution.Scheduled, To: execution.Running}
	}
	t.notifier.Changed(changes...)
}

// perform runs what was claimed, and writes its end.
func (t *session) perform(r run) {
	// At info: a worker runs few at a time, and these two lines are what its operator looks for.
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "starting execution",
		slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)), slog.String("action", r.row.Action.Ref))
	f := t.run(r.e, r.row, r.sent)
	took := t.host.Monotonic() - r.sent
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "execution ended", slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)),
		slog.String("status", f.To.String()), slog.String("reason", f.Reason.String()), slog.Duration("took", took))
	t.finish(r.e, f, took)
}

// leave gives the slot of an entry back.
func (t *session) leave(e *entry) {
	t.held.remove(t.host.Monotonic(), e)
	if e.cancelled {
		t.beatNow.Set()
	}
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

// claim makes the worker the owner of what was admitted, in one statement, or settles the messages for what it found instead.
// It returns what is to be run, and gives back the slots of the rest. After an unknown outcome it asks again, and recognises
// its own claims by epoch and incarnation.
//
// The claim of a run counts from when it was sent that took effect; or the first one that may have, if nobody knows which did.
// What could not have taken effect costs the run none of its time, however long the database was away.
func (t *session) claim(all []*admitted) (runs []run) {
	backoff := broker.NewBackoff(t.host, 100*time.Millisecond, 2*time.Second)
	for !t.lease.fence() && t.ended() == endNone {
		claims := make([]store.Claim, len(all))
		for i, a := range all {
			claims[i] = store.Claim{Key: a.e.key, Beat: a.e.beat}
		}
		var results []store.ClaimResult
		sent := t.host.Monotonic()
		err := t.db(func(ctx context.Context) (err error) {
			results, err = t.store.Claim(ctx, t.key, claims)
			return err
		})
		if err == nil {
			return t.answered(all, results, sent)
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
		if !store.Retriable(err) {
			if len(all) > 1 {
				// One of them may be what the database refuses, and costs the others nothing: what was answered beside it is done,
				// and each of the rest goes on alone.
				var done []run
				if done, all = t.answeredBeside(all, results, sent); len(done) > 0 {
					t.begin(done)
				}
				if len(all) == 0 {
					return nil
				}
				for _, a := range all[1:] {
					t.host.Go("execution", func() { t.execute([]*admitted{a}) })
				}
				all = all[:1]
				continue
			}
			if !all[0].uncertain {
				// Another worker's claims may be taken, as in a migration, so the dead letter handler shall act at once. What
				// an earlier claim may have made this worker's is nobody else's: then it asks until it knows.
				t.limited.LogAttrs(context.Background(), slog.LevelError, "claim refused by the database", slog.Any("error", err))
				for _, d := range append([]delivery{all[0].delivery}, t.held.answer(all[0].e)...) {
					d.reject()
				}
				break
			}
		}
		if errors.Is(err, store.ErrUnknownOutcome) {
			for _, a := range all {
				if !a.uncertain {
					a.uncertain, a.first = true, sent
				}
			}
		}
		t.limited.LogAttrs(context.Background(), slog.LevelWarn, "claim not answered, trying again", slog.Int64("execution", int64(all[0].e.key.ID)),
			slog.Int("executions", len(all)), slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
	// A message that is not settled goes back to the queue with the session.
	for _, a := range all {
		t.leave(a.e)
	}
	return nil
}

// answeredBeside settles those claims that were answered although the database has refused the statement as a whole. It returns
// those that were made, and those that were not answered.
func (t *session) answeredBeside(all []*admitted, results []store.ClaimResult, sent time.Duration) (runs []run, left []*admitted) {
	if len(results) != len(all) {
		return nil, all
	}
	var done []*admitted
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
	return t.answered(done, answers, sent), left
}

// answered settles claims that were answered, and returns those that were made. What was refused must not hold those up: to
// settle it may take a heartbeat.
func (t *session) answered(all []*admitted, results []store.ClaimResult, sent time.Duration) (runs []run) {
	type refusal struct {
		a *admitted
		r *store.ClaimResult
	}
	var refused []refusal
	for i, a := range all {
		r := &results[i]
		ours := a.uncertain && r.Row.Key() == a.Key && r.Row.Status == execution.Running && r.Row.Incarnation == t.key.Incarnation
		if !r.Applied && !ours {
			t.held.refuse(a.e)
			refused = append(refused, refusal{a, r})
			continue
		}
		for _, d := range append([]delivery{a.delivery}, t.held.answer(a.e)...) {
			d.ack()
		}
		from := sent
		if !r.Applied {
			from = a.first
		}
		runs = append(runs, run{a.e, &r.Row, from})
	}
	settle := func() {
		for _, one := range refused {
			t.refused(one.a, one.r)
			t.leave(one.a.e)
		}
	}
	switch {
	case len(refused) == 0:
	case len(runs) == 0:
		settle()
	default:
		t.host.Go("refused claims", settle)
	}
	return runs
}

// refused settles the message of a claim that was refused.
func (t *session) refused(a *admitted, r *store.ClaimResult) {
	row, key, e := &r.Row, a.Key, a.e
	all := append([]delivery{a.delivery}, t.held.answer(e)...)
	switch {
	case r.DeadlinePassed:
		// Too late: the dead letter handler shall act at once. It is too late for what waits of the same message, too.
		t.tellFull(a.since)
		for _, d := range all {
			d.reject()
			t.giveUp(d.message)
		}
	default:
		// A claim whose answer was lost, and a cancellation since: nothing runs here, and the next beat says so. That
		// beat is sent when this entry is gone.
		e.cancelled = a.uncertain && row.Key() == key && row.Status == execution.Canceling && row.Incarnation == t.key.Incarnation
		t.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{execution.Worker.String()})
		for _, d := range all {
			d.ack()
		}
		t.waste()
	}
	t.limited.LogAttrs(context.Background(), slog.LevelInfo, "claim refused", slog.Int64("execution", int64(key.ID)),
		slog.Int64("epoch", int64(key.Epoch)), slog.String("now", row.Status.String()), slog.Int64("at", int64(row.Epoch)))
}
