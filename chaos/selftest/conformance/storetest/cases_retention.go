package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// keptFor is the retention of everything in the cases.
const keptFor = time.Hour

// purgeStep makes one step that begins at the first row.
func (fi *fixture) purgeStep(what store.Kept, limit int) store.Purged {
	fi.t.Helper()
	done, err := fi.Store.Purge(fi.ctx, store.Purge{What: what, Age: keptFor, Limit: limit})
	fi.must(err)
	return done
}

// purgeAll returns the number of rows that one unbounded step removes.
func (fi *fixture) purgeAll(what store.Kept) int {
	fi.t.Helper()
	return fi.purgeStep(what, enough).Removed
}

// remainingRows lists which of the executions still exist.
func (fi *fixture) remainingRows(ids ...execution.ID) string {
	fi.t.Helper()
	rows, err := fi.Store.Executions(fi.ctx, ids)
	fi.must(err)
	var found []execution.ID
	for i := range rows {
		found = append(found, rows[i].ID)
	}
	return idList(found...)
}

// renewLease renews a lease.
func (fi *fixture) renewLease(w store.WorkerKey, number uint64) {
	fi.t.Helper()
	_, err := fi.Store.Heartbeat(fi.ctx, store.Beat{WorkerKey: w, Number: number, Lease: Lease, ConsumerAlive: true})
	fi.must(err)
}

func retentionCases() []Case {
	return append(executionRetentionCases(), []Case{
		{"refused results leave from their age on, the oldest first, in batches", func(b *fixture) {
			w := b.activeWorker("w")
			for range 2 {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
				b.Advance(time.Second)
			}
			b.Advance(keptFor - 2*time.Second - tick)
			b.expect("before", b.purgeAll(store.KeptRefusedResults), 0)
			b.Advance(tick)
			b.expect("at the age of the first", fmt.Sprint(b.purgeStep(store.KeptRefusedResults, 1), b.purgeStep(store.KeptRefusedResults, 1)),
				fmt.Sprint(store.Purged{Removed: 1, More: true}, store.Purged{}))
			b.Advance(time.Second)
			b.expect("at the age of the second", b.purgeAll(store.KeptRefusedResults), 1)
		}},
		{"refused results leave by their own age, after a step of the clock back, too", func(b *fixture) {
			w := b.activeWorker("w")
			keep := func() {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
			}
			keep()
			b.Advance(-time.Minute)
			keep()
			b.Advance(keptFor)
			b.expect("at the age of the second", b.purgeAll(store.KeptRefusedResults), 1)
			b.Advance(time.Minute)
			b.expect("at the age of the first", b.purgeAll(store.KeptRefusedResults), 1)
		}},
		{"expiries leave from their age on, after a step of the clock back, too", func(b *fixture) {
			w := b.activeWorker("w")
			blame := func() {
				r := unclaimedReclaim(b.scheduledExecution(w), store.Unclaimed, time.Second)
				b.Advance(DispatchTimeout)
				r.Counts = true
				b.expect("taken back", b.reclaimRow(r).Applied, true)
			}
			blame()
			b.Advance(-time.Minute)
			blame()
			b.expect("the latest first", fmt.Sprint(b.readWorker(w).Expired), fmt.Sprint([]time.Duration{DispatchTimeout - time.Minute, 0}))
			b.Advance(keptFor)
			b.expect("at the age of the second", b.purgeAll(store.KeptExpiries), 1)
			b.Advance(time.Minute - DispatchTimeout)
			b.expect("at the age of the first", b.purgeAll(store.KeptExpiries), 1)
		}},
		{"expiries leave from their age on", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			b.Advance(DispatchTimeout)
			r := unclaimedReclaim(key, store.Unclaimed, time.Second)
			r.Counts = true
			b.expect("taken back", b.reclaimRow(r).Applied, true)
			b.Advance(keptFor - tick)
			b.expect("before", b.purgeAll(store.KeptExpiries), 0)
			b.expect("held against the worker", len(b.readWorker(w).Expired), 1)
			b.Advance(tick)
			b.expect("at its age", b.purgeAll(store.KeptExpiries), 1)
			b.expect("held against it then", len(b.readWorker(w).Expired), 0)
		}},
		{"an incarnation leaves when its lease is long over, and it is gone, not the latest, and holds nothing", func(b *fixture) {
			first := b.activeWorker("w")
			key := b.runningExecution(first)
			second := b.activeWorker("w")
			b.must(b.Store.SetLifecycle(b.ctx, second, execution.Stopped))
			third := b.activeWorker("w")
			b.Advance(Lease + keptFor - tick)
			b.expect("before", b.purgeAll(store.KeptIncarnations), 0)
			b.Advance(tick)
			b.expect("at its age", b.purgeAll(store.KeptIncarnations), 1)
			b.expect("the owner of a run that goes on is found", idList(b.findRows(store.Finding{Cause: store.OwnerGone})...), idList(key.ID))
			reclaim := store.Reclaim{
				Key: key, Cause: store.OwnerGone, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
				Result: execution.Result{Error: "lost", FailedBy: execution.Reconciler},
			}
			b.expect("the run is taken back", b.reclaimRow(reclaim).Applied, true)
			b.expect("then it leaves", b.purgeAll(store.KeptIncarnations), 1)
			b.expect("the latest, which is active, stays", b.readWorker(third).Lifecycle, execution.Active)
			b.expectError("a heartbeat of one that has left", heartbeatError(b, first), store.ErrLost)
		}},
		{"a worker leaves with its latest incarnation, and comes back as another one", func(b *fixture) {
			old := b.activeWorker("old")
			b.activeWorker("w")
			b.must(b.Store.SetLifecycle(b.ctx, old, execution.Stopped))
			w := b.activeWorker("w")
			b.stopWorker(w)
			live := b.activeWorker("live")
			cordoned := b.activeWorker("cordoned")
			_, err := b.Store.SetCordon(b.ctx, store.Cordon{Worker: cordoned.ID, On: true, Reason: "broken"})
			b.must(err)
			b.stopWorker(cordoned)
			b.Advance(Lease + keptFor - tick)
			b.renewLease(live, 2)
			b.expect("before", b.purgeAll(store.KeptWorkers), 0)
			b.Advance(tick)
			b.expect("at their age, while the queues of one may be there, and the other has an older incarnation", b.purgeAll(store.KeptWorkers), 0)
			b.queuesGone(old)
			b.expect("when its queues are gone", b.purgeAll(store.KeptWorkers), 1)
			b.expect("the incarnation", b.purgeAll(store.KeptIncarnations), 1)
			b.expect("then the worker", b.purgeAll(store.KeptWorkers), 1)
			rows, err := b.Store.FindWorkers(b.ctx, store.WorkerQuery{Limit: 10})
			b.must(err)
			var names []string
			for i := range rows {
				names = append(names, rows[i].Name)
			}
			b.expect("left", fmt.Sprint(names), "[live cordoned]")
			newest, err := b.Store.Newest(b.ctx, "w")
			b.must(err)
			b.expect("the latest incarnation of a name that has left", newest, execution.Incarnation(0))
			again := b.activeWorker("w")
			b.expect("another worker, with a greater number", again.ID > live.ID && again.Incarnation > w.Incarnation, true)
			b.expect("it can be found", b.readWorker(again).Name, "w")
		}},
		{"a worker stays while an execution waits for it alone", func(b *fixture) {
			w := b.activeWorker("w")
			b.stopWorker(w)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Pinned: w.ID}})
			b.must(err)
			b.Advance(Lease + keptFor)
			b.expect("while it waits", b.purgeAll(store.KeptWorkers), 0)
			b.cancelExecution(created[0].ID)
			b.expect("after its end", b.purgeAll(store.KeptWorkers), 1)
		}},
		{"a purge of workers and incarnations continues where it stopped, and restarts at the end", func(b *fixture) {
			for _, name := range []string{"a", "b", "c"} {
				b.activeWorker(name)
			}
			first := b.purgeStep(store.KeptWorkers, 2)
			b.expect("a full step", fmt.Sprint(first.Removed, first.More, first.Next != 0), "0 true true")
			rest, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptWorkers, Age: keptFor, After: first.Next, Limit: 2})
			b.must(err)
			b.expect("the rest", fmt.Sprint(rest), fmt.Sprint(store.Purged{}))
		}},
	}...)
}

// heartbeatError returns the error of a heartbeat.
func heartbeatError(b *fixture, w store.WorkerKey) error {
	_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 9, Lease: Lease})
	return err
}

func executionRetentionCases() []Case {
	return []Case{
		{"a chain leaves as a whole, when its last row ended long enough ago and is handled", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			b.Advance(keptFor)
			b.expect("while its end is not handled", b.purgeAll(store.KeptExecutions), 0)
			retry := b.orchestrateEnd(key.ID, 1, 0).Retry
			b.expect("while the retry waits", b.purgeAll(store.KeptExecutions), 0)
			b.Advance(time.Second)
			b.cancelExecution(retry)
			b.orchestrateEnd(retry, 0, noRetry)
			b.Advance(keptFor - tick)
			b.expect("before", b.purgeAll(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("at its age", b.purgeAll(store.KeptExecutions), 2)
			b.expect("left", b.remainingRows(key.ID, retry), idList())
			chain, err := b.Store.Chain(b.ctx, key.ID)
			b.must(err)
			b.expect("the chain", len(chain), 0)
			page, err := b.Store.List(b.ctx, store.ExecutionQuery{Limit: 10})
			b.must(err)
			b.expect("the list", len(page), 0)
			b.expect("a cancellation finds it gone", b.cancelExecution(key.ID).Row.ID, execution.ID(0))
		}},
		{"a live chain stays, however old it is", func(b *fixture) {
			w := b.activeWorker("w")
			running, scheduled, waits := b.runningExecution(w).ID, b.scheduledExecution(w).ID, b.createExecutions("shell.echo", 1)[0]
			b.Advance(2 * keptFor)
			b.expect("removed", b.purgeAll(store.KeptExecutions), 0)
			b.expect("left", b.remainingRows(running, scheduled, waits), idList(running, scheduled, waits))
		}},
		{"a parent stays as long as its children, and they leave first", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			child := b.createChild(key.ID, "").ID
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.settleChildren(key.ID, enough)
			b.Advance(2 * keptFor)
			b.expect("while the child waits for a worker", b.purgeAll(store.KeptExecutions), 0)
			b.cancelExecution(child)
			b.orchestrateEnd(child, 0, noRetry)
			b.Advance(keptFor - tick)
			b.expect("before the age of the child", b.purgeAll(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("the child", b.purgeAll(store.KeptExecutions), 1)
			b.expect("left", b.remainingRows(key.ID, child), idList(key.ID))
			b.expect("then the parent", b.purgeAll(store.KeptExecutions), 1)
		}},
		{"a child of a live parent stays", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			child := b.createChild(key.ID, "").ID
			b.cancelExecution(child)
			b.orchestrateEnd(child, 0, noRetry)
			b.Advance(2 * keptFor)
			b.expect("while the parent runs", b.purgeAll(store.KeptExecutions), 0)
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.settleChildren(key.ID, enough)
			b.Advance(keptFor - tick)
			b.expect("before the age of the parent", b.purgeAll(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("both, one after the other", fmt.Sprint(b.purgeAll(store.KeptExecutions), b.purgeAll(store.KeptExecutions)), "1 1")
		}},
		{"a parent stays while children are to be settled, and a child of one that has left is refused", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			child := b.createChild(key.ID, "").ID
			b.cancelExecution(child)
			b.orchestrateEnd(child, 0, noRetry)
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.Advance(keptFor)
			b.expect("the child", b.purgeAll(store.KeptExecutions), 1)
			b.expect("the parent, before its children are settled", b.purgeAll(store.KeptExecutions), 0)
			b.expect("settled", fmt.Sprint(b.settleChildren(key.ID, enough)), fmt.Sprint(store.Settled{}))
			b.expect("the parent", b.purgeAll(store.KeptExecutions), 1)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parent: key.ID}})
			b.must(err)
			b.expect("a new child", created[0], store.Created{UnknownParent: true})
		}},
		{"an execution stays as long as its idempotency key", func(b *fixture) {
			item := []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}}
			created, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.cancelExecution(created[0].ID)
			b.orchestrateEnd(created[0].ID, 0, noRetry)
			b.Advance(execution.KeyLifetime)
			b.expect("while the key leads to it", b.purgeAll(store.KeptExecutions), 0)
			_, err = b.Store.ForgetKeys(b.ctx, execution.KeyLifetime, enough)
			b.must(err)
			b.expect("afterwards", b.purgeAll(store.KeptExecutions), 1)
			again, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.expect("the key is free", again[0].Existed, false)
		}},
		{"a step reads no more rows than its limit, and the next one continues behind them", func(b *fixture) {
			w := b.activeWorker("w")
			stays := b.createExecutions("shell.echo", 2)
			var over []execution.ID
			for range 3 {
				ids := b.createExecutions("shell.echo", 1)
				b.cancelExecution(ids[0])
				b.orchestrateEnd(ids[0], 0, noRetry)
				over = append(over, ids[0])
			}
			b.Advance(keptFor)
			b.renewLease(w, 2)
			first := b.purgeStep(store.KeptExecutions, 2)
			b.expect("a step at the rows that stay", fmt.Sprint(first), fmt.Sprint(store.Purged{Next: int64(stays[1]), More: true, First: int64(stays[0])}))
			second, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: first.Next, Limit: 2})
			b.must(err)
			b.expect("the next one", fmt.Sprint(second), fmt.Sprint(store.Purged{Removed: 2, Next: int64(over[1]), More: true, First: int64(over[0])}))
			third, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: second.Next, Limit: 2})
			b.must(err)
			b.expect("the last one", fmt.Sprint(third), fmt.Sprint(store.Purged{Removed: 1, First: int64(over[2])}))
			b.expect("left", b.remainingRows(append(stays, over...)...), idList(stays...))
		}},
		{"a full step over executions that are all too young is the last one, and the next one begins anew", func(b *fixture) {
			ids := b.createExecutions("shell.echo", 2)
			b.Advance(keptFor - tick)
			b.expect("before their age", fmt.Sprint(b.purgeStep(store.KeptExecutions, 2)), fmt.Sprint(store.Purged{}))
			b.Advance(tick)
			b.expect("at their age", fmt.Sprint(b.purgeStep(store.KeptExecutions, 2)), fmt.Sprint(store.Purged{Next: int64(ids[1]), More: true, First: int64(ids[0])}))
		}},
		{"a step names the first execution that it has looked at once none can appear before it", func(b *fixture) {
			ids := b.createExecutions("shell.echo", 1)
			b.Advance(store.VisibleAfter - tick)
			b.expect("before", b.purgeStep(store.KeptExecutions, 2).First, int64(0))
			b.Advance(tick)
			b.createExecutions("shell.echo", 1)
			b.expect("from then on", b.purgeStep(store.KeptExecutions, 2).First, int64(ids[0]))
		}},
		{"a step takes as many chains as have together no more rows than its limit, but one at least", func(b *fixture) {
			w := b.activeWorker("w")
			for range 2 {
				key := b.failedExecution(w)
				retry := b.orchestrateEnd(key.ID, 1, 0).Retry
				b.cancelExecution(retry)
				b.orchestrateEnd(retry, 0, noRetry)
			}
			b.Advance(keptFor)
			first := b.purgeStep(store.KeptExecutions, 3)
			b.expect("the first chain", fmt.Sprint(first.Removed, first.More), "2 true")
			second, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: first.Next, Limit: 1})
			b.must(err)
			b.expect("the second chain, beyond a limit of one", second.Removed, 2)
		}},
		{"a dry run counts what a step would remove, and removes nothing", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			retry := b.orchestrateEnd(key.ID, 1, 0).Retry
			b.cancelExecution(retry)
			b.orchestrateEnd(retry, 0, noRetry)
			for range 2 {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
				r := unclaimedReclaim(b.scheduledExecution(w), store.Unclaimed, time.Second)
				b.Advance(DispatchTimeout)
				r.Counts = true
				b.expect("taken back", b.reclaimRow(r).Applied, true)
			}
			b.stopWorker(w)
			w = b.activeWorker("w")
			b.stopWorker(w)
			lone := b.activeWorker("lone")
			b.stopWorker(lone)
			b.Advance(Lease + keptFor)
			for _, c := range []struct {
				what store.Kept
				rows int
			}{{store.KeptExecutions, 2}, {store.KeptRefusedResults, 2}, {store.KeptExpiries, 2}, {store.KeptIncarnations, 1}, {store.KeptWorkers, 1}} {
				for range 2 {
					done, err := b.Store.Purge(b.ctx, store.Purge{What: c.what, Age: keptFor, Limit: enough, DryRun: true})
					b.must(err)
					b.expect("counted of "+c.what.String(), done.Removed, c.rows)
				}
			}
			for what, rows := range map[store.Kept]int{store.KeptExecutions: 2, store.KeptRefusedResults: 2, store.KeptExpiries: 2} {
				b.expect("removed of "+what.String(), b.purgeAll(what), rows)
			}
			b.expect("workers before the older incarnation leaves", b.purgeAll(store.KeptWorkers), 1)
			b.expect("incarnations", b.purgeAll(store.KeptIncarnations), 1)
			b.expect("workers then", b.purgeAll(store.KeptWorkers), 1)
		}},
		{"a step of no rows does nothing", func(b *fixture) {
			for _, k := range store.AllKept() {
				b.expect(k.String(), fmt.Sprint(b.purgeStep(k, 0)), fmt.Sprint(store.Purged{}))
			}
		}},
	}
}

// stopWorker stops a worker and marks its queues as deleted.
func (fi *fixture) stopWorker(w store.WorkerKey) {
	fi.must(fi.Store.SetLifecycle(fi.ctx, w, execution.Stopped))
	fi.queuesGone(w)
}

func (fi *fixture) queuesGone(w store.WorkerKey) {
	_, err := fi.Store.MarkQueuesDeleted(fi.ctx, []store.WorkerKey{w})
	fi.must(err)
}
