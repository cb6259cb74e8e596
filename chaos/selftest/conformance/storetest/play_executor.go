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
			key, e := p.about(it, execution.Scheduling)
			if executor == "" {
				executor = e.SchedulingBy
			}
			ds = append(ds, store.Dispatch{
				Key: key, Worker: p.incarnationOf(it.worker, p.fit(it.row)), Timeout: pick(it.a, DispatchTimeout, DispatchTimeout, 0, 1500*time.Nanosecond, -time.Second),
			})
		}
		results, err := p.Store.Dispatch(p.ctx, p.as(c, executor), ds)
		p.saw("Dispatch: %s", failed(err))
		for i, r := range results {
			p.saw("  %s unfit %v %s", p.key(ds[i].Key), r.WorkerUnfit, p.outcome(r.Outcome))
		}
	case opPark:
		p.park(c)
	case opMarkPublished:
		var keys []execution.Key
		for _, it := range c.items {
			key, _ := p.about(it, execution.Scheduled, execution.Running)
			keys = append(keys, key)
		}
		left, err := p.Store.MarkPublished(p.ctx, keys)
		p.saw("MarkPublished: %d left, %s", len(left), failed(err))
	case opReclaim:
		p.reclaim(c)
	case opReap:
		var rs []store.Reap
		for _, it := range c.items {
			w := p.incarnationOf(it.worker, store.WorkerKey{})
			rs = append(rs, store.Reap{WorkerKey: w, Beat: p.beatOf(w) + pick(it.a, uint64(0), 0, 0, 1)})
		}
		marked, err := p.Store.Reap(p.ctx, rs)
		p.saw("Reap: %s %v", failed(err), marked)
	case opSettle:
		p.settle(c)
	default:
		p.orchestrate(c)
	}
}

// settle mostly names chains whose children are to be settled.
func (p *player) settle(c command) {
	var chains []execution.ID
	for i := range p.rows {
		if c.a < 12 && !p.rows[i].SettlingAt.IsZero() && len(chains) < len(c.items) {
			chains = append(chains, p.rows[i].ID)
		}
	}
	for _, it := range c.items[len(chains):] {
		key, _ := p.about(it)
		chains = append(chains, key.ID)
	}
	most := pick(c.b, 1, 2, 50, 0, -1)
	settled, err := p.Store.SettleChildren(p.ctx, chains, most)
	p.saw("SettleChildren, at most %d: %s", most, failed(err))
	for i, s := range settled {
		p.saw("  of %s: started %s, skipped %s, more %v", p.id(chains[i]), p.listed(s.Started), p.listed(s.Skipped), s.More)
	}
}

// as is the calling executor: mostly the one that holds the row.
func (p *player) as(c command, holder string) string {
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
			Runtime: pick(it.row, "shell", "python", "node", "shell", "none"), Pinned: p.pin(it.worker + 4),
			Limit: pick(it.a, 2, 1, 3, 0, -1), Pool: pick(it.twist, 0, 0, 1, 2, -1),
		}
		claim.Demands = append(claim.Demands, d)
		demands += fmt.Sprintf(" %d %s for %s in pool %d", d.Limit, d.Runtime, p.worker(d.Pinned), d.Pool)
	}
	rows, err := p.Store.ClaimForScheduling(p.ctx, claim)
	p.saw("ClaimForScheduling by %s of%s with pools %v and %d others: %s [%s]", claim.Executor, demands, claim.Pools, claim.Others, failed(err), p.keys(rows))
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
			place := store.Place{Worker: p.incarnationOf(it.worker, p.fit(it.row)), Limit: pick(it.twist, 0, 2, 1, 100)}
			text += fmt.Sprintf(" %d:%s under %d", n, p.incarnation(place.Worker.Incarnation), place.Limit)
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
	p.saw("DispatchDue by %s of %v to%s: %s [%s] full %v unfit %d others %v", d.Executor, offers, text, failed(err), p.keys(answer.Rows), answer.Full, answer.Unfit, answer.Others)
}

func (p *player) park(c command) {
	var ps []store.Park
	executor := ""
	for i, it := range c.items {
		key, e := p.about(it, execution.Scheduling)
		if executor == "" {
			executor = e.SchedulingBy
		}
		ps = append(ps, store.Park{
			Key: key, Delay: delay(it.a, i), Unschedulable: it.b%3 != 0, Grace: pick(it.worker, 30*time.Second, 0, 5*time.Second),
			Patience: pick(it.b, 0, 10*time.Second, time.Second), Watched: pick(it.a, 0, 20*time.Second, 1500*time.Nanosecond, -time.Second),
			Seen: pick(it.a+it.b, 0, 2*time.Second, 10*time.Second, 1500*time.Nanosecond, -time.Second), Result: result(it.worker),
		})
	}
	outcomes, err := p.Store.Park(p.ctx, p.as(c, executor), ps)
	p.saw("Park: %s", failed(err))
	for i, o := range outcomes {
		p.saw("  %s after %v unschedulable %v grace %v patience %v watched %v seen %v: %s", p.key(ps[i].Key), ps[i].Delay, ps[i].Unschedulable, ps[i].Grace, ps[i].Patience,
			ps[i].Watched, ps[i].Seen, p.outcome(o))
	}
}

// claims are the causes with the statuses that they cover, as a part would use them.
type claims struct {
	cause    store.ReclaimCause
	statuses []execution.Status
}

func (p *player) reclaim(c command) {
	causes := []claims{
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
		key, _ := p.about(it, g.statuses...)
		rs = append(rs, store.Reclaim{
			Key: key, Cause: g.cause, Age: age(c.b), Reason: reason(it.a), Result: result(it.worker), Delay: delay(it.b, i),
			By:     pick(it.row, execution.Reconciler, execution.TimeoutMonitor, execution.DeadLetterHandler, execution.Scheduler, execution.Worker, execution.API, execution.NoPart),
			Policy: pick(it.worker, config.Reschedule, config.Reschedule, config.Fail), MaxDispatches: it.b % 4, Counts: it.a%2 == 0,
			To: pick(it.a, execution.Abandoned, execution.Failed, execution.Timeout, execution.Completed, execution.None, execution.Running, execution.Requested),
		})
	}
	outcomes, err := p.Store.Reclaim(p.ctx, rs)
	p.saw("Reclaim: %s", failed(err))
	for i, o := range outcomes {
		r := &rs[i]
		p.saw("  %s ground %d age %v by %v %v policy %v at most %d counts %v after %v to %v: %s", p.key(r.Key), r.Cause, r.Age, r.By, r.Reason,
			r.Policy, r.MaxDispatches, r.Counts, r.Delay, r.To, p.outcome(o))
	}
}

func (p *player) orchestrate(c command) {
	var os []store.Orchestration
	for i, it := range c.items {
		key, e := p.about(it, execution.Completed, execution.Failed, execution.Timeout, execution.Abandoned, execution.Cancelled)
		o := store.Orchestration{ID: key.ID}
		if it.a%3 != 0 {
			o.Retry = &store.Retry{Count: e.RetryCount + pick(it.b, 1, 1, 1, 0, -1), Reason: reason(it.a), Delay: delay(it.worker, i), Free: pick(it.a+it.b, 0, 0, 1, 2)}
		}
		os = append(os, o)
		if o.Retry != nil && p.parents[p.chainOf(key.ID)] {
			// The stores may number its retry differently, and the order of equal rows depends on
			// numbers, so it comes alone.
			os = os[len(os)-1:]
			break
		}
	}
	done, err := p.Store.Orchestrate(p.ctx, os)
	p.saw("Orchestrate: %s", failed(err))
	for i, o := range done {
		p.learn(o.Retry)
		p.saw("  %s retry %+v: applied %v, %s, children %v", p.id(os[i].ID), os[i].Retry, o.Applied, p.id(o.Retry), o.Children)
	}
}
