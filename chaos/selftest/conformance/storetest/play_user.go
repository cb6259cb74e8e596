package storetest

import (
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func (p *player) asUser(c command) {
	it := c.items[0]
	switch c.op {
	case opCancel:
		// One chain a call: the order in which two chains of one call are cancelled is open.
		key, _ := p.about(it, execution.Running, execution.Requested, execution.Scheduled, execution.Failed)
		answers, err := p.Store.Cancel(p.ctx, []execution.ID{key.ID}, pick(c.a, "", "ci", "ops"))
		p.saw("Cancel %s: %s", p.id(key.ID), failed(err))
		for _, a := range answers {
			p.saw("  %s", p.outcome(a.Outcome))
		}
	case opChain:
		key, _ := p.about(it)
		rows, err := p.Store.Chain(p.ctx, key.ID)
		p.saw("Chain of %s: %s [%s]", p.id(key.ID), failed(err), p.listedKeys(rows))
	case opList:
		q := store.ExecutionQuery{
			Status: pick(c.a, execution.None, execution.Running, execution.Requested, execution.Cancelled), ActionRef: pick(c.b, "", "shell.echo", "no.such"),
			Limit: pick(it.a, 50, 50, 0, -1),
		}
		rows, err := p.Store.List(p.ctx, q)
		var ids []execution.ID
		for i := range rows {
			ids = append(ids, rows[i].ID)
		}
		p.saw("List %v %q at most %d: %s %s", q.Status, q.ActionRef, q.Limit, failed(err), p.listed(ids))
	case opForgetKeys:
		old, most := pick(c.a, time.Duration(0), 5*time.Second, time.Minute), pick(c.b, 50, 1, 0)
		n, err := p.Store.ForgetKeys(p.ctx, old, most)
		p.saw("ForgetKeys of age %v, at most %d: %s %d", old, most, failed(err), n)
	case opFreeSlots:
		freed, err := p.Store.FreeSlots(p.ctx, pick(c.a, 50, 1, 0))
		p.saw("FreeSlots: %s %s", failed(err), p.listed(freed))
	case opActions:
		q := store.ActionQuery{After: pick(c.a, "", "python", "shell.echo", "\u00fc"), Ref: pick(c.b, "", "", "shell.echo", "no.such"), Limit: pick(it.a, 50, 1, 0, -1)}
		actions, err := p.Store.Actions(p.ctx, q)
		p.saw("Actions after %q, %q, at most %d: %s %+v", q.After, q.Ref, q.Limit, failed(err), actions)
	case opClock:
		now, err := p.Store.Clock(p.ctx)
		p.saw("Clock: %s %s", failed(err), p.moment(now))
	case opSetCordon:
		w := p.incarnationOf(c.a, store.WorkerKey{})
		order := store.Cordon{Worker: w.ID, On: it.a%3 > 0, Reason: pick(c.b, "why", "", "w\x00"), Drain: it.b%5 == 0, Actor: pick(c.b, "", "ops")}
		found, err := p.Store.SetCordon(p.ctx, order)
		p.saw("SetCordon of %s %v %q drain %v: %s %v", p.worker(w.ID), order.On, order.Reason, order.Drain, failed(err), found)
	}
}
