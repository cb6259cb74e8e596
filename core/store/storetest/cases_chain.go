package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func (b *bench) cancel(id execution.ID) store.Cancellation {
	b.t.Helper()
	answers, err := b.Store.Cancel(b.ctx, []execution.ID{id})
	b.must(err)
	return answers[0]
}

// failed creates an execution that a worker has run and that has failed for a passing reason.
func (b *bench) failed(w store.WorkerKey) execution.Key {
	b.t.Helper()
	key := b.running(w)
	b.finish(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
	return key
}

// orchestrate handles the end of an execution, with a retry after delay, or without one when it is negative.
func (b *bench) orchestrate(id execution.ID, count int, delay time.Duration) store.Orchestrated {
	b.t.Helper()
	o := store.Orchestration{ID: id}
	if delay >= 0 {
		o.Retry = &store.Retry{Count: count, Reason: execution.Connection, Delay: delay}
	}
	done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{o})
	b.must(err)
	return done[0]
}

const noRetry = -1

func cancelCases() []Case {
	return []Case{
		{"what nobody has claimed is cancelled at once", func(b *bench) {
			w := b.active("w")
			scheduled := b.scheduled(w).ID
			b.create("shell.echo", 1)
			scheduling := b.claimed("e").ID
			requested := b.create("shell.echo", 1)[0]
			for id, from := range map[execution.ID]execution.Status{scheduled: execution.Scheduled, scheduling: execution.Scheduling, requested: execution.Requested} {
				c := b.cancel(id)
				b.expect("accepted, from, to", fmt.Sprint(c.Applied, c.From, c.Row.Status), fmt.Sprint(true, from, execution.Cancelled))
				row := b.row(id)
				b.expect("the row", fmt.Sprint(row.Status, row.FailureReason, row.Ended.IsZero(), row.CancelRequestedAt.IsZero()),
					fmt.Sprint(execution.Cancelled, execution.CancelRequested, false, false))
			}
			b.expect("the worker's load", b.worker(w).Load, 0)
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 5})
			b.must(err)
			b.expect("claimed for scheduling afterwards", len(rows), 0)
		}},
		{"the claim of what was cancelled is refused", func(b *bench) {
			w := b.active("w")
			key := b.scheduled(w)
			b.cancel(key.ID)
			r := b.claim(w, key)
			b.expect("applied, deadline passed, status", fmt.Sprint(r.Applied, r.DeadlinePassed, r.Row.Status), "false false cancelled")
		}},
		{"what runs is asked to end, and its worker says how it ended", func(b *bench) {
			w := b.active("w")
			cancelled, completed := b.running(w), b.running(w)
			for _, key := range []execution.Key{cancelled, completed} {
				c := b.cancel(key.ID)
				b.expect("accepted, from, to", fmt.Sprint(c.Applied, c.From, c.Row.Status), "true running canceling")
				b.expect("its owner and epoch", fmt.Sprint(c.Row.Incarnation, c.Row.Epoch), fmt.Sprint(w.Incarnation, key.Epoch))
			}
			again := b.cancel(cancelled.ID)
			b.expect("asked again", fmt.Sprint(again.Applied, again.From, again.Row.Status), "true canceling canceling")
			b.expect("the worker's load", b.worker(w).Load, 2)
			b.expect("the answer", b.finish(w, store.Finish{Key: cancelled, To: execution.Cancelled, Reason: execution.CancelRequested}).Applied, true)
			b.expect("what came first", b.finish(w, store.Finish{Key: completed, To: execution.Completed}).Applied, true)
			b.expect("cancelling what has ended", fmt.Sprint(b.cancel(cancelled.ID).Applied, b.cancel(completed.ID).Applied), "false false")
		}},
		{"a heartbeat's reply names what is to be ended", func(b *bench) {
			w := b.active("w")
			goes, stays := b.running(w), b.running(w)
			b.cancel(goes.ID)
			reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{goes, stays}})
			b.must(err)
			b.expect("to be ended, and lost", fmt.Sprint(reply.Cancel, reply.Lost), fmt.Sprint([]execution.Key{goes}, []execution.Key(nil)))
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 3, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{stays}})
			b.must(err)
			b.expect("canceling, and not held any more", fmt.Sprint(b.row(goes.ID).Status, b.row(goes.ID).FailureReason), "cancelled cancelled")
		}},
		{"what is canceling ends as cancelled when it is taken from its worker", func(b *bench) {
			w := b.active("w")
			key := b.running(w)
			b.cancel(key.ID)
			b.expect("unanswered at once", list(b.find(store.Finding{Ground: store.Unanswered, Age: time.Second})...), list())
			b.Advance(RunTimeout)
			b.expect("unanswered", list(b.find(store.Finding{Ground: store.Unanswered, Age: time.Second})...), list(key.ID))
			o := b.reclaim(store.Reclaim{Key: key, Ground: store.Overrun, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout})
			b.expect("applied, status, reason", fmt.Sprint(o.Applied, o.Row.Status, o.Row.FailureReason), "true cancelled cancelled")
		}},
		{"cancelling any row of a chain cancels its pending retry", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			retry := b.orchestrate(key.ID, 1, time.Minute).Retry
			c := b.cancel(key.ID)
			b.expect("accepted, row, status", fmt.Sprint(c.Applied, c.Row.ID, c.Row.Status), fmt.Sprint(true, retry, execution.Cancelled))
			b.expect("the request stands on the first row", b.row(key.ID).CancelRequestedAt.IsZero(), false)
			b.expect("and again", b.cancel(retry).Applied, false)
		}},
		{"no retry joins a chain whose cancellation was requested", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			c := b.cancel(key.ID)
			b.expect("accepted, status", fmt.Sprint(c.Applied, c.Row.Status), "true failed")
			b.expect("the handling of its end", fmt.Sprint(b.orchestrate(key.ID, 1, 0)), fmt.Sprint(store.Orchestrated{Applied: true}))
			b.expect("cancelling afterwards", b.cancel(key.ID).Applied, false)
		}},
		{"a chain that has ended for good is not cancelled", func(b *bench) {
			w := b.active("w")
			key := b.running(w)
			b.finish(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Validation})
			c := b.cancel(key.ID)
			b.expect("accepted, status", fmt.Sprint(c.Applied, c.Row.Status), "false failed")
			b.expect("what does not exist", fmt.Sprint(b.cancel(999).Applied, b.cancel(999).Row.ID), "false 0")
		}},
	}
}

// child creates an execution with a parent.
func (b *bench) child(parent execution.ID, key string) store.Created {
	b.t.Helper()
	created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parent: parent, IdempotencyKey: key}})
	b.must(err)
	return created[0]
}

func (b *bench) claimable() int {
	b.t.Helper()
	rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "children", Expiry: time.Minute, Others: 10})
	b.must(err)
	return len(rows)
}

func childCases() []Case {
	return []Case{
		{"children wait, and are due when their parent has completed", func(b *bench) {
			w := b.active("w")
			key := b.running(w)
			first, second := b.child(key.ID, "").ID, b.child(key.ID, "").ID
			b.expect("its parent, and that it waits", fmt.Sprint(b.row(first).Parent, b.row(first).AwaitsParent, b.row(first).Status), fmt.Sprint(key.ID, true, execution.Requested))
			b.expect("claimed while the parent runs", b.claimable(), 0)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.expect("claimed before its end is handled", b.claimable(), 0)
			done := b.orchestrate(key.ID, 0, noRetry)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped), fmt.Sprint([]execution.ID{first, second}, []execution.ID(nil)))
			b.expect("claimed afterwards", b.claimable(), 2)
			b.expect("that it waits", b.row(first).AwaitsParent, false)
		}},
		{"children of a chain wait for its last row", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			retry := b.orchestrate(key.ID, 1, 0)
			b.expect("started and skipped by the first row", len(retry.Started)+len(retry.Skipped), 0)
			late := b.child(retry.Retry, "").ID
			b.expect("a parent is the chain's first row", b.row(late).Parent, key.ID)
			row := b.claimed("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			b.claim(w, results[0].Row.Key())
			b.finish(w, store.Finish{Key: results[0].Row.Key(), To: execution.Completed})
			b.expect("started by the last", list(b.orchestrate(retry.Retry, 0, noRetry).Started...), list(child, late))
		}},
		{"children are skipped when their parent does not complete", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			grandchild := b.child(child, "").ID
			done := b.orchestrate(key.ID, 0, noRetry)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped), fmt.Sprint([]execution.ID(nil), []execution.ID{child}))
			row := b.row(child)
			b.expect("the child", fmt.Sprint(row.Status, row.FailureReason, row.Ended.IsZero()), "cancelled parent_failed false")
			b.expect("its end is found", list(b.find(store.Finding{Ground: store.Unorchestrated})...), list(child))
			b.expect("skipped with it", list(b.orchestrate(child, 0, noRetry).Skipped...), list(grandchild))
			b.expect("claimed", b.claimable(), 0)
		}},
		{"a call that skips a child does not handle its end as well", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}, {ID: child}})
			b.must(err)
			b.expect("skipped, and handled", fmt.Sprint(done[0].Skipped, done[1].Applied), fmt.Sprint([]execution.ID{child}, false))
			b.expect("the child's end is found", list(b.find(store.Finding{Ground: store.Unorchestrated})...), list(child))
		}},
		{"a child of a chain that was cancelled is skipped, whatever retry was proposed", func(b *bench) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			b.cancel(key.ID)
			done := b.orchestrate(key.ID, 1, 0)
			b.expect("retry and skipped", fmt.Sprint(done.Retry, done.Skipped), fmt.Sprint(0, []execution.ID{child}))
		}},
		{"a retry without a number is an error, whatever else follows the end", func(b *bench) {
			w := b.active("w")
			parent, cancelled := b.failed(w), b.failed(w)
			b.child(parent.ID, "")
			b.cancel(cancelled.ID)
			for _, id := range []execution.ID{parent.ID, cancelled.ID, 999} {
				_, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: id, Retry: &store.Retry{Reason: execution.Connection}}})
				b.expect("an error", failed(err), "the request was wrong")
			}
			b.expect("handled afterwards", fmt.Sprint(b.orchestrate(parent.ID, 0, noRetry).Applied, b.orchestrate(cancelled.ID, 0, noRetry).Applied), "true true")
		}},
		{"a child of what has ended is decided at once", func(b *bench) {
			w := b.active("w")
			completed, failed := b.running(w), b.failed(w)
			b.finish(w, store.Finish{Key: completed, To: execution.Completed})
			b.orchestrate(completed.ID, 0, noRetry)
			b.orchestrate(failed.ID, 0, noRetry)
			due, skipped := b.row(b.child(completed.ID, "").ID), b.row(b.child(failed.ID, "").ID)
			b.expect("of what has completed", fmt.Sprint(due.Status, due.AwaitsParent), "requested false")
			b.expect("of what has failed", fmt.Sprint(skipped.Status, skipped.FailureReason), "cancelled parent_failed")
			b.expect("claimed", b.claimable(), 1)
		}},
		{"a child that waits can be cancelled", func(b *bench) {
			w := b.active("w")
			key := b.running(w)
			child := b.child(key.ID, "").ID
			b.expect("accepted", b.cancel(child).Applied, true)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.expect("started with the others", list(b.orchestrate(key.ID, 0, noRetry).Started...), list())
			b.expect("the child", b.row(child).Status, execution.Cancelled)
		}},
		{"a child is created once under its key, and not without its parent", func(b *bench) {
			parent := b.create("shell.echo", 1)[0]
			first, second := b.child(parent, "k"), b.child(parent, "k")
			b.expect("the second creation", fmt.Sprint(second.ID, second.Existed), fmt.Sprint(first.ID, true))
			b.expect("of nobody", b.child(999, ""), store.Created{UnknownParent: true})
		}},
		{"a key is forgotten when its time is over", func(b *bench) {
			item := []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}}
			first, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.Advance(time.Hour - tick)
			early, err := b.Store.ForgetKeys(b.ctx, time.Hour, 10)
			b.must(err)
			b.Advance(tick)
			due, err := b.Store.ForgetKeys(b.ctx, time.Hour, 10)
			b.must(err)
			b.expect("forgotten before and after", fmt.Sprint(early, due), "0 1")
			second, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.expect("existed, another row", fmt.Sprint(second[0].Existed, second[0].ID != first[0].ID), "false true")
		}},
	}
}
