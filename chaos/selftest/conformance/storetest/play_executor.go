package storetest

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

func (p *player) asExecutor(c command) {
	switch c.op {
	case opClaimForScheduling:
		p.claimForScheduling(c)
	case opDispatchDue:
		p.dispatchDue(c)
	case opDispatch:
		var ds []store.Dispatch
		executor := ""
		for _, it := range c.items {
			key, e := p.chooseRow(it, execution.Scheduling)
			if executor == "" {
				executor = e.SchedulingBy
			}
			ds = append(ds, store.Dispatch{
				Key: key, Worker: p.chooseIncarnation(it.worker, p.chooseFitWorker(it.row)), Timeout: pick(it.a, DispatchTimeout, DispatchTimeout, 0, 1500*time.Nanosecond, -time.Second),
			})
		}
		results, err := p.Store.Dispatch(p.ctx, p.callingExecutor(c, executor), ds)
		p.recordLine("Dispatch: %s", errorKind(err))
		for i, r := range results {
			p.recordLine("  %s unfit %v %s", p.keyText(ds[i].Key), r.WorkerUnfit, p.outcomeText(r.Outcome))
		}
	case opPark:
		p.parkRows(c)
	case opMarkPublished:
		var keys []execution.Key
		for _, it := range c.items {
			key, _ := p.chooseRow(it, execution.Scheduled, execution.Running)
			keys = append(keys, key)
		}
		left, err := p.Store.MarkPublished(p.ctx, keys)
		p.recordLine("MarkPublished: %d left, %s", len(left), errorKind(err))
	case opReclaim:
		p.reclaimRows(c)
	case opReap:
		var rs []store.Reap
		for _, it := range c.items {
			w := p.chooseIncarnation(it.worker, store.WorkerKey{})
			rs = append(rs, store.Reap{WorkerKey: w, Beat: p.beatOf(w) + pick(it.a, uint64(0), 0, 0, 1)})
		}
		marked, err := p.Store.Reap(p.ctx, rs)
		p.recordLine("Reap: %s %v", errorKind(err), marked)
	case opSettle:
		p.settleChildren(c)
	default:
		p.orchestrateRows(c)
	}
}

// settleChildren mostly names chains whose children are waiting to be settled.
func (p *player) settleChildren(c command) {
	var chains []execution.ID
	for i := range p.rows {
		if c.a < 12 && !p.rows[i].SettlingAt.IsZero() && len(chains) < len(c.items) {
			chains = append(chains, p.rows[i].ID)
		}
	}
	for _, it := range c.items[len(chains):] {
		key, _ := p.chooseRow(it)
		chains = append(chains, key.ID)
	}
	most := pick(c.b, 1, 2, 50, 0, -1)
	settled, err := p.Store.SettleChildren(p.ctx, chains, most)
	p.recordLine("SettleChildren, at most %d: %s", most, errorKind(err))
	for i, s := range settled {
		p.recordLine("  of %s: started %s, skipped %s, more %v", p.idText(chains[i]), p.sortedIDs(s.Started), p.sortedIDs(s.Skipped), s.More)
	}
}

// callingExecutor returns the calling executor: mostly the one that holds the row.
func (p *player) callingExecutor(c command, holder string) string {
	if holder != "" && c.a < 13 {
		return holder
	}
	return executorNamed(c.b)
}

func (p *player) claimForScheduling(c command) {
	claim := store.SchedulingClaim{
		Executor: executorNamed(c.a), Expiry: pick(c.b, 15*time.Second, 15*time.Second, time.Minute, 0, 1500*time.Nanosecond, -time.Second),
		Others: pick(c.items[0].b, 0, 1, 2, 5, -1),
	}
	claim.Pools = pick(c.items[0].twist, nil, nil, []int{2}, []int{1, 3}, []int{0, 1}, nil, []int{-1})
	demands := ""
	for _, it := range c.items {
		d := store.Demand{
			Runtime: pick(it.row, "shell", "python", "node", "shell", "none"), Pinned: p.choosePin(it.worker + 4),
			Limit: pick(it.a, 2, 1, 3, 0, -1), Pool: pick(it.twist, 0, 0, 1, 2, -1),
		}
		claim.Demands = append(claim.Demands, d)
		demands += fmt.Sprintf(" %d %s for %s in pool %d", d.Limit, d.Runtime, p.workerText(d.Pinned), d.Pool)
	}
	rows, err := p.Store.ClaimForScheduling(p.ctx, claim)
	p.recordLine("ClaimForScheduling by %s of%s with pools %v and %d others: %s [%s]", claim.Executor, demands, claim.Pools, claim.Others, errorKind(err), p.keyTexts(rows))
}

// dispatchDue offers places at several workers for one runtime, or for two in one offer or in two.
func (p *player) dispatchDue(c command) {
	d := store.DueDispatch{
		Executor: executorNamed(c.a), Expiry: pick(c.b, 15*time.Second, time.Minute, 0, -time.Second),
		Timeout: pick(c.items[0].a, DispatchTimeout, DispatchTimeout, 0, 1500*time.Nanosecond, -time.Second),
	}
	offers := pick(c.items[0].row, [][]string{{"shell"}}, [][]string{{"python", "shell"}}, [][]string{{"shell"}, {"python", "node"}}, [][]string{{"none"}})
	text := ""
	for n, runtimes := range offers {
		o := store.Offer{Runtimes: runtimes}
		for i, it := range c.items {
			place := store.Place{Worker: p.chooseIncarnation(it.worker, p.chooseFitWorker(it.row)), Limit: pick(it.twist, 0, 2, 1, 100)}
			text += fmt.Sprintf(" %d:%s under %d", n, p.incarnationText(place.Worker.Incarnation), place.Limit)
			o.Spread = append(o.Spread, place)
			if i == 0 {
				o.Packed = append(o.Packed, place)
				continue
			}
			o.Packed = append(o.Packed, o.Packed[pick(it.b, 0, i-1)])
		}
		d.Offers = append(d.Offers, o)
	}
	answer, err := p.Store.DispatchDue(p.ctx, d)
	p.recordLine("DispatchDue by %s of %v to%s: %s [%s] full %v unfit %d others %v", d.Executor, offers, text, errorKind(err), p.keyTexts(answer.Rows), answer.Full, answer.Unfit, answer.Others)
}

func (p *player) parkRows(c command) {
	var ps []store.Park
	executor := ""
	for i, it := range c.items {
		key, e := p.chooseRow(it, execution.Scheduling)
		if executor == "" {
			executor = e.SchedulingBy
		}
		ps = append(ps, store.Park{
			Key: key, Delay: pickDelay(it.a, i), Unschedulable: it.b%3 != 0, Grace: pick(it.worker, 30*time.Second, 0, 5*time.Second),
			Patience: pick(it.b, 0, 10*time.Second, time.Second), Watched: pick(it.a, 0, 20*time.Second, 1500*time.Nanosecond, -time.Second),
			Seen: pick(it.a+it.b, 0, 2*time.Second, 10*time.Second, 1500*time.Nanosecond, -time.Second), Result: pickResult(it.worker),
		})
	}
	outcomes, err := p.Store.Park(p.ctx, p.callingExecutor(c, executor), ps)
	p.recordLine("Park: %s", errorKind(err))
	for i, o := range outcomes {
		p.recordLine("  %s after %v unschedulable %v grace %v patience %v watched %v seen %v: %s", p.keyText(ps[i].Key), ps[i].Delay, ps[i].Unschedulable, ps[i].Grace, ps[i].Patience,
			ps[i].Watched, ps[i].Seen, p.outcomeText(o))
	}
}

// causeStatuses are a cause and the statuses that it covers, as the core's parts use them.
type causeStatuses struct {
	cause    store.ReclaimCause
	statuses []execution.Status
}

func (p *player) reclaimRows(c command) {
	causes := []causeStatuses{
		{store.DeadLettered, []execution.Status{execution.Scheduled}},
		{store.OwnerGone, []execution.Status{execution.Running, execution.Canceling, execution.Scheduled}},
		{store.Overrun, []execution.Status{execution.Running, execution.Canceling}},
		{store.ClaimExpired, []execution.Status{execution.Scheduling}},
		{store.Unclaimed, []execution.Status{execution.Scheduled}},
		{store.Unpublished, []execution.Status{execution.Scheduled}},
		{store.UnpublishedLate, []execution.Status{execution.Scheduled}},
		{store.Undeliverable, []execution.Status{execution.Scheduled}},
		{store.OwnerGone, []execution.Status{execution.Scheduled}},
		{store.Unorchestrated, []execution.Status{execution.Completed, execution.Failed}},
		{store.NoCause, []execution.Status{execution.Scheduled}},
	}
	var rs []store.Reclaim
	for i, it := range c.items {
		g := pick(c.a, causes...)
		key, _ := p.chooseRow(it, g.statuses...)
		rs = append(rs, store.Reclaim{
			Key: key, Cause: g.cause, Age: pickAge(c.b), Reason: pickReason(it.a), Result: pickResult(it.worker), Delay: pickDelay(it.b, i),
			By:     pick(it.row, execution.Reconciler, execution.TimeoutMonitor, execution.DeadLetterHandler, execution.Scheduler, execution.Worker, execution.API, execution.NoPart),
			Policy: pick(it.worker, config.Reschedule, config.Reschedule, config.Fail), MaxDispatches: it.b % 4, Counts: it.a%2 == 0,
			To: pick(it.a, execution.Abandoned, execution.Failed, execution.Timeout, execution.Completed, execution.None, execution.Running, execution.Requested),
		})
	}
	outcomes, err := p.Store.Reclaim(p.ctx, rs)
	p.recordLine("Reclaim: %s", errorKind(err))
	for i, o := range outcomes {
		r := &rs[i]
		p.recordLine("  %s ground %d age %v by %v %v policy %v at most %d counts %v after %v to %v: %s", p.keyText(r.Key), r.Cause, r.Age, r.By, r.Reason,
			r.Policy, r.MaxDispatches, r.Counts, r.Delay, r.To, p.outcomeText(o))
	}
}

func (p *player) orchestrateRows(c command) {
	var os []store.Orchestration
	for i, it := range c.items {
		key, e := p.chooseRow(it, execution.Completed, execution.Failed, execution.Timeout, execution.Abandoned, execution.Cancelled)
		o := store.Orchestration{ID: key.ID}
		if it.a%3 != 0 {
			o.Retry = &store.Retry{Count: e.RetryCount + pick(it.b, 1, 1, 1, 0, -1), Reason: pickReason(it.a), Delay: pickDelay(it.worker, i), Free: pick(it.a+it.b, 0, 0, 1, 2)}
		}
		os = append(os, o)
		if o.Retry != nil && p.parents[p.chainOf(key.ID)] {
			// The stores may number its retry differently, and the order of equal rows depends on numbers, so
			// it is the only item.
			os = os[len(os)-1:]
			break
		}
	}
	done, err := p.Store.Orchestrate(p.ctx, os)
	p.recordLine("Orchestrate: %s", errorKind(err))
	for i, o := range done {
		p.numberRow(o.Retry)
		p.recordLine("  %s retry %+v: applied %v, %s, children %v", p.idText(os[i].ID), os[i].Retry, o.Applied, p.idText(o.Retry), o.Children)
	}
}
