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
		key, _ := p.chooseRow(it, execution.Running, execution.Requested, execution.Scheduled, execution.Failed)
		answers, err := p.Store.Cancel(p.ctx, []execution.ID{key.ID}, pick(c.a, "", "ci", "ops"))
		p.recordLine("Cancel %s: %s", p.idText(key.ID), errorKind(err))
		for _, a := range answers {
			p.recordLine("  %s", p.outcomeText(a.Outcome))
		}
	case opChain:
		key, _ := p.chooseRow(it)
		rows, err := p.Store.Chain(p.ctx, key.ID)
		p.recordLine("Chain of %s: %s [%s]", p.idText(key.ID), errorKind(err), p.listedKeyTexts(rows))
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
		p.recordLine("List %v %q at most %d: %s %s", q.Status, q.ActionRef, q.Limit, errorKind(err), p.sortedIDs(ids))
	case opForgetKeys:
		old, most := pick(c.a, time.Duration(0), 5*time.Second, time.Minute), pick(c.b, 50, 1, 0)
		n, err := p.Store.ForgetKeys(p.ctx, old, most)
		p.recordLine("ForgetKeys of age %v, at most %d: %s %d", old, most, errorKind(err), n)
	case opFreeSlots:
		freed, err := p.Store.FreeSlots(p.ctx, pick(c.a, 50, 1, 0))
		p.recordLine("FreeSlots: %s %s", errorKind(err), p.sortedIDs(freed))
	case opActions:
		q := store.ActionQuery{After: pick(c.a, "", "python", "shell.echo", "\u00fc"), Ref: pick(c.b, "", "", "shell.echo", "no.such"), Limit: pick(it.a, 50, 1, 0, -1)}
		actions, err := p.Store.Actions(p.ctx, q)
		p.recordLine("Actions after %q, %q, at most %d: %s %+v", q.After, q.Ref, q.Limit, errorKind(err), actions)
	case opClock:
		now, err := p.Store.Clock(p.ctx)
		p.recordLine("Clock: %s %s", errorKind(err), p.momentText(now))
	case opSetCordon:
		w := p.chooseIncarnation(c.a, store.WorkerKey{})
		order := store.Cordon{Worker: w.ID, On: it.a%3 > 0, Reason: pick(c.b, "why", "", "w\x00"), Drain: it.b%5 == 0, Actor: pick(c.b, "", "ops")}
		found, err := p.Store.SetCordon(p.ctx, order)
		p.recordLine("SetCordon of %s %v %q drain %v: %s %v", p.workerText(w.ID), order.On, order.Reason, order.Drain, errorKind(err), found)
	}
}
