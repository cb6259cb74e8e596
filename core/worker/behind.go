package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// A worker's queue may hold any number of futile messages: garbage, or dispatches that no executor made. The
// worker must read each one, while its real dispatches wait behind them (S12). But messages are only hints;
// the database knows what is dispatched to this incarnation. So while futile messages arrive, the worker
// queries the database once a second.

const (
	// mostWasted is the number of futile messages after which the worker queries the database. Duplicates and
	// late dispatches are futile too, so a few prove nothing.
	mostWasted = 10
	// behindInterval is the shortest time between two queries. (LeastDispatchBehindFlood in chaos/scenario
	// depends on it.)
	behindInterval = time.Second
	// mostAhead is the number of dispatches beyond its slots that the worker takes from one query. Executors
	// dispatch executor.dispatch_ahead, by default 2, more than the worker can run, but the worker does not
	// know that number. With no more dispatches than slots, each slot would begin only one execution a
	// second, however short.
	mostAhead = 100
)

// countFutile counts a futile message from the worker's queue.
func (s *session) countFutile() {
	s.mu.Lock()
	s.wasted++
	enough := s.wasted >= mostWasted
	s.mu.Unlock()
	if enough {
		s.futile.Set()
	}
}

// lookBehind queries the database for dispatches to this incarnation whenever enough futile messages have
// arrived, until ctx ends. The worker claims them as if a message had brought them; the message itself is
// later acknowledged as a duplicate. A dispatch without a free slot waits for one.
func (s *session) lookBehind(ctx context.Context) {
	for {
		if _, err := s.futile.Wait(ctx, host.Forever); err != nil {
			return
		}
		if !s.wantsWork() {
			// Further futile messages trigger the loop again. It made no query, so it need not pause.
			continue
		}
		var rows []execution.Execution
		err := s.db(func(ctx context.Context) (err error) {
			rows, err = s.store.Dispatched(ctx, s.key, s.config.Worker.Concurrency+mostAhead)
			return err
		})
		if err != nil {
			s.limited.LogAttrs(ctx, slog.LevelWarn, "could not ask the database what is dispatched to this worker; many messages in its queue come to nothing", slog.Any("error", err))
		}
		for i := range rows {
			s.receiveRow(&rows[i])
		}
		if s.host.Sleep(ctx, behindInterval) != nil {
			return
		}
	}
}

// wantsWork restarts the count of futile messages, and reports whether the worker could begin an execution.
// It can if a slot is free, no delivery waits, and the worker is neither draining nor ending. A slot with an
// unanswered claim counts as free. Otherwise futile messages could permanently keep a worker with one slot
// from querying.
func (s *session) wantsWork() bool {
	claimed := s.held.countClaimed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted = 0
	return claimed < s.config.Worker.Concurrency && len(s.waiting) == 0 && !s.draining && s.over == endNone
}

// receiveRow queues a dispatch that the worker found as a row.
func (s *session) receiveRow(row *execution.Execution) {
	key := row.Key()
	d := delivery{
		Dispatch: &broker.Dispatch{Key: key, Worker: s.key.ID, Incarnation: s.key.Incarnation, Action: row.Action}, since: s.host.Monotonic(),
	}
	s.mu.Lock()
	// A dispatch that already waits has a message that must be settled, so the row does not replace it.
	if !s.held.isHeld(key) && s.waitsFor(key) == nil {
		s.waiting = append(s.waiting, d)
	}
	s.mu.Unlock()
	if s.admitWaiting() < host.Forever {
		s.held.freed.Set()
	}
}
