package executor

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"handoff/core/config"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// retention deletes rows that have been kept for their configured time. Every executor does so: a step skips
// rows that another executor has locked. after is where the next step of each kind begins; a new process
// starts from the beginning.
//
// A pass spreads its steps over up to half of the next interval. Without pauses, they would compete with
// claims for a processor and for the database's log.
type retention struct {
	*Service
	after map[store.Kept]int64
	// first is the known beginning of the executions: none are before it. anew is when it is looked up again.
	first int64
	anew  time.Duration
	// steps is the number of full steps in this pass so far. before is the number in the previous pass.
	steps, before int
	// hitLimit reports whether the pass stopped at its limit for a kind.
	hitLimit bool
	// looked reports whether this process has looked for rows that are long overdue. Before held, on the
	// monotonic clock, nothing is deleted by a default time.
	looked bool
	held   time.Duration
}

func newRetention(s *Service) *retention {
	return &retention{Service: s, after: make(map[store.Kept]int64)}
}

// archiveNotice is how long a new process waits before it deletes rows by a default time, if some rows have
// been overdue for at least as long.
const archiveNotice = 24 * time.Hour

// longestStepPause bounds the pause after a step: many rows may be left although the previous pass found few.
const longestStepPause = 100 * time.Millisecond

// run makes passes until ctx ends. After a pass that stopped at its limit, the next one follows at once.
func (r *retention) run(ctx context.Context) {
	loop := r.newLoop("retention")
	r.logTimes(ctx)
	for {
		began := r.host.Monotonic()
		if err := loop.Pass(func() error { return r.deleteOverdue(ctx) }); err != nil {
			r.log.LogAttrs(ctx, slog.LevelWarn, "retention pass failed, the next one starts anew", slog.Any("error", err))
		}
		if ctx.Err() != nil {
			return // ctx ended during the pause after a step
		}
		rest := r.passPause()
		// A pass is not late because it spreads its steps.
		loop.Interval(r.host.Monotonic() - began + rest)
		if r.host.Sleep(ctx, rest) != nil {
			return
		}
	}
}

// passPause returns the pause before the next pass.
func (r *retention) passPause() time.Duration {
	if r.hitLimit {
		return r.stepPause()
	}
	return r.config.Retention.Interval
}

// stepPause returns the pause after a full step: half of the interval, divided by the expected number of
// steps.
func (r *retention) stepPause() time.Duration {
	return min(longestStepPause, r.config.Retention.Interval/time.Duration(2*max(1, r.before, r.steps)))
}

// firstAgain is how often the beginning of the executions is looked up, because a database that has lost its
// last changes may have executions before the known beginning.
const firstAgain = time.Hour

// roundStart returns where a round through the rows of a kind begins. The table begins with the dead rows of
// all deletions since the last vacuum, which a backup can delay for hours. A step that began there would read
// all of them.
func (r *retention) roundStart(k store.Kept) int64 {
	if k != store.KeptExecutions {
		return 0
	}
	if now := r.host.Monotonic(); now >= r.anew {
		r.anew = now + firstAgain
		return 0 // once an hour: if this step takes too long, the next round begins at the last known beginning
	}
	return r.first
}

// keptFor returns how long rows of a kind are kept; 0 means forever.
func keptFor(r *config.Retention, k store.Kept) time.Duration {
	return [...]time.Duration{
		store.KeptExecutions: r.Executions, store.KeptTransitions: r.Transitions, store.KeptRefusedResults: r.RefusedResults,
		store.KeptExpiries: r.Expiries, store.KeptIncarnations: r.Incarnations, store.KeptWorkers: r.Workers,
	}[k]
}

// isDefault reports whether a kind is kept for the default time, so that perhaps no operator has chosen it.
func (r *retention) isDefault(k store.Kept) bool {
	d := config.Default(r.config.Profile).Retention
	return keptFor(&r.config.Retention, k) == keptFor(&d, k)
}

// logTimes logs once, at start, how long each kind of row is kept.
func (r *retention) logTimes(ctx context.Context) {
	var times []slog.Attr
	for _, k := range store.AllKept() {
		times = append(times, slog.Duration(k.String(), keptFor(&r.config.Retention, k)))
	}
	r.log.LogAttrs(ctx, slog.LevelInfo, "retention deletes rows that have been out of use for these times; the keys of the section retention change them, and 0 keeps the rows for ever", times...)
}

// defaultsApply reports whether rows whose time is a default may be deleted.
//
// Before 30 days became the default, rows were kept forever, so a database may hold an archive that an
// upgrade must not delete without notice. The same applies to a backup that was restored after months.
// Therefore a new process first counts the rows that have been due for archiveNotice longer than usual. If
// there are any, it warns, and deletes nothing by a default time for archiveNotice. Where retention runs,
// nothing is due for that long, so an ordinary restart delays nothing.
//
// The rule stores nothing in the database, and errs on the side of keeping: each start within the notice
// repeats the warning and the wait. A time that differs from the default is an operator's choice, and takes
// effect at once. A time set to the default can't be distinguished from an unset one, which costs a day once.
// All defaults wait together, because a row of one kind can hold back those of another.
func (r *retention) defaultsApply(ctx context.Context) (bool, error) {
	var failed error
	if !r.looked {
		found := false
		for _, k := range store.AllKept() {
			age := keptFor(&r.config.Retention, k)
			if age == 0 || !r.isDefault(k) {
				continue
			}
			rows, more, err := r.countOverdue(ctx, k, age+archiveNotice+r.config.Retention.Interval)
			if ctx.Err() != nil || err != nil && store.Retriable(err) {
				return false, errors.Join(failed, err) // the next pass asks again
			}
			if err != nil { // rows that can't be counted may be an archive, too
				failed, found = errors.Join(failed, err), true
				continue
			}
			if rows == 0 && !more {
				continue
			}
			found = true
			r.log.LogAttrs(ctx, slog.LevelWarn, "the database has rows that are older than the default time of retention; the executor deletes them after a notice, unless the key is set to a longer time or to 0",
				slog.String("key", "retention."+k.String()), slog.Duration("kept", age), slog.Int("rows", rows), slog.Bool("there_are_more", more),
				slog.Duration("notice", archiveNotice))
		}
		r.looked = true
		if found {
			r.held = r.host.Monotonic() + archiveNotice
		}
	}
	return r.host.Monotonic() >= r.held, failed
}

// countOverdue counts the rows of a kind that are older than age, up to those of one step, and reports
// whether there may be more. While it finds none, it continues as far as a pass would.
func (r *retention) countOverdue(ctx context.Context, k store.Kept, age time.Duration) (rows int, more bool, err error) {
	p := store.Purge{What: k, Age: age, Limit: r.config.Retention.StepSize, DryRun: true}
	for range passBatches {
		done, err := askStore(r.db, r.store.Purge, p)
		if err != nil {
			return 0, false, err
		}
		if done.Removed > 0 || !done.More {
			return done.Removed, done.More, nil
		}
		if p.After = done.Next; r.host.Sleep(ctx, r.stepPause()) != nil {
			return 0, false, nil
		}
	}
	return 0, true, nil
}

// deleteOverdue deletes the overdue rows, one kind after the other. If one kind fails, the pass continues
// with the next. It ends after a retriable error, or when ctx ends.
func (r *retention) deleteOverdue(ctx context.Context) error {
	r.before, r.steps, r.hitLimit = r.steps, 0, false
	defaults, failed := r.defaultsApply(ctx)
	if ctx.Err() != nil || failed != nil && store.Retriable(failed) {
		return failed
	}
	for _, k := range store.AllKept() {
		age := keptFor(&r.config.Retention, k)
		if age == 0 || !defaults && r.isDefault(k) {
			continue
		}
		removed, err := r.purgeKind(ctx, store.Purge{What: k, Age: age, Limit: r.config.Retention.StepSize})
		if removed > 0 {
			r.recorder.Add(telemetry.Purged, int64(removed), telemetry.Labels{k.String()})
			r.log.LogAttrs(ctx, slog.LevelInfo, "retention deleted rows whose configured time was over", slog.String("kind", k.String()), slog.Int("rows", removed),
				slog.Duration("kept", age))
		}
		if failed = errors.Join(failed, err); ctx.Err() != nil || store.Retriable(err) {
			return failed
		}
	}
	return failed
}

// purgeKind makes steps for one kind until one is not full, ctx ends, or it has made passBatches. The next
// pass then continues where this one stopped.
func (r *retention) purgeKind(ctx context.Context, p store.Purge) (removed int, err error) {
	p.After = r.after[p.What]
	begins := p.After == 0
	if begins {
		p.After = r.roundStart(p.What)
	}
	for range passBatches {
		done, err := askStore(r.db, r.store.Purge, p)
		if err != nil {
			return removed, err
		}
		if begins && done.First > 0 {
			r.first = done.First - 1
		}
		begins = false
		removed += done.Removed
		p.After = done.Next
		r.after[p.What] = done.Next
		if !done.More {
			return removed, nil
		}
		r.steps++
		if r.host.Sleep(ctx, r.stepPause()) != nil {
			return removed, nil
		}
	}
	r.hitLimit = true
	r.log.LogAttrs(ctx, slog.LevelWarn, "a pass stopped at its limit of batches, the next pass goes on",
		slog.String("cause", "retention of "+p.What.String()), slog.Int("batches", passBatches))
	return removed, nil
}
