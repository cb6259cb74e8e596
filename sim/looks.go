package sim

import (
	"context"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/execution"
	"handoff/core/store"
)

// lookReporter is an executor's database client. It reports to the suite the statements with which the
// executor looks for work. It is below a planted mutant, so that the suite also judges the mutant's effect
// on them.
type lookReporter struct {
	store.Store
	w *world
	k *invariant.Looker
	// passContinues reports whether the current pass has dispatched a full batch in one step, so that it
	// must claim more.
	passContinues bool
}

// watchLooks wraps the database client of an executor that has just started.
func (w *world) watchLooks(process string, s store.Store) store.Store {
	if k := w.judges.Suite.Looks(process, w.k.Now()); k != nil {
		return &lookReporter{Store: s, w: w, k: k}
	}
	return s
}

// Unjudged implements hook.Unjudged.
func (lr *lookReporter) Unjudged() store.Store { return lr.Store }

// causes maps the cause that Find is called with to the look that it makes.
var causes = map[store.ReclaimCause]invariant.Look{ //detlint:ok a constant table, never written
	store.Unsettled: invariant.LookSettle, store.OwnerGone: invariant.LookOwners, store.ClaimExpired: invariant.LookClaims,
	store.UnpublishedLate: invariant.LookUnpublishedLate, store.Unpublished: invariant.LookUnpublished, store.Unorchestrated: invariant.LookEnds,
	store.Unanswered: invariant.LookCancels, store.Unclaimed: invariant.LookUnclaimed, store.Overrun: invariant.LookOverrun,
}

// ClaimForScheduling implements store.Executor.
func (lr *lookReporter) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	most := c.Others
	for _, p := range c.Pools {
		most = max(most, p)
	}
	for i := range c.Demands {
		most = max(most, c.Demands[i].Limit)
	}
	lr.k.Asks(lr.w.k.Now(), invariant.LookSchedule, most, 0)
	rows, err := lr.Store.ClaimForScheduling(ctx, c)
	if err != nil {
		lr.k.Failed(lr.w.k.Now(), invariant.LookSchedule)
		return rows, err
	}
	full, others := exhaustedLimits(&c, rows)
	lr.k.Answered(lr.w.k.Now(), invariant.LookSchedule, full || others || lr.passContinues, others || lr.passContinues, nil)
	lr.passContinues = false
	return rows, nil
}

// unfitAgain is the delay before an executor retries a row whose worker no longer fitted: the same as for a
// parked row.
const unfitAgain = 100 * time.Millisecond

// DispatchDue implements store.Executor. It is the first look of a pass; a claim follows if other rows are
// due.
func (lr *lookReporter) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	most := 0
	for i := range d.Offers {
		most = max(most, len(d.Offers[i].Spread), len(d.Offers[i].Packed))
	}
	lr.k.Asks(lr.w.k.Now(), invariant.LookSchedule, most, 0)
	lr.passContinues = false
	answer, err := lr.Store.DispatchDue(ctx, d)
	if err != nil {
		lr.k.Failed(lr.w.k.Now(), invariant.LookSchedule)
		return answer, err
	}
	full := answer.Full && len(answer.Rows) > 0
	if answer.Unfit > 0 {
		lr.k.Parks(lr.w.k.Now(), unfitAgain)
	}
	lr.passContinues = full && answer.Others // the claim is a look of the same pass
	lr.k.Answered(lr.w.k.Now(), invariant.LookSchedule, full || answer.Others, full || answer.Others, nil)
	return answer, nil
}

// exhaustedLimits reports whether a claim reached its limit for a named lane, worker or pool (named), and its
// limit for all other lanes (others).
func exhaustedLimits(c *store.SchedulingClaim, rows []execution.Execution) (named, others bool) {
	type lane struct {
		runtime string
		pinned  execution.WorkerID
	}
	lanes, pinned := make(map[lane]int), make(map[execution.WorkerID]int)
	rest := 0
	pools := make([]int, len(c.Pools))
	for i := range rows {
		l := lane{rows[i].Action.Runtime, rows[i].Pinned}
		known := false
		for _, d := range c.Demands {
			if known = d.Runtime == l.runtime && d.Pinned == l.pinned; known {
				if d.Pool >= 0 && d.Pool < len(pools) {
					pools[d.Pool]++
				}
				break
			}
		}
		if !known {
			rest++
			continue
		}
		lanes[l]++
		if l.pinned != 0 {
			pinned[l.pinned]++
		}
	}
	for _, d := range c.Demands {
		got := lanes[lane{d.Runtime, d.Pinned}]
		if got > 0 && (got >= d.Limit || d.Pinned != 0 && pinned[d.Pinned] >= d.Limit) {
			named = true
		}
	}
	for i, got := range pools {
		named = named || got > 0 && got >= c.Pools[i]
	}
	return named, rest >= c.Others
}

// Dispatch implements store.Executor.
func (lr *lookReporter) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := lr.Store.Dispatch(ctx, executor, ds)
	lr.noteFailure(err)
	for i := range results {
		if err == nil && results[i].Applied {
			lr.k.GoesOn(lr.w.k.Now())
		}
	}
	return results, err
}

// noteFailure records the failure of a statement that may belong to the scheduler's pass.
func (lr *lookReporter) noteFailure(err error) {
	if err != nil {
		lr.k.Stumbled()
	}
}

// Workers implements store.Executor.
func (lr *lookReporter) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	began := lr.w.k.Now()
	workers, err := lr.Store.Workers(ctx, into)
	lr.noteFailure(err)
	lr.k.Began(began)
	return workers, err
}

// MarkPublished implements store.Executor.
func (lr *lookReporter) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	left, err := lr.Store.MarkPublished(ctx, keys)
	lr.noteFailure(err)
	return left, err
}

// Park implements store.Executor.
func (lr *lookReporter) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := lr.Store.Park(ctx, executor, ps)
	lr.noteFailure(err)
	for i := range outcomes {
		if outcomes[i].Applied && outcomes[i].Row.Status == execution.Requested {
			lr.k.Parks(lr.w.k.Now(), ps[i].Delay)
		}
	}
	return outcomes, err
}

// Find implements store.Executor.
func (lr *lookReporter) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	l, known := causes[f.Cause]
	if !known {
		return lr.Store.Find(ctx, f)
	}
	lr.k.Asks(lr.w.k.Now(), l, f.Limit, 0)
	rows, err := lr.Store.Find(ctx, f)
	if err != nil {
		lr.k.Failed(lr.w.k.Now(), l)
		return rows, err
	}
	found := make([]invariant.Found, len(rows))
	for i := range rows {
		found[i] = invariant.Found{Key: rows[i].Key(), Status: rows[i].Status}
	}
	full := len(rows) >= f.Limit
	lr.k.Answered(lr.w.k.Now(), l, full, full, found)
	return rows, nil
}

// Reclaim implements store.Executor.
func (lr *lookReporter) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := lr.Store.Reclaim(ctx, rs)
	lr.noteFailure(err)
	for i := range outcomes {
		if outcomes[i].Applied && outcomes[i].Row.Status == execution.Requested {
			lr.k.Woken(lr.w.k.Now(), rs[i].Delay)
		}
	}
	return outcomes, err
}

// Orchestrate implements store.Executor.
func (lr *lookReporter) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	done, err := lr.Store.Orchestrate(ctx, os)
	woken := false
	for i := range done {
		if done[i].Applied && !woken {
			woken = true
			lr.k.Woken(lr.w.k.Now(), 0)
		}
		// The scheduler is notified of each retry separately.
		if done[i].Applied && done[i].Retry != 0 && os[i].Retry != nil {
			lr.k.Woken(lr.w.k.Now(), os[i].Retry.Delay)
		}
	}
	return done, err
}

// SettleChildren implements store.Executor.
func (lr *lookReporter) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	settled, err := lr.Store.SettleChildren(ctx, chains, most)
	left, more := err != nil, false
	for i := range settled {
		left = left || settled[i].More
		more = more || err == nil && settled[i].More && len(settled[i].Started)+len(settled[i].Skipped) > 0
	}
	lr.k.Settled(lr.w.k.Now(), chains, left, more)
	return settled, err
}

// Reap implements store.Executor.
func (lr *lookReporter) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	marked, err := lr.Store.Reap(ctx, rs)
	if err == nil {
		lr.k.Lost()
	}
	return marked, err
}

// ObserveWorkers implements store.Executor.
func (lr *lookReporter) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	for i := range ws {
		lr.k.Tells(lr.w.k.Now(), ws[i].Incarnation, ws[i].Ready, ws[i].Reason)
	}
	changed, err := lr.Store.ObserveWorkers(ctx, ws)
	for i := range ws {
		if err == nil {
			lr.k.Told(lr.w.k.Now(), ws[i].Incarnation, ws[i].Ready)
		}
	}
	return changed, err
}

// reportPurge reports a look that returns only the number of rows that it handled.
func (lr *lookReporter) reportPurge(l invariant.Look, age time.Duration, limit int, do func() (int, error)) (int, error) {
	lr.k.Asks(lr.w.k.Now(), l, limit, age)
	n, err := do()
	if err != nil {
		lr.k.Failed(lr.w.k.Now(), l)
		return n, err
	}
	lr.k.Answered(lr.w.k.Now(), l, n >= limit, n >= limit, nil)
	return n, nil
}

// PurgeDeadLetters implements store.Executor.
func (lr *lookReporter) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lr.reportPurge(invariant.LookDeadLetters, age, limit, func() (int, error) { return lr.Store.PurgeDeadLetters(ctx, age, limit) })
}

// PurgeObservations implements store.Executor.
func (lr *lookReporter) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lr.reportPurge(invariant.LookObservations, age, limit, func() (int, error) { return lr.Store.PurgeObservations(ctx, age, limit) })
}

// ForgetKeys implements store.Executor.
func (lr *lookReporter) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lr.reportPurge(invariant.LookKeys, age, limit, func() (int, error) { return lr.Store.ForgetKeys(ctx, age, limit) })
}

// FreeSlots implements store.Executor.
func (lr *lookReporter) FreeSlots(ctx context.Context, limit int) (freed []execution.ID, err error) {
	_, err = lr.reportPurge(invariant.LookSlots, 0, limit, func() (int, error) {
		freed, err = lr.Store.FreeSlots(ctx, limit)
		return len(freed), err
	})
	if len(freed) > 0 {
		lr.k.Woken(lr.w.k.Now(), 0)
	}
	return freed, err
}
