package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// waiting is a delivery that found every run slot taken, since it came. It is not acknowledged: it stays the broker's
// until its execution is claimed.
type waiting struct {
	delivery
	since time.Duration
}

// queue lets a delivery wait for a run slot. A second delivery of an epoch that waits already takes the first one's
// place: after a reconnect only the new one can be settled, and within one session the old one is a duplicate.
func (t *tenure) queue(d delivery) {
	key := d.Envelope.Dispatch.Key
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
		t.waiting = append(t.waiting, waiting{d, t.host.Monotonic()})
	}
	t.mu.Unlock()
	if double != nil {
		double.consumer.Ack(double.Delivery)
	}
}

// admitAll admits whenever a slot comes free or a delivery has waited for its time, until ctx ends.
//
// Nothing waits for longer than its dispatch may: from then on a claim would be refused, and RabbitMQ closes the channel
// of a consumer that keeps a delivery unacknowledged for long (30 minutes by default), and with it takes back what
// others wait for. So it is rejected, as a claim that came too late would be, and the executor places it anew. By then
// the database knows that it waited for a slot, so it counts for nobody.
func (t *tenure) admitAll(ctx context.Context) {
	for {
		if _, err := t.held.freed.Wait(ctx, t.admit()); err != nil {
			return
		}
	}
}

// admit gives run slots to what waits, the first come first, and sends back what has waited for its time. It returns
// how long nothing more is to be done unless a slot comes free.
func (t *tenure) admit() time.Duration {
	for {
		d, e, left := t.nextWaiting()
		switch {
		case e != nil:
			t.host.Go("execution", func() { t.execute(d, e) })
		case d.consumer == nil:
			return left
		case left > 0:
			// A second delivery of what has got its slot meanwhile.
			d.consumer.Ack(d.Delivery)
		default:
			key := d.Envelope.Dispatch.Key
			t.log.LogAttrs(context.Background(), slog.LevelInfo, "no run slot came free within the dispatch timeout, the dispatch goes back to the executor",
				slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
			t.tellFull(d.since)
			d.consumer.Reject(d.Delivery, false)
		}
	}
}

// nextWaiting takes out the first delivery that waits: with the slot that it gets, as a duplicate of one that has a
// slot, or, with nothing left, because its time is over. Otherwise it takes none, and left is how long the first one may
// wait yet.
func (t *tenure) nextWaiting() (d waiting, e *entry, left time.Duration) {
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

// patience is how long a delivery waits for a run slot: as long as its dispatch may wait for its claim.
func (t *tenure) patience(action execution.Action) time.Duration {
	if action.DispatchTimeout > 0 {
		return action.DispatchTimeout
	}
	return t.config.Executor.DispatchTimeout
}

// unclaimed takes out everything that was received and not claimed: what came while the worker drains, and what waits.
func (t *tenure) unclaimed() []delivery {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.leftover
	for _, w := range t.waiting {
		all = append(all, w.delivery)
	}
	t.leftover, t.waiting = nil, nil
	return all
}
