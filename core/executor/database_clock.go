package executor

import (
	"context"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// databaseClock detects steps of the database's clock by comparing it with this executor's monotonic clock.
// Run deadlines are in the database's time, so a step makes runs look too long. If a run were then marked
// timed out while its action is alive, its retry would run the action twice (defects D15, D35).
//
// It is a list of spans in which both clocks advanced alike. The span that contains a row's start converts it
// to this executor's clock. The first span also covers the time before the first reading, so earlier steps go
// undetected. A step that another step undoes before the next reading goes undetected, too.
type databaseClock struct {
	host host.Host

	mu    sync.Mutex
	spans []span
	// read is when the latest precise reading began, on this executor's clock.
	read time.Duration
}

// span is a period in which the offset between the clocks stayed the same. from and to are on the database's
// clock.
type span struct {
	from, to time.Time
	// began is the latest time, on this executor's clock, at which from may have been read. doubt is how much
	// earlier the reading may have been.
	began, doubt time.Duration
	// before is how much earlier than from this span may have begun, on the database's clock; 0 after a step
	// forwards.
	before time.Duration
}

const (
	// clockTolerance is how much the offset may change within a span. It is larger than the error of a
	// reading, and smaller than the grace of every reclaim.
	clockTolerance = 500 * time.Millisecond
	// clockSpans bounds the list: a clock that drifts by a tenth of a percent begins a span every
	// eight minutes.
	clockSpans = 500
	// century bounds how long before the first reading a timestamp may be, so that sums don't overflow.
	century = 100 * 365 * 24 * time.Hour
)

// addReading adds a reading of the database's clock, now, made between before and after on this executor's
// clock. A slow reading reveals only steps that are larger than its duration.
func (d *databaseClock) addReading(now time.Time, before, after time.Duration) {
	doubt := after - before
	if doubt <= clockTolerance {
		doubt = 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	begins := span{from: now, to: now, began: after, doubt: doubt}
	unread := after - d.read
	if doubt == 0 {
		d.read = before
	}
	if n := len(d.spans); n > 0 {
		last := &d.spans[n-1]
		offset := now.Sub(last.from) - (after - last.began)
		if offset < 0 {
			begins.before = unread + clockTolerance
		}
		if offset <= clockTolerance+last.doubt && offset >= -clockTolerance-doubt {
			if doubt == 0 {
				last.to = now
			}
			return
		}
		if n == clockSpans {
			d.spans = append(d.spans[:0], d.spans[1:]...)
		}
	}
	d.spans = append(d.spans, begins)
}

// elapsedSince returns a lower bound of the time, on this executor's clock, since the database's clock showed
// moment. known is false before the first reading. For times before that reading, the database's clock is
// trusted.
func (d *databaseClock) elapsedSince(moment time.Time) (least time.Duration, known bool) {
	now := d.host.Monotonic()
	d.mu.Lock()
	defer d.mu.Unlock()
	// If the clock has shown moment more than once, the last time is the safe choice.
	for i := len(d.spans) - 1; i >= 0; i-- {
		s := &d.spans[i]
		switch {
		case i == 0 && moment.Before(s.from.Add(-s.before)):
			return now - s.began + min(s.from.Sub(moment), century), true
		case moment.Before(s.from.Add(-s.before)):
			continue
		case moment.Before(s.from):
			// Between a step backwards and the reading that detected it: count from that reading.
			return now - s.began, true
		case !moment.After(s.to):
			return now - s.began - moment.Sub(s.from), true
		case i+1 < len(d.spans):
			// Between two spans: count from the beginning of the second one.
			return now - d.spans[i+1].began, true
		default:
			return 0, true
		}
	}
	return 0, false
}

// readDatabaseClock reads the database's clock and adds the reading.
func (s *Service) readDatabaseClock() error {
	var now time.Time
	before := s.host.Monotonic()
	if err := s.db(func(ctx context.Context) (err error) {
		now, err = s.store.Clock(ctx)
		return err
	}); err != nil {
		return err
	}
	s.databaseClock.addReading(now, before, s.host.Monotonic())
	return nil
}

// isOverrun reports whether a row that is overrun by the database's clock has also exceeded its time and
// grace on this executor's clock. During the grace, the worker may still be ending the action.
func (s *Service) isOverrun(row *execution.Execution, grace time.Duration) bool {
	ran, known := s.databaseClock.elapsedSince(row.StartedAt)
	return !known || ran >= row.RunDeadline.Sub(row.StartedAt)+grace
}

// waitedUnclaimed reports whether a dispatch has also waited unclaimed for atLeast on this executor's clock.
// If not, a step of the database's clock made it late, and its worker is not to blame. The clocks may drift
// by a tenth. The caller must have read the database's clock since the dispatch.
func (s *Service) waitedUnclaimed(row *execution.Execution, atLeast time.Duration) bool {
	lay, known := s.databaseClock.elapsedSince(row.ScheduledAt)
	return !known || lay >= atLeast-atLeast/10
}

// ownTime returns how long a dispatch may wait for its claim.
func ownTime(row *execution.Execution) time.Duration {
	return row.DispatchDeadline.Sub(row.ScheduledAt)
}
