package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// keptFor is how long the cases keep everything.
const keptFor = time.Hour

// purge makes one step that begins at the beginning.
func (fi *fixture) purge(what store.Kept, limit int) store.Purged {
	fi.t.Helper()
	done, err := fi.Store.Purge(fi.ctx, store.Purge{What: what, Age: keptFor, Limit: limit})
	fi.must(err)
	return done
}

// purged is how many rows a step with room for all removes.
func (fi *fixture) purged(what store.Kept) int {
	fi.t.Helper()
	return fi.purge(what, enough).Removed
}

// left says which of the executions are still there.
func (fi *fixture) left(ids ...execution.ID) string {
	fi.t.Helper()
	rows, err := fi.Store.Executions(fi.ctx, ids)
	fi.must(err)
	var found []execution.ID
	for i := range rows {
		found = append(found, rows[i].ID)
	}
	return list(found...)
}

// beat renews a lease.
func (fi *fixture) beat(w store.WorkerKey, number uint64) {
	fi.t.Helper()
	_, err := fi.Store.Heartbeat(fi.ctx, store.Beat{WorkerKey: w, Number: number, Lease: Lease, ConsumerAlive: true})
	fi.must(err)
}

func retentionCases() []Case {
	return append(executionRetentionCases(), []Case{
		{"refused results leave from their age on, the oldest first, in batches", func(b *fixture) {
			w := b.active("w")
			for range 2 {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
				b.Advance(time.Second)
			}
			b.Advance(keptFor - 2*time.Second - tick)
			b.expect("before", b.purged(store.KeptRefusedResults), 0)
			b.Advance(tick)
			b.expect("at the age of the first", fmt.Sprint(b.purge(store.KeptRefusedResults, 1), b.purge(store.KeptRefusedResults, 1)),
				fmt.Sprint(store.Purged{Removed: 1, More: true}, store.Purged{}))
			b.Advance(time.Second)
			b.expect("at the age of the second", b.purged(store.KeptRefusedResults), 1)
		}},
		{"refused results leave by their own age, after a step of the clock back, too", func(b *fixture) {
			w := b.active("w")
			keep := func() {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
			}
			keep()
			b.Advance(-time.Minute)
			keep()
			b.Advance(keptFor)
			b.expect("at the age of the second", b.purged(store.KeptRefusedResults), 1)
			b.Advance(time.Minute)
			b.expect("at the age of the first", b.purged(store.KeptRefusedResults), 1)
		}},
		{"expiries leave from their age on, after a step of the clock back, too", func(b *fixture) {
			w := b.active("w")
			blame := func() {
				r := unclaimed(b.scheduled(w), store.Unclaimed, time.Second)
				b.Advance(DispatchTimeout)
				r.Counts = true
				b.expect("taken back", b.reclaim(r).Applied, true)
			}
			blame()
			b.Advance(-time.Minute)
			blame()
			b.expect("the latest first", fmt.Sprint(b.worker(w).Expired), fmt.Sprint([]time.Duration{DispatchTimeout - time.Minute, 0}))
			b.Advance(keptFor)
			b.expect("at the age of the second", b.purged(store.KeptExpiries), 1)
			b.Advance(time.Minute - DispatchTimeout)
			b.expect("at the age of the first", b.purged(store.KeptExpiries), 1)
		}},
		{"expiries leave from their age on", func(b *fixture) {
			w := b.active("w")
			key := b.scheduled(w)
			b.Advance(DispatchTimeout)
			r := unclaimed(key, store.Unclaimed, time.Second)
			r.Counts = true
			b.expect("taken back", b.reclaim(r).Applied, true)
			b.Advance(keptFor - tick)
			b.expect("before", b.purged(store.KeptExpiries), 0)
			b.expect("held against the worker", len(b.worker(w).Expired), 1)
			b.Advance(tick)
			b.expect("at its age", b.purged(store.KeptExpiries), 1)
			b.expect("held against it then", len(b.worker(w).Expired), 0)
		}},
		{"an incarnation leaves when its lease is long over, and it is gone, not the latest, and holds nothing", func(b *fixture) {
			first := b.active("w")
			key := b.running(first)
			second := b.active("w")
			b.must(b.Store.SetLifecycle(b.ctx, second, execution.Stopped))
			third := b.active("w")
			b.Advance(Lease + keptFor - tick)
			b.expect("before", b.purged(store.KeptIncarnations), 0)
			b.Advance(tick)
			b.expect("at its age", b.purged(store.KeptIncarnations), 1)
			b.expect("the owner of a run that goes on is found", list(b.find(store.Finding{Cause: store.OwnerGone})...), list(key.ID))
			reclaim := store.Reclaim{
				Key: key, Cause: store.OwnerGone, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
				Result: execution.Result{Error: "lost", FailedBy: execution.Reconciler},
			}
			b.expect("the run is taken back", b.reclaim(reclaim).Applied, true)
			b.expect("then it leaves", b.purged(store.KeptIncarnations), 1)
			b.expect("the latest, which is active, stays", b.worker(third).Lifecycle, execution.Active)
			b.refused("a heartbeat of one that has left", heartbeat(b, first), store.ErrLost)
		}},
		{"a worker leaves with its latest incarnation, and comes back as another one", func(b *fixture) {
			old := b.active("old")
			b.active("w")
			b.must(b.Store.SetLifecycle(b.ctx, old, execution.Stopped))
			w := b.active("w")
			b.ended(w)
			live := b.active("live")
			cordoned := b.active("cordoned")
			_, err := b.Store.SetCordon(b.ctx, store.Cordon{Worker: cordoned.ID, On: true, Reason: "broken"})
			b.must(err)
			b.ended(cordoned)
			b.Advance(Lease + keptFor - tick)
			b.beat(live, 2)
			b.expect("before", b.purged(store.KeptWorkers), 0)
			b.Advance(tick)
			b.expect("at their age, while the queues of one may be there, and the other has an older incarnation", b.purged(store.KeptWorkers), 0)
			b.queuesGone(old)
			b.expect("when its queues are gone", b.purged(store.KeptWorkers), 1)
			b.expect("the incarnation", b.purged(store.KeptIncarnations), 1)
			b.expect("then the worker", b.purged(store.KeptWorkers), 1)
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
			again := b.active("w")
			b.expect("another worker, with a greater number", again.ID > live.ID && again.Incarnation > w.Incarnation, true)
			b.expect("it can be found", b.worker(again).Name, "w")
		}},
		{"a worker stays while an execution waits for it alone", func(b *fixture) {
			w := b.active("w")
			b.ended(w)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Pinned: w.ID}})
			b.must(err)
			b.Advance(Lease + keptFor)
			b.expect("while it waits", b.purged(store.KeptWorkers), 0)
			b.cancel(created[0].ID)
			b.expect("after its end", b.purged(store.KeptWorkers), 1)
		}},
		{"a purge of workers and incarnations goes on where it stopped, and begins anew at the end", func(b *fixture) {
			for _, name := range []string{"a", "b", "c"} {
				b.active(name)
			}
			first := b.purge(store.KeptWorkers, 2)
			b.expect("a full step", fmt.Sprint(first.Removed, first.More, first.Next != 0), "0 true true")
			rest, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptWorkers, Age: keptFor, After: first.Next, Limit: 2})
			b.must(err)
			b.expect("the rest", fmt.Sprint(rest), fmt.Sprint(store.Purged{}))
		}},
	}...)
}

// heartbeat is the error of a heartbeat.
func heartbeat(b *fixture, w store.WorkerKey) error {
	_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 9, Lease: Lease})
	return err
}

func executionRetentionCases() []Case {
	return []Case{
		{"a chain leaves as a whole, when its last row ended long enough ago and is handled", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			b.Advance(keptFor)
			b.expect("while its end is not handled", b.purged(store.KeptExecutions), 0)
			retry := b.orchestrate(key.ID, 1, 0).Retry
			b.expect("while the retry waits", b.purged(store.KeptExecutions), 0)
			b.Advance(time.Second)
			b.cancel(retry)
			b.orchestrate(retry, 0, noRetry)
			b.Advance(keptFor - tick)
			b.expect("before", b.purged(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("at its age", b.purged(store.KeptExecutions), 2)
			b.expect("left", b.left(key.ID, retry), list())
			chain, err := b.Store.Chain(b.ctx, key.ID)
			b.must(err)
			b.expect("the chain", len(chain), 0)
			page, err := b.Store.List(b.ctx, store.ExecutionQuery{Limit: 10})
			b.must(err)
			b.expect("the list", len(page), 0)
			b.expect("a cancellation finds it gone", b.cancel(key.ID).Row.ID, execution.ID(0))
		}},
		{"what goes on stays, however old it is", func(b *fixture) {
			w := b.active("w")
			running, scheduled, waits := b.running(w).ID, b.scheduled(w).ID, b.create("shell.echo", 1)[0]
			b.Advance(2 * keptFor)
			b.expect("removed", b.purged(store.KeptExecutions), 0)
			b.expect("left", b.left(running, scheduled, waits), list(running, scheduled, waits))
		}},
		{"a parent stays as long as its children, and they leave first", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			child := b.child(key.ID, "").ID
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrate(key.ID, 0, noRetry)
			b.settle(key.ID, enough)
			b.Advance(2 * keptFor)
			b.expect("while the child waits for a worker", b.purged(store.KeptExecutions), 0)
			b.cancel(child)
			b.orchestrate(child, 0, noRetry)
			b.Advance(keptFor - tick)
			b.expect("before the age of the child", b.purged(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("the child", b.purged(store.KeptExecutions), 1)
			b.expect("left", b.left(key.ID, child), list(key.ID))
			b.expect("then the parent", b.purged(store.KeptExecutions), 1)
		}},
		{"a child of a parent that goes on stays", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			child := b.child(key.ID, "").ID
			b.cancel(child)
			b.orchestrate(child, 0, noRetry)
			b.Advance(2 * keptFor)
			b.expect("while the parent runs", b.purged(store.KeptExecutions), 0)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrate(key.ID, 0, noRetry)
			b.settle(key.ID, enough)
			b.Advance(keptFor - tick)
			b.expect("before the age of the parent", b.purged(store.KeptExecutions), 0)
			b.Advance(tick)
			b.expect("both, one after the other", fmt.Sprint(b.purged(store.KeptExecutions), b.purged(store.KeptExecutions)), "1 1")
		}},
		{"a parent stays while children are to be settled, and a child of one that has left is refused", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			child := b.child(key.ID, "").ID
			b.cancel(child)
			b.orchestrate(child, 0, noRetry)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrate(key.ID, 0, noRetry)
			b.Advance(keptFor)
			b.expect("the child", b.purged(store.KeptExecutions), 1)
			b.expect("the parent, before its children are settled", b.purged(store.KeptExecutions), 0)
			b.expect("settled", fmt.Sprint(b.settle(key.ID, enough)), fmt.Sprint(store.Settled{}))
			b.expect("the parent", b.purged(store.KeptExecutions), 1)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parent: key.ID}})
			b.must(err)
			b.expect("a new child", created[0], store.Created{UnknownParent: true})
		}},
		{"an execution stays as long as its idempotency key", func(b *fixture) {
			item := []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}}
			created, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.cancel(created[0].ID)
			b.orchestrate(created[0].ID, 0, noRetry)
			b.Advance(execution.KeyLifetime)
			b.expect("while the key leads to it", b.purged(store.KeptExecutions), 0)
			_, err = b.Store.ForgetKeys(b.ctx, execution.KeyLifetime, enough)
			b.must(err)
			b.expect("afterwards", b.purged(store.KeptExecutions), 1)
			again, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.expect("the key is free", again[0].Existed, false)
		}},
		{"a step looks at no more rows than its limit, and the next one goes on behind them", func(b *fixture) {
			w := b.active("w")
			stays := b.create("shell.echo", 2)
			var over []execution.ID
			for range 3 {
				ids := b.create("shell.echo", 1)
				b.cancel(ids[0])
				b.orchestrate(ids[0], 0, noRetry)
				over = append(over, ids[0])
			}
			b.Advance(keptFor)
			b.beat(w, 2)
			first := b.purge(store.KeptExecutions, 2)
			b.expect("a step at the rows that stay", fmt.Sprint(first), fmt.Sprint(store.Purged{Next: int64(stays[1]), More: true, First: int64(stays[0])}))
			second, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: first.Next, Limit: 2})
			b.must(err)
			b.expect("the next one", fmt.Sprint(second), fmt.Sprint(store.Purged{Removed: 2, Next: int64(over[1]), More: true, First: int64(over[0])}))
			third, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: second.Next, Limit: 2})
			b.must(err)
			b.expect("the last one", fmt.Sprint(third), fmt.Sprint(store.Purged{Removed: 1, First: int64(over[2])}))
			b.expect("left", b.left(append(stays, over...)...), list(stays...))
		}},
		{"a full step over executions that are all too young is the last one, and the next one begins anew", func(b *fixture) {
			ids := b.create("shell.echo", 2)
			b.Advance(keptFor - tick)
			b.expect("before their age", fmt.Sprint(b.purge(store.KeptExecutions, 2)), fmt.Sprint(store.Purged{}))
			b.Advance(tick)
			b.expect("at their age", fmt.Sprint(b.purge(store.KeptExecutions, 2)), fmt.Sprint(store.Purged{Next: int64(ids[1]), More: true, First: int64(ids[0])}))
		}},
		{"a step names the first execution that it has looked at once none can appear before it", func(b *fixture) {
			ids := b.create("shell.echo", 1)
			b.Advance(store.VisibleAfter - tick)
			b.expect("before", b.purge(store.KeptExecutions, 2).First, int64(0))
			b.Advance(tick)
			b.create("shell.echo", 1)
			b.expect("from then on", b.purge(store.KeptExecutions, 2).First, int64(ids[0]))
		}},
		{"a step takes as many chains as have together no more rows than its limit, but one at least", func(b *fixture) {
			w := b.active("w")
			for range 2 {
				key := b.failed(w)
				retry := b.orchestrate(key.ID, 1, 0).Retry
				b.cancel(retry)
				b.orchestrate(retry, 0, noRetry)
			}
			b.Advance(keptFor)
			first := b.purge(store.KeptExecutions, 3)
			b.expect("the first chain", fmt.Sprint(first.Removed, first.More), "2 true")
			second, err := b.Store.Purge(b.ctx, store.Purge{What: store.KeptExecutions, Age: keptFor, After: first.Next, Limit: 1})
			b.must(err)
			b.expect("the second chain, beyond a limit of one", second.Removed, 2)
		}},
		{"a dry run counts what a step would remove, and removes nothing", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			retry := b.orchestrate(key.ID, 1, 0).Retry
			b.cancel(retry)
			b.orchestrate(retry, 0, noRetry)
			for range 2 {
				b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: execution.Key{ID: 1, Epoch: 1}, To: execution.Completed}))
				r := unclaimed(b.scheduled(w), store.Unclaimed, time.Second)
				b.Advance(DispatchTimeout)
				r.Counts = true
				b.expect("taken back", b.reclaim(r).Applied, true)
			}
			b.ended(w)
			w = b.active("w")
			b.ended(w)
			lone := b.active("lone")
			b.ended(lone)
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
				b.expect("removed of "+what.String(), b.purged(what), rows)
			}
			b.expect("workers before the older incarnation leaves", b.purged(store.KeptWorkers), 1)
			b.expect("incarnations", b.purged(store.KeptIncarnations), 1)
			b.expect("workers then", b.purged(store.KeptWorkers), 1)
		}},
		{"a step of no rows does nothing", func(b *fixture) {
			for _, k := range store.AllKept() {
				b.expect(k.String(), fmt.Sprint(b.purge(k, 0)), fmt.Sprint(store.Purged{}))
			}
		}},
	}
}

// ended stops a worker whose queues are deleted then.
func (fi *fixture) ended(w store.WorkerKey) {
	fi.must(fi.Store.SetLifecycle(fi.ctx, w, execution.Stopped))
	fi.queuesGone(w)
}

func (fi *fixture) queuesGone(w store.WorkerKey) {
	_, err := fi.Store.MarkQueuesDeleted(fi.ctx, []store.WorkerKey{w})
	fi.must(err)
}
