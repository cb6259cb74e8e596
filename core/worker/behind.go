package worker

import (
	"context"
	"log/slog"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// A worker's queue may hold any number of futile messages: garbage, or dispatches that no executor
// made. The worker has to look at each, and its real dispatches wait behind them (S12). But
// messages are hints, and the database knows what is dispatched to this incarnation. So while
// futile messages arrive, the worker asks the database, once a second.

const (
	// mostWasted is how many futile messages may arrive before the worker asks. Duplicates and late
	// dispatches are futile too, so a few prove nothing.
	mostWasted = 10
	// behindInterval is the least time between two questions. (LeastDispatchBehindFlood in
	// chaos/scenario follows it.)
	behindInterval = time.Second
	// mostAhead is how many dispatches beyond its slots the worker takes from one answer. An
	// executor gives a worker executor.dispatch_ahead more than it can run; the worker does not
	// know that number, which is 2. If the worker took only as many as it has slots, each slot
	// would begin one execution a second, however short they are.
	mostAhead = 100
)

// countFutile counts a futile message of the worker's queue.
func (s *session) countFutile() {
	s.mu.Lock()
	s.wasted++
	enough := s.wasted >= mostWasted
	s.mu.Unlock()
	if enough {
		s.futile.Set()
	}
}

// lookBehind asks the database what is dispatched to this incarnation whenever enough futile
// messages have arrived, until ctx ends. The worker claims the dispatches that it finds as if a
// message had brought them; the message itself is later acknowledged as a duplicate. A dispatch
// without a free slot waits for one.
func (s *session) lookBehind(ctx context.Context) {
	for {
		if _, err := s.futile.Wait(ctx, host.Forever); err != nil {
			return
		}
		if !s.wantsWork() {
			// Further futile messages make it look again. It asked nothing, so there is no pause.
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

// wantsWork begins a new count, and says whether the worker could begin an execution: a slot is free,
// nothing waits for one, and the worker is neither draining nor ending. A slot whose claim is not
// answered yet counts as free: futile messages may take every slot for a moment, one after the
// other, and a worker with one slot would never ask.
func (s *session) wantsWork() bool {
	claimed := s.held.countClaimed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasted = 0
	return claimed < s.config.Worker.Concurrency && len(s.waiting) == 0 && !s.draining && s.over == endNone
}

// receiveRow takes a dispatch that was found as a row.
func (s *session) receiveRow(row *execution.Execution) {
	key := row.Key()
	d := delivery{
		Dispatch: &broker.Dispatch{Key: key, Worker: s.key.ID, Incarnation: s.key.Incarnation, Action: row.Action}, since: s.host.Monotonic(),
	}
	s.mu.Lock()
	// A dispatch that already waits has a message, which has to be settled.
	if !s.held.isHeld(key) && s.waitsFor(key) == nil {
		s.waiting = append(s.waiting, d)
	}
	s.mu.Unlock()
	if s.admitWaiting() < host.Forever {
		s.held.freed.Set()
	}
}
