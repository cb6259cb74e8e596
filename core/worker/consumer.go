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

// receive takes one message. Each of its dispatches gets a free run slot at once or waits for one,
// and the message stays unacknowledged. Nothing expires it meanwhile, which is why a claim has its
// own deadline (defect D20). receive returns false when the session is over.
//
// A message that is not a dispatch is stored and acknowledged, never rejected: it may have a header
// that ends the broker's dead lettering (S5).
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
		// Wakes admitAll, so that it also waits for the deadline of this delivery.
		t.held.freed.Set()
	}
	return true
}

// unreadable says why a delivery is not a dispatch; empty if it is one.
func unreadable(d *broker.Delivery) string {
	switch {
	case d.Malformed != nil:
		return d.Malformed.Error()
	case d.Envelope.Type != broker.ExecutionScheduled || len(d.Envelope.Dispatches) == 0:
		return "not a dispatch"
	}
	return ""
}

// admitted is a delivery that has a run slot.
type admitted struct {
	waiting
	e *entry
	// uncertain says that one of its claims had an unknown outcome. first is when the first such
	// claim was sent.
	uncertain bool
	first     time.Duration
}

// run is a claimed execution: the answer to the claim, and when that claim was sent.
type run struct {
	e    *entry
	row  *execution.Execution
	sent time.Duration
}

// execute takes deliveries from their claim to the end of their executions. One statement claims
// them; each runs in its own task.
func (t *session) execute(all []*admitted) {
	if runs := t.claim(all); len(runs) > 0 {
		t.tell(runs)
		for _, r := range runs[1:] {
			t.host.Go("execution", func() { t.perform(r) })
		}
		t.perform(runs[0])
	}
}

// begin starts claimed executions, each in its own task.
func (t *session) begin(runs []run) {
	t.tell(runs)
	for _, r := range runs {
		t.host.Go("execution", func() { t.perform(r) })
	}
}

// tell publishes claims, in one hint.
func (t *session) tell(runs []run) {
	changes := make([]broker.Change, len(runs))
	for i, r := range runs {
		t.measureHandoff(r.e, r.row, r.sent)
		changes[i] = broker.Change{Key: r.e.key, From: execution.Scheduled, To: execution.Running}
	}
	t.notifier.Changed(changes...)
}

// perform runs a claimed execution, and writes its end.
func (t *session) perform(r run) {
	// At info: a worker runs few executions at a time, and operators look for these two lines.
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "starting execution",
		slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)), slog.String("action", r.row.Action.Ref))
	f := t.run(r.e, r.row, r.sent)
	took := t.host.Monotonic() - r.sent
	t.log.LogAttrs(context.Background(), slog.LevelInfo, "execution ended", slog.Int64("execution", int64(r.e.key.ID)), slog.Int64("epoch", int64(r.e.key.Epoch)),
		slog.String("status", f.To.String()), slog.String("reason", f.Reason.String()), slog.Duration("took", took))
	t.finish(r.e, f, took)
}

// leave releases the slot of an entry, and returns its deliveries that nobody has settled.
func (t *session) leave(e *entry) []delivery {
	doubles := t.held.remove(t.host.Monotonic(), e)
	if e.cancelled {
		t.beatNow.Set()
	}
	return doubles
}

// settle settles the deliveries of a refused claim. The broker may deliver one of them again until
// the slot is released: leave returns that one, which has the same fate.
func (t *session) settle(a *admitted, as func(delivery)) {
	for _, d := range append([]delivery{a.delivery}, t.held.doubles(a.e)...) {
		as(d)
	}
}

// measureHandoff reports how long the handoff of an execution took, from its dispatch to its claim,
// both by the database's clock. If every slot was taken at any time since the dispatch, the
// execution may have waited for a slot and not for its message, so nothing is reported. sent is
// when the claim was sent, on the monotonic clock.
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

// claim makes the worker the owner of the admitted executions, in one statement. If the database
// refuses a claim, it settles the message as the answer demands. It returns the executions to run,
// and releases the slots of the rest. After an unknown outcome it asks again, and recognises its
// own claims by epoch and incarnation.
//
// The time of a run counts from when the effective claim was sent. If nobody knows which claim took
// effect, it counts from the first that may have. A claim that can't have taken effect costs the
// run no time, however long the database was away.
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
			// The database's clock may have been set forwards. Then the next heartbeat renews the
			// lease, or the fence ends this loop.
			t.beatNow.Set()
			_ = backoff.Wait(context.Background())
			continue
		}
		// Claims that the database answered beside the error are done: it may refuse only one, or
		// somebody may have locked its row, and the others must not suffer.
		together := len(all) > 1
		var done []run
		if done, all = t.answeredBeside(all, results, sent); len(done) > 0 {
			t.begin(done)
		}
		if len(all) == 0 {
			return nil
		}
		if !store.Retriable(err) {
			if together {
				for _, a := range all[1:] {
					t.host.Go("execution", func() { t.execute([]*admitted{a}) })
				}
				all = all[:1]
				continue
			}
			if !all[0].uncertain {
				// The database may accept the claims of other workers, as during a migration, so
				// the dead letter handler should act at once. But if an earlier claim may have
				// taken effect, only this worker can run the execution: then it asks until it
				// knows.
				t.limited.LogAttrs(context.Background(), slog.LevelError, "claim refused by the database", slog.Any("error", err))
				t.settle(all[0], delivery.reject)
				for _, d := range t.leave(all[0].e) {
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
		t.limited.LogAttrs(context.Background(), slog.LevelWarn, "claim not answered, trying again", slog.Int64("execution", int64(all[0].e.key.ID)),
			slog.Int("executions", len(all)), slog.Any("error", err))
		_ = backoff.Wait(context.Background())
	}
	// Unsettled messages go back to the queue when the session ends.
	for _, a := range all {
		t.leave(a.e)
	}
	return nil
}

// answeredBeside settles the claims that the database answered although the call failed as a whole. It
// returns the granted ones and the unanswered ones.
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

// answered settles claims that the database answered, and returns the granted ones. Refused claims
// must not hold up granted ones: settling them may take a heartbeat.
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
		for _, d := range append([]delivery{a.delivery}, t.held.grant(a.e)...) {
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

// refused settles the message of a refused claim, and releases its slot.
func (t *session) refused(a *admitted, r *store.ClaimResult) {
	row, key, e := &r.Row, a.Key, a.e
	as := delivery.ack
	switch {
	case r.DeadlinePassed:
		// The claim came too late, so the dead letter handler should act at once. It is also too
		// late for the waiting dispatches of the same message.
		as = func(d delivery) {
			d.reject()
			t.giveUp(d.message)
		}
		// By the database's clock, the dispatch is at least as old as its timeout. It may have come
		// only now, because a message ahead of it waited for a slot.
		t.tellFull(min(a.since, t.host.Monotonic()-row.DispatchDeadline.Sub(row.ScheduledAt)), a.since)
		t.settle(a, as)
	default:
		// The claim's answer was lost and the execution was cancelled since. Nothing runs here, and
		// the next heartbeat says so. It is sent when this entry is gone.
		e.cancelled = a.uncertain && row.Key() == key && row.Status == execution.Canceling && row.Incarnation == t.key.Incarnation
		t.recorder.Add(telemetry.StaleWrites, 1, telemetry.Labels{execution.Worker.String()})
		t.settle(a, as)
		t.waste()
	}
	t.limited.LogAttrs(context.Background(), slog.LevelInfo, "claim refused", slog.Int64("execution", int64(key.ID)),
		slog.Int64("epoch", int64(key.Epoch)), slog.String("now", row.Status.String()), slog.Int64("at", int64(row.Epoch)))
	for _, d := range t.leave(e) {
		as(d)
	}
}
