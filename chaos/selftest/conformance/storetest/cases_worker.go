package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func workerCases() []Case {
	return []Case{
		{"a worker keeps its id and gets a new incarnation", func(b *fixture) {
			first, second := b.registerWorker("w"), b.registerWorker("w")
			b.expect("the id", second.ID, first.ID)
			b.expect("the incarnation is newer", second.Incarnation > first.Incarnation, true)
			b.expect("the lifecycle", b.readWorker(second).Lifecycle, execution.Starting)
		}},
		{"an older incarnation is superseded, whatever it does", func(b *fixture) {
			old := b.activeWorker("w")
			key := b.scheduledExecution(old)
			b.registerWorker("w")
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: old, Number: 2, Lease: Lease})
			b.expectError("its heartbeat", err, store.ErrSuperseded)
			_, err = b.Store.Claim(b.ctx, old, []store.Claim{{Key: key}})
			b.expectError("its claim", err, store.ErrSuperseded)
			b.expectError("its lifecycle", b.Store.SetLifecycle(b.ctx, old, execution.Draining), store.ErrSuperseded)
			_, err = b.Store.Release(b.ctx, old)
			b.expectError("its release", err, store.ErrSuperseded)
		}},
		{"a process that registers anew has lost its older incarnation, not been superseded", func(b *fixture) {
			g := store.Registration{Process: 77, Attempt: 1, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: Lease}
			first, err := b.Store.Register(b.ctx, g)
			b.must(err)
			g.Attempt = 2
			_, err = b.Store.Register(b.ctx, g)
			b.must(err)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: first.WorkerKey, Number: 1, Lease: Lease})
			b.expectError("a heartbeat of the older incarnation", err, store.ErrLost)
		}},
		{"a registration that comes late has no effect", func(b *fixture) {
			g := store.Registration{Process: 77, Attempt: 2, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: Lease}
			now, err := b.Store.Register(b.ctx, g)
			b.must(err)
			g.Attempt = 1
			_, err = b.Store.Register(b.ctx, g)
			b.expectError("the older attempt", err, store.ErrLost)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: now.WorkerKey, Number: 1, Lease: Lease})
			b.must(err)
		}},
		{"a registration that names an older predecessor than the latest incarnation does not take the name", func(b *fixture) {
			newest, err := b.Store.Newest(b.ctx, "w")
			b.must(err)
			b.expect("the latest incarnation of a name that nobody has registered", newest, execution.Incarnation(0))
			held := store.Registration{Process: 77, Attempt: 1, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: Lease}
			successor := b.activeWorker("w")
			newest, err = b.Store.Newest(b.ctx, "w")
			b.must(err)
			b.expect("the latest incarnation", newest, successor.Incarnation)
			_, err = b.Store.Register(b.ctx, held)
			b.expectError("the registration that was sent before", err, store.ErrLost)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: successor, Number: 2, Lease: Lease, ConsumerAlive: true})
			b.must(err)
			held.After = successor.Incarnation
			_, err = b.Store.Register(b.ctx, held)
			b.must(err)
		}},
		{"lifecycles only move forward, and repeating one is harmless", func(b *fixture) {
			w := b.activeWorker("w")
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Active))
			b.expect("active after draining", b.readWorker(w).Lifecycle, execution.Draining)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Stopped))
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Stopped))
			b.expectError("draining after stopped", b.Store.SetLifecycle(b.ctx, w, execution.Draining), store.ErrLost)
		}},
		{"a heartbeat renews the lease from now on, and an older one does not shorten it", func(b *fixture) {
			w := b.activeWorker("w")
			b.Advance(10 * time.Second)
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 3, Lease: Lease, ConsumerAlive: true})
			b.must(err)
			b.expect("the lease is over for", b.readWorker(w).LeaseOverFor, -Lease)
			b.Advance(time.Second)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: time.Second})
			b.must(err)
			row := b.readWorker(w)
			b.expect("the lease is over for", row.LeaseOverFor, time.Second-Lease)
			b.expect("the beat and the consumer", fmt.Sprint(row.Beat, row.ConsumerAlive), "3 true")
		}},
		{"a claim needs the epoch, the incarnation and now before the deadline", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			key := b.scheduledExecution(w)
			b.expect("at another epoch", b.claimDispatch(w, execution.Key{ID: key.ID, Epoch: key.Epoch + 1}).Applied, false)
			b.expect("by another worker", b.claimDispatch(other, key).Applied, false)
			b.Advance(DispatchTimeout - tick)
			r := b.claimDispatch(w, key)
			b.expect("a tick before the deadline", r.Applied, true)
			b.expect("the run deadline after the start", r.Row.RunDeadline.Sub(r.Row.StartedAt), RunTimeout)
		}},
		{"at its deadline a claim is refused, and reports that", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			b.Advance(DispatchTimeout)
			r := b.claimDispatch(w, key)
			b.expect("applied, deadline passed, status", fmt.Sprint(r.Applied, r.DeadlinePassed, r.Row.Status), "false true scheduled")
		}},
		{"a second claim of an epoch is refused and shows the first", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			r := b.claimDispatch(w, key)
			b.expect("applied, deadline passed", fmt.Sprint(r.Applied, r.DeadlinePassed), "false false")
			b.expect("what stands there", fmt.Sprint(r.Row.Status, r.Row.Incarnation), fmt.Sprint(execution.Running, w.Incarnation))
		}},
		{"a claim of a missing execution is refused without a row", func(b *fixture) {
			r := b.claimDispatch(b.activeWorker("w"), execution.Key{ID: 999, Epoch: 1})
			b.expect("applied, row", fmt.Sprint(r.Applied, r.Row.ID), "false 0")
		}},
		{"a claim after the lease is over is refused", func(b *fixture) {
			w := b.activeWorker("w")
			b.Advance(Lease - time.Second)
			key := b.scheduledExecution(w)
			b.Advance(time.Second + tick)
			_, err := b.Store.Claim(b.ctx, w, []store.Claim{{Key: key}})
			b.expectError("the claim", err, store.ErrLeaseOver)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true})
			b.must(err)
			b.expect("applied after the next heartbeat", b.claimDispatch(w, key).Applied, true)
		}},
		{"an empty claim is refused like any other while the lease is over", func(b *fixture) {
			w := b.activeWorker("w")
			b.Advance(Lease + tick)
			_, err := b.Store.Claim(b.ctx, w, nil)
			b.expectError("the claim", err, store.ErrLeaseOver)
		}},
		{"a full worker shows for how long no slot has come free", func(b *fixture) {
			w := b.activeWorker("w")
			for range Capacity - 1 {
				b.runningExecution(w)
				b.Advance(time.Second)
			}
			b.expect("with a free slot", b.readWorker(w).FullFor, time.Duration(0))
			last := b.runningExecution(w)
			b.Advance(7 * time.Second)
			b.expect("with none", b.readWorker(w).FullFor, 7*time.Second)
			b.finishRun(w, store.Finish{Key: last, To: execution.Completed})
			b.expect("after an end", b.readWorker(w).FullFor, time.Duration(0))
		}},
		{"a result needs the epoch and the incarnation that claimed", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			key := b.runningExecution(w)
			done := store.Finish{Key: key, To: execution.Completed, Result: execution.Result{Output: []byte(`{"ok": true}`)}}
			late := done
			late.Key.Epoch--
			b.expect("at an old epoch", b.finishRun(w, late).Applied, false)
			b.expect("by another worker", b.finishRun(other, done).Applied, false)
			b.expect("by the owner", b.finishRun(w, done).Applied, true)
			row := b.readRow(key.ID)
			b.expect("status and output", fmt.Sprint(row.Status, string(row.Result.Output)), `completed{"ok": true}`)
			b.expect("it has ended", row.Ended.IsZero(), false)
			again := b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Unknown})
			b.expect("a second result: applied, status", fmt.Sprint(again.Applied, again.Row.Status), "false completed")
			b.expect("the worker's load", b.readWorker(w).Load, 0)
		}},
		{"a failure keeps its reason and its texts", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			result := execution.Result{Error: "Action failed", Message: "it says so", FailedBy: execution.Worker}
			b.expect("applied", b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection, Result: result}).Applied, true)
			row := b.readRow(key.ID)
			b.expect("the reason", row.FailureReason, execution.Connection)
			b.expect("the result", fmt.Sprint(row.Result.Error, "/", row.Result.Message, "/", row.Result.FailedBy), fmt.Sprint(result.Error, "/", result.Message, "/", result.FailedBy))
		}},
		{"a lost worker may still finish executions that were not reclaimed", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.Advance(Lease + tick)
			_, err := b.Store.Reap(b.ctx, []store.Reap{{WorkerKey: w, Beat: 1}})
			b.must(err)
			b.expect("its result", b.finishRun(w, store.Finish{Key: key, To: execution.Completed}).Applied, true)
		}},
		{"a heartbeat ends executions that were claimed before it and are not held", func(b *fixture) {
			w := b.activeWorker("w")
			before, held, after := b.runningExecution(w), b.runningExecution(w), b.scheduledExecution(w)
			_, err := b.Store.Claim(b.ctx, w, []store.Claim{{Key: after, Beat: 2}})
			b.must(err)
			_, err = b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{held}})
			b.must(err)
			b.expect("claimed before and not held", fmt.Sprint(b.readRow(before.ID).Status, b.readRow(before.ID).FailureReason), "failed worker_lost")
			b.expect("held", b.readRow(held.ID).Status, execution.Running)
			b.expect("claimed after the snapshot", b.readRow(after.ID).Status, execution.Running)
		}},
		{"a heartbeat's reply names executions that the worker holds and does not own", func(b *fixture) {
			w := b.activeWorker("w")
			mine, ended := b.runningExecution(w), b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: ended, To: execution.Completed})
			old := execution.Key{ID: mine.ID, Epoch: mine.Epoch - 1}
			reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: Lease, ConsumerAlive: true, Held: []execution.Key{mine, old, ended}})
			b.must(err)
			b.expect("what is lost", fmt.Sprint(reply.Lost), fmt.Sprint([]execution.Key{old, ended}))
		}},
		{"a release requeues the rows scheduled at a draining worker, and nothing else", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			run, wait, elsewhere := b.runningExecution(w), b.scheduledExecution(w), b.scheduledExecution(other)
			none, err := b.Store.Release(b.ctx, w)
			b.must(err)
			b.expect("released while active", len(none), 0)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			released, err := b.Store.Release(b.ctx, w)
			b.must(err)
			b.expect("released", fmt.Sprint(released), fmt.Sprint([]execution.Key{{ID: wait.ID, Epoch: wait.Epoch + 1}}))
			row := b.readRow(wait.ID)
			b.expect("status, dispatches, avoided worker", fmt.Sprint(row.Status, row.Dispatches, row.Avoid), fmt.Sprint(execution.Requested, 0, w.ID))
			b.expect("what runs", b.readRow(run.ID).Status, execution.Running)
			b.expect("what is elsewhere", b.readRow(elsewhere.ID).Status, execution.Scheduled)
		}},
		{"a refused result is kept without touching the row", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.must(b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: key, To: execution.Completed}))
			b.expect("the status", b.readRow(key.ID).Status, execution.Running)
		}},
	}
}
