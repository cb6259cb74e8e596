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

// queue makes a delivery wait for a run slot, and returns what there is to acknowledge, if anything. A second delivery of
// an epoch that already waits replaces the first one: after a reconnect only the new one can be settled, and within one
// session the old one is a duplicate. One of an epoch that is held is a duplicate, too.
//
// Under one lock an epoch waits, or is held, or neither: nothing that waits is held.
func (t *session) queue(d delivery) (double delivery, any bool) {
	key, now := d.Envelope.Dispatch.Key, t.host.Monotonic()
	t.mu.Lock()
	defer t.mu.Unlock()
	if held, taken := t.held.double(d); held {
		return d, !taken
	}
	if w := t.waitsFor(key); w != nil {
		double, w.delivery = w.delivery, d
		return double, true
	}
	if t.draining {
		t.leftover = append(t.leftover, d)
		return double, false
	}
	t.waiting = append(t.waiting, waiting{d, now})
	return double, false
}

// waitsFor returns the delivery of an epoch that waits, nil if there is none. The caller holds t.mu.
func (t *session) waitsFor(key execution.Key) *waiting {
	for i := range t.waiting {
		if w := &t.waiting[i]; w.Envelope.Dispatch.Key == key {
			return w
		}
	}
	return nil
}

// admitAll calls admit whenever a slot comes free or a delivery has waited for its time, until ctx ends.
//
// No delivery waits longer than its dispatch timeout: after that a claim would be refused. Nor longer than longestHeld:
// RabbitMQ closes the channel of a consumer that keeps a delivery unacknowledged for 30 minutes (by default), or cancels the
// consumer, which takes back all other waiting deliveries. So the worker rejects the delivery, like one whose claim came too late, and the
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
		default:
			key := d.Envelope.Dispatch.Key
			t.limited.LogAttrs(context.Background(), slog.LevelInfo, "no run slot came free within the dispatch timeout, the dispatch goes back to the executor",
				slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
			t.tellFull(d.since)
			d.consumer.Reject(d.Delivery, false)
		}
	}
}

// nextWaiting removes the first waiting delivery if it gets a slot (e is set) or its time is over (left is 0). Otherwise
// it removes none, and left is how long the first one may still wait.
func (t *session) nextWaiting() (d waiting, e *entry, left time.Duration) {
	now := t.host.Monotonic()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over != endNone || t.draining || len(t.waiting) == 0 {
		return waiting{}, nil, host.Forever
	}
	first := t.waiting[0]
	e = t.held.add(first.Envelope.Dispatch.Key)
	left = max(0, first.since+t.patience(first.Envelope.Dispatch.Action)-now)
	if e == nil && left > 0 {
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
