package executor

import (
	"context"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// databaseClock compares the database's clock with this executor's, which nobody sets. Run deadlines are
// kept in the database's time; a step of its clock makes runs look longer than they are, and a run that ends as
// timed out while its action is alive is run a second time by its retry (defects D15, D35).
//
// It is a list of spans in which the two clocks went alike. A row's start lies in one of them, which tells when
// that was on this executor's clock. A start from before the first look is nobody's knowledge here: then
// the database's clock is taken at its word, and a step while no executor ran goes unnoticed. So does one that
// another one takes back before the next look.
type databaseClock struct {
	host host.Host

	mu    sync.Mutex
	spans []span
}

// span is a time in which the offset between the clocks stayed the same: from and to by both.
type span struct {
	from, to time.Time
	// began is when from was read, at the latest; doubt is how much earlier it can have been.
	began, doubt time.Duration
}

const (
	// clockTolerance is how much the offset may change within a span. It is more than a reading errs, and less
	// than the grace that every take-back has.
	clockTolerance = 500 * time.Millisecond
	// clockSpans bounds the list: a clock that drifts by a tenth of a percent begins a span every eight minutes.
	clockSpans = 500
)

// observe adds one reading, which was made between two moments of this executor's clock. One that took long
// says only that the clock was set, where it was set by more.
func (d *databaseClock) observe(now time.Time, before, after time.Duration) {
	doubt := after - before
	if doubt <= clockTolerance {
		doubt = 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if n := len(d.spans); n > 0 {
		last := &d.spans[n-1]
		if offset := now.Sub(last.from) - (after - last.began); offset <= clockTolerance+last.doubt && offset >= -clockTolerance-doubt {
			if doubt == 0 {
				last.to = now
			}
			return
		}
		if n == clockSpans {
			d.spans = append(d.spans[:0], d.spans[1:]...)
		}
	}
	d.spans = append(d.spans, span{now, now, after, doubt})
}

// since returns the least time that can have passed, by this executor's clock, since the database's clock showed
// moment, and whether this executor has known the database's clock since then.
func (d *databaseClock) since(moment time.Time) (least time.Duration, known bool) {
	now := d.host.Monotonic()
	d.mu.Lock()
	defer d.mu.Unlock()
	// The clock may have shown that time more than once: the last one is the safe one.
	for i := len(d.spans) - 1; i >= 0; i-- {
		s := &d.spans[i]
		switch {
		case moment.Before(s.from):
			continue
		case !moment.After(s.to):
			return now - s.began - moment.Sub(s.from), true
		case i+1 < len(d.spans):
			// Between two spans: at the latest when the next one began.
			return now - d.spans[i+1].began, true
		default:
			return 0, true
		}
	}
	return 0, false
}

// readDatabaseClock takes a reading.
func (s *Service) readDatabaseClock() error {
	var now time.Time
	before := s.host.Monotonic()
	if err := s.db(func(ctx context.Context) (err error) {
		now, err = s.store.Clock(ctx)
		return err
	}); err != nil {
		return err
	}
	s.databaseClock.observe(now, before, s.host.Monotonic())
	return nil
}

// overrun says whether a row that the database calls overrun has run for its time and grace on this executor's
// clock too. The grace belongs to it: until it is over, the worker may still be ending the action.
func (s *Service) overrun(row *execution.Execution, grace time.Duration) bool {
	ran, known := s.databaseClock.since(row.StartedAt)
	return !known || ran >= row.RunDeadline.Sub(row.StartedAt)+grace
}

// lay says whether a dispatch has waited unclaimed for atLeast on this executor's clock too. If not, only a step
// of the database's clock made it late: its worker could no longer claim it, and nobody is to blame. Clocks may
// drift by a tenth of the time. The caller has read the database's clock since the dispatch.
func (s *Service) lay(row *execution.Execution, atLeast time.Duration) bool {
	lay, known := s.databaseClock.since(row.ScheduledAt)
	return !known || lay >= atLeast-atLeast/10
}

// ownTime is how long a dispatch may wait for its claim.
func ownTime(row *execution.Execution) time.Duration {
	return row.DispatchDeadline.Sub(row.ScheduledAt)
}
