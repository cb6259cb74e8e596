package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func (fi *fixture) cancel(id execution.ID) store.Cancellation {
	fi.t.Helper()
	answers, err := fi.Store.Cancel(fi.ctx, []execution.ID{id}, "")
	fi.must(err)
	return answers[0]
}

// failed creates an execution that a worker has run and that has failed for a passing reason.
func (fi *fixture) failed(w store.WorkerKey) execution.Key {
	fi.t.Helper()
	key := fi.running(w)
	fi.finish(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
	return key
}

// orchestrate handles the end of an execution, with a retry after delay, or without one if delay is
// negative.
func (fi *fixture) orchestrate(id execution.ID, count int, delay time.Duration) store.Orchestrated {
	fi.t.Helper()
	o := store.Orchestration{ID: id}
	if delay >= 0 {
		o.Retry = &store.Retry{Count: count, Reason: execution.Connection, Delay: delay}
	}
	done, err := fi.Store.Orchestrate(fi.ctx, []store.Orchestration{o})
	fi.must(err)
	return done[0]
}

const noRetry = -1

func cancelCases() []Case {
	return []Case{
		{"what nobody has claimed is cancelled at once", func(b *fixture) {
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
		{"the claim of what was cancelled is refused", func(b *fixture) {
			w := b.active("w")
			key := b.scheduled(w)
			b.cancel(key.ID)
			r := b.claim(w, key)
			b.expect("applied, deadline passed, status", fmt.Sprint(r.Applied, r.DeadlinePassed, r.Row.Status), "false false cancelled")
		}},
		{"what runs is asked to end, and its worker says how it ended", func(b *fixture) {
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
		{"a heartbeat's reply names what is to be ended", func(b *fixture) {
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
		{"what is canceling ends as cancelled when it is taken from its worker", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			b.cancel(key.ID)
			b.expect("unanswered at once", list(b.find(store.Finding{Cause: store.Unanswered, Age: time.Second})...), list())
			b.Advance(RunTimeout)
			b.expect("unanswered", list(b.find(store.Finding{Cause: store.Unanswered, Age: time.Second})...), list(key.ID))
			o := b.reclaim(store.Reclaim{Key: key, Cause: store.Overrun, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout})
			b.expect("applied, status, reason", fmt.Sprint(o.Applied, o.Row.Status, o.Row.FailureReason), "true cancelled cancelled")
		}},
		{"cancelling any row of a chain cancels its pending retry", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			retry := b.orchestrate(key.ID, 1, time.Minute).Retry
			c := b.cancel(key.ID)
			b.expect("accepted, row, status", fmt.Sprint(c.Applied, c.Row.ID, c.Row.Status), fmt.Sprint(true, retry, execution.Cancelled))
			b.expect("the request stands on the first row", b.row(key.ID).CancelRequestedAt.IsZero(), false)
			b.expect("and again", b.cancel(retry).Applied, false)
		}},
		{"no retry joins a chain whose cancellation was requested", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			c := b.cancel(key.ID)
			b.expect("accepted, status", fmt.Sprint(c.Applied, c.Row.Status), "true failed")
			b.expect("the handling of its end", fmt.Sprint(b.orchestrate(key.ID, 1, 0)), fmt.Sprint(store.Orchestrated{Applied: true}))
			b.expect("cancelling afterwards", b.cancel(key.ID).Applied, false)
		}},
		{"a chain that has ended for good is not cancelled", func(b *fixture) {
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
func (fi *fixture) child(parent execution.ID, key string) store.Created {
	fi.t.Helper()
	created, err := fi.Store.Create(fi.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parent: parent, IdempotencyKey: key}})
	fi.must(err)
	return created[0]
}

func (fi *fixture) claimable() int {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{Executor: "children", Expiry: time.Minute, Others: 10})
	fi.must(err)
	return len(rows)
}

// settle settles at most `most` children of a chain.
func (fi *fixture) settle(chain execution.ID, most int) store.Settled {
	fi.t.Helper()
	settled, err := fi.Store.SettleChildren(fi.ctx, []execution.ID{chain}, most)
	fi.must(err)
	return settled[0]
}

// enough is more children than any case creates.
const enough = 100

func childCases() []Case {
	return []Case{
		{"children wait, and are due when their parent has completed", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			first, second := b.child(key.ID, "").ID, b.child(key.ID, "").ID
			b.expect("its parent, and that it waits", fmt.Sprint(b.row(first).Parent, b.row(first).AwaitsParent, b.row(first).Status), fmt.Sprint(key.ID, true, execution.Requested))
			b.expect("claimed while the parent runs", b.claimable(), 0)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.expect("claimed before its end is handled", b.claimable(), 0)
			b.expect("that there are children", b.orchestrate(key.ID, 0, noRetry).Children, true)
			b.expect("claimed before they are settled", b.claimable(), 0)
			done := b.settle(key.ID, enough)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped, done.More), fmt.Sprint([]execution.ID{first, second}, []execution.ID(nil), false))
			b.expect("claimed afterwards", b.claimable(), 2)
			b.expect("that it waits", b.row(first).AwaitsParent, false)
		}},
		{"children of a chain wait for its last row", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			retry := b.orchestrate(key.ID, 1, 0)
			b.expect("that the first row has children to settle", retry.Children, false)
			b.expect("settled after the first row", fmt.Sprint(b.settle(key.ID, enough)), fmt.Sprint(store.Settled{}))
			late := b.child(retry.Retry, "").ID
			b.expect("a parent is the chain's first row", b.row(late).Parent, key.ID)
			row := b.claimed("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			b.claim(w, results[0].Row.Key())
			b.finish(w, store.Finish{Key: results[0].Row.Key(), To: execution.Completed})
			b.expect("that the last row has", b.orchestrate(retry.Retry, 0, noRetry).Children, true)
			b.expect("named by the last row", fmt.Sprint(b.settle(retry.Retry, enough)), fmt.Sprint(store.Settled{}))
			b.expect("started by the last", list(b.settle(key.ID, enough).Started...), list(child, late))
		}},
		{"children are skipped when their parent does not complete", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			grandchild := b.child(child, "").ID
			b.orchestrate(key.ID, 0, noRetry)
			done := b.settle(key.ID, enough)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped), fmt.Sprint([]execution.ID(nil), []execution.ID{child}))
			row := b.row(child)
			b.expect("the child", fmt.Sprint(row.Status, row.FailureReason, row.Ended.IsZero()), "cancelled parent_failed false")
			b.expect("its end is found", list(b.find(store.Finding{Cause: store.Unorchestrated})...), list(child))
			b.orchestrate(child, 0, noRetry)
			b.expect("skipped with it", list(b.settle(child, enough).Skipped...), list(grandchild))
			b.expect("claimed", b.claimable(), 0)
		}},
		{"children are settled in bounded batches, and each of them once", func(b *fixture) {
			w := b.active("w")
			for _, end := range []struct {
				finish store.Finish
				as     string
			}{{store.Finish{To: execution.Completed}, "requested"}, {store.Finish{To: execution.Failed, Reason: execution.Validation}, "cancelled"}} {
				key := b.running(w)
				var children []execution.ID
				for range 5 {
					children = append(children, b.child(key.ID, "").ID)
				}
				end.finish.Key = key
				b.finish(w, end.finish)
				b.orchestrate(key.ID, 0, noRetry)
				var settled []string
				for range 4 {
					s := b.settle(key.ID, 2)
					settled = append(settled, fmt.Sprint(append(s.Started, s.Skipped...), s.More))
				}
				b.expect("the batches", fmt.Sprint(settled), fmt.Sprint([]string{
					fmt.Sprint(children[:2], true), fmt.Sprint(children[2:4], true), fmt.Sprint(children[4:], false), fmt.Sprint([]execution.ID(nil), false),
				}))
				b.expect("the last child", fmt.Sprint(b.row(children[4]).Status, b.row(children[4]).AwaitsParent), end.as+" false")
			}
		}},
		{"a batch of exactly as many children as wait is the last one", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			b.child(key.ID, "")
			b.child(key.ID, "")
			b.orchestrate(key.ID, 0, noRetry)
			b.expect("more after two of two", b.settle(key.ID, 2).More, false)
			b.expect("found", list(b.find(store.Finding{Cause: store.Unsettled})...), list())
		}},
		{"a bound of zero settles nothing", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			b.child(key.ID, "")
			b.orchestrate(key.ID, 0, noRetry)
			b.expect("settled", fmt.Sprint(b.settle(key.ID, 0), b.settle(key.ID, -1)), fmt.Sprint(store.Settled{}, store.Settled{}))
			b.expect("found", list(b.find(store.Finding{Cause: store.Unsettled})...), list(key.ID))
		}},
		{"chains with children to settle are found by when they were last worked on", func(b *fixture) {
			w := b.active("w")
			var chains []execution.ID
			for range 3 {
				key := b.failed(w)
				b.child(key.ID, "")
				b.child(key.ID, "")
				chains = append(chains, key.ID)
				b.orchestrate(key.ID, 0, noRetry)
				b.Advance(time.Second)
			}
			found := func(age time.Duration, skip ...execution.ID) string {
				return list(b.find(store.Finding{Cause: store.Unsettled, Age: age, Limit: 10, Skip: skip})...)
			}
			b.expect("all", found(0), list(chains...))
			b.expect("at the boundary", found(2*time.Second), list(chains[:2]...))
			b.expect("just before it", found(2*time.Second+tick), list(chains[0]))
			b.expect("without one", found(0, chains[1]), list(chains[0], chains[2]))
			b.settle(chains[0], 1)
			b.expect("after a batch of the first", found(0), list(chains[1], chains[2], chains[0]))
			b.settle(chains[1], enough)
			b.expect("after the second is done", found(0), list(chains[2], chains[0]))
			b.expect("when the note was dated anew", b.row(chains[0]).SettlingAt.Sub(b.row(chains[0]).OrchestratedAt), 3*time.Second)
			b.expect("the one that is done", b.row(chains[1]).SettlingAt.IsZero(), true)
		}},
		{"several chains are settled in one call, each by its own end", func(b *fixture) {
			w := b.active("w")
			completed, failed, childless := b.running(w), b.failed(w), b.failed(w)
			due, skipped := b.child(completed.ID, "").ID, b.child(failed.ID, "").ID
			b.finish(w, store.Finish{Key: completed, To: execution.Completed})
			for _, id := range []execution.ID{completed.ID, failed.ID, childless.ID} {
				b.orchestrate(id, 0, noRetry)
			}
			settled, err := b.Store.SettleChildren(b.ctx, []execution.ID{failed.ID, 999, childless.ID, completed.ID, failed.ID}, enough)
			b.must(err)
			b.expect("settled", fmt.Sprint(settled), fmt.Sprint([]store.Settled{{Skipped: []execution.ID{skipped}}, {}, {}, {Started: []execution.ID{due}}, {}}))
			none, err := b.Store.SettleChildren(b.ctx, nil, enough)
			b.must(err)
			b.expect("of nobody", len(none), 0)
		}},
		{"a child that is created while others wait to be settled is decided at once", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			first := b.child(key.ID, "").ID
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrate(key.ID, 0, noRetry)
			late := b.child(key.ID, "").ID
			b.expect("that the late one waits, and the first", fmt.Sprint(b.row(late).AwaitsParent, b.row(first).AwaitsParent), "false true")
			b.expect("settled", fmt.Sprint(b.settle(key.ID, enough)), fmt.Sprint(store.Settled{Started: []execution.ID{first}}))
		}},
		{"a call that handles an end does not settle the children", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}, {ID: child}})
			b.must(err)
			b.expect("children, and the child handled", fmt.Sprint(done[0].Children, done[1].Applied), "true false")
			b.expect("skipped", list(b.settle(key.ID, enough).Skipped...), list(child))
			b.expect("the child's end is found", list(b.find(store.Finding{Cause: store.Unorchestrated})...), list(child))
		}},
		{"a child of a chain that was cancelled is skipped, whatever retry was proposed", func(b *fixture) {
			w := b.active("w")
			key := b.failed(w)
			child := b.child(key.ID, "").ID
			b.cancel(key.ID)
			b.expect("retry", b.orchestrate(key.ID, 1, 0).Retry, execution.ID(0))
			b.expect("skipped", list(b.settle(key.ID, enough).Skipped...), list(child))
		}},
		{"a chain has children to settle only if one waits", func(b *fixture) {
			w := b.active("w")
			unknown, late := b.failed(w), b.failed(w)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "no.such", Parent: unknown.ID}})
			b.must(err)
			b.expect("created", created[0], store.Created{UnknownAction: true})
			b.expect("of an unknown action", b.orchestrate(unknown.ID, 0, noRetry).Children, false)
			b.orchestrate(late.ID, 0, noRetry)
			b.child(late.ID, "")
			b.expect("of a child that was decided at once", b.row(late.ID).SettlingAt.IsZero(), true)
		}},
		{"retries have the limits of their chain, its children have not", func(b *fixture) {
			w := b.active("w")
			own := execution.Limits{Timeout: time.Second, DispatchTimeout: 3 * time.Second, MaxRetries: 9, OwnRetries: true}
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Limits: own}})
			b.must(err)
			first := created[0].ID
			child := b.child(first, "child").ID
			for retry := 1; retry <= 2; retry++ {
				row := b.claimed("executor")
				results, err := b.Store.Dispatch(b.ctx, "executor", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
				b.must(err)
				ran := b.claim(w, results[0].Row.Key()).Row
				b.expect("the run deadline after the start", ran.RunDeadline.Sub(ran.StartedAt), own.Timeout)
				b.finish(w, store.Finish{Key: ran.Key(), To: execution.Failed, Reason: execution.Connection})
				next := b.row(b.orchestrate(ran.ID, retry, 0).Retry)
				b.expect("the retry's action", next.Action, own.On(Actions()[0]))
				b.expect("the retry's own limits", next.Limits, own)
			}
			b.expect("the child's action", b.row(child).Action, Actions()[0])
			b.expect("the child's own limits", b.row(child).Limits, execution.Limits{})
		}},
		{"a retry without a number is an error, whatever else follows the end", func(b *fixture) {
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
		{"a child of what has ended is decided at once", func(b *fixture) {
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
		{"a child that waits can be cancelled", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			child := b.child(key.ID, "").ID
			b.expect("accepted", b.cancel(child).Applied, true)
			b.finish(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrate(key.ID, 0, noRetry)
			b.expect("started with the others", fmt.Sprint(b.settle(key.ID, enough)), fmt.Sprint(store.Settled{}))
			b.expect("found afterwards", list(b.find(store.Finding{Cause: store.Unsettled})...), list())
			b.expect("the child", b.row(child).Status, execution.Cancelled)
		}},
		{"a child is created once under its key, and not without its parent", func(b *fixture) {
			parent := b.create("shell.echo", 1)[0]
			first, second := b.child(parent, "k"), b.child(parent, "k")
			b.expect("the second creation", fmt.Sprint(second.ID, second.Existed), fmt.Sprint(first.ID, true))
			b.expect("of nobody", b.child(999, ""), store.Created{UnknownParent: true})
		}},
		{"many children are created in one call, each with an answer of its own", func(b *fixture) {
			w := b.active("w")
			b.cancel(b.create("shell.echo", 1)[0])
			waits := b.create("python.run", 1)[0]
			completed, failed := b.running(w), b.failed(w)
			b.finish(w, store.Finish{Key: completed, To: execution.Completed})
			b.orchestrate(completed.ID, 0, noRetry)
			b.orchestrate(failed.ID, 0, noRetry)
			old := b.child(waits, "old").ID
			items := []store.NewExecution{
				{ActionRef: "shell.echo", Parent: failed.ID},
				{ActionRef: "shell.echo"},
				{ActionRef: "no.such", Parent: waits},
				{ActionRef: "shell.echo", Parent: 999},
				{ActionRef: "shell.echo", Parent: waits, IdempotencyKey: "old"},
				{ActionRef: "shell.echo", Parent: completed.ID, IdempotencyKey: "k"},
				{ActionRef: "shell.echo", Parent: waits, IdempotencyKey: "k"},
				{ActionRef: "shell.echo", Parent: waits, IdempotencyKey: "k"},
				{ActionRef: "shell.echo", Parent: waits, Pinned: 999},
				{ActionRef: "shell.echo", Parent: waits},
			}
			created, err := b.Store.Create(b.ctx, items)
			b.must(err)
			var all []string
			for i, c := range created {
				now := "nothing"
				if c.ID != 0 {
					now = fmt.Sprint(b.row(c.ID).Status, b.row(c.ID).AwaitsParent, b.row(c.ID).Parent == items[i].Parent)
				}
				all = append(all, fmt.Sprint(c.Existed, c.Skipped, c.UnknownAction, c.UnknownParent, c.UnknownWorker, " ", now))
			}
			for i, want := range []string{
				"false true false false false cancelled false true", "false false false false false requested false true",
				"false false true false false nothing", "false false false true false nothing", "true false false false false requested true true",
				"false false false false false requested false true", "true false false false false requested false false",
				"true false false false false requested false false", "false false false false true nothing",
				"false false false false false requested true true",
			} {
				b.expect(fmt.Sprint("item ", i, ": existed, skipped, unknown action, parent, worker; status, waits, its parent"), all[i], want)
			}
			b.expect("those with one key", list(created[4].ID, created[6].ID, created[7].ID), list(old, created[5].ID, created[5].ID))
		}},
		{"an invalid child does not stop the others", func(b *fixture) {
			parent := b.create("shell.echo", 1)[0]
			items := make([]store.NewExecution, 7)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "shell.echo", Parent: parent}
			}
			items[2].Parameters, items[5].IdempotencyKey = []byte(`{`), "k\x00"
			created, err := b.Store.Create(b.ctx, items)
			b.expect("the error", failed(err), "the request was wrong")
			var made []bool
			for _, c := range created {
				made = append(made, c.ID != 0)
			}
			b.expect("created", fmt.Sprint(made), "[true true false true true false true]")
		}},
	}
}
