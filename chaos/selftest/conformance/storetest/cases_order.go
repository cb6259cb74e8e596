package storetest

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// claimedFor claims for scheduling and lists the claimed rows, in the order of the answer.
func (fi *fixture) claimedFor(others int, demands ...store.Demand) string {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: demands, Others: others})
	fi.must(err)
	var ids []execution.ID
	for i := range rows {
		ids = append(ids, rows[i].ID)
	}
	return idList(ids...)
}

// orderCases are about the order of rows.
func orderCases() []Case {
	return []Case{
		{"a row that has ripened comes before one that was due later", func(b *fixture) {
			waits := b.createExecutions("shell.echo", 1)[0]
			row := b.claimDueRow("e")
			_, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: row.Key(), Delay: 5 * time.Second}})
			b.must(err)
			b.Advance(5*time.Second + tick)
			younger := b.createExecutions("shell.echo", 1)[0]
			b.expect("the order", b.claimedFor(0, store.Demand{Runtime: "shell", Limit: 2}), idList(waits, younger))
		}},
		{"a row is due by the clock of the database, also when that is set back", func(b *fixture) {
			id := b.createExecutions("shell.echo", 1)[0]
			b.Advance(-time.Second)
			b.expect("claimed a second before it was created", b.claimedFor(1), idList())
			b.Advance(time.Second)
			b.expect("claimed then", b.claimedFor(1), idList(id))
		}},
		{"others come in the order of their runtimes' names", func(b *fixture) {
			shell, node := b.createExecutions("shell.echo", 1)[0], b.createExecutions("node.run", 1)[0]
			b.expect("the order", b.claimedFor(2), idList(node, shell))
		}},
		{"others come in that order with a limit of concurrency as without", func(b *fixture) {
			b.limitConcurrency(1)
			shell, node, python := b.createExecutions("shell.echo", 1)[0], b.createExecutions("node.run", 1)[0], b.createExecutions("python.run", 1)[0]
			b.must(b.Store.PutActions(b.ctx, []execution.Action{{Ref: "b.limited", Runtime: "b", Entrypoint: "e", Timeout: RunTimeout, Concurrency: 1}}))
			limited := b.createExecutions("b.limited", 1)[0]
			b.expect("the order", b.claimedFor(4), idList(limited, node, python, shell))
		}},
		{"a runtime that is demanded twice is served once, where it stands first, with both limits", func(b *fixture) {
			shell, python := b.createExecutions("shell.echo", 3), b.createExecutions("python.run", 1)
			got := b.claimedFor(0, store.Demand{Runtime: "shell", Limit: 1}, store.Demand{Runtime: "python", Limit: 1}, store.Demand{Runtime: "shell", Limit: 1})
			b.expect("the order", got, idList(shell[0], shell[1], python[0]))
		}},
		{"a limit of zero or less requests nothing", func(b *fixture) {
			b.scheduledExecution(b.activeWorker("w"))
			b.createExecutions("shell.echo", 2)
			b.createExecutions("node.run", 1)
			b.expect("claimed", b.claimedFor(-1, store.Demand{Runtime: "shell", Limit: -1}, store.Demand{Runtime: "shell", Limit: 0}), idList())
			for _, limit := range []int{0, -1} {
				rows, err := b.Store.Find(b.ctx, store.Finding{Cause: store.Unclaimed, Limit: limit})
				b.must(err)
				b.expect(fmt.Sprint("found with a limit of ", limit), len(rows), 0)
			}
		}},
		{"rows that became urgent at the same moment are found in the order of their ids", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 2)
			rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 2}}})
			b.must(err)
			_, err = b.Store.Dispatch(b.ctx, "e", []store.Dispatch{
				{Key: rows[1].Key(), Worker: w, Timeout: DispatchTimeout}, {Key: rows[0].Key(), Worker: w, Timeout: DispatchTimeout},
			})
			b.must(err)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Unclaimed, Limit: 5})...), idList(rows[0].ID, rows[1].ID))
		}},
		{"overruns are found by their deadlines, not by their starts", func(b *fixture) {
			w := b.activeWorker("w")
			b.must(b.Store.PutActions(b.ctx, []execution.Action{{Ref: "shell.echo", Runtime: "shell", Timeout: time.Minute}}))
			long := b.runningExecution(w)
			b.must(b.Store.PutActions(b.ctx, Actions()))
			short := b.runningExecution(w)
			b.Advance(time.Hour)
			b.expect("found", idList(b.findRows(store.Finding{Cause: store.Overrun, Limit: 1})...), idList(short.ID))
			b.expect("all", idList(b.findRows(store.Finding{Cause: store.Overrun, Limit: 2})...), idList(short.ID, long.ID))
		}},
		{"durations count in whole microseconds", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			r := unclaimedReclaim(key, store.DeadLettered, 0)
			r.Delay = time.Second + 900*time.Nanosecond
			before := b.reclaimRow(r).Row
			b.Advance(time.Second)
			b.expect("claimed a second later", b.claimedFor(1), idList(before.ID))
		}},
		{"a row that was parked for no time and then forgotten starts its grace anew", func(b *fixture) {
			b.createExecutions("node.run", 1)
			park := func() execution.Status {
				rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
				b.must(err)
				out, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: rows[0].Key(), Unschedulable: true, Grace: 30 * time.Second, Patience: 10 * time.Second}})
				b.must(err)
				return out[0].Row.Status
			}
			b.expect("the first time", park(), execution.Requested)
			b.Advance(31 * time.Second)
			b.expect("after nobody looked for longer than the patience", park(), execution.Requested)
		}},
	}
}

// wrongCases are about invalid items: each is an error of its item alone.
func wrongCases() []Case {
	return []Case{
		{"a result that is no end is an error, and the call's other results count", func(b *fixture) {
			w := b.activeWorker("w")
			first, second := b.runningExecution(w), b.runningExecution(w)
			out, err := b.Store.Finish(b.ctx, w, []store.Finish{{Key: first, To: execution.Running}, {Key: second, To: execution.Completed}})
			b.expect("an error", errorKind(err), "the request was wrong")
			b.expect("applied", fmt.Sprint(out[0].Applied, out[1].Applied), "false true")
			b.expect("the first", b.readRow(first.ID).Status, execution.Running)
		}},
		{"a take-back that its part may not make is an error", func(b *fixture) {
			r := unclaimedReclaim(b.scheduledExecution(b.activeWorker("w")), store.DeadLettered, 0)
			r.By = execution.API
			_, err := b.Store.Reclaim(b.ctx, []store.Reclaim{r})
			b.expect("an error", errorKind(err), "the request was wrong")
			b.expect("the status", b.readRow(r.Key.ID).Status, execution.Scheduled)
		}},
		{"an expired scheduling claim is given back and never failed", func(b *fixture) {
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			b.Advance(time.Minute)
			r := unclaimedReclaim(row.Key(), store.ClaimExpired, 0)
			r.Policy = config.Fail
			_, err := b.Store.Reclaim(b.ctx, []store.Reclaim{r})
			b.expect("an error", errorKind(err), "the request was wrong")
			b.expect("the status", b.readRow(row.ID).Status, execution.Scheduling)
		}},
		{"an ended execution is not reclaimed for any cause", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
			for cause := store.NoCause; cause <= store.Unorchestrated; cause++ {
				out := b.reclaimRow(unclaimedReclaim(key, cause, 0))
				b.expect(fmt.Sprint("on ground ", cause, ": applied, status"), fmt.Sprint(out.Applied, out.Row.Status), "false completed")
			}
		}},
		{"a retry without a number is an error, and nothing is handled", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
			_, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID, Retry: &store.Retry{}}})
			b.expect("an error", errorKind(err), "the request was wrong")
			b.expect("handled", b.readRow(key.ID).OrchestratedAt.IsZero(), true)
		}},
		{"parameters that are not JSON, and texts that are not UTF-8, are errors of their item", func(b *fixture) {
			created, err := b.Store.Create(b.ctx, []store.NewExecution{
				{ActionRef: "shell.echo", Parameters: []byte(`{`)}, {ActionRef: "shell.echo"}, {ActionRef: "shell.\xffecho"}, {ActionRef: "shell.echo", IdempotencyKey: "\x00"},
			})
			b.expect("an error", errorKind(err), "the request was wrong")
			b.expect("created", fmt.Sprint(created[0].ID, created[1].ID != 0, created[2].ID, created[3].ID), "0 true 0 0")
		}},
		{"an action with a negative timeout, number of retries or limit of concurrency is an error of that action", func(b *fixture) {
			err := b.Store.PutActions(b.ctx, []execution.Action{
				{Ref: "a", Runtime: "shell", Timeout: -time.Second},
				{Ref: "b", Runtime: "shell", MaxRetries: -1},
				{Ref: "c", Runtime: "shell"},
				{Ref: "d", Runtime: "shell", Concurrency: -1},
			})
			b.expect("an error", errorKind(err), "the request was wrong")
			created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}, {ActionRef: "b"}, {ActionRef: "c"}, {ActionRef: "d"}})
			b.must(err)
			b.expect("unknown", fmt.Sprint(created[0].UnknownAction, created[1].UnknownAction, created[2].UnknownAction, created[3].UnknownAction), "true true false true")
		}},
		{"a worker of a negative capacity is an error", func(b *fixture) {
			_, err := b.Store.Register(b.ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Capacity: -1, Lease: Lease})
			b.expect("an error", errorKind(err), "the request was wrong")
			rows, err := b.Store.Workers(b.ctx, nil)
			b.must(err)
			b.expect("workers", len(rows), 0)
		}},
		{"an incarnation is only its own worker's", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			mixed := store.WorkerKey{ID: other.ID, Incarnation: w.Incarnation}
			b.expectError("its lifecycle, even repeated", b.Store.SetLifecycle(b.ctx, mixed, execution.Active), store.ErrLost)
			_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: mixed, Number: 9, Lease: Lease})
			b.expectError("its heartbeat", err, store.ErrLost)
		}},
		{"a refused result without a status is an error", func(b *fixture) {
			w := b.activeWorker("w")
			err := b.Store.KeepRefusedResult(b.ctx, w, store.Finish{Key: b.runningExecution(w)})
			b.expect("an error", errorKind(err), "the request was wrong")
		}},
	}
}
