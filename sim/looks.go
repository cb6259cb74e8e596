package sim

import (
	"context"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/execution"
	"handoff/core/store"
)

// looking is an executor's client of the database that reports to the suite the statements by which
// the executor looks for work. It is below a planted mutant, so that the mutant's effect on the
// statements is judged, too.
type looking struct {
	store.Store
	w *world
	k *invariant.Looker
	// goesOn says that the present pass has dispatched a full batch in one step, so that another
	// pass must follow.
	goesOn bool
}

// looking wraps the client of an executor that has just started.
func (w *world) looking(process string, s store.Store) store.Store {
	if k := w.judges.Suite.Looks(process, w.k.Now()); k != nil {
		return &looking{Store: s, w: w, k: k}
	}
	return s
}

// Unjudged implements hook.Unjudged.
func (lo *looking) Unjudged() store.Store { return lo.Store }

// causes are the looks that Find makes.
var causes = map[store.ReclaimCause]invariant.Look{ //detlint:ok a constant table, never written
	store.Unsettled: invariant.LookSettle, store.OwnerGone: invariant.LookOwners, store.ClaimExpired: invariant.LookClaims,
	store.UnpublishedLate: invariant.LookUnpublishedLate, store.Unpublished: invariant.LookUnpublished, store.Unorchestrated: invariant.LookEnds,
	store.Unanswered: invariant.LookCancels, store.Unclaimed: invariant.LookUnclaimed, store.Overrun: invariant.LookOverrun,
}

// ClaimForScheduling implements store.Executor.
func (lo *looking) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	most := c.Others
	for _, p := range c.Pools {
		most = max(most, p)
	}
	for i := range c.Demands {
		most = max(most, c.Demands[i].Limit)
	}
	lo.k.Asks(lo.w.k.Now(), invariant.LookSchedule, most, 0)
	rows, err := lo.Store.ClaimForScheduling(ctx, c)
	if err != nil {
		lo.k.Failed(lo.w.k.Now(), invariant.LookSchedule)
		return rows, err
	}
	full, others := exhausted(&c, rows)
	lo.k.Answered(lo.w.k.Now(), invariant.LookSchedule, full || others || lo.goesOn, others || lo.goesOn, nil)
	lo.goesOn = false
	return rows, nil
}

// unfitAgain is when an executor looks again for a row whose worker no longer fitted, as for a row
// that it gave back.
const unfitAgain = 100 * time.Millisecond

// DispatchDue implements store.Executor. It is the first look of a pass. A claim follows if other
// rows are due.
func (lo *looking) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	most := 0
	for i := range d.Offers {
		most = max(most, len(d.Offers[i].Spread), len(d.Offers[i].Packed))
	}
	lo.k.Asks(lo.w.k.Now(), invariant.LookSchedule, most, 0)
	lo.goesOn = false
	answer, err := lo.Store.DispatchDue(ctx, d)
	if err != nil {
		lo.k.Failed(lo.w.k.Now(), invariant.LookSchedule)
		return answer, err
	}
	full := answer.Full && len(answer.Rows) > 0
	if answer.Unfit > 0 {
		lo.k.Parks(lo.w.k.Now(), unfitAgain)
	}
	lo.goesOn = full && answer.Others // the claim is a look of the same pass
	lo.k.Answered(lo.w.k.Now(), invariant.LookSchedule, full || answer.Others, full || answer.Others, nil)
	return answer, nil
}

// exhausted says whether a claim got as many rows of a lane, of a worker or of a pool as it asked
// for, and as many of the lanes that it did not name.
func exhausted(c *store.SchedulingClaim, rows []execution.Execution) (named, others bool) {
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
func (lo *looking) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := lo.Store.Dispatch(ctx, executor, ds)
	lo.judge(err)
	for i := range results {
		if err == nil && results[i].Applied {
			lo.k.GoesOn(lo.w.k.Now())
		}
	}
	return results, err
}

// judge notes that a statement failed which may belong to the scheduler's pass.
func (lo *looking) judge(err error) {
	if err != nil {
		lo.k.Stumbled()
	}
}

// Workers implements store.Executor.
func (lo *looking) Workers(ctx context.Context, into []store.WorkerRow) ([]store.WorkerRow, error) {
	began := lo.w.k.Now()
	workers, err := lo.Store.Workers(ctx, into)
	lo.judge(err)
	lo.k.Began(began)
	return workers, err
}

// MarkPublished implements store.Executor.
func (lo *looking) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	left, err := lo.Store.MarkPublished(ctx, keys)
	lo.judge(err)
	return left, err
}

// Park implements store.Executor.
func (lo *looking) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := lo.Store.Park(ctx, executor, ps)
	lo.judge(err)
	for i := range outcomes {
		if outcomes[i].Applied && outcomes[i].Row.Status == execution.Requested {
			lo.k.Parks(lo.w.k.Now(), ps[i].Delay)
		}
	}
	return outcomes, err
}

// Find implements store.Executor.
func (lo *looking) Find(ctx context.Context, f store.Finding) ([]execution.Execution, error) {
	l, known := causes[f.Cause]
	if !known {
		return lo.Store.Find(ctx, f)
	}
	lo.k.Asks(lo.w.k.Now(), l, f.Limit, 0)
	rows, err := lo.Store.Find(ctx, f)
	if err != nil {
		lo.k.Failed(lo.w.k.Now(), l)
		return rows, err
	}
	found := make([]invariant.Found, len(rows))
	for i := range rows {
		found[i] = invariant.Found{Key: rows[i].Key(), Status: rows[i].Status}
	}
	full := len(rows) >= f.Limit
	lo.k.Answered(lo.w.k.Now(), l, full, full, found)
	return rows, nil
}

// Reclaim implements store.Executor.
func (lo *looking) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := lo.Store.Reclaim(ctx, rs)
	lo.judge(err)
	for i := range outcomes {
		if outcomes[i].Applied && outcomes[i].Row.Status == execution.Requested {
			lo.k.Woken(lo.w.k.Now(), rs[i].Delay)
		}
	}
	return outcomes, err
}

// Orchestrate implements store.Executor.
func (lo *looking) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	done, err := lo.Store.Orchestrate(ctx, os)
	woken := false
	for i := range done {
		if done[i].Applied && !woken {
			woken = true
			lo.k.Woken(lo.w.k.Now(), 0)
		}
		// The scheduler learns of each retry separately.
		if done[i].Applied && done[i].Retry != 0 && os[i].Retry != nil {
			lo.k.Woken(lo.w.k.Now(), os[i].Retry.Delay)
		}
	}
	return done, err
}

// SettleChildren implements store.Executor.
func (lo *looking) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	settled, err := lo.Store.SettleChildren(ctx, chains, most)
	left, more := err != nil, false
	for i := range settled {
		left = left || settled[i].More
		more = more || err == nil && settled[i].More && len(settled[i].Started)+len(settled[i].Skipped) > 0
	}
	lo.k.Settled(lo.w.k.Now(), chains, left, more)
	return settled, err
}

// Reap implements store.Executor.
func (lo *looking) Reap(ctx context.Context, rs []store.Reap) ([]bool, error) {
	marked, err := lo.Store.Reap(ctx, rs)
	if err == nil {
		lo.k.Lost()
	}
	return marked, err
}

// ObserveWorkers implements store.Executor.
func (lo *looking) ObserveWorkers(ctx context.Context, ws []store.ProbedWorker) ([]bool, error) {
	for i := range ws {
		lo.k.Tells(lo.w.k.Now(), ws[i].Incarnation, ws[i].Ready, ws[i].Reason)
	}
	changed, err := lo.Store.ObserveWorkers(ctx, ws)
	for i := range ws {
		if err == nil {
			lo.k.Told(lo.w.k.Now(), ws[i].Incarnation, ws[i].Ready)
		}
	}
	return changed, err
}

// purge makes a look that answers how many rows it handled.
func (lo *looking) purge(l invariant.Look, age time.Duration, limit int, do func() (int, error)) (int, error) {
	lo.k.Asks(lo.w.k.Now(), l, limit, age)
	n, err := do()
	if err != nil {
		lo.k.Failed(lo.w.k.Now(), l)
		return n, err
	}
	lo.k.Answered(lo.w.k.Now(), l, n >= limit, n >= limit, nil)
	return n, nil
}

// PurgeDeadLetters implements store.Executor.
func (lo *looking) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lo.purge(invariant.LookDeadLetters, age, limit, func() (int, error) { return lo.Store.PurgeDeadLetters(ctx, age, limit) })
}

// PurgeObservations implements store.Executor.
func (lo *looking) PurgeObservations(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lo.purge(invariant.LookObservations, age, limit, func() (int, error) { return lo.Store.PurgeObservations(ctx, age, limit) })
}

// ForgetKeys implements store.Executor.
func (lo *looking) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return lo.purge(invariant.LookKeys, age, limit, func() (int, error) { return lo.Store.ForgetKeys(ctx, age, limit) })
}

// FreeSlots implements store.Executor.
func (lo *looking) FreeSlots(ctx context.Context, limit int) (freed []execution.ID, err error) {
	_, err = lo.purge(invariant.LookSlots, 0, limit, func() (int, error) {
		freed, err = lo.Store.FreeSlots(ctx, limit)
		return len(freed), err
	})
	if len(freed) > 0 {
		lo.k.Woken(lo.w.k.Now(), 0)
	}
	return freed, err
}
