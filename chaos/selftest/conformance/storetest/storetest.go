// Package storetest is the contract of store.Store: cases and random command sequences that run on
// the model and on PostgreSQL. They fix the behaviour that callers observe. If the two differ, the
// model is presumed wrong; chaos/selftest/conformance lists the accepted differences.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// Subject is an empty store under test and the clock of its database.
type Subject struct {
	Store store.Store
	// Advance moves the database's clock. Between two calls of it the clock stands still, so that
	// boundaries are exact. It may be set back.
	Advance func(d time.Duration)

	// Kept returns the numbers of stored dead letters and refused results. Audit returns the changes of
	// status after the first `after`. A function is nil if the subject lacks it.
	Kept  func() (deadLetters, refusedResults int)
	Audit func(after int) []Change
	// LeaveSlot marks a row's end as handled without freeing its concurrency slot, and TakeSlot
	// gives a slot to a requested row, as only a manual edit of the database does.
	LeaveSlot, TakeSlot func(id execution.ID)
	// Foreign writes a reason into a row that this program does not know, as a newer program may,
	// or removes it: the reason of the retry if the row has not ended, otherwise the reason of the
	// failure.
	Foreign func(id execution.ID, write bool)
}

// WithSubject runs a body on a fresh, empty subject. The model runs it as a task of a kernel, so a body must
// not fail the test from another goroutine, and must not start any.
type WithSubject func(t *testing.T, body func(s Subject))

// Lease is the lease of every worker of the suite; DispatchTimeout of every dispatch; RunTimeout of
// every action.
const (
	Lease           = 90 * time.Second
	DispatchTimeout = 20 * time.Second
	RunTimeout      = 10 * time.Second
	// Capacity is the number of run slots of every worker in the cases.
	Capacity = 4
)

// tick is the smallest step of a database's clock.
const tick = time.Microsecond

// fixture has the tools of a case.
type fixture struct {
	Subject
	t       *testing.T
	ctx     context.Context
	process uint64
}

func (fi *fixture) must(err error) {
	fi.t.Helper()
	if err != nil {
		fi.t.Fatal(err)
	}
}

// expect fails the case if the observed value differs from the contract's.
func (fi *fixture) expect(what string, got, want any) {
	fi.t.Helper()
	if got != want {
		fi.t.Errorf("%s is %v, the contract says %v", what, got, want)
	}
}

func (fi *fixture) expectError(what string, err, want error) {
	fi.t.Helper()
	if !errors.Is(err, want) {
		fi.t.Errorf("%s: %v, the contract says %v", what, err, want)
	}
}

// registerWorker registers a worker as a new process.
func (fi *fixture) registerWorker(name string) store.WorkerKey {
	fi.t.Helper()
	fi.process++
	newest, err := fi.Store.Newest(fi.ctx, name)
	fi.must(err)
	r, err := fi.Store.Register(fi.ctx, store.Registration{
		Process: fi.process, Attempt: 1, After: newest, Name: name, Runtimes: []string{"shell", "python"}, Capacity: Capacity, Lease: Lease,
	})
	fi.must(err)
	return r.WorkerKey
}

// activeWorker registers a worker that consumes and is active, after its first heartbeat.
func (fi *fixture) activeWorker(name string) store.WorkerKey {
	fi.t.Helper()
	w := fi.registerWorker(name)
	_, err := fi.Store.Heartbeat(fi.ctx, store.Beat{WorkerKey: w, Number: 1, Lease: Lease, ConsumerAlive: true})
	fi.must(err)
	fi.must(fi.Store.SetLifecycle(fi.ctx, w, execution.Active))
	return w
}

// Actions returns the actions of which cases and sequences can create executions.
func Actions() []execution.Action {
	return []execution.Action{
		{Ref: "shell.echo", Runtime: "shell", Entrypoint: "echo", Timeout: RunTimeout, MaxRetries: 2, RetriedExitCodes: execution.NewExitCodes(1, 75)},
		{Ref: "python.run", Runtime: "python", Entrypoint: "run.py", Timeout: RunTimeout, DispatchTimeout: 5 * time.Second},
		{Ref: "node.run", Runtime: "node", Entrypoint: "run.js", Timeout: RunTimeout, MaxRetries: 1},
	}
}

// createExecutions creates executions of an action and returns their ids.
func (fi *fixture) createExecutions(ref string, n int) []execution.ID {
	fi.t.Helper()
	items := make([]store.NewExecution, n)
	for i := range items {
		items[i] = store.NewExecution{ActionRef: ref, Parameters: []byte(`{"n": 1}`)}
	}
	created, err := fi.Store.Create(fi.ctx, items)
	fi.must(err)
	ids := make([]execution.ID, n)
	for i, c := range created {
		ids[i] = c.ID
	}
	return ids
}

// claimDueRow claims one due row of the shell runtime for scheduling.
func (fi *fixture) claimDueRow(executor string) execution.Execution {
	fi.t.Helper()
	rows, err := fi.Store.ClaimForScheduling(fi.ctx, store.SchedulingClaim{
		Executor: executor, Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}},
	})
	fi.must(err)
	if len(rows) != 1 {
		fi.t.Fatalf("%d rows were claimed for scheduling, 1 was due", len(rows))
	}
	return rows[0]
}

// scheduledExecution creates an execution and dispatches it to a worker.
func (fi *fixture) scheduledExecution(w store.WorkerKey) execution.Key {
	fi.t.Helper()
	fi.createExecutions("shell.echo", 1)
	row := fi.claimDueRow("executor")
	results, err := fi.Store.Dispatch(fi.ctx, "executor", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
	fi.must(err)
	if !results[0].Applied {
		fi.t.Fatalf("the dispatch of execution %d was refused: %+v", row.ID, results[0])
	}
	return results[0].Row.Key()
}

// markPublished records the broker's confirm of dispatches that no other transaction has locked.
func (fi *fixture) markPublished(keys ...execution.Key) {
	fi.t.Helper()
	left, err := fi.Store.MarkPublished(fi.ctx, keys)
	fi.must(err)
	fi.expect("left unmarked", fmt.Sprint(left), "[]")
}

// runningExecution creates an execution that a worker has claimed.
func (fi *fixture) runningExecution(w store.WorkerKey) execution.Key {
	fi.t.Helper()
	key := fi.scheduledExecution(w)
	if r := fi.claimDispatch(w, key); !r.Applied {
		fi.t.Fatalf("the claim of execution %d was refused: %+v", key.ID, r)
	}
	return key
}

func (fi *fixture) claimDispatch(w store.WorkerKey, key execution.Key) store.ClaimResult {
	fi.t.Helper()
	results, err := fi.Store.Claim(fi.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	fi.must(err)
	return results[0]
}

func (fi *fixture) finishRun(w store.WorkerKey, f store.Finish) store.Outcome {
	fi.t.Helper()
	outcomes, err := fi.Store.Finish(fi.ctx, w, []store.Finish{f})
	fi.must(err)
	return outcomes[0]
}

func (fi *fixture) reclaimRow(r store.Reclaim) store.Outcome {
	fi.t.Helper()
	outcomes, err := fi.Store.Reclaim(fi.ctx, []store.Reclaim{r})
	fi.must(err)
	return outcomes[0]
}

func (fi *fixture) findRows(f store.Finding) []execution.ID {
	fi.t.Helper()
	f.Limit = max(f.Limit, 1)
	rows, err := fi.Store.Find(fi.ctx, f)
	fi.must(err)
	ids := make([]execution.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

func (fi *fixture) readRow(id execution.ID) execution.Execution {
	fi.t.Helper()
	rows, err := fi.Store.Executions(fi.ctx, []execution.ID{id})
	fi.must(err)
	if len(rows) != 1 {
		fi.t.Fatalf("execution %d was found %d times", id, len(rows))
	}
	return rows[0]
}

func (fi *fixture) readWorker(w store.WorkerKey) store.WorkerRow {
	fi.t.Helper()
	rows, err := fi.Store.Workers(fi.ctx, nil)
	fi.must(err)
	for i := range rows {
		if rows[i].ID == w.ID {
			return rows[i]
		}
	}
	fi.t.Fatalf("worker %d is not listed", w.ID)
	return store.WorkerRow{}
}

// unclaimedReclaim is a reclaim of a row that was never claimed.
func unclaimedReclaim(key execution.Key, cause store.ReclaimCause, age time.Duration) store.Reclaim {
	return store.Reclaim{
		Key: key, Cause: cause, Age: age, By: execution.Reconciler, Reason: execution.WorkerUnavailable,
		Result: execution.Result{Error: "taken back", FailedBy: execution.Reconciler}, Policy: config.Reschedule, MaxDispatches: 2,
	}
}

// Case is one named rule of the contract.
type Case struct {
	Name string
	body func(b *fixture)
}

// Cases lists every case.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		creationCases(), schedulingCases(), workerCases(), endingCases(), fleetCases(), recoveryCases(), terminalCases(), deadLetterCases(), messageCases(), deadLetterBulkCases(), orderCases(),
		wrongCases(), cancelCases(), childCases(), keyCases(), slotCases(), laneCases(), directCases(), listCases(), observationCases(), retentionCases(), actorCases(), unreadableCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every case on a fresh subject.
func Run(t *testing.T, world WithSubject) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			world(t, func(s Subject) { RunCase(t, c, s) })
		})
	}
}

// RunCase runs one case on a fresh subject.
func RunCase(t *testing.T, c Case, s Subject) {
	b := &fixture{Subject: s, t: t, ctx: context.Background()}
	b.must(s.Store.PutActions(b.ctx, Actions()))
	c.body(b)
}

func idList(ids ...execution.ID) string { return fmt.Sprint(ids) }
