package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// waiting is a delivery that found every run slot taken, and when it came. It is not acknowledged: it stays the
// broker's until its execution is claimed.
type waiting struct {
	delivery
	since time.Duration
}

// queue makes a delivery wait for a run slot. A second delivery of an epoch that already waits replaces the first
// one, which is acknowledged: after a reconnect only the new one can be settled, and within one session the old
// one is a duplicate.
func (t *session) queue(d delivery) {
	key, now := d.Envelope.Dispatch.Key, t.host.Monotonic()
	t.mu.Lock()
	var double *delivery
	for i := range t.waiting {
		if w := &t.waiting[i]; w.Envelope.Dispatch.Key == key {
			double = &delivery{w.consumer, w.Delivery}
			w.delivery = d
			break
		}
	}
	if double == nil {
		t.waiting = append(t.waiting, waiting{d, now})
	}
	t.mu.Unlock()
	if double != nil {
		double.consumer.Ack(double.Delivery)
	}
}

// admitAll calls admit whenever a slot comes free or a delivery has waited for its time, until ctx ends.
//
// No delivery waits longer than its dispatch timeout: after that a claim would be refused. Nor longer than longestHeld:
// RabbitMQ closes the channel of a consumer that keeps a delivery unacknowledged for 30 minutes (by default), which takes
// back all other waiting deliveries. So the worker rejects the delivery, like one whose claim came too late, and the
// executor dispatches the execution anew. Before that the worker tells the database that it was full, so the
// dispatch counts for nobody.
func (t *session) admitAll(ctx context.Context) {
	for {
		if _, err := t.held.freed.Wait(ctx, t.admit()); err != nil {
			return
		}
	}
}

// admit gives free run slots to waiting deliveries, oldest first, and rejects those that have waited too long. It
// returns how long there is nothing to do unless a slot comes free.
func (t *session) admit() time.Duration {
	for {
		d, e, left := t.nextWaiting()
		switch {
		case e != nil:
			t.host.Go("execution", func() { t.execute(d, e) })
		case d.consumer == nil:
			return left
		case left > 0:
			// A second delivery of an epoch that has got its slot meanwhile.
			if _, taken := t.held.double(d.delivery); !taken {
				d.consumer.Ack(d.Delivery)
			}
		default:
			key := d.Envelope.Dispatch.Key
			t.limited.LogAttrs(context.Background(), slog.LevelInfo, "no run slot came free within the dispatch timeout, the dispatch goes back to the executor",
				slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
			t.tellFull(d.since)
			d.consumer.Reject(d.Delivery, false)
		}
	}
}

// nextWaiting removes the first waiting delivery in one of three cases: it gets a slot (e is set); its epoch
// already has a slot, so it is a duplicate (left is host.Forever); or its time is over (left is 0). Otherwise it
// removes none, and left is how long the first one may still wait.
func (t *session) nextWaiting() (d waiting, e *entry, left time.Duration) {
	now := t.host.Monotonic()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != endNone || t.draining || len(t.waiting) == 0 {
		return waiting{}, nil, host.Forever
	}
	first := t.waiting[0]
	e, double := t.held.add(first.Envelope.Dispatch.Key)
	left = max(0, first.since+t.patience(first.Envelope.Dispatch.Action)-now)
	if double {
		left = host.Forever
	}
	if e == nil && !double && left > 0 {
		return waiting{}, nil, left
	}
	t.waiting = append(t.waiting[:0], t.waiting[1:]...)
	return first, e, left
}

// longestHeld is how long a delivery may wait unacknowledged, a minute of RabbitMQ's ticks and some time to claim it away
// from the 30 minutes after which it closes the channel.
const longestHeld = 25 * time.Minute

// patience is how long a delivery waits for a run slot: its dispatch timeout, the action's own or the configured
// one, but not until the broker closes the channel. Where nothing is dead-lettered a rejected dispatch is found only when
// its timeout is over, so there it stays.
func (t *session) patience(action execution.Action) time.Duration {
	timeout := t.config.Executor.DispatchTimeout
	if action.DispatchTimeout > 0 {
		timeout = action.DispatchTimeout
	}
	if t.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		timeout = min(timeout, longestHeld)
	}
	return timeout
}

// unclaimed removes every delivery that was received and not claimed: those that came while the worker drains, and
// those that wait.
func (t *session) unclaimed() []delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.leftover
	for _, w := range t.waiting {
		all = append(all, w.delivery)
	}
	t.leftover, t.waiting = nil, nil
	return all
}
