package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// longestUnmarked is the longest time that a confirmed dispatch may wait for its mark, unless the
// configuration makes it shorter.
const longestUnmarked = time.Second

// marker marks confirmed dispatches as published in the database. Most are claimed long before that, and a
// claim sets the mark too. So the marker waits a while and then marks all confirmed dispatches at once, which
// changes few rows. It is a separate task because the scheduler must not wait for a row that is being
// claimed.
//
// The collected dispatches are lost with the process. They are published again at the same epoch, as after a
// lost confirm, and the claim of the duplicate is refused.
type marker struct {
	*Service
	// period is how long confirmed dispatches are collected. It is well below the age at which an unmarked
	// dispatch is republished, reclaimed, or counted against its worker.
	period time.Duration
	// most is the maximum number of held dispatches, which is what one pass can mark.
	most int
	wake host.Signal

	mu        sync.Mutex
	confirmed []execution.Key
}

func newMarker(s *Service) *marker {
	c := s.config.Executor
	return &marker{
		Service: s, period: min(longestUnmarked, c.ConfirmTimeout/4, c.ScheduledTimeout/4), most: passBatches * c.BatchSize,
		wake: s.host.NewSignal(),
	}
}

// keepConfirmed stores dispatches that the broker has confirmed. It marks those without room at once, in the
// caller's task, which slows the caller down when the database can't keep up.
func (m *marker) keepConfirmed(confirmed []execution.Key) error {
	beyond := m.holdConfirmed(confirmed)
	left, err := m.markBatches(context.Background(), beyond)
	// A dispatch for which there is still no room is being claimed, or will be published again later.
	m.holdConfirmed(left)
	return err
}

// holdConfirmed holds as many dispatches as there is room for, and returns the rest.
func (m *marker) holdConfirmed(confirmed []execution.Key) (beyond []execution.Key) {
	if len(confirmed) == 0 {
		return nil
	}
	m.mu.Lock()
	n := min(len(confirmed), m.most-len(m.confirmed))
	m.confirmed = append(m.confirmed, confirmed[:n]...)
	m.mu.Unlock()
	m.wake.Set()
	return confirmed[n:]
}

// run marks dispatches until ctx ends, one period after the first new confirm.
func (m *marker) run(ctx context.Context) {
	loop := m.newLoop("marker of dispatches")
	for began := time.Duration(0); ; {
		if _, err := m.wake.Wait(ctx, host.Forever); err != nil {
			return
		}
		due := m.host.Monotonic() + m.period
		if m.host.Sleep(ctx, m.period) != nil {
			return
		}
		if began > 0 {
			// A pass is late only if its work takes long, not if no confirms arrive.
			loop.Interval(due - began)
		}
		began = m.host.Monotonic()
		if err := loop.Pass(func() error { return m.markCollected(ctx) }); err != nil {
			m.logFailure(err)
		}
	}
}

func (m *marker) logFailure(err error) {
	m.log.LogAttrs(context.Background(), slog.LevelWarn, "marker of dispatches pass failed, the next one starts anew", slog.Any("error", err))
}

// markRemaining marks the remaining dispatches after the last publish, so that a stop does not cause a second
// message for each.
func (m *marker) markRemaining() {
	if err := m.markCollected(context.Background()); err != nil {
		m.logFailure(err)
	}
}

// markCollected marks the collected dispatches. Those that remain after an error or the end of ctx, and
// those whose rows are locked, stay for the next pass: marking twice is harmless.
func (m *marker) markCollected(ctx context.Context) error {
	m.mu.Lock()
	confirmed := m.confirmed
	m.confirmed = nil
	m.mu.Unlock()
	left, err := m.markBatches(ctx, confirmed)
	m.holdConfirmed(left)
	return err
}

// markBatches marks dispatches, batch by batch, and returns those to retry.
func (m *marker) markBatches(ctx context.Context, confirmed []execution.Key) (left []execution.Key, err error) {
	for len(confirmed) > 0 {
		if ctx.Err() != nil {
			return append(left, confirmed...), nil
		}
		batch := confirmed[:min(len(confirmed), m.config.Executor.BatchSize)]
		locked, err := askStore(m.db, m.store.MarkPublished, batch)
		if err != nil {
			return append(left, confirmed...), err
		}
		left, confirmed = append(left, locked...), confirmed[len(batch):]
	}
	return left, nil
}
