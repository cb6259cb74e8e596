package storetest

import (
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// free is an action without a concurrency limit. It has its own runtime, so that a claim for
// scheduling finds the intended row or none.
var free = execution.Action{Ref: "python.free", Runtime: "python", Entrypoint: "free", Timeout: RunTimeout, MaxRetries: 1}

// keyAge is the age of the key "old", and the age from which ForgetKeys forgets it.
const keyAge = time.Second

// Situations returns the states in which calls meet. Each has two rows in one status: one of an action with a
// single concurrency slot, created under the idempotency key "old", and one without a limit.
func Situations() []Situation {
	at := func(s execution.Status, then func(b *fixture, st *Stage)) func(b *fixture, st *Stage) {
		return func(b *fixture, st *Stage) {
			st.advanceRows(b, s)
			if then != nil {
				then(b, st)
			}
		}
	}
	later := func(d time.Duration) func(b *fixture, st *Stage) { return func(b *fixture, _ *Stage) { b.Advance(d) } }
	return []Situation{
		{"requested", at(execution.Requested, nil)},
		{"scheduling, and the claim has expired", at(execution.Scheduling, later(time.Minute))},
		{"scheduled half of the dispatch timeout ago", at(execution.Scheduled, later(DispatchTimeout/2+time.Second))},
		{"scheduled at a worker that drains", at(execution.Scheduled, func(b *fixture, st *Stage) {
			b.must(b.Store.SetLifecycle(b.ctx, st.worker, execution.Draining))
		})},
		{"one is scheduled and one runs", at(execution.Scheduled, func(b *fixture, st *Stage) {
			b.claimDispatch(st.worker, st.second)
			b.Advance(RunTimeout + time.Second)
		})},
		{"running past the deadline", at(execution.Running, later(RunTimeout+time.Second))},
		{"running at a worker whose lease is over", at(execution.Running, later(Lease+time.Second))},
		{"scheduled at a worker whose lease is over", at(execution.Scheduled, later(Lease+time.Second))},
		{"running at an incarnation that is gone", at(execution.Running, func(b *fixture, st *Stage) {
			b.Advance(Lease + time.Second)
			st.addWorker(b.activeWorker("w"), "w")
		})},
		{"canceling", at(execution.Running, func(b *fixture, st *Stage) { b.cancelExecution(st.key.ID) })},
		{"failed, to be retried, with a child", at(execution.Running, func(b *fixture, st *Stage) {
			st.child = b.createChild(st.key.ID, "").ID
			b.createExecutions("shell.echo", 1) // waits for the slot
			st.finishFirst(b, execution.Failed)
		})},
		{"completed, with a child", at(execution.Running, func(b *fixture, st *Stage) {
			st.child = b.createChild(st.key.ID, "").ID
			b.createExecutions("shell.echo", 1)
			st.finishFirst(b, execution.Completed)
		})},
		{"failed, without a child", at(execution.Running, func(b *fixture, st *Stage) { st.finishFirst(b, execution.Failed) })},
		{"failed after it was cancelled", at(execution.Running, func(b *fixture, st *Stage) {
			st.child = b.createChild(st.key.ID, "").ID
			b.cancelExecution(st.key.ID)
			st.finishFirst(b, execution.Failed)
		})},
		{"a retry that is scheduled, and a child", at(execution.Running, func(b *fixture, st *Stage) { st.retryFirst(b) })},
		{"a retry that has failed, and a child", at(execution.Running, func(b *fixture, st *Stage) {
			st.retryFirst(b)
			b.claimDispatch(st.worker, st.key)
			b.finishRun(st.worker, store.Finish{Key: st.key, To: execution.Failed, Reason: execution.Connection})
		})},
		{"completed and handled", at(execution.Running, func(b *fixture, st *Stage) {
			st.finishFirst(b, execution.Completed)
			b.orchestrateEnd(st.key.ID, 0, noRetry)
		})},
		{"completed and handled, and a child waits", at(execution.Running, func(b *fixture, st *Stage) {
			st.child = b.createChild(st.key.ID, "").ID
			st.finishFirst(b, execution.Completed)
			b.orchestrateEnd(st.key.ID, 0, noRetry)
		})},
		{"failed and handled, and a child waits", at(execution.Running, func(b *fixture, st *Stage) {
			st.child = b.createChild(st.key.ID, "").ID
			st.finishFirst(b, execution.Failed)
			b.orchestrateEnd(st.key.ID, 0, noRetry)
		})},
		{"completed, and its slot was left behind", at(execution.Running, func(b *fixture, st *Stage) {
			st.finishFirst(b, execution.Completed)
			b.LeaveSlot(st.key.ID)
			b.createExecutions("shell.echo", 1)
			b.Advance(2 * time.Minute)
		})},
		{"a worker asked to drain", at(execution.Scheduling, func(b *fixture, st *Stage) {
			_, err := b.Store.SetCordon(b.ctx, store.Cordon{Worker: st.worker.ID, On: true, Reason: "why", Drain: true})
			b.must(err)
		})},
		{"a worker that has stopped", at(execution.Requested, func(b *fixture, st *Stage) {
			b.must(b.Store.SetLifecycle(b.ctx, st.worker, execution.Stopped))
		})},
		{"an outage of a worker's health endpoint", at(execution.Requested, func(b *fixture, st *Stage) {
			_, err := b.Store.ObserveWorkers(b.ctx, []store.ProbedWorker{{WorkerKey: st.worker, Reason: "timed out"}})
			b.must(err)
		})},
		{"outages of two workers, that of the later one first", at(execution.Requested, func(b *fixture, st *Stage) {
			st.other = b.registerSmallWorker("v")
			st.addWorker(st.other, "v")
			for _, w := range []store.WorkerKey{st.other, st.worker} {
				_, err := b.Store.ObserveWorkers(b.ctx, []store.ProbedWorker{{WorkerKey: w, Reason: "timed out"}})
				b.must(err)
			}
		})},
		{"a dead letter", at(execution.Requested, func(b *fixture, st *Stage) {
			b.must(b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "q", Reason: "expired", Outcome: "kept", Open: true}))
			st.letter = 1
		})},
	}
}

func (st *Stage) addWorker(w store.WorkerKey, name string) {
	st.known = append(st.known, w)
	st.names[w.ID] = name
}

// advanceRows brings the two rows into a status.
func (st *Stage) advanceRows(b *fixture, to execution.Status) {
	b.limitConcurrency(1)
	b.must(b.Store.PutActions(b.ctx, []execution.Action{free}))
	st.worker = b.registerSmallWorker("w")
	st.process = b.process
	st.addWorker(st.worker, "w")
	created, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "old"}})
	b.must(err)
	st.key = execution.Key{ID: created[0].ID}
	st.second = execution.Key{ID: b.createExecutions(free.Ref, 1)[0]}
	st.chain = st.key.ID
	b.Advance(keyAge)
	if to == execution.Requested {
		return
	}
	rows, err := b.Store.ClaimForScheduling(b.ctx, store.SchedulingClaim{
		Executor: "executor", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}, {Runtime: "python", Limit: 1}},
	})
	b.must(err)
	b.expect("claimed for scheduling", len(rows), 2)
	if to == execution.Scheduling {
		return
	}
	st.key, st.second = b.dispatchRow(st.worker, st.key), b.dispatchRow(st.worker, st.second)
	if to == execution.Running {
		b.claimDispatch(st.worker, st.key)
		b.claimDispatch(st.worker, st.second)
	}
}

// registerSmallWorker registers an active worker that can run one execution at a time.
func (fi *fixture) registerSmallWorker(name string) store.WorkerKey {
	fi.t.Helper()
	fi.process++
	r, err := fi.Store.Register(fi.ctx, store.Registration{
		Process: fi.process, Attempt: 1, Name: name, Runtimes: []string{"shell", "python"}, Capacity: 1, Lease: Lease,
	})
	fi.must(err)
	_, err = fi.Store.Heartbeat(fi.ctx, store.Beat{WorkerKey: r.WorkerKey, Number: 1, Lease: Lease, ConsumerAlive: true})
	fi.must(err)
	fi.must(fi.Store.SetLifecycle(fi.ctx, r.WorkerKey, execution.Active))
	return r.WorkerKey
}

func (fi *fixture) dispatchRow(w store.WorkerKey, key execution.Key) execution.Key {
	fi.t.Helper()
	results, err := fi.Store.Dispatch(fi.ctx, "executor", []store.Dispatch{{Key: key, Worker: w, Timeout: DispatchTimeout}})
	fi.must(err)
	fi.expect("dispatched", results[0].Applied, true)
	return results[0].Row.Key()
}

// finishFirst ends the first row.
func (st *Stage) finishFirst(b *fixture, to execution.Status) {
	f := store.Finish{Key: st.key, To: to}
	if to == execution.Failed {
		f.Reason = execution.Connection
	}
	b.finishRun(st.worker, f)
}

// retryFirst ends the first row and dispatches its retry, which becomes the row that the writes are
// about.
func (st *Stage) retryFirst(b *fixture) {
	st.child = b.createChild(st.key.ID, "").ID
	st.finishFirst(b, execution.Failed)
	st.retries = 1
	st.key = execution.Key{ID: b.orchestrateEnd(st.key.ID, 1, 0).Retry}
	b.expect("claimed for scheduling", b.claimDueRow("executor").ID, st.key.ID)
	st.key = b.dispatchRow(st.worker, st.key)
}
