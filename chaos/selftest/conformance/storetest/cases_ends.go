package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// endingCases are about the ends that a result handles in its own step, and those that wait for Orchestrate.
func endingCases() []Case {
	completed := func(key execution.Key) store.Finish { return store.Finish{Key: key, To: execution.Completed} }
	return []Case{
		{"an end that nothing can follow is handled in the step that writes it", func(b *fixture) {
			w := b.activeWorker("w")
			plain, canceled := b.runningExecution(w), b.runningExecution(w)
			b.cancelExecution(canceled.ID)
			for _, key := range []execution.Key{plain, canceled} {
				b.Advance(time.Second)
				o := b.finishRun(w, completed(key))
				b.expect("applied, status", fmt.Sprint(o.Applied, o.Row.Status), "true completed")
				b.expect("that it was handled when it ended", o.Row.OrchestratedAt.Equal(o.Row.Ended) && !o.Row.Ended.IsZero(), true)
				b.expect("the row's", b.readRow(key.ID).OrchestratedAt, o.Row.OrchestratedAt)
			}
			b.expect("found as not handled", idList(b.findRows(store.Finding{Cause: store.Unorchestrated})...), idList())
		}},
		{"such an end is not handled twice, by any caller", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			first := b.finishRun(w, completed(key)).Row.OrchestratedAt
			b.Advance(time.Second)
			b.expect("handled again", fmt.Sprint(b.orchestrateEnd(key.ID, 0, noRetry)), fmt.Sprint(store.Orchestrated{}))
			b.expect("with a retry", fmt.Sprint(b.orchestrateEnd(key.ID, 1, 0)), fmt.Sprint(store.Orchestrated{}))
			again := b.finishRun(w, completed(key))
			b.expect("the result once more: applied, since when it is handled", fmt.Sprint(again.Applied, again.Row.OrchestratedAt.Equal(first)), "false true")
		}},
		{"an end that is not completed waits to be handled", func(b *fixture) {
			w := b.activeWorker("w")
			cancelled := b.runningExecution(w)
			b.cancelExecution(cancelled.ID)
			for _, f := range []store.Finish{
				{Key: b.runningExecution(w), To: execution.Failed, Reason: execution.Validation},
				{Key: b.runningExecution(w), To: execution.Failed, Reason: execution.Connection},
				{Key: b.runningExecution(w), To: execution.Timeout, Reason: execution.RunTimeout},
				{Key: cancelled, To: execution.Cancelled, Reason: execution.CancelRequested},
			} {
				b.expect(fmt.Sprint("that the end as ", f.To, " is handled"), b.finishRun(w, f).Row.OrchestratedAt.IsZero(), true)
				b.expect("that it can be", b.orchestrateEnd(f.Key.ID, 0, noRetry).Applied, true)
			}
		}},
		{"the end of a retry waits to be handled", func(b *fixture) {
			w := b.activeWorker("w")
			retry := b.orchestrateEnd(b.failedExecution(w).ID, 1, 0).Retry
			b.expect("claimed for scheduling", b.claimDueRow("executor").ID, retry)
			key := b.dispatchRow(w, execution.Key{ID: retry})
			b.claimDispatch(w, key)
			b.expect("that its end is handled", b.finishRun(w, completed(key)).Row.OrchestratedAt.IsZero(), true)
			b.expect("that it can be", b.orchestrateEnd(retry, 0, noRetry).Applied, true)
		}},
		{"the end of what may hold a slot waits to be handled, whatever its action says by now", func(b *fixture) {
			b.limitConcurrency(1)
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.limitConcurrency(0)
			b.expect("that its end is handled", b.finishRun(w, completed(key)).Row.OrchestratedAt.IsZero(), true)
			b.expect("that it can be", b.orchestrateEnd(key.ID, 0, noRetry).Applied, true)
			free := b.runningExecution(w)
			b.limitConcurrency(1)
			b.expect("that the end of what was created without a limit is not", b.finishRun(w, completed(free)).Row.OrchestratedAt.IsZero(), false)
		}},
		{"the end of a parent waits to be handled, and a child that comes after an end that does not is due at once", func(b *fixture) {
			w := b.activeWorker("w")
			parent, alone := b.runningExecution(w), b.runningExecution(w)
			first := b.createChild(parent.ID, "").ID
			b.expect("that the parent's end is handled", b.finishRun(w, completed(parent)).Row.OrchestratedAt.IsZero(), true)
			b.finishRun(w, completed(alone))
			due, waits := b.createChild(alone.ID, "").ID, b.createChild(parent.ID, "").ID
			b.expect("that they wait", fmt.Sprint(b.readRow(first).AwaitsParent, b.readRow(waits).AwaitsParent, b.readRow(due).AwaitsParent), "true true false")
			b.expect("claimed", b.countClaimed(), 1)
			b.expect("that the parent has children", b.orchestrateEnd(parent.ID, 0, noRetry).Children, true)
			b.expect("started", idList(b.settleChildren(parent.ID, enough).Started...), idList(first, waits))
			b.expect("of the other one", fmt.Sprint(b.settleChildren(alone.ID, enough)), fmt.Sprint(store.Settled{}))
		}},
		{"the results of one call are handled each as it can be", func(b *fixture) {
			w := b.activeWorker("w")
			alone, parent, failed := b.runningExecution(w), b.runningExecution(w), b.runningExecution(w)
			b.createChild(parent.ID, "")
			out, err := b.Store.Finish(b.ctx, w, []store.Finish{
				completed(parent), {Key: failed, To: execution.Failed, Reason: execution.Connection}, completed(alone), completed(alone), completed(execution.Key{ID: 999, Epoch: 1}),
			})
			b.must(err)
			var said []bool
			for _, o := range out {
				said = append(said, o.Applied, !o.Row.OrchestratedAt.IsZero())
			}
			b.expect("applied and handled", fmt.Sprint(said), "[true false true false true true false true false false]")
			b.expect("found as not handled", idList(b.findRows(store.Finding{Cause: store.Unorchestrated, Limit: 9})...), idList(parent.ID, failed.ID))
		}},
	}
}
