package storetest

import (
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// createPinned creates executions of an action that only one worker may run.
func (fi *fixture) createPinned(ref string, w store.WorkerKey, n int) []execution.ID {
	fi.t.Helper()
	items := make([]store.NewExecution, n)
	for i := range items {
		items[i] = store.NewExecution{ActionRef: ref, Pinned: w.ID}
	}
	created, err := fi.Store.Create(fi.ctx, items)
	fi.must(err)
	ids := make([]execution.ID, n)
	for i, c := range created {
		ids[i] = c.ID
	}
	return ids
}

// claimedIn claims for scheduling with pools.
func (fi *fixture) claimedIn(pools []int, demands ...store.Demand) string {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{Executor: "e", Expiry: DispatchTimeout, Demands: demands, Pools: pools})
	fi.must(err)
	var ids []execution.ID
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return idList(ids...)
}

func (fi *fixture) slotsHeld() string {
	fi.t.Helper()
	found, err := fi.Store.Survey(fi.ctx)
	fi.must(err)
	return fmt.Sprint(found.Slots)
}

func shellDemand(limit int) store.Demand { return store.Demand{Runtime: "shell", Limit: limit} }

func pinnedShellDemand(w store.WorkerKey, limit int) store.Demand {
	return store.Demand{Runtime: "shell", Pinned: w.ID, Limit: limit}
}

// laneCases are about rows of one runtime that wait for different workers.
func laneCases() []Case {
	return []Case{
		{"a pinned row is claimed for its worker, and no other demand gets it", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			ids := b.createPinned("shell.echo", w, 2)
			b.expect("unpinned, and for another worker", b.claimedFor(0, shellDemand(5), pinnedShellDemand(other, 5)), idList())
			b.expect("of another runtime", b.claimedFor(0, store.Demand{Runtime: "python", Pinned: w.ID, Limit: 5}), idList())
			b.expect("for its worker", b.claimedFor(0, pinnedShellDemand(w, 1)), idList(ids[0]))
			b.expect("the next one", b.claimedFor(0, pinnedShellDemand(w, 5)), idList(ids[1]))
		}},
		{"a demand for unpinned rows skips pinned rows", func(b *fixture) {
			w := b.activeWorker("w")
			b.createPinned("shell.echo", w, 3)
			free := b.createExecutions("shell.echo", 1)[0]
			b.expect("claimed", b.claimedFor(0, shellDemand(1)), idList(free))
		}},
		{"rows pinned to a full worker are not claimed, not even as others", func(b *fixture) {
			w := b.activeWorker("w")
			b.createPinned("shell.echo", w, 3)
			before := b.readRow(1)
			b.expect("claimed", b.claimedFor(10, shellDemand(5), pinnedShellDemand(w, 0)), idList())
			b.expect("claimed with a limit below zero", b.claimedFor(10, shellDemand(5), pinnedShellDemand(w, -1)), idList())
			b.expect("the epoch", b.readRow(1).Epoch, before.Epoch)
		}},
		{"rows pinned to a worker that is not named come with the others", func(b *fixture) {
			w, gone := b.activeWorker("w"), b.activeWorker("gone")
			b.createPinned("shell.echo", w, 1)
			lost := b.createPinned("shell.echo", gone, 2)
			b.expect("claimed", b.claimedFor(1, shellDemand(5), pinnedShellDemand(w, 0)), idList(lost[0]))
			b.expect("the next one", b.claimedFor(5, shellDemand(5), pinnedShellDemand(w, 0)), idList(lost[1]))
		}},
		{"rows pinned to a worker that lacks the runtime come with the others", func(b *fixture) {
			w := b.activeWorker("w")
			node := b.createPinned("node.run", w, 1)[0]
			b.expect("claimed, where another worker has the runtime", b.claimedFor(5, shellDemand(5), pinnedShellDemand(w, 5), store.Demand{Runtime: "node", Limit: 5}), idList(node))
		}},
		{"named rows come oldest first, whichever lane they are in, and the others after them", func(b *fixture) {
			w, gone := b.activeWorker("w"), b.activeWorker("gone")
			lost := b.createPinned("shell.echo", gone, 1)[0]
			b.Advance(tick)
			first := b.createExecutions("shell.echo", 1)[0]
			b.Advance(tick)
			second := b.createPinned("shell.echo", w, 1)[0]
			b.Advance(tick)
			third := b.createExecutions("python.run", 1)[0]
			b.Advance(tick)
			fourth := b.createExecutions("shell.echo", 1)[0]
			b.expect("the order", b.claimedFor(5, store.Demand{Runtime: "python", Limit: 5}, pinnedShellDemand(w, 5), shellDemand(5)), idList(first, second, third, fourth, lost))
		}},
		{"others come by runtime, then by the worker that they are pinned to", func(b *fixture) {
			w, v := b.activeWorker("w"), b.activeWorker("v")
			forV := b.createPinned("shell.echo", v, 1)[0]
			forW := b.createPinned("shell.echo", w, 2)
			free := b.createExecutions("shell.echo", 1)[0]
			node := b.createExecutions("node.run", 1)[0]
			b.expect("the first three", b.claimedFor(3), idList(node, free, forW[0]))
			b.expect("the rest", b.claimedFor(3), idList(forW[1], forV))
		}},
		{"a pool gets the oldest rows of all its lanes, and no more than its room", func(b *fixture) {
			w := b.activeWorker("w")
			var all []execution.ID
			for range 3 {
				all = append(all, b.createPinned("shell.echo", w, 1)[0], b.createExecutions("shell.echo", 1)[0])
				b.Advance(tick)
			}
			b.expect("with room for three", b.claimedIn([]int{3}, shellDemand(3), pinnedShellDemand(w, 3)), idList(all[:3]...))
			b.expect("with room for two", b.claimedIn([]int{2}, shellDemand(2), pinnedShellDemand(w, 2)), idList(all[3:5]...))
			b.expect("with room for none", b.claimedIn([]int{0}, shellDemand(2), pinnedShellDemand(w, 2)), idList())
			b.expect("without a bound", b.claimedIn(nil, shellDemand(2), pinnedShellDemand(w, 2)), idList(all[5]))
		}},
		{"a pool takes nothing from another one", func(b *fixture) {
			older, younger := b.createExecutions("shell.echo", 2), b.createExecutions("python.run", 2)
			python := store.Demand{Runtime: "python", Limit: 2, Pool: 1}
			b.expect("claimed", b.claimedIn([]int{1, 2}, shellDemand(2), python), idList(older[0], younger[0], younger[1]))
		}},
		{"rows pinned to one worker share its room, whatever their runtime", func(b *fixture) {
			w := b.activeWorker("w")
			first, second := b.createPinned("shell.echo", w, 2), b.createPinned("python.run", w, 2)
			python := store.Demand{Runtime: "python", Pinned: w.ID, Limit: 3}
			b.expect("with room for three", b.claimedFor(0, pinnedShellDemand(w, 3), python), idList(first[0], first[1], second[0]))
			b.expect("the rest", b.claimedFor(0, pinnedShellDemand(w, 3), python), idList(second[1]))
		}},
		{"a lane that is named twice gets both limits", func(b *fixture) {
			w := b.activeWorker("w")
			ids := b.createPinned("shell.echo", w, 4)
			b.expect("claimed", b.claimedFor(0, pinnedShellDemand(w, 1), pinnedShellDemand(w, 2)), idList(ids[:3]...))
		}},
		{"rows that wait for a full worker take no slot from rows that can be placed", func(b *fixture) {
			b.limitConcurrency(1)
			w := b.activeWorker("w")
			b.createPinned("shell.echo", w, 3)
			b.Advance(tick)
			free := b.createExecutions("shell.echo", 2)
			b.expect("claimed", b.claimedFor(5, shellDemand(5), pinnedShellDemand(w, 0)), idList(free[0]))
			b.expect("the slots that are held", b.slotsHeld(), "[{shell.echo 1}]")
		}},
		{"a slot goes to the oldest row of its action, in whichever lane", func(b *fixture) {
			b.limitConcurrency(2)
			w := b.activeWorker("w")
			first := b.createPinned("shell.echo", w, 1)[0]
			b.Advance(tick)
			second := b.createExecutions("shell.echo", 2)
			b.expect("claimed", b.claimedFor(0, shellDemand(5), pinnedShellDemand(w, 5)), idList(first, second[0]))
			b.expect("claimed without a free slot", b.claimedFor(0, shellDemand(5), pinnedShellDemand(w, 5)), idList())
			b.cancelExecution(second[0])
			b.orchestrateEnd(second[0], 0, noRetry)
			b.expect("claimed when one is free", b.claimedFor(0, shellDemand(5), pinnedShellDemand(w, 5)), idList(second[1]))
		}},
		{"others get only slots that named rows leave, however old they are", func(b *fixture) {
			b.limitConcurrency(2)
			gone := b.activeWorker("gone")
			lost := b.createPinned("shell.echo", gone, 3)
			b.Advance(tick)
			free := b.createExecutions("shell.echo", 1)[0]
			b.expect("claimed", b.claimedFor(5, shellDemand(5)), idList(free, lost[0]))
		}},
		{"named rows that need no slot leave others every free slot", func(b *fixture) {
			once := Actions()[2]
			once.Concurrency = 1
			b.must(b.Store.PutActions(b.ctx, []execution.Action{once}))
			free := b.createExecutions("shell.echo", 2)
			node := b.createExecutions("node.run", 1)[0]
			b.expect("claimed", b.claimedFor(5, shellDemand(5)), idList(free[0], free[1], node))
		}},
		{"of the others of an action whose runtime was changed, those of the first runtime get its slots", func(b *fixture) {
			changed := Actions()[2]
			changed.Concurrency = 1
			b.must(b.Store.PutActions(b.ctx, []execution.Action{changed}))
			node := b.createExecutions("node.run", 1)[0]
			changed.Runtime = "java"
			b.must(b.Store.PutActions(b.ctx, []execution.Action{changed}))
			b.Advance(tick)
			java := b.createExecutions("node.run", 1)[0]
			b.expect("claimed", b.claimedFor(5), idList(java))
			b.cancelExecution(java)
			b.orchestrateEnd(java, 0, noRetry)
			b.expect("claimed when the slot is free again", b.claimedFor(5), idList(node))
		}},
		{"a limit of the demand leaves slots free", func(b *fixture) {
			b.limitConcurrency(5)
			w := b.activeWorker("w")
			b.createPinned("shell.echo", w, 5)
			b.claimedFor(0, pinnedShellDemand(w, 2))
			b.expect("the slots that are held", b.slotsHeld(), "[{shell.echo 2}]")
			b.claimedIn([]int{1}, pinnedShellDemand(w, 2))
			b.expect("the slots that are held with a pool's bound", b.slotsHeld(), "[{shell.echo 3}]")
		}},
		{"pinned rows that were created under a limit need no slot when it is lifted", func(b *fixture) {
			b.limitConcurrency(1)
			w := b.activeWorker("w")
			ids := b.createPinned("shell.echo", w, 4)
			b.limitConcurrency(0)
			b.expect("claimed", b.claimedFor(0, pinnedShellDemand(w, 3)), idList(ids[:3]...))
			b.expect("as others", b.claimedFor(5), idList(ids[3]))
		}},
		{"a pinned row that is given back waits in its lane", func(b *fixture) {
			w := b.activeWorker("w")
			id := b.createPinned("shell.echo", w, 1)[0]
			b.claimedFor(0, pinnedShellDemand(w, 1))
			out, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: execution.Key{ID: id}}})
			b.must(err)
			b.expect("applied", out[0].Applied, true)
			b.expect("unpinned", b.claimedFor(0, shellDemand(5)), idList())
			b.expect("for its worker", b.claimedFor(0, pinnedShellDemand(w, 5)), idList(id))
		}},
	}
}
