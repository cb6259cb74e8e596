package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// queueMessage queues a message's dispatches for run slots, and returns the deliveries to acknowledge. A
// second delivery of a waiting epoch replaces the first one. After a reconnect only the new one can be
// settled, and within one session the old one is a duplicate. A delivery of a held epoch is a duplicate, too.
//
// Both checks are made under one lock, so that no epoch both waits and is held.
func (s *session) queueMessage(m *message) (doubles []delivery) {
	now := s.host.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range m.delivery.Envelope.Dispatches {
		d := delivery{&m.delivery.Envelope.Dispatches[i], m, now}
		if held, taken := s.held.addDouble(d); held {
			if !taken {
				doubles = append(doubles, d)
			}
			continue
		}
		if w := s.waitsFor(d.Key); w != nil {
			d.since = w.since
			doubles, *w = append(doubles, *w), d
			continue
		}
		if s.draining {
			s.leftover = append(s.leftover, d)
			continue
		}
		s.waiting = append(s.waiting, d)
	}
	return doubles
}

// waitsFor returns the waiting delivery of an epoch, or nil if there is none. The caller holds s.mu.
func (s *session) waitsFor(key execution.Key) *delivery {
	for i := range s.waiting {
		if w := &s.waiting[i]; w.Key == key {
			return w
		}
	}
	return nil
}

// keepAdmitting calls admitWaiting whenever a slot becomes free or a delivery has waited for its full time,
// until ctx ends.
//
// No delivery waits longer than its dispatch timeout, because the database would refuse the claim. Nor does
// it wait longer than longestHeld. After 30 minutes without an acknowledgement (by default), RabbitMQ closes
// the channel or cancels the consumer, which requeues all waiting deliveries. So the worker rejects the
// delivery, like one whose claim came too late, and the executor dispatches the execution again. Before that
// the worker reports that it was full, so that the dispatch does not count against max_dispatches.
func (s *session) keepAdmitting(ctx context.Context) {
	for {
		if _, err := s.held.freed.Wait(ctx, s.admitWaiting()); err != nil {
			return
		}
	}
}

// admitWaiting gives free run slots to waiting deliveries, oldest first, and rejects those that have waited
// too long. It returns how long until it must be called again, even if no slot becomes free.
func (s *session) admitWaiting() time.Duration {
	for {
		taken, late, left := s.nextWaiting()
		switch {
		case len(taken) > 0:
			s.host.Go("execution", func() { s.claimAndRun(taken) })
		case len(late) == 0:
			return left
		default:
			for i := range late {
				key := late[i].Key
				s.limited.LogAttrs(context.Background(), slog.LevelInfo, "no run slot came free within the dispatch timeout, the dispatch goes back to the executor",
					slog.Int64("execution", int64(key.ID)), slog.Int64("epoch", int64(key.Epoch)))
			}
			s.reportFull(late[0].since, late[0].since)
			for i := range late {
				late[i].reject()
			}
		}
	}
}

// nextWaiting removes and returns the first waiting deliveries that get a slot. If no slot is free and the
// first delivery has waited for its full time, it removes that delivery and the others of its message.
// Otherwise left is how long the first delivery may still wait, or how long the worker rests if that is
// shorter.
func (s *session) nextWaiting() (taken []*run, late []delivery, left time.Duration) {
	now := s.host.Monotonic()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != endNone || s.draining || len(s.waiting) == 0 {
		return nil, nil, host.Forever
	}
	rest := s.starts.restLeft(now)
	if rest == 0 {
		taken = s.takeSlots()
	}
	if len(taken) > 0 {
		s.waiting = append(s.waiting[:0], s.waiting[len(taken):]...)
		return taken, nil, 0
	}
	first := s.waiting[0]
	if left = max(0, first.since+s.slotPatience(first.Action)-now); left > 0 {
		if rest > 0 {
			left = min(left, rest)
		}
		return nil, nil, left
	}
	s.waiting = append(s.waiting[:0], s.waiting[1:]...)
	late = append(late, first)
	if first.message != nil {
		late = append(late, s.removeWaiting(first.message)...)
	}
	return nil, late, 0
}

// takeSlots gives slots to the first waiting deliveries: as many as there are free slots, but no more than
// one statement claims. The caller holds s.mu.
func (s *session) takeSlots() (all []*run) {
	for i := range s.waiting[:min(len(s.waiting), mostRows)] {
		e := s.held.addEntry(s.waiting[i].Key)
		if e == nil {
			break
		}
		all = append(all, &run{delivery: s.waiting[i], e: e})
	}
	return all
}

// removeWaiting removes the waiting deliveries of a message. The caller holds s.mu.
func (s *session) removeWaiting(m *message) (removed []delivery) {
	s.waiting = slices.DeleteFunc(s.waiting, func(w delivery) bool {
		if w.message == m {
			removed = append(removed, w)
		}
		return w.message == m
	})
	return removed
}

// forgetWaiting drops the waiting deliveries of a rejected message: the dead letter handler judges them.
func (s *session) forgetWaiting(m *message) {
	if m == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeWaiting(m)
}

// longestHeld is how long a delivery may wait unacknowledged. It is below the 30 minutes after which RabbitMQ
// closes the channel, minus its tick of a minute and some time for the claim.
const longestHeld = 25 * time.Minute

// slotPatience returns how long a delivery waits for a run slot: the dispatch timeout of its action or the
// configured one, but at most longestHeld. Without dead lettering a rejected dispatch would be detected only
// after its timeout, so the delivery waits that long.
func (s *session) slotPatience(action execution.Action) time.Duration {
	timeout := s.config.Executor.DispatchTimeout
	if action.DispatchTimeout > 0 {
		timeout = action.DispatchTimeout
	}
	if s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		timeout = min(timeout, longestHeld)
	}
	return timeout
}

// takeUnclaimed removes and returns every unclaimed delivery: those that wait for a slot, and those that came
// during the drain.
func (s *session) takeUnclaimed() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Concat(s.leftover, s.waiting)
	s.leftover, s.waiting = nil, nil
	return all
}
