package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// endingCases are about which ends a result handles in its own step, and which wait for
// Orchestrate.
func endingCases() []Case {
	completed := func(key execution.Key) store.Finish { return store.Finish{Key: key, To: execution.Completed} }
	return []Case{
		{"an end that nothing can follow is handled in the step that writes it", func(b *fixture) {
			w := b.active("w")
			plain, canceled := b.running(w), b.running(w)
			b.cancel(canceled.ID)
			for _, key := range []execution.Key{plain, canceled} {
				b.Advance(time.Second)
				o := b.finish(w, completed(key))
				b.expect("applied, status", fmt.Sprint(o.Applied, o.Row.Status), "true completed")
				b.expect("that it was handled when it ended", o.Row.OrchestratedAt.Equal(o.Row.Ended) && !o.Row.Ended.IsZero(), true)
				b.expect("the row's", b.row(key.ID).OrchestratedAt, o.Row.OrchestratedAt)
			}
			b.expect("found as not handled", list(b.find(store.Finding{Cause: store.Unorchestrated})...), list())
		}},
		{"such an end is not handled again, by whomever", func(b *fixture) {
			w := b.active("w")
			key := b.running(w)
			first := b.finish(w, completed(key)).Row.OrchestratedAt
			b.Advance(time.Second)
			b.expect("handled again", fmt.Sprint(b.orchestrate(key.ID, 0, noRetry)), fmt.Sprint(store.Orchestrated{}))
			b.expect("with a retry", fmt.Sprint(b.orchestrate(key.ID, 1, 0)), fmt.Sprint(store.Orchestrated{}))
			again := b.finish(w, completed(key))
			b.expect("the result once more: applied, since when it is handled", fmt.Sprint(again.Applied, again.Row.OrchestratedAt.Equal(first)), "false true")
		}},
		{"an end that is not completed waits to be handled", func(b *fixture) {
			w := b.active("w")
			cancelled := b.running(w)
			b.cancel(cancelled.ID)
			for _, f := range []store.Finish{
				{Key: b.running(w), To: execution.Failed, Reason: execution.Validation},
				{Key: b.running(w), To: execution.Failed, Reason: execution.Connection},
				{Key: b.running(w), To: execution.Timeout, Reason: execution.RunTimeout},
				{Key: cancelled, To: execution.Cancelled, Reason: execution.CancelRequested},
			} {
				b.expect(fmt.Sprint("that the end as ", f.To, " is handled"), b.finish(w, f).Row.OrchestratedAt.IsZero(), true)
				b.expect("that it can be", b.orchestrate(f.Key.ID, 0, noRetry).Applied, true)
			}
		}},
		{"the end of a retry waits to be handled", func(b *fixture) {
			w := b.active("w")
			retry := b.orchestrate(b.failed(w).ID, 1, 0).Retry
			b.expect("claimed for scheduling", b.claimed("executor").ID, retry)
			key := b.dispatched(w, execution.Key{ID: retry})
			b.claim(w, key)
			b.expect("that its end is handled", b.finish(w, completed(key)).Row.OrchestratedAt.IsZero(), true)
			b.expect("that it can be", b.orchestrate(retry, 0, noRetry).Applied, true)
		}},
		{"the end of what may hold a slot waits to be handled, whatever its action says by now", func(b *fixture) {
			b.limited(1)
			w := b.active("w")
			key := b.running(w)
			b.limited(0)
			b.expect("that its end is handled", b.finish(w, completed(key)).Row.OrchestratedAt.IsZero(), true)
			b.expect("that it can be", b.orchestrate(key.ID, 0, noRetry).Applied, true)
			free := b.running(w)
			b.limited(1)
			b.expect("that the end of what was created without a limit is not", b.finish(w, completed(free)).Row.OrchestratedAt.IsZero(), false)
		}},
		{"the end of a parent waits to be handled, and a child that comes after an end that does not is due at once", func(b *fixture) {
			w := b.active("w")
			parent, alone := b.running(w), b.running(w)
			first := b.child(parent.ID, "").ID
			b.expect("that the parent's end is handled", b.finish(w, completed(parent)).Row.OrchestratedAt.IsZero(), true)
			b.finish(w, completed(alone))
			due, waits := b.child(alone.ID, "").ID, b.child(parent.ID, "").ID
			b.expect("that they wait", fmt.Sprint(b.row(first).AwaitsParent, b.row(waits).AwaitsParent, b.row(due).AwaitsParent), "true true false")
			b.expect("claimed", b.claimable(), 1)
			b.expect("that the parent has children", b.orchestrate(parent.ID, 0, noRetry).Children, true)
			b.expect("started", list(b.settle(parent.ID, enough).Started...), list(first, waits))
			b.expect("of the other one", fmt.Sprint(b.settle(alone.ID, enough)), fmt.Sprint(store.Settled{}))
		}},
		{"the results of one call are handled each as it can be", func(b *fixture) {
			w := b.active("w")
			alone, parent, failed := b.running(w), b.running(w), b.running(w)
			b.child(parent.ID, "")
			out, err := b.Store.Finish(b.ctx, w, []store.Finish{
				completed(parent), {Key: failed, To: execution.Failed, Reason: execution.Connection}, completed(alone), completed(alone), completed(execution.Key{ID: 999, Epoch: 1}),
			})
			b.must(err)
			var said []bool
			for _, o := range out {
				said = append(said, o.Applied, !o.Row.OrchestratedAt.IsZero())
			}
			b.expect("applied and handled", fmt.Sprint(said), "[true false true false true true false true false false]")
			b.expect("found as not handled", list(b.find(store.Finding{Cause: store.Unorchestrated, Limit: 9})...), list(parent.ID, failed.ID))
		}},
	}
}
