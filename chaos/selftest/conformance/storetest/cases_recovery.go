package storetest

import (
	"fmt"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// goneOwner is a case for each status: the search does not depend on the work of other incarnations, with
// smaller or greater numbers, or of none.
func goneOwner(status execution.Status) Case {
	return Case{"work of a gone owner is found wherever it stands among owners: " + status.String(), func(b *fixture) {
		leave := func(name string) execution.ID {
			w := b.activeWorker(name)
			key := b.scheduledExecution(w)
			if status != execution.Scheduled {
				b.claimDispatch(w, key)
			}
			if status == execution.Canceling {
				b.cancelExecution(key.ID)
			}
			return key.ID
		}
		first := leave("first")
		holds := b.activeWorker("holds")
		b.scheduledExecution(holds)
		b.cancelExecution(b.runningExecution(holds).ID)
		b.runningExecution(holds)
		b.Advance(time.Second)
		last := leave("last")
		b.Advance(Lease + time.Minute)
		b.activeWorker("first")
		b.activeWorker("last")
		b.expect("found", idList(b.findRows(store.Finding{Cause: store.OwnerGone, Limit: 10})...), idList(first, last))
	}}
}

func recoveryCases() []Case {
	return []Case{
		goneOwner(execution.Scheduled), goneOwner(execution.Running), goneOwner(execution.Canceling),
		{"rows that need attention are found by each cause, the oldest first, within the limit, without skipped ones", func(b *fixture) {
			w, gone := b.activeWorker("w"), b.activeWorker("gone")
			two := func(make func() execution.ID) (ids []execution.ID) {
				for range 2 {
					ids = append(ids, make())
					b.Advance(time.Second)
				}
				return ids
			}
			ended := func() execution.ID {
				key := b.runningExecution(w)
				b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Validation})
				return key.ID
			}
			unsettled := two(func() execution.ID {
				key := b.runningExecution(w)
				b.createChild(key.ID, "")
				b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
				b.orchestrateEnd(key.ID, 0, noRetry)
				return key.ID
			})
			unorchestrated := two(ended)
			canceling := two(func() execution.ID {
				key := b.runningExecution(w)
				b.cancelExecution(key.ID)
				return key.ID
			})
			running := two(func() execution.ID { return b.runningExecution(w).ID })
			scheduled := two(func() execution.ID { return b.scheduledExecution(w).ID })
			lost := two(func() execution.ID { return b.runningExecution(gone).ID })
			b.createExecutions("shell.echo", 2)
			expired := two(func() execution.ID { return b.claimDueRow("executor").ID })
			b.Advance(Lease + time.Minute)
			b.activeWorker("gone")
			for _, c := range []struct {
				cause store.ReclaimCause
				want  []execution.ID
			}{
				{store.Unclaimed, scheduled},
				{store.Unpublished, scheduled},
				{store.UnpublishedLate, scheduled},
				{store.OwnerGone, lost},
				{store.Overrun, slices.Concat(canceling, running, lost)},
				{store.ClaimExpired, expired},
				{store.Unorchestrated, unorchestrated},
				{store.Unanswered, canceling},
				{store.Unsettled, unsettled},
			} {
				what := fmt.Sprint(c.cause)
				b.expect(what, idList(b.findRows(store.Finding{Cause: c.cause, Limit: 10})...), idList(c.want...))
				b.expect(what+", one", idList(b.findRows(store.Finding{Cause: c.cause, Limit: 1})...), idList(c.want[0]))
				skip := []execution.ID{c.want[0], 1 << 40}
				b.expect(what+", but for the first", idList(b.findRows(store.Finding{Cause: c.cause, Limit: 10, Skip: skip})...), idList(c.want[1:]...))
			}
		}},
		{"unclaimed work is found and reclaimed from its age on", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			age := 30 * time.Second
			b.Advance(age - tick)
			b.expect("found before", idList(b.findRows(store.Finding{Cause: store.Unclaimed, Age: age})...), idList())
			b.expect("taken back before", b.reclaimRow(unclaimedReclaim(key, store.Unclaimed, age)).Applied, false)
			b.Advance(tick)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unclaimed, Age: age})...), idList(key.ID))
			out := b.reclaimRow(unclaimedReclaim(key, store.Unclaimed, age))
			b.expect("applied, status, epoch, avoided", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Epoch, out.Row.Avoid), fmt.Sprint(true, execution.Requested, key.Epoch+1, w.ID))
			b.expect("the owner", fmt.Sprint(out.Row.Worker, out.Row.Incarnation), "0 0")
			b.expect("taken back again", b.reclaimRow(unclaimedReclaim(key, store.Unclaimed, age)).Applied, false)
		}},
		{"running work is not reclaimed as unclaimed", func(b *fixture) {
			key := b.runningExecution(b.activeWorker("w"))
			b.Advance(time.Hour)
			out := b.reclaimRow(unclaimedReclaim(key, store.Unclaimed, time.Second))
			b.expect("applied, status", fmt.Sprint(out.Applied, out.Row.Status), "false running")
		}},
		{"a take-back counts only while the worker stays active", func(b *fixture) {
			stays, leaves := b.activeWorker("stays"), b.activeWorker("leaves")
			counted, uncounted := b.scheduledExecution(stays), b.scheduledExecution(leaves)
			b.must(b.Store.SetLifecycle(b.ctx, leaves, execution.Draining))
			for _, key := range []execution.Key{counted, uncounted} {
				r := unclaimedReclaim(key, store.DeadLettered, 0)
				r.Counts = true
				b.reclaimRow(r)
			}
			b.expect("dispatches at the worker that stays", b.readRow(counted.ID).Dispatches, 1)
			b.expect("dispatches at the worker that leaves", b.readRow(uncounted.ID).Dispatches, 0)
		}},
		{"a dispatch that waits at a full worker does not count and is not failed", func(b *fixture) {
			w := b.activeWorker("w")
			keys := []execution.Key{b.scheduledExecution(w), b.scheduledExecution(w)}
			var runs []execution.Key
			for range Capacity {
				runs = append(runs, b.runningExecution(w))
			}
			b.expectBehind(w, keys[0])
			// Now a slot is free again, and only a heartbeat could report that the row waited.
			b.finishRun(w, store.Finish{Key: runs[0], To: execution.Completed})
			r := unclaimedReclaim(keys[1], store.DeadLettered, 0)
			r.Counts = true
			b.expect("dispatches at a worker with a free slot", b.reclaimRow(r).Row.Dispatches, 1)
			b.expect("expiries held against it", len(b.readWorker(w).Expired), 1)
		}},
		{"a dispatch does not count if the worker reports that it was full since then", func(b *fixture) {
			w := b.activeWorker("w")
			before := b.scheduledExecution(w)
			b.Advance(5 * time.Second)
			after := b.scheduledExecution(w)
			b.Advance(3 * time.Second)
			// The worker was full until five seconds ago: after the first dispatch, and before the
			// second.
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, WasFull: true, FullAgo: 5 * time.Second})
			b.must(err)
			b.expectBehind(w, before)
			r := unclaimedReclaim(after, store.DeadLettered, 0)
			r.Counts = true
			b.expect("dispatches of the later one", b.reclaimRow(r).Row.Dispatches, 1)
		}},
		{"a worker that was full at the very moment of a dispatch was full since then", func(b *fixture) {
			w := b.activeWorker("w")
			b.Advance(time.Second)
			at, early := b.scheduledExecution(w), b.scheduledExecution(w)
			b.Advance(2 * time.Second)
			beat := func(number uint64, ago time.Duration) {
				_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Lease: Lease, ConsumerAlive: true, WasFull: true, FullAgo: ago})
				b.must(err)
			}
			beat(2, 2*time.Second)
			b.expectBehind(w, at)
			beat(3, 2*time.Second+tick)
			r := unclaimedReclaim(early, store.DeadLettered, 0)
			r.Counts = true
			b.expect("dispatches a tick later", b.reclaimRow(r).Row.Dispatches, 1)
		}},
		{"a worker that was full and is gone protects no dispatch", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, WasFull: true})
			b.must(err)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Stopped))
			r := unclaimedReclaim(key, store.OwnerGone, 0)
			r.Policy = config.Fail
			b.expect("the status", b.reclaimRow(r).Row.Status, execution.Failed)
		}},
		{"the last dispatch that counts fails the execution", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			r := unclaimedReclaim(key, store.DeadLettered, 0)
			r.Counts, r.MaxDispatches, r.Reason = true, 1, execution.QueueTimeout
			out := b.reclaimRow(r)
			b.expect("status, reason, dispatches, epoch", fmt.Sprint(out.Row.Status, out.Row.FailureReason, out.Row.Dispatches, out.Row.Epoch), fmt.Sprint(execution.Failed, execution.QueueTimeout, 1, key.Epoch))
			b.expect("the text", out.Row.Result.Error, "taken back")
		}},
		{"the policy fail fails executions that were never claimed", func(b *fixture) {
			r := unclaimedReclaim(b.scheduledExecution(b.activeWorker("w")), store.Undeliverable, 0)
			r.Policy = config.Fail
			b.expect("the status", b.reclaimRow(r).Row.Status, execution.Failed)
		}},
		{"a reclaimed execution waits for its delay", func(b *fixture) {
			w := b.activeWorker("w")
			r := unclaimedReclaim(b.scheduledExecution(w), store.DeadLettered, 0)
			r.Delay = 3 * time.Second
			b.reclaimRow(r)
			claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1}
			b.Advance(3*time.Second - tick)
			early, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.Advance(tick)
			due, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.expect("claimed before and when it is due", fmt.Sprint(len(early), len(due)), "0 1")
		}},
		{"a dead letter of an older epoch takes nothing back", func(b *fixture) {
			w := b.activeWorker("w")
			old := b.scheduledExecution(w)
			b.reclaimRow(unclaimedReclaim(old, store.DeadLettered, 0))
			row := b.claimDueRow("e")
			_, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			out := b.reclaimRow(unclaimedReclaim(old, store.DeadLettered, 0))
			b.expect("applied, status, epoch", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Epoch), fmt.Sprint(false, execution.Scheduled, old.Epoch+2))
		}},
		{"unpublished work is found until the confirm is recorded", func(b *fixture) {
			w := b.activeWorker("w")
			key, published := b.scheduledExecution(w), b.scheduledExecution(w)
			b.markPublished(published)
			b.Advance(10*time.Second - tick)
			b.expect("found before its age", idList(b.findRows(store.Finding{Cause: store.Unpublished, Age: 10 * time.Second, Limit: 5})...), idList())
			b.Advance(tick)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unpublished, Age: 10 * time.Second, Limit: 5})...), idList(key.ID))
		}},
		{"unpublished work is late from half of its own dispatch timeout on, and of the age", func(b *fixture) {
			w := b.activeWorker("w")
			late := func(age time.Duration) string {
				return idList(b.findRows(store.Finding{Cause: store.UnpublishedLate, Age: age, Limit: 5})...)
			}
			key, published := b.scheduledExecution(w), b.scheduledExecution(w)
			b.markPublished(published)
			b.Advance(DispatchTimeout/2 - tick)
			b.expect("found before half of its time", late(time.Second), idList())
			b.expect("taken back before half of its time", b.reclaimRow(unclaimedReclaim(key, store.UnpublishedLate, time.Second)).Applied, false)
			b.Advance(tick)
			b.expect("found at half of its time", late(time.Second), idList(key.ID))
			b.expect("found before its age", late(DispatchTimeout/2+tick), idList())
			b.expect("taken back before its age", b.reclaimRow(unclaimedReclaim(key, store.UnpublishedLate, DispatchTimeout/2+tick)).Applied, false)
			b.expect("taken back although published", b.reclaimRow(unclaimedReclaim(published, store.UnpublishedLate, time.Second)).Applied, false)
			out := b.reclaimRow(unclaimedReclaim(key, store.UnpublishedLate, time.Second))
			b.expect("applied, status, epoch", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Epoch), fmt.Sprint(true, execution.Requested, key.Epoch+1))
		}},
		{"an expired scheduling claim is found and reclaimed", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			b.Advance(15 * time.Second)
			b.expect("found at its end", idList(b.findRows(store.Finding{Cause: store.ClaimExpired})...), idList())
			b.Advance(tick)
			b.expect("found after it", idList(b.findRows(store.Finding{Cause: store.ClaimExpired})...), idList(row.ID))
			r := unclaimedReclaim(row.Key(), store.ClaimExpired, 0)
			out := b.reclaimRow(r)
			b.expect("applied, status, epoch", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Epoch), fmt.Sprint(true, execution.Requested, row.Epoch+1))
		}},
		{"a worker is marked lost only after its lease and at the beat that was watched", func(b *fixture) {
			w := b.activeWorker("w")
			reap := func(beat uint64) bool {
				done, err := b.Store.Reap(b.ctx, []store.Reap{{WorkerKey: w, Beat: beat}})
				b.must(err)
				return done[0]
			}
			b.Advance(Lease)
			b.expect("at the end of its lease", reap(1), false)
			b.Advance(tick)
			b.expect("at another beat", reap(2), false)
			b.expect("after its lease", reap(1), true)
			b.expect("a second time", reap(1), false)
			b.expect("the lifecycle", b.readWorker(w).Lifecycle, execution.Lost)
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease})
			b.expectError("its next heartbeat", err, store.ErrLost)
		}},
		{"work of a worker that is gone: the unclaimed at once, the running after lease and grace", func(b *fixture) {
			w := b.activeWorker("w")
			run, wait := b.runningExecution(w), b.scheduledExecution(w)
			b.Advance(Lease + tick)
			_, err := b.Store.Reap(b.ctx, []store.Reap{{WorkerKey: w, Beat: 1}})
			b.must(err)
			f := store.Finding{Cause: store.OwnerGone, Age: 10 * time.Second, Limit: 5}
			b.expect("found at once", idList(b.findRows(f)...), idList(wait.ID))
			abandon := store.Reclaim{
				Key: run, Cause: store.OwnerGone, Age: f.Age, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
				Result: execution.Result{Error: "Worker lost", FailedBy: execution.Reconciler},
			}
			b.expect("the running one taken at once", b.reclaimRow(abandon).Applied, false)
			b.Advance(10*time.Second - tick)
			b.expect("found after the grace", idList(b.findRows(f)...), idList(wait.ID, run.ID))
			out := b.reclaimRow(abandon)
			b.expect("applied, status, reason, epoch", fmt.Sprint(out.Applied, out.Row.Status, out.Row.FailureReason, out.Row.Epoch), fmt.Sprint(true, execution.Abandoned, execution.WorkerLost, run.Epoch))
		}},
		{"a restart under the same name does not hide the old incarnation's executions", func(b *fixture) {
			old := b.activeWorker("w")
			run, wait := b.runningExecution(old), b.scheduledExecution(old)
			b.activeWorker("w")
			f := store.Finding{Cause: store.OwnerGone, Age: 10 * time.Second, Limit: 5}
			b.expect("the unclaimed is found at once", idList(b.findRows(f)...), idList(wait.ID))
			b.Advance(Lease + 10*time.Second)
			b.expect("the running one after the old lease and grace", idList(b.findRows(f)...), idList(wait.ID, run.ID))
		}},
		{"a draining worker keeps its runs, and not unclaimed rows", func(b *fixture) {
			w := b.activeWorker("w")
			b.runningExecution(w)
			wait := b.scheduledExecution(w)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.OwnerGone, Limit: 5})...), idList(wait.ID))
			out := b.reclaimRow(store.Reclaim{
				Key: wait, Cause: store.OwnerGone, By: execution.Reconciler, Reason: execution.WorkerUnavailable, Policy: config.Fail, Counts: true,
			})
			b.expect("taken back, though what is unclaimed shall fail", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Epoch), fmt.Sprint(true, execution.Requested, wait.Epoch+1))
		}},
		{"an overrun is found and ended from its deadline and grace on", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			f := store.Finding{Cause: store.Overrun, Age: 10 * time.Second}
			b.Advance(RunTimeout + 10*time.Second - tick)
			b.expect("found before", idList(b.findRows(f)...), idList())
			b.Advance(tick)
			b.expect("found", idList(b.findRows(f)...), idList(key.ID))
			out := b.reclaimRow(store.Reclaim{Key: key, Cause: store.Overrun, Age: f.Age, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout})
			b.expect("applied, status", fmt.Sprint(out.Applied, out.Row.Status), "true timeout")
		}},
		{"a search returns at most its limit, oldest first", func(b *fixture) {
			w := b.activeWorker("w")
			first := b.scheduledExecution(w)
			b.Advance(time.Second)
			second := b.scheduledExecution(w)
			b.Advance(time.Second)
			b.scheduledExecution(w)
			b.Advance(time.Minute)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unclaimed, Age: time.Second, Limit: 2})...), idList(first.ID, second.ID))
		}},
		{"rows of a batch that can't be reclaimed do not stop the others", func(b *fixture) {
			w := b.activeWorker("w")
			run, wait := b.runningExecution(w), b.scheduledExecution(w)
			out, err := b.Store.Reclaim(b.ctx, []store.Reclaim{
				unclaimedReclaim(run, store.DeadLettered, 0), unclaimedReclaim(execution.Key{ID: 999, Epoch: 1}, store.DeadLettered, 0), unclaimedReclaim(wait, store.DeadLettered, 0),
			})
			b.must(err)
			b.expect("applied", fmt.Sprint(out[0].Applied, out[1].Applied, out[2].Applied), "false false true")
		}},
	}
}

func terminalCases() []Case {
	return []Case{
		{"the end of an execution is handled once", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			unhandled := func() string { return idList(b.findRows(store.Finding{Cause: store.Unorchestrated, Limit: 5})...) }
			os := []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: 1, Reason: execution.Connection, Delay: 3 * time.Second}}}
			early, err := b.Store.Orchestrate(b.ctx, os)
			b.must(err)
			b.expect("handled while it runs", early[0].Applied, false)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
			b.expect("found", unhandled(), idList(key.ID))
			first, err := b.Store.Orchestrate(b.ctx, os)
			b.must(err)
			second, err := b.Store.Orchestrate(b.ctx, os)
			b.must(err)
			b.expect("handled, and again", fmt.Sprint(first[0].Applied, first[0].Retry != 0, second[0].Applied), "true true false")
			b.expect("found afterwards", unhandled(), idList())
			retry := b.readRow(first[0].Retry)
			b.expect("the retry", fmt.Sprint(retry.Status, retry.Original, retry.RetryCount, retry.RetryReason, retry.Avoid, retry.Epoch),
				fmt.Sprint(execution.Requested, key.ID, 1, execution.Connection, w.ID, 0))
			b.expect("its parameters", string(retry.Parameters), `{"n": 1}`)
		}},
		{"the retries of one call are numbered in the order of its items", func(b *fixture) {
			w := b.activeWorker("w")
			first, second := b.failedExecution(w), b.failedExecution(w)
			retry := &store.Retry{Count: 1, Reason: execution.Connection}
			done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: second.ID, Retry: retry}, {ID: first.ID, Retry: retry}})
			b.must(err)
			b.expect("the first item's retry has the smaller number", done[0].Retry < done[1].Retry, true)
			b.expect("claimed, as both are due at one moment", b.claimedFor(2), idList(done[0].Retry, done[1].Retry))
		}},
		{"a retry is due after its backoff", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
			_, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: 1, Reason: execution.Connection, Delay: 3 * time.Second}}})
			b.must(err)
			claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1}
			b.Advance(3*time.Second - tick)
			early, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.Advance(tick)
			due, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.expect("claimed before and when it is due", fmt.Sprint(len(early), len(due)), "0 1")
		}},
		{"a chain names its first row", func(b *fixture) {
			w := b.activeWorker("w")
			id := execution.ID(0)
			for count := 1; count <= 2; count++ {
				key := execution.Key{}
				if count == 1 {
					key = b.runningExecution(w)
					id = key.ID
				} else {
					row := b.claimDueRow("e")
					results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
					b.must(err)
					key = results[0].Row.Key()
					b.claimDispatch(w, key)
				}
				b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Transient})
				done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: count, Reason: execution.Transient}}})
				b.must(err)
				row := b.readRow(done[0].Retry)
				b.expect("original and count", fmt.Sprint(row.Original, row.RetryCount), fmt.Sprint(id, count))
			}
		}},
		{"a free retry raises the limit of its row, for as long as the chain has any", func(b *fixture) {
			w := b.activeWorker("w")
			key, made := b.runningExecution(w), execution.ID(0)
			most := b.readRow(key.ID).Action.MaxRetries
			// The action allows two retries, and two are free, so four follow.
			for count := 1; count <= 5; count++ {
				b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.WorkerShutdown})
				done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: count, Reason: execution.WorkerShutdown, Free: 2}}})
				b.must(err)
				b.expect(fmt.Sprint("handled, ", count), done[0].Applied, true)
				if made = done[0].Retry; made == 0 {
					b.expect("the last of the chain is retry", count-1, most+2)
					return
				}
				b.expect(fmt.Sprint("the limit of retry ", count), b.readRow(made).Action.MaxRetries, min(most+count, most+2))
				row := b.claimDueRow("e")
				results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
				b.must(err)
				key = results[0].Row.Key()
				b.claimDispatch(w, key)
			}
			b.expect("retries", "more than five", "at most four")
		}},
		{"without a retry only the mark is set", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Validation})
			done, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}})
			b.must(err)
			b.expect("applied, retry", fmt.Sprint(done[0].Applied, done[0].Retry), "true 0")
			b.expect("handled", b.readRow(key.ID).OrchestratedAt.IsZero(), false)
		}},
	}
}

// expectBehind reclaims a row for a cause that would count and fail, and expects neither, because the row
// waited behind others.
func (fi *fixture) expectBehind(w store.WorkerKey, key execution.Key) {
	fi.t.Helper()
	blamed := len(fi.readWorker(w).Expired)
	r := unclaimedReclaim(key, store.DeadLettered, 0)
	r.Counts, r.MaxDispatches, r.Policy = true, 1, config.Fail
	out := fi.reclaimRow(r)
	fi.expect("applied, status, dispatches of a row that waited behind others", fmt.Sprint(out.Applied, out.Row.Status, out.Row.Dispatches), "true requested 0")
	fi.expect("expiries held against its worker", len(fi.readWorker(w).Expired), blamed)
}
