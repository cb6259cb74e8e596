package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// longestUnmarked is how long a confirmed dispatch may wait to be marked, where nothing below makes it less.
const longestUnmarked = time.Second

// marker notes in the database what the broker has confirmed and nobody has claimed. Most dispatches are claimed long before
// it looks, and a claim marks what it takes: so it waits a while, asks about all that has gathered, and changes few rows. It
// is a task of its own because the scheduler must not stand still behind a row that is being claimed.
//
// What it holds is lost with the process. Each such dispatch is published again at the same epoch, and that message dies at
// the claim, as it does where the confirm itself was lost.
type marker struct {
	*Service
	// period is how long what was confirmed gathers. It is well below the age at which an unmarked dispatch is published
	// again, taken back, or found to have been left lying.
	period time.Duration
	// most is how many dispatches are held: as many as one pass marks.
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

// keep takes over dispatches that the broker has confirmed. What it has no room for it marks at once, in the task of its
// caller: that slows the caller down where the database can't keep up, and forgets nothing.
func (m *marker) keep(confirmed []execution.Key) error {
	beyond := m.hold(confirmed)
	left, err := m.mark(context.Background(), beyond)
	// Of these, what there is still no room for is being claimed by somebody, or published again in a while.
	m.hold(left)
	return err
}

// hold takes what there is room for and returns the rest.
func (m *marker) hold(confirmed []execution.Key) (beyond []execution.Key) {
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

// run marks until ctx ends: a period after the first of what has gathered was confirmed. While nothing is confirmed it does
// nothing.
func (m *marker) run(ctx context.Context) {
	loop := m.loop("marker of dispatches")
	for began := time.Duration(0); ; {
		if _, err := m.wake.Wait(ctx, host.Forever); err != nil {
			return
		}
		due := m.host.Monotonic() + m.period
		if m.host.Sleep(ctx, m.period) != nil {
			return
		}
		if began > 0 {
			// It is late by what came between, not by how long there was nothing to mark.
			loop.Interval(due - began)
		}
		began = m.host.Monotonic()
		if err := loop.Pass(func() error { return m.pass(ctx) }); err != nil {
			m.tell(err)
		}
	}
}

func (m *marker) tell(err error) {
	m.log.LogAttrs(context.Background(), slog.LevelWarn, "marker of dispatches pass failed, the next one starts anew", slog.Any("error", err))
}

// flush marks what is left when nobody publishes any more: a stop should not cost a second message of each dispatch.
func (m *marker) flush() {
	if err := m.pass(context.Background()); err != nil {
		m.tell(err)
	}
}

// pass marks what has gathered. What an error or the end of ctx has stopped, and what others have locked, stays for the next
// one: marking twice is harmless.
func (m *marker) pass(ctx context.Context) error {
	m.mu.Lock()
	confirmed := m.confirmed
	m.confirmed = nil
	m.mu.Unlock()
	left, err := m.mark(ctx, confirmed)
	m.hold(left)
	return err
}

// mark marks dispatches, batch by batch, and returns those that are to be asked about again.
func (m *marker) mark(ctx context.Context, confirmed []execution.Key) (left []execution.Key, err error) {
	for len(confirmed) > 0 {
		if ctx.Err() != nil {
			return append(left, confirmed...), nil
		}
		batch := confirmed[:min(len(confirmed), m.config.Executor.BatchSize)]
		var locked []execution.Key
		if err := m.db(func(ctx context.Context) (err error) {
			locked, err = m.store.MarkPublished(ctx, batch)
			return err
		}); err != nil {
			return append(left, confirmed...), err
		}
		left, confirmed = append(left, locked...), confirmed[len(batch):]
	}
	return left, nil
}
