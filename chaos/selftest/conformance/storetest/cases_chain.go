package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func (fi *fixture) cancelExecution(id execution.ID) store.Cancellation {
	fi.t.Helper()
	answers, err := fi.Store.Cancel(fi.ctx, []execution.ID{id}, "")
	fi.must(err)
	return answers[0]
}

// failedExecution creates an execution that a worker has run and that has failed for a temporary reason.
func (fi *fixture) failedExecution(w store.WorkerKey) execution.Key {
	fi.t.Helper()
	key := fi.runningExecution(w)
	fi.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
	return key
}

// orchestrateEnd handles the end of an execution, with a retry after delay, or without one if delay is
// negative.
func (fi *fixture) orchestrateEnd(id execution.ID, count int, delay time.Duration) store.Orchestrated {
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
		{"an unclaimed execution is cancelled at once", func(b *fixture) {
			w := b.activeWorker("w")
			scheduled := b.scheduledExecution(w).ID
			b.createExecutions("shell.echo", 1)
			scheduling := b.claimDueRow("e").ID
			requested := b.createExecutions("shell.echo", 1)[0]
			for id, from := range map[execution.ID]execution.Status{scheduled: execution.Scheduled, scheduling: execution.Scheduling, requested: execution.Requested} {
				c := b.cancelExecution(id)
				b.expect("accepted, from, to", fmt.Sprint(c.Applied, c.From, c.Row.Status), fmt.Sprint(true, from, execution.Cancelled))
				row := b.readRow(id)
				b.expect("the row", fmt.Sprint(row.Status, row.FailureReason, row.Ended.IsZero(), row.CancelRequestedAt.IsZero()),
					fmt.Sprint(execution.Cancelled, execution.CancelRequested, false, false))
			}
			b.expect("the worker's load", b.readWorker(w).Load, 0)
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 5})
			b.must(err)
			b.expect("claimed for scheduling afterwards", len(rows), 0)
		}},
		{"the claim of a cancelled execution is refused", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			b.cancelExecution(key.ID)
			r := b.claimDispatch(w, key)
			b.expect("applied, deadline passed, status", fmt.Sprint(r.Applied, r.DeadlinePassed, r.Row.Status), "false false cancelled")
		}},
		{"a running execution is requested to end, and its worker reports the result", func(b *fixture) {
			w := b.activeWorker("w")
			cancelled, completed := b.runningExecution(w), b.runningExecution(w)
			for _, key := range []execution.Key{cancelled, completed} {
				c := b.cancelExecution(key.ID)
				b.expect("accepted, from, to", fmt.Sprint(c.Applied, c.From, c.Row.Status), "true running canceling")
				b.expect("its owner and epoch", fmt.Sprint(c.Row.Incarnation, c.Row.Epoch), fmt.Sprint(w.Incarnation, key.Epoch))
			}
			again := b.cancelExecution(cancelled.ID)
			b.expect("asked again", fmt.Sprint(again.Applied, again.From, again.Row.Status), "true canceling canceling")
			b.expect("the worker's load", b.readWorker(w).Load, 2)
			b.expect("the answer", b.finishRun(w, store.Finish{Key: cancelled, To: execution.Cancelled, Reason: execution.CancelRequested}).Applied, true)
			b.expect("what came first", b.finishRun(w, store.Finish{Key: completed, To: execution.Completed}).Applied, true)
			b.expect("cancelling what has ended", fmt.Sprint(b.cancelExecution(cancelled.ID).Applied, b.cancelExecution(completed.ID).Applied), "false false")
		}},
		{"a heartbeat's reply names the executions to end", func(b *fixture) {
			w := b.activeWorker("w")
			goes, stays := b.runningExecution(w), b.runningExecution(w)
			b.cancelExecution(goes.ID)
			reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{goes, stays}})
			b.must(err)
			b.expect("to be ended, and lost", fmt.Sprint(reply.Cancel, reply.Lost), fmt.Sprint([]execution.Key{goes}, []execution.Key(nil)))
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 3, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{stays}})
			b.must(err)
			b.expect("canceling, and not held any more", fmt.Sprint(b.readRow(goes.ID).Status, b.readRow(goes.ID).FailureReason), "cancelled cancelled")
		}},
		{"a canceling execution ends as cancelled when it is reclaimed from its worker", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.cancelExecution(key.ID)
			b.expect("unanswered at once", idList(b.findRows(store.Finding{Cause: store.Unanswered, Age: time.Second})...), idList())
			b.Advance(RunTimeout)
			b.expect("unanswered", idList(b.findRows(store.Finding{Cause: store.Unanswered, Age: time.Second})...), idList(key.ID))
			o := b.reclaimRow(store.Reclaim{Key: key, Cause: store.Overrun, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout})
			b.expect("applied, status, reason", fmt.Sprint(o.Applied, o.Row.Status, o.Row.FailureReason), "true cancelled cancelled")
		}},
		{"cancelling any row of a chain cancels its pending retry", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			retry := b.orchestrateEnd(key.ID, 1, time.Minute).Retry
			c := b.cancelExecution(key.ID)
			b.expect("accepted, row, status", fmt.Sprint(c.Applied, c.Row.ID, c.Row.Status), fmt.Sprint(true, retry, execution.Cancelled))
			b.expect("the request stands on the first row", b.readRow(key.ID).CancelRequestedAt.IsZero(), false)
			b.expect("and again", b.cancelExecution(retry).Applied, false)
		}},
		{"no retry joins a chain whose cancellation was requested", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			c := b.cancelExecution(key.ID)
			b.expect("accepted, status", fmt.Sprint(c.Applied, c.Row.Status), "true failed")
			b.expect("the handling of its end", fmt.Sprint(b.orchestrateEnd(key.ID, 1, 0)), fmt.Sprint(store.Orchestrated{Applied: true}))
			b.expect("cancelling afterwards", b.cancelExecution(key.ID).Applied, false)
		}},
		{"a chain that has ended permanently is not cancelled", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Validation})
			c := b.cancelExecution(key.ID)
			b.expect("accepted, status", fmt.Sprint(c.Applied, c.Row.Status), "false failed")
			b.expect("what does not exist", fmt.Sprint(b.cancelExecution(999).Applied, b.cancelExecution(999).Row.ID), "false 0")
		}},
	}
}

// createChild creates an execution with a parent.
func (fi *fixture) createChild(parent execution.ID, key string) store.Created {
	fi.t.Helper()
	created, err := fi.Store.Create(fi.ctx, []store.NewExecution{{ActionRef: "shell.echo", Parent: parent, IdempotencyKey: key}})
	fi.must(err)
	return created[0]
}

func (fi *fixture) countClaimed() int {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{Executor: "children", Expiry: time.Minute, Others: 10})
	fi.must(err)
	return len(rows)
}

// settleChildren settles at most `most` children of a chain.
func (fi *fixture) settleChildren(chain execution.ID, most int) store.Settled {
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
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			first, second := b.createChild(key.ID, "").ID, b.createChild(key.ID, "").ID
			b.expect("its parent, and that it waits", fmt.Sprint(b.readRow(first).Parent, b.readRow(first).AwaitsParent, b.readRow(first).Status), fmt.Sprint(key.ID, true, execution.Requested))
			b.expect("claimed while the parent runs", b.countClaimed(), 0)
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.expect("claimed before its end is handled", b.countClaimed(), 0)
			b.expect("that there are children", b.orchestrateEnd(key.ID, 0, noRetry).Children, true)
			b.expect("claimed before they are settled", b.countClaimed(), 0)
			done := b.settleChildren(key.ID, enough)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped, done.More), fmt.Sprint([]execution.ID{first, second}, []execution.ID(nil), false))
			b.expect("claimed afterwards", b.countClaimed(), 2)
			b.expect("that it waits", b.readRow(first).AwaitsParent, false)
		}},
		{"children of a chain wait for its last row", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			child := b.createChild(key.ID, "").ID
			retry := b.orchestrateEnd(key.ID, 1, 0)
			b.expect("that the first row has children to settle", retry.Children, false)
			b.expect("settled after the first row", fmt.Sprint(b.settleChildren(key.ID, enough)), fmt.Sprint(store.Settled{}))
			late := b.createChild(retry.Retry, "").ID
			b.expect("a parent is the chain's first row", b.readRow(late).Parent, key.ID)
			row := b.claimDueRow("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			b.claimDispatch(w, results[0].Row.Key())
			b.finishRun(w, store.Finish{Key: results[0].Row.Key(), To: execution.Completed})
			b.expect("that the last row has", b.orchestrateEnd(retry.Retry, 0, noRetry).Children, true)
			b.expect("named by the last row", fmt.Sprint(b.settleChildren(retry.Retry, enough)), fmt.Sprint(store.Settled{}))
			b.expect("started by the last", idList(b.settleChildren(key.ID, enough).Started...), idList(child, late))
		}},
		{"children are skipped when their parent does not complete", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			child := b.createChild(key.ID, "").ID
			grandchild := b.createChild(child, "").ID
			b.orchestrateEnd(key.ID, 0, noRetry)
			done := b.settleChildren(key.ID, enough)
			b.expect("started and skipped", fmt.Sprint(done.Started, done.Skipped), fmt.Sprint([]execution.ID(nil), []execution.ID{child}))
			row := b.readRow(child)
			b.expect("the child", fmt.Sprint(row.Status, row.FailureReason, row.Ended.IsZero()), "cancelled parent_failed false")
			b.expect("its end is found", idList(b.findRows(store.Finding{Cause: store.Unorchestrated})...), idList(child))
			b.orchestrateEnd(child, 0, noRetry)
			b.expect("skipped with it", idList(b.settleChildren(child, enough).Skipped...), idList(grandchild))
			b.expect("claimed", b.countClaimed(), 0)
		}},
		{"children are settled in bounded batches, and each of them once", func(b *fixture) {
			w := b.activeWorker("w")
			for _, end := range []struct {
				finish store.Finish
				as     string
			}{{store.Finish{To: execution.Completed}, "requested"}, {store.Finish{To: execution.Failed, Reason: execution.Validation}, "cancelled"}} {
				key := b.runningExecution(w)
				var children []execution.ID
				for range 5 {
					children = append(children, b.createChild(key.ID, "").ID)
				}
				end.finish.Key = key
				b.finishRun(w, end.finish)
				b.orchestrateEnd(key.ID, 0, noRetry)
				var settled []string
				for range 4 {
					s := b.settleChildren(key.ID, 2)
					settled = append(settled, fmt.Sprint(append(s.Started, s.Skipped...), s.More))
				}
				b.expect("the batches", fmt.Sprint(settled), fmt.Sprint([]string{
					fmt.Sprint(children[:2], true), fmt.Sprint(children[2:4], true), fmt.Sprint(children[4:], false), fmt.Sprint([]execution.ID(nil), false),
				}))
				b.expect("the last child", fmt.Sprint(b.readRow(children[4]).Status, b.readRow(children[4]).AwaitsParent), end.as+" false")
			}
		}},
		{"a batch of exactly as many children as wait is the last one", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			b.createChild(key.ID, "")
			b.createChild(key.ID, "")
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.expect("more after two of two", b.settleChildren(key.ID, 2).More, false)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unsettled})...), idList())
		}},
		{"a bound of zero settles nothing", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			b.createChild(key.ID, "")
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.expect("settled", fmt.Sprint(b.settleChildren(key.ID, 0), b.settleChildren(key.ID, -1)), fmt.Sprint(store.Settled{}, store.Settled{}))
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unsettled})...), idList(key.ID))
		}},
		{"chains with children to settle are found by when they were last worked on", func(b *fixture) {
			w := b.activeWorker("w")
			var chains []execution.ID
			for range 3 {
				key := b.failedExecution(w)
				b.createChild(key.ID, "")
				b.createChild(key.ID, "")
				chains = append(chains, key.ID)
				b.orchestrateEnd(key.ID, 0, noRetry)
				b.Advance(time.Second)
			}
			found := func(age time.Duration, skip ...execution.ID) string {
				return idList(b.findRows(store.Finding{Cause: store.Unsettled, Age: age, Limit: 10, Skip: skip})...)
			}
			b.expect("all", found(0), idList(chains...))
			b.expect("at the boundary", found(2*time.Second), idList(chains[:2]...))
			b.expect("just before it", found(2*time.Second+tick), idList(chains[0]))
			b.expect("without one", found(0, chains[1]), idList(chains[0], chains[2]))
			b.settleChildren(chains[0], 1)
			b.expect("after a batch of the first", found(0), idList(chains[1], chains[2], chains[0]))
			b.settleChildren(chains[1], enough)
			b.expect("after the second is done", found(0), idList(chains[2], chains[0]))
			b.expect("when the note was dated anew", b.readRow(chains[0]).SettlingAt.Sub(b.readRow(chains[0]).OrchestratedAt), 3*time.Second)
			b.expect("the one that is done", b.readRow(chains[1]).SettlingAt.IsZero(), true)
		}},
		{"several chains are settled in one call, each by its own end", func(b *fixture) {
			w := b.activeWorker("w")
			completed, failed, childless := b.runningExecution(w), b.failedExecution(w), b.failedExecution(w)
			due, skipped := b.createChild(completed.ID, "").ID, b.createChild(failed.ID, "").ID
			b.finishRun(w, store.Finish{Key: completed, To: execution.Completed})
			for _, id := range []execution.ID{completed.ID, failed.ID, childless.ID} {
				b.orchestrateEnd(id, 0, noRetry)
			}
			settled, err := b.Store.SettleChildren(b.ctx, []execution.ID{failed.ID, 999, childless.ID, completed.ID, failed.ID}, enough)
			b.must(err)
			b.expect("settled", fmt.Sprint(settled), fmt.Sprint([]store.Settled{{Skipped: []execution.ID{skipped}}, {}, {}, {Started: []execution.ID{due}}, {}}))
			none, err := b.Store.SettleChildren(b.ctx, nil, enough)
			b.must(err)
			b.expect("of nobody", len(none), 0)
		}},
		{"a child that is created while others wait to be settled is decided at once", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			first := b.createChild(key.ID, "").ID
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrateEnd(key.ID, 0, noRetry)
			late := b.createChild(key.ID, "").ID
			b.expect("that the late one waits, and the first", fmt.Sprint(b.readRow(late).AwaitsParent, b.readRow(first).AwaitsParent), "false true")
			b.expect("settled", fmt.Sprint(b.settleChildren(key.ID, enough)), fmt.Sprint(store.Settled{Started: []execution.ID{first}}))
		}},
		{"a call that handles an end does not settle the children", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			child := b.createChild(key.ID, "").ID
			done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}, {ID: child}})
			b.must(err)
			b.expect("children, and the child handled", fmt.Sprint(done[0].Children, done[1].Applied), "true false")
			b.expect("skipped", idList(b.settleChildren(key.ID, enough).Skipped...), idList(child))
			b.expect("the child's end is found", idList(b.findRows(store.Finding{Cause: store.Unorchestrated})...), idList(child))
		}},
		{"a child of a chain that was cancelled is skipped, whatever retry was proposed", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.failedExecution(w)
			child := b.createChild(key.ID, "").ID
			b.cancelExecution(key.ID)
			b.expect("retry", b.orchestrateEnd(key.ID, 1, 0).Retry, execution.ID(0))
			b.expect("skipped", idList(b.settleChildren(key.ID, enough).Skipped...), idList(child))
		}},
		{"a chain has children to settle only if one waits", func(b *fixture) {
			w := b.activeWorker("w")
			unknown, late := b.failedExecution(w), b.failedExecution(w)
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "no.such", Parent: unknown.ID}})
			b.must(err)
			b.expect("created", created[0], store.Created{UnknownAction: true})
			b.expect("of an unknown action", b.orchestrateEnd(unknown.ID, 0, noRetry).Children, false)
			b.orchestrateEnd(late.ID, 0, noRetry)
			b.createChild(late.ID, "")
			b.expect("of a child that was decided at once", b.readRow(late.ID).SettlingAt.IsZero(), true)
		}},
		{"retries have the limits of their chain, its children have not", func(b *fixture) {
			w := b.activeWorker("w")
			own := execution.Limits{Timeout: time.Second, DispatchTimeout: 3 * time.Second, MaxRetries: 9, OwnRetries: true}
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Limits: own}})
			b.must(err)
			first := created[0].ID
			child := b.createChild(first, "child").ID
			for retry := 1; retry <= 2; retry++ {
				row := b.claimDueRow("executor")
				results, err := b.Store.Dispatch(b.ctx, "executor", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
				b.must(err)
				ran := b.claimDispatch(w, results[0].Row.Key()).Row
				b.expect("the run deadline after the start", ran.RunDeadline.Sub(ran.StartedAt), own.Timeout)
				b.finishRun(w, store.Finish{Key: ran.Key(), To: execution.Failed, Reason: execution.Connection})
				next := b.readRow(b.orchestrateEnd(ran.ID, retry, 0).Retry)
				b.expect("the retry's action", next.Action, own.On(Actions()[0]))
				b.expect("the retry's own limits", next.Limits, own)
			}
			b.expect("the child's action", b.readRow(child).Action, Actions()[0])
			b.expect("the child's own limits", b.readRow(child).Limits, execution.Limits{})
		}},
		{"a retry without a number is an error, whatever else follows the end", func(b *fixture) {
			w := b.activeWorker("w")
			parent, cancelled := b.failedExecution(w), b.failedExecution(w)
			b.createChild(parent.ID, "")
			b.cancelExecution(cancelled.ID)
			for _, id := range []execution.ID{parent.ID, cancelled.ID, 999} {
				_, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: id, Retry: &store.Retry{Reason: execution.Connection}}})
				b.expect("an error", errorKind(err), "the request was wrong")
			}
			b.expect("handled afterwards", fmt.Sprint(b.orchestrateEnd(parent.ID, 0, noRetry).Applied, b.orchestrateEnd(cancelled.ID, 0, noRetry).Applied), "true true")
		}},
		{"a child of an ended execution is decided at once", func(b *fixture) {
			w := b.activeWorker("w")
			completed, failed := b.runningExecution(w), b.failedExecution(w)
			b.finishRun(w, store.Finish{Key: completed, To: execution.Completed})
			b.orchestrateEnd(completed.ID, 0, noRetry)
			b.orchestrateEnd(failed.ID, 0, noRetry)
			due, skipped := b.readRow(b.createChild(completed.ID, "").ID), b.readRow(b.createChild(failed.ID, "").ID)
			b.expect("of what has completed", fmt.Sprint(due.Status, due.AwaitsParent), "requested false")
			b.expect("of what has failed", fmt.Sprint(skipped.Status, skipped.FailureReason), "cancelled parent_failed")
			b.expect("claimed", b.countClaimed(), 1)
		}},
		{"a child that waits can be cancelled", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			child := b.createChild(key.ID, "").ID
			b.expect("accepted", b.cancelExecution(child).Applied, true)
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			b.orchestrateEnd(key.ID, 0, noRetry)
			b.expect("started with the others", fmt.Sprint(b.settleChildren(key.ID, enough)), fmt.Sprint(store.Settled{}))
			b.expect("found afterwards", idList(b.findRows(store.Finding{Cause: store.Unsettled})...), idList())
			b.expect("the child", b.readRow(child).Status, execution.Cancelled)
		}},
		{"a child is created once under its key, and not without its parent", func(b *fixture) {
			parent := b.createExecutions("shell.echo", 1)[0]
			first, second := b.createChild(parent, "k"), b.createChild(parent, "k")
			b.expect("the second creation", fmt.Sprint(second.ID, second.Existed), fmt.Sprint(first.ID, true))
			b.expect("of nobody", b.createChild(999, ""), store.Created{UnknownParent: true})
		}},
		{"many children are created in one call, each with its own answer", func(b *fixture) {
			w := b.activeWorker("w")
			b.cancelExecution(b.createExecutions("shell.echo", 1)[0])
			waits := b.createExecutions("python.run", 1)[0]
			completed, failed := b.runningExecution(w), b.failedExecution(w)
			b.finishRun(w, store.Finish{Key: completed, To: execution.Completed})
			b.orchestrateEnd(completed.ID, 0, noRetry)
			b.orchestrateEnd(failed.ID, 0, noRetry)
			old := b.createChild(waits, "old").ID
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
					now = fmt.Sprint(b.readRow(c.ID).Status, b.readRow(c.ID).AwaitsParent, b.readRow(c.ID).Parent == items[i].Parent)
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
			b.expect("those with one key", idList(created[4].ID, created[6].ID, created[7].ID), idList(old, created[5].ID, created[5].ID))
		}},
		{"an invalid child does not stop the others", func(b *fixture) {
			parent := b.createExecutions("shell.echo", 1)[0]
			items := make([]store.NewExecution, 7)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "shell.echo", Parent: parent}
			}
			items[2].Parameters, items[5].IdempotencyKey = []byte(`{`), "k\x00"
			created, err := b.Store.Create(b.ctx, items)
			b.expect("the error", errorKind(err), "the request was wrong")
			var made []bool
			for _, c := range created {
				made = append(made, c.ID != 0)
			}
			b.expect("created", fmt.Sprint(made), "[true true false true true false true]")
		}},
	}
}
