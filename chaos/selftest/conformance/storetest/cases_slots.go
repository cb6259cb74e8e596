package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// limitConcurrency gives the shell action a concurrency limit.
func (fi *fixture) limitConcurrency(limit int) {
	fi.t.Helper()
	a := Actions()[0]
	a.Concurrency = limit
	fi.must(fi.Store.PutActions(fi.ctx, []execution.Action{a}))
}

// claimAll claims all due rows of the shell runtime.
func (fi *fixture) claimAll() []execution.ID {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{
		Executor: "executor", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 10}},
	})
	fi.must(err)
	var ids []execution.ID
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return ids
}

func slotCases() []Case {
	return []Case{
		{"no more are claimed than their action has slots, and others pass by", func(b *fixture) {
			b.limitConcurrency(2)
			ids := b.createExecutions("shell.echo", 3)
			free := execution.Action{Ref: "shell.free", Runtime: "shell", Entrypoint: "free", Timeout: RunTimeout}
			b.must(b.Store.PutActions(b.ctx, []execution.Action{free}))
			other := b.createExecutions("shell.free", 1)[0]
			b.expect("the action's limit", b.readRow(ids[0]).Action.Concurrency, 2)
			b.expect("claimed", idList(b.claimAll()...), idList(ids[0], ids[1], other))
			b.expect("claimed again", idList(b.claimAll()...), idList())
		}},
		{"the survey counts the slots that are held, also of an action whose limit was lifted since", func(b *fixture) {
			held := func() string {
				found, err := b.Store.Survey(b.ctx)
				b.must(err)
				return fmt.Sprint(found.Slots)
			}
			b.expect("without a limit", held(), "[]")
			b.limitConcurrency(2)
			b.must(b.Store.PutActions(b.ctx, []execution.Action{{Ref: "a.limited", Runtime: "a", Entrypoint: "e", Concurrency: 1}}))
			b.expect("with nothing to do", held(), "[{a.limited 0} {shell.echo 0}]")
			b.createExecutions("shell.echo", 3)
			b.claimAll()
			b.expect("when some are claimed", held(), "[{a.limited 0} {shell.echo 2}]")
			b.limitConcurrency(0)
			b.expect("when the limit is lifted", held(), "[{a.limited 0} {shell.echo 2}]")
		}},
		{"the demand bounds the rows that take slots", func(b *fixture) {
			b.limitConcurrency(3)
			b.createExecutions("shell.echo", 3)
			b.claimDueRow("e")
			b.expect("claimed afterwards", len(b.claimAll()), 2)
		}},
		{"a slot is kept until the end is handled", func(b *fixture) {
			b.limitConcurrency(1)
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			next := b.createExecutions("shell.echo", 1)[0]
			b.expect("while it runs", idList(b.claimAll()...), idList())
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.expect("when it has ended", idList(b.claimAll()...), idList())
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.expect("when its end was handled", idList(b.claimAll()...), idList(next))
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.createExecutions("shell.echo", 1)
			b.expect("when it is handled again", idList(b.claimAll()...), idList())
		}},
		{"a requeued execution releases its slot", func(b *fixture) {
			b.limitConcurrency(1)
			w := b.activeWorker("w")
			id := b.createExecutions("shell.echo", 1)[0]
			row := b.claimDueRow("executor")
			_, err := b.Store.Park(b.ctx, "executor", []store.Park{{Key: row.Key(), Delay: time.Hour}})
			b.must(err)
			key := b.scheduledExecution(w)
			b.expect("another one was scheduled", key.ID != id, true)
			b.expect("taken back", b.reclaimRow(unclaimedReclaim(key, store.DeadLettered, 0)).Row.Status, execution.Requested)
			b.expect("claimed again", idList(b.claimAll()...), idList(key.ID))
			b.Advance(16 * time.Second)
			b.reclaimRow(unclaimedReclaim(execution.Key{ID: key.ID, Epoch: key.Epoch + 1}, store.ClaimExpired, 0))
			again := b.claimAll()
			b.expect("claimed after its claim has expired", idList(again...), idList(key.ID))
			d, err := b.Store.Dispatch(b.ctx, "executor", []store.Dispatch{{Key: execution.Key{ID: key.ID, Epoch: key.Epoch + 2}, Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			b.expect("dispatched", d[0].Applied, true)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			_, err = b.Store.Release(b.ctx, w)
			b.must(err)
			b.expect("claimed after its release", idList(b.claimAll()...), idList(key.ID))
		}},
		{"a cancelled execution releases its slot when its end is handled", func(b *fixture) {
			b.limitConcurrency(1)
			ids := b.createExecutions("shell.echo", 2)
			b.claimAll()
			b.cancelExecution(ids[0])
			b.expect("before", idList(b.claimAll()...), idList())
			b.orchestrateEnd(ids[0], 0, noRetry)
			b.expect("after", idList(b.claimAll()...), idList(ids[1]))
			freed, err := b.Store.FreeSlots(b.ctx, 10)
			b.must(err)
			b.expect("slots that nobody may hold", idList(freed...), idList())
		}},
		{"a limit can be raised, and lowered below the number of held slots", func(b *fixture) {
			b.limitConcurrency(1)
			ids := b.createExecutions("shell.echo", 4)
			b.claimAll()
			b.limitConcurrency(3)
			b.expect("after it was raised", idList(b.claimAll()...), idList(ids[1], ids[2]))
			b.limitConcurrency(1)
			for _, id := range ids[:2] {
				b.cancelExecution(id)
				b.orchestrateEnd(id, 0, noRetry)
			}
			b.expect("the first slot is free again", idList(b.claimAll()...), idList(ids[3]))
			b.createExecutions("shell.echo", 1)
			b.expect("no other is given out", fmt.Sprint(len(b.claimAll())), "0")
		}},
		{"free slots above a lowered limit take no place of rows that need none", func(b *fixture) {
			b.limitConcurrency(2)
			ids := b.createExecutions("shell.echo", 2)
			free := execution.Action{Ref: "shell.free", Runtime: "shell", Entrypoint: "free", Timeout: RunTimeout}
			b.must(b.Store.PutActions(b.ctx, []execution.Action{free}))
			other := b.createExecutions("shell.free", 1)[0]
			b.limitConcurrency(1)
			b.expect("claimed with room for two", b.claimedIn([]int{2}, shellDemand(5)), idList(ids[0], other))
		}},
		{"executions created under a limit continue without slots when the limit is removed", func(b *fixture) {
			b.limitConcurrency(1)
			ids := b.createExecutions("shell.echo", 4)
			b.expect("under the limit", idList(b.claimAll()...), idList(ids[0]))
			b.limitConcurrency(0)
			b.expect("bounded by the demand", idList(b.claimDueRow("e").ID), idList(ids[1]))
			b.expect("all others", idList(b.claimAll()...), idList(ids[2], ids[3]))
			for _, id := range ids[:2] {
				b.cancelExecution(id)
				b.orchestrateEnd(id, 0, noRetry)
			}
			b.limitConcurrency(1)
			late := b.createExecutions("shell.echo", 2)
			b.expect("under a new limit", idList(b.claimAll()...), idList(late[0]))
		}},
		{"of the slots of an action only those that were left behind are freed, so many at a time", func(b *fixture) {
			b.limitConcurrency(4)
			w := b.activeWorker("w")
			var keys []execution.Key
			for range 4 {
				keys = append(keys, b.runningExecution(w))
			}
			next := b.createExecutions("shell.echo", 3)
			for _, key := range keys[1:3] {
				b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
				b.LeaveSlot(key.ID)
			}
			b.Advance(time.Minute)
			b.Advance(tick)
			b.expect("before", idList(b.claimAll()...), idList())
			free := func() string {
				freed, err := b.Store.FreeSlots(b.ctx, 1)
				b.must(err)
				return idList(freed...)
			}
			b.expect("freed first", free(), idList(keys[1].ID))
			b.expect("freed then", free(), idList(keys[2].ID))
			b.expect("freed at last", free(), idList())
			b.expect("claimed", idList(b.claimAll()...), idList(next[0], next[1]))
		}},
		{"a slot that a requested row has is freed", func(b *fixture) {
			b.limitConcurrency(2)
			ids := b.createExecutions("shell.echo", 2)
			b.TakeSlot(ids[1])
			b.expect("the first", idList(b.claimAll()...), idList(ids[0]))
			b.Advance(time.Minute)
			b.Advance(tick)
			freed, err := b.Store.FreeSlots(b.ctx, 10)
			b.must(err)
			b.expect("freed", idList(freed...), idList(ids[1]))
			b.expect("the other", idList(b.claimAll()...), idList(ids[1]))
		}},
		{"an idempotent look finds no slot to free", func(b *fixture) {
			b.limitConcurrency(2)
			b.runningExecution(b.activeWorker("w"))
			b.Advance(time.Hour)
			freed, err := b.Store.FreeSlots(b.ctx, 10)
			b.must(err)
			b.expect("freed", idList(freed...), idList())
		}},
	}
}
