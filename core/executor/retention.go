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

// retention deletes the rows whose configured time is over. Every executor does it: a step passes
// over rows that another one has locked. after is where the next step of each kind begins to look; a
// new process begins anew.
type retention struct {
	*Service
	after map[store.Kept]int64
}

// kept is how long a kind is kept; 0 for ever.
func kept(r *config.Retention, k store.Kept) time.Duration {
	return [...]time.Duration{
		store.KeptExecutions: r.Executions, store.KeptTransitions: r.Transitions, store.KeptRefusedResults: r.RefusedResults,
		store.KeptExpiries: r.Expiries, store.KeptIncarnations: r.Incarnations, store.KeptWorkers: r.Workers,
	}[k]
}

// pass deletes the rows whose time is over, one kind after the other. If one kind fails, the pass goes
// on with the next. If the error is that of a database that may answer again soon, or ctx has ended,
// the pass ends.
func (r *retention) pass(ctx context.Context) error {
	var failed error
	for _, k := range store.AllKept() {
		age := kept(&r.config.Retention, k)
		if age == 0 {
			continue
		}
		removed, err := r.purge(ctx, store.Purge{What: k, Age: age, Limit: r.config.Retention.StepSize})
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

// purge makes steps for one kind until one is not full, or until it has made passBatches. The next
// pass then goes on where this one has stopped.
func (r *retention) purge(ctx context.Context, p store.Purge) (removed int, err error) {
	p.After = r.after[p.What]
	for range passBatches {
		var done store.Purged
		if err := r.db(func(ctx context.Context) (err error) {
			done, err = r.store.Purge(ctx, p)
			return err
		}); err != nil {
			return removed, err
		}
		removed += done.Removed
		p.After = done.Next
		r.after[p.What] = done.Next
		if !done.More || ctx.Err() != nil {
			return removed, nil
		}
	}
	r.log.LogAttrs(ctx, slog.LevelWarn, "a pass stopped at its limit of batches, the next pass goes on",
		slog.String("cause", "retention of "+p.What.String()), slog.Int("batches", passBatches))
	return removed, nil
}
