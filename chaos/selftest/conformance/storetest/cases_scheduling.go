package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func creationCases() []Case {
	return []Case{
		{"an unknown action is an outcome of its item alone", func(b *fixture) {
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo"}, {ActionRef: "no.such"}, {ActionRef: "shell.echo"}})
			b.must(err)
			b.expect("the second item's outcome", created[1].UnknownAction, true)
			b.expect("the ids of the others", idList(created[0].ID, created[2].ID), idList(1, 2))
		}},
		{"an idempotency key that was used returns the row that it created", func(b *fixture) {
			item := []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}}
			first, err := b.Store.Create(b.ctx, item)
			b.must(err)
			second, err := b.Store.Create(b.ctx, item)
			b.must(err)
			b.expect("the second creation", fmt.Sprint(second[0]), fmt.Sprint(store.Created{ID: first[0].ID, Existed: true}))
		}},
		{"an idempotency key twice in one call creates one row", func(b *fixture) {
			created, err := b.Store.Create(b.ctx, []store.NewExecution{
				{ActionRef: "shell.echo", IdempotencyKey: "k"}, {ActionRef: "shell.echo", IdempotencyKey: "k"},
			})
			b.must(err)
			b.expect("the second item's id", created[1].ID, created[0].ID)
			b.expect("the second item existed", created[1].Existed, true)
		}},
		{"a new row is requested, at epoch 0, with its action and parameters", func(b *fixture) {
			row := b.readRow(b.createExecutions("python.run", 1)[0])
			b.expect("the status", row.Status, execution.Requested)
			b.expect("the epoch", row.Epoch, execution.Epoch(0))
			b.expect("the action", row.Action, Actions()[1])
			b.expect("the parameters", string(row.Parameters), `{"n": 1}`)
			b.expect("it was created", row.Created.IsZero(), false)
		}},
		{"rows are returned in the order of their ids, missing ones left out", func(b *fixture) {
			ids := b.createExecutions("shell.echo", 3)
			rows, err := b.Store.Executions(b.ctx, []execution.ID{ids[2], 999, ids[0]})
			b.must(err)
			var got []execution.ID
			for i := range rows {
				got = append(got, rows[i].ID)
			}
			b.expect("the ids", idList(got...), idList(ids[0], ids[2]))
		}},
		{"replacing an action leaves the executions that were created from it", func(b *fixture) {
			id := b.createExecutions("shell.echo", 1)[0]
			changed := Actions()[0]
			changed.MaxRetries = 9
			b.must(b.Store.PutActions(b.ctx, []execution.Action{changed}))
			b.expect("max_retries of the older execution", b.readRow(id).Action.MaxRetries, 2)
			b.expect("max_retries of a new one", b.readRow(b.createExecutions("shell.echo", 1)[0]).Action.MaxRetries, 9)
		}},
		{"limits of a request replace those of the action, one by one", func(b *fixture) {
			for _, l := range []execution.Limits{
				{},
				{Timeout: 1500 * time.Millisecond},
				{DispatchTimeout: 7 * time.Second},
				{OwnRetries: true},
				{Timeout: time.Hour, DispatchTimeout: time.Second, MaxRetries: 9, OwnRetries: true},
			} {
				created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Limits: l}, {ActionRef: "shell.echo"}})
				b.must(err)
				row := b.readRow(created[0].ID)
				b.expect("the action as it counts for the execution", row.Action, l.On(Actions()[0]))
				b.expect("the limits that the request set", row.Limits, l)
				b.expect("the action of another one in the same call", b.readRow(created[1].ID).Action, Actions()[0])
			}
		}},
		{"a request that sets a limit to what the action says has set it", func(b *fixture) {
			own := execution.Limits{Timeout: RunTimeout, MaxRetries: 2, OwnRetries: true}
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Limits: own}})
			b.must(err)
			b.expect("the limits that the request set", b.readRow(created[0].ID).Limits, own)
		}},
		{"an execution with a negative limit is refused, and its neighbours are not", func(b *fixture) {
			for _, l := range []execution.Limits{{Timeout: -time.Second}, {DispatchTimeout: -time.Second}, {MaxRetries: -1, OwnRetries: true}} {
				_, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "bad", Limits: l}})
				b.expect("it is an error", err != nil && !store.Retriable(err), true)
			}
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "bad"}})
			b.must(err)
			b.expect("its key was used", created[0].Existed, false)
		}},
	}
}

func schedulingCases() []Case {
	return []Case{
		{"a claim for scheduling takes at most its limit, oldest first", func(b *fixture) {
			ids := b.createExecutions("shell.echo", 3)
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 2}}})
			b.must(err)
			b.expect("how many were claimed", len(rows), 2)
			b.expect("the first", rows[0].ID, ids[0])
			b.expect("its status", rows[0].Status, execution.Scheduling)
			b.expect("its epoch", rows[0].Epoch, execution.Epoch(0))
			b.expect("who holds it", rows[0].SchedulingBy, "e")
		}},
		{"a claim for scheduling takes others only of runtimes that it does not name", func(b *fixture) {
			shell, node := b.createExecutions("shell.echo", 1), b.createExecutions("node.run", 2)
			_ = shell
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 0}}, Others: 5})
			b.must(err)
			b.expect("how many were claimed", len(rows), 2)
			b.expect("the first", rows[0].ID, node[0])
		}},
		{"a claimed row is not claimed twice", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			b.claimDueRow("e")
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "f", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
			b.must(err)
			b.expect("how many were claimed", len(rows), 0)
		}},
		{"a dispatch raises the epoch and names the owner", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			row := b.readRow(key.ID)
			b.expect("the epoch", row.Epoch, execution.Epoch(1))
			b.expect("the owner", store.WorkerKey{ID: row.Worker, Incarnation: row.Incarnation}, w)
			b.expect("the dispatch deadline after the dispatch", row.DispatchDeadline.Sub(row.ScheduledAt), DispatchTimeout)
			b.expect("the worker's load", b.readWorker(w).Load, 1)
		}},
		{"a dispatch by another executor is refused", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			results, err := b.Store.Dispatch(b.ctx, "f", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: time.Minute}})
			b.must(err)
			b.expect("applied", results[0].Applied, false)
			b.expect("the worker is to blame", results[0].WorkerUnfit, false)
			b.expect("what stands there", results[0].Row.Status, execution.Scheduling)
		}},
		{"a dispatch at another epoch is refused", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: execution.Key{ID: row.ID, Epoch: 7}, Worker: w, Timeout: time.Minute}})
			b.must(err)
			b.expect("applied", results[0].Applied, false)
		}},
		{"a dispatch to a worker that is starting, draining, deaf or without a lease finds it unfit", func(b *fixture) {
			starting, deaf, draining, stale := b.registerWorker("starting"), b.registerWorker("deaf"), b.activeWorker("draining"), b.activeWorker("stale")
			b.must(b.Store.SetLifecycle(b.ctx, deaf, execution.Active))
			b.must(b.Store.SetLifecycle(b.ctx, draining, execution.Draining))
			b.Advance(Lease)
			for _, w := range []store.WorkerKey{starting, deaf, draining} {
				_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 5, Lease: Lease, ConsumerAlive: w != deaf})
				b.must(err)
			}
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			dispatch := func(w store.WorkerKey) store.DispatchResult {
				results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: time.Minute}})
				b.must(err)
				return results[0]
			}
			for name, w := range map[string]store.WorkerKey{"starting": starting, "deaf": deaf, "draining": draining} {
				r := dispatch(w)
				b.expect("a dispatch to the "+name+" worker: applied, unfit", fmt.Sprint(r.Applied, r.WorkerUnfit), "false true")
			}
			b.Advance(tick)
			r := dispatch(stale)
			b.expect("a dispatch one tick after the lease: applied, unfit", fmt.Sprint(r.Applied, r.WorkerUnfit), "false true")
		}},
		{"a lease is valid up to and including its end", func(b *fixture) {
			w := b.activeWorker("w")
			b.Advance(Lease)
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: time.Minute}})
			b.must(err)
			b.expect("a dispatch at the very end of the lease", results[0].Applied, true)
		}},
		{"the broker's confirm is recorded for a current epoch, once", func(b *fixture) {
			key := b.scheduledExecution(b.activeWorker("w"))
			b.markPublished(execution.Key{ID: key.ID, Epoch: key.Epoch - 1}, execution.Key{ID: 999, Epoch: 1})
			b.expect("published, after a confirm of an old epoch", b.readRow(key.ID).PublishedAt.IsZero(), true)
			b.markPublished(key)
			at := b.readRow(key.ID).PublishedAt
			b.expect("published", at.IsZero(), false)
			b.Advance(time.Second)
			b.markPublished(key)
			b.expect("the moment did not move", b.readRow(key.ID).PublishedAt.Equal(at), true)
		}},
		{"a claim marks what it takes as published, and keeps the moment of a mark", func(b *fixture) {
			w := b.activeWorker("w")
			key, marked := b.scheduledExecution(w), b.scheduledExecution(w)
			b.markPublished(marked)
			at := b.readRow(marked.ID).PublishedAt
			b.Advance(time.Second)
			b.expect("claimed", fmt.Sprint(b.claimDispatch(w, key).Applied, b.claimDispatch(w, marked).Applied), "true true")
			row := b.readRow(key.ID)
			b.expect("published when it was claimed", row.PublishedAt.Equal(row.StartedAt), true)
			b.expect("the moment of the mark", b.readRow(marked.ID).PublishedAt.Equal(at), true)
		}},
		{"a refused claim marks nothing", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			b.Advance(DispatchTimeout)
			b.expect("claimed at the deadline", b.claimDispatch(w, key).Applied, false)
			b.expect("published", b.readRow(key.ID).PublishedAt.IsZero(), true)
		}},
		{"a confirm that comes late marks no row that is not scheduled", func(b *fixture) {
			w := b.activeWorker("w")
			old := b.scheduledExecution(w)
			b.reclaimRow(unclaimedReclaim(old, store.DeadLettered, 0))
			b.markPublished(old)
			b.expect("a requested row is published", b.readRow(old.ID).PublishedAt.IsZero(), true)
			row := b.claimDueRow("e")
			b.markPublished(row.Key())
			b.expect("a row that is being scheduled is published", b.readRow(old.ID).PublishedAt.IsZero(), true)
			_, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			b.markPublished(old)
			b.expect("its next dispatch is published", b.readRow(old.ID).PublishedAt.IsZero(), true)
		}},
		{"a parked row is requested at the next epoch and due after its delay", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			out, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: row.Key(), Delay: 5 * time.Second}})
			b.must(err)
			b.expect("applied, status, epoch", fmt.Sprint(out[0].Applied, out[0].Row.Status, out[0].Row.Epoch), "true requested 1")
			b.Advance(5*time.Second - tick)
			claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1}
			early, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.expect("claimed before it is due", len(early), 0)
			b.Advance(tick)
			due, err := b.Store.ClaimForScheduling(b.ctx, claim)
			b.must(err)
			b.expect("claimed when it is due", len(due), 1)
		}},
		{"an unschedulable row fails when its grace is over, counted from the first time", func(b *fixture) {
			b.createExecutions("node.run", 1)
			for _, step := range []struct {
				wait time.Duration
				want execution.Status
			}{{0, execution.Requested}, {30*time.Second - tick, execution.Requested}, {tick, execution.Failed}} {
				b.Advance(step.wait)
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{
					Key: rows[0].Key(), Unschedulable: true, Grace: 30 * time.Second, Result: execution.Result{Error: "No workers available", FailedBy: execution.Scheduler},
				}})
				b.must(err)
				b.expect("the status", out[0].Row.Status, step.want)
			}
			row := b.readRow(1)
			b.expect("the reason", row.FailureReason, execution.NoWorkers)
			b.expect("the text", row.Result.Error, "No workers available")
			b.expect("who decided", row.Result.FailedBy, execution.Scheduler)
		}},
		{"being overloaded ends the grace", func(b *fixture) {
			b.createExecutions("node.run", 1)
			for i, unschedulable := range []bool{true, false, true} {
				b.Advance(20 * time.Second)
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: rows[0].Key(), Unschedulable: unschedulable, Grace: 30 * time.Second}})
				b.must(err)
				b.expect(fmt.Sprint("the status after step ", i), out[0].Row.Status, execution.Requested)
			}
		}},
		{"a row that no executor examined starts its grace anew", func(b *fixture) {
			b.createExecutions("node.run", 1)
			park := func() execution.Status {
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{
					Key: rows[0].Key(), Delay: 5 * time.Second, Unschedulable: true, Grace: 30 * time.Second, Patience: 10 * time.Second,
				}})
				b.must(err)
				return out[0].Row.Status
			}
			unfit := func() time.Duration {
				found, err := b.Store.Survey(b.ctx)
				b.must(err)
				return found.Unfit
			}
			b.expect("since when none fits, before", unfit(), time.Duration(0))
			b.expect("the first time", park(), execution.Requested)
			b.Advance(5 * time.Second)
			b.expect("since when none fits", unfit(), 5*time.Second)
			b.Advance(10*time.Second + tick)
			b.expect("after nobody looked for longer than the patience", park(), execution.Requested)
			b.Advance(15 * time.Second)
			b.expect("30 s after the first time", park(), execution.Requested)
			b.Advance(15 * time.Second)
			b.expect("30 s after the grace began anew", park(), execution.Failed)
			b.expect("since when none fits, after", unfit(), time.Duration(0))
		}},
		{"a row whose claim expired starts its grace anew", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			park := func() execution.Status {
				row := b.claimDueRow("e")
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{
					Key: row.Key(), Delay: 5 * time.Second, Unschedulable: true, Grace: 30 * time.Second, Patience: 10 * time.Second, Watched: time.Hour,
				}})
				b.must(err)
				return out[0].Row.Status
			}
			b.expect("the first time", park(), execution.Requested)
			b.Advance(5 * time.Second)
			row := b.claimDueRow("e")
			b.Advance(30 * time.Second)
			b.expect("taken back", b.reclaimRow(unclaimedReclaim(row.Key(), store.ClaimExpired, 0)).Applied, true)
			b.expect("35 s after the first time, of which somebody who has died held it for 30 s", park(), execution.Requested)
			b.Advance(30*time.Second - tick)
			b.expect("almost 30 s after the grace began anew", park(), execution.Requested)
		}},
		{"a row that waited while somebody saw that no worker fits keeps its grace", func(b *fixture) {
			b.createExecutions("node.run", 1)
			park := func(watched time.Duration) execution.Status {
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{
					Key: rows[0].Key(), Delay: 5 * time.Second, Unschedulable: true, Grace: 30 * time.Second, Patience: 10 * time.Second, Watched: watched,
				}})
				b.must(err)
				return out[0].Row.Status
			}
			b.expect("the first time", park(0), execution.Requested)
			b.Advance(29 * time.Second)
			b.expect("29 s later, watched for longer", park(time.Hour), execution.Requested)
			b.Advance(29 * time.Second)
			b.expect("58 s later, watched for 20 s", park(20*time.Second), execution.Requested)
			b.Advance(10*time.Second - tick)
			b.expect("almost 10 s after that", park(10*time.Second), execution.Requested)
			b.Advance(5 * time.Second)
			b.expect("30 s after what was watched began", park(35*time.Second), execution.Failed)
		}},
		{"no grace begins before somebody saw a worker that fitted", func(b *fixture) {
			b.createExecutions("node.run", 1)
			park := func(seen time.Duration) execution.Status {
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{
					Key: rows[0].Key(), Delay: 5 * time.Second, Unschedulable: true, Grace: 30 * time.Second, Patience: time.Hour, Watched: time.Hour, Seen: seen,
				}})
				b.must(err)
				return out[0].Row.Status
			}
			b.expect("the first time", park(20*time.Second), execution.Requested)
			b.Advance(30*time.Second - tick)
			b.expect("almost 30 s later", park(time.Hour), execution.Requested)
			b.Advance(20 * time.Second)
			b.expect("10 s after one fitted", park(10*time.Second), execution.Requested)
			b.Advance(20*time.Second - tick)
			b.expect("almost 30 s after that", park(0), execution.Requested)
			b.Advance(5 * time.Second)
			b.expect("35 s after that", park(35*time.Second), execution.Failed)
		}},
		{"parking a row that another executor holds is refused", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			out, err := b.Store.Park(b.ctx, "f", []store.Park{{Key: row.Key()}})
			b.must(err)
			b.expect("applied", out[0].Applied, false)
		}},
	}
}
