package storetest

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// dispatchDirectly dispatches due rows of the shell runtime to places, each with a limit for its worker.
func (fi *fixture) dispatchDirectly(limit int, places ...store.WorkerKey) store.DueDispatched {
	fi.t.Helper()
	return fi.dispatchOffers(newOffer([]string{"shell"}, limit, places...))
}

func (fi *fixture) dispatchOffers(offers ...store.Offer) store.DueDispatched {
	fi.t.Helper()
	answer, err := fi.Store.DispatchDue(fi.ctx, store.DueDispatch{
		Executor: "e", Expiry: 15 * time.Second, Timeout: DispatchTimeout, Offers: offers,
	})
	fi.must(err)
	return answer
}

func newOffer(runtimes []string, limit int, places ...store.WorkerKey) store.Offer {
	o := store.Offer{Runtimes: runtimes}
	for _, w := range places {
		o.Spread = append(o.Spread, store.Place{Worker: w, Limit: limit})
	}
	o.Packed = o.Spread
	return o
}

// dispatchSummary shows the answer of a step: each dispatched row with its worker, and the flags.
func dispatchSummary(d store.DueDispatched) string {
	text := ""
	for i := range d.Rows {
		text += fmt.Sprintf("%d→%d ", d.Rows[i].ID, d.Rows[i].Worker)
	}
	return fmt.Sprintf("%sfull %v unfit %d others %v", text, d.Full, d.Unfit, d.Others)
}

func directCases() []Case {
	return []Case{
		{"one step claims and dispatches due rows, oldest first, at one moment", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			ids := b.createExecutions("shell.echo", 3)
			got := b.dispatchDirectly(5, v, w)
			b.expect("the answer", dispatchSummary(got), fmt.Sprintf("%d→%d %d→%d full true unfit 0 others false", ids[0], v.ID, ids[1], w.ID))
			row := b.readRow(ids[0])
			b.expect("status, epoch", fmt.Sprint(row.Status, row.Epoch), "scheduled 1")
			b.expect("the owner", store.WorkerKey{ID: row.Worker, Incarnation: row.Incarnation}, v)
			b.expect("who claimed it", row.SchedulingBy, "e")
			b.expect("claimed and dispatched at one moment", row.SchedulingAt.Equal(row.ScheduledAt), true)
			b.expect("the claim's expiry", row.SchedulingExpiresAt.Sub(row.SchedulingAt), 15*time.Second)
			b.expect("the dispatch deadline", row.DispatchDeadline.Sub(row.ScheduledAt), DispatchTimeout)
			b.expect("loads", fmt.Sprint(b.readWorker(w).Load, b.readWorker(v).Load), "1 1")
			b.expect("the last one", b.readRow(ids[2]).Status, execution.Requested)
			b.expect("it is what the answer says", got.Rows[0].Key(), row.Key())
			b.expect("its claim by its worker", b.claimDispatch(v, row.Key()).Applied, true)
			b.expect("the rest", dispatchSummary(b.dispatchDirectly(5, w, w)), fmt.Sprintf("%d→%d full false unfit 0 others false", ids[2], w.ID))
			b.expect("then nothing", dispatchSummary(b.dispatchDirectly(5, w, w)), "full false unfit 0 others false")
		}},
		{"a row dispatched in one step has its action's dispatch timeout", func(b *fixture) {
			w := b.activeWorker("w")
			id := b.createExecutions("python.run", 1)[0]
			b.dispatchOffers(newOffer([]string{"python"}, 5, w))
			row := b.readRow(id)
			b.expect("the dispatch deadline", row.DispatchDeadline.Sub(row.ScheduledAt), 5*time.Second)
		}},
		{"runtimes of one offer share its places, oldest first, and each offer has its own", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			first, second, third := b.createExecutions("shell.echo", 1)[0], b.createExecutions("python.run", 1)[0], b.createExecutions("node.run", 1)[0]
			b.createExecutions("shell.echo", 1)
			got := b.dispatchOffers(newOffer([]string{"python", "shell"}, 5, w, w), newOffer([]string{"node"}, 5, v, v))
			b.expect("the answer", dispatchSummary(got), fmt.Sprintf("%d→%d %d→%d %d→%d full true unfit 0 others false", first, w.ID, second, w.ID, third, v.ID))
		}},
		{"as many rows as places are packed", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			o := newOffer([]string{"shell"}, 5, w, v)
			o.Packed = newOffer(nil, 5, v, v).Spread
			one := b.createExecutions("shell.echo", 1)[0]
			b.expect("fewer", dispatchSummary(b.dispatchOffers(o)), fmt.Sprintf("%d→%d full false unfit 0 others false", one, w.ID))
			ids := b.createExecutions("shell.echo", 2)
			b.expect("as many", dispatchSummary(b.dispatchOffers(o)), fmt.Sprintf("%d→%d %d→%d full true unfit 0 others false", ids[0], v.ID, ids[1], v.ID))
		}},
		{"one step gives a worker that is gone, draining, deaf, cordoned or without a lease nothing", func(b *fixture) {
			starting, deaf, draining, cordoned, stale := b.registerWorker("starting"), b.registerWorker("deaf"), b.activeWorker("draining"), b.activeWorker("cordoned"), b.activeWorker("stale")
			gone := b.activeWorker("gone")
			b.activeWorker("gone")
			b.must(b.Store.SetLifecycle(b.ctx, deaf, execution.Active))
			b.must(b.Store.SetLifecycle(b.ctx, draining, execution.Draining))
			b.setCordon(store.Cordon{Worker: cordoned.ID, On: true, Reason: "disk"})
			b.Advance(Lease)
			for _, w := range []store.WorkerKey{starting, deaf, draining, cordoned} {
				_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 5, Lease: Lease, ConsumerAlive: w != deaf})
				b.must(err)
			}
			id := b.createExecutions("shell.echo", 1)[0]
			b.Advance(tick)
			for name, w := range map[string]store.WorkerKey{
				"starting": starting, "deaf": deaf, "draining": draining, "cordoned": cordoned, "stale": stale, "gone": gone,
				"unknown": {ID: 99, Incarnation: 99},
			} {
				b.expect("a place at the "+name+" worker", dispatchSummary(b.dispatchDirectly(5, w)), "full true unfit 1 others false")
			}
			b.expect("the row", fmt.Sprint(b.readRow(id).Status, b.readRow(id).Epoch), "requested 0")
		}},
		{"one step fills a worker up to its limit and not beyond", func(b *fixture) {
			w := b.activeWorker("w")
			b.scheduledExecution(w)
			ids := b.createExecutions("shell.echo", 3)
			b.expect("the answer", dispatchSummary(b.dispatchDirectly(2, w, w, w)), fmt.Sprintf("%d→%d full true unfit 2 others false", ids[0], w.ID))
			b.expect("the load", b.readWorker(w).Load, 2)
			b.expect("without a limit", dispatchSummary(b.dispatchDirectly(0, w, w)), fmt.Sprintf("%d→%d %d→%d full true unfit 0 others false", ids[1], w.ID, ids[2], w.ID))
		}},
		{"a row with a limit of concurrency takes two steps, and is not overtaken while it has a slot", func(b *fixture) {
			w := b.activeWorker("w")
			free := execution.Action{Ref: "shell.free", Runtime: "shell", Entrypoint: "free", Timeout: RunTimeout}
			b.must(b.Store.PutActions(b.ctx, []execution.Action{free}))
			b.limitConcurrency(1)
			before := b.createExecutions("shell.free", 1)[0]
			b.Advance(time.Second)
			b.createExecutions("shell.echo", 2)
			b.Advance(time.Second)
			after := b.createExecutions("shell.free", 1)[0]
			b.expect("while there is a slot", dispatchSummary(b.dispatchDirectly(5, w, w, w)), fmt.Sprintf("%d→%d full false unfit 0 others true", before, w.ID))
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{
				Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}, Pools: []int{1},
			})
			b.must(err)
			b.expect("the limit of what is claimed", rows[0].Action.Concurrency, 1)
			b.expect("when all slots are taken", dispatchSummary(b.dispatchDirectly(5, w, w, w)), fmt.Sprintf("%d→%d full false unfit 0 others true", after, w.ID))
		}},
		{"a pinned row takes two steps, and is not overtaken where its worker has a place", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			_, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Pinned: w.ID}})
			b.must(err)
			b.Advance(time.Second)
			id := b.createExecutions("shell.echo", 1)[0]
			b.expect("where its worker has a place", dispatchSummary(b.dispatchDirectly(5, w, v)), "full false unfit 0 others true")
			b.expect("where it has none", dispatchSummary(b.dispatchDirectly(5, v, v)), fmt.Sprintf("%d→%d full false unfit 0 others true", id, v.ID))
		}},
		{"a row that avoids a worker takes two steps, and is not overtaken", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			key := b.scheduledExecution(w)
			outcomes, err := b.Store.Reclaim(b.ctx, []store.Reclaim{{Key: key, Cause: store.Undeliverable, By: execution.Scheduler, Reason: execution.Unroutable, Policy: config.Reschedule}})
			b.must(err)
			b.expect("taken back", outcomes[0].Row.Status, execution.Requested)
			b.Advance(time.Second)
			b.createExecutions("shell.echo", 1)
			b.expect("the answer", dispatchSummary(b.dispatchDirectly(5, v, v, v)), "full false unfit 0 others true")
			b.expect("what is claimed", len(b.claimAll()), 2)
		}},
		{"a row that is not due waits, and holds up no other", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			_, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: row.Key(), Delay: time.Minute}})
			b.must(err)
			b.expect("before it is due", dispatchSummary(b.dispatchDirectly(5, w)), "full false unfit 0 others false")
			b.Advance(time.Minute)
			b.expect("when it is due", dispatchSummary(b.dispatchDirectly(5, w)), fmt.Sprintf("%d→%d full true unfit 0 others false", row.ID, w.ID))
			b.expect("the epoch", b.readRow(row.ID).Epoch, row.Epoch+2)
		}},
		{"a row that another executor has claimed is left to it", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("f")
			b.expect("the answer", dispatchSummary(b.dispatchDirectly(5, w)), "full false unfit 0 others false")
			results, err := b.Store.Dispatch(b.ctx, "f", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: time.Minute}})
			b.must(err)
			b.expect("the dispatch of who has it", results[0].Applied, true)
		}},
		{"rows of a runtime that is not offered are reported, those without a place are not", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("node.run", 1)
			b.expect("not offered", dispatchSummary(b.dispatchDirectly(5, w)), "full false unfit 0 others true")
			b.expect("no place", dispatchSummary(b.dispatchOffers(newOffer([]string{"shell"}, 5, w), newOffer([]string{"node"}, 5))), "full false unfit 0 others false")
		}},
	}
}
