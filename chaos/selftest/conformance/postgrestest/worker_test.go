package postgrestest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// A worker is fresh up to and including the end of its lease (defect D34).
func TestLeaseBoundary(t *testing.T) {
	b := newFixture(t)
	for _, c := range []struct {
		name  string
		age   time.Duration
		fresh bool
	}{
		{"5s", 5 * time.Second, true},
		{"90s", 90 * time.Second, true},
		{"a microsecond more", 90*time.Second + time.Microsecond, false},
		{"100s", 100 * time.Second, false},
	} {
		w := b.activeWorker(c.name)
		b.advanceClock(c.age)
		rows, err := b.Workers(b.ctx, nil)
		b.must(err)
		row := rows[len(rows)-1]
		if row.WorkerKey != w || row.LeaseValid() != c.fresh || row.LeaseOverFor != c.age-lease {
			t.Errorf("a heartbeat that is %v old: %+v", c.age, row)
		}
		for _, wrong := range []store.Reap{{WorkerKey: w, Beat: 2}, {WorkerKey: store.WorkerKey{ID: w.ID + 1, Incarnation: w.Incarnation}, Beat: 1}} {
			if reaped, err := b.Reap(b.ctx, []store.Reap{wrong}); err != nil || reaped[0] {
				t.Errorf("reaped as %+v: %v, %v", wrong, reaped, err)
			}
		}
		reap := store.Reap{WorkerKey: w, Beat: 1}
		reaped, err := b.Reap(b.ctx, []store.Reap{reap, reap})
		b.must(err)
		if reaped[0] == c.fresh || reaped[1] {
			t.Errorf("a worker whose heartbeat is %v old is marked lost: %v", c.age, reaped)
		}
	}
}

// A claim needs now < deadline and now <= lease.
func TestClaimBoundaries(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	for age, applied := range map[time.Duration]bool{
		20*time.Second - time.Microsecond: true, 20 * time.Second: false, 21 * time.Second: false,
	} {
		b.attempt++
		b.sendHeartbeat(w, 10*b.attempt)
		key := b.scheduledExecution(w)
		b.advanceClock(age)
		r := b.claimDispatch(w, key)
		if r.Applied != applied || r.DeadlinePassed == applied || r.Row.ID != key.ID {
			t.Errorf("a claim %v after the dispatch: %+v", age, r)
		}
	}
	b.attempt++
	b.sendHeartbeat(w, 10*b.attempt)
	b.advanceClock(lease - 15*time.Second)
	key := b.scheduledExecution(w)
	b.advanceClock(15 * time.Second)
	late := b.scheduledExecution(w)
	if r := b.claimDispatch(w, key); !r.Applied {
		t.Errorf("a claim at the end of the lease: %+v", r)
	}
	b.advanceClock(time.Microsecond)
	for _, cs := range [][]store.Claim{{{Key: late}}, {}, {{Key: execution.Key{ID: 999}}}} {
		// The incarnation is still valid: it renews its lease and retries.
		if _, err := b.Claim(b.ctx, w, cs); !errors.Is(err, store.ErrLeaseOver) {
			t.Errorf("claims %v after the lease: %v, want %v", cs, err, store.ErrLeaseOver)
		}
	}
}

// The changes of a claim, and the content of its answer.
func TestClaimedRow(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.scheduledExecution(w)
	if r := b.claimDispatch(b.activeWorker("v"), key); r.Applied || r.DeadlinePassed || r.Row.Status != execution.Scheduled {
		t.Errorf("a claim by a worker that it was not dispatched to: %+v", r)
	}
	if r := b.claimDispatch(w, execution.Key{ID: key.ID, Epoch: key.Epoch + 1}); r.Applied || r.DeadlinePassed || r.Row.Epoch != key.Epoch {
		t.Errorf("a claim of another epoch: %+v", r)
	}
	b.advanceClock(time.Second)
	r := b.claimDispatch(w, key)
	row := r.Row
	if !r.Applied || row.Status != execution.Running || !row.StartedAt.Equal(b.now) || !row.RunDeadline.Equal(b.now.Add(10*time.Second)) ||
		row.ClaimBeat != 1 || row.Action != action || row.Epoch != 1 || row.Incarnation != w.Incarnation || row.Worker != w.ID {
		t.Errorf("claimed: %+v", row)
	}
	if got := b.readRow(key.ID); got.StartedAt != row.StartedAt || got.Status != row.Status {
		t.Errorf("read again: %+v, the claim said %+v", got, row)
	}
	if second := b.claimDispatch(w, key); second.Applied || second.Row.Status != execution.Running || second.Row.Incarnation != w.Incarnation {
		t.Errorf("the second claim: %+v", second)
	}
	if none := b.claimDispatch(w, execution.Key{ID: 12345}); none.Applied || none.Row.ID != 0 {
		t.Errorf("a claim of no row: %+v", none)
	}
	// One call may name a row twice: the first item is processed first.
	other := b.scheduledExecution(w)
	twice, err := b.Claim(b.ctx, w, []store.Claim{{Key: other}, {Key: other}})
	b.must(err)
	if !twice[0].Applied || twice[1].Applied || twice[1].Row.Status != execution.Running {
		t.Errorf("claimed twice in one call: %+v", twice)
	}
}

// A row without its own timeout gets the default.
func TestDefaultTimeout(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "b", Runtime: "shell"}}))
	_, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "b"}})
	b.must(err)
	rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 5})
	b.must(err)
	_, err = b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: time.Minute}})
	b.must(err)
	r := b.claimDispatch(w, execution.Key{ID: rows[0].ID, Epoch: 1})
	if !r.Row.RunDeadline.Equal(b.now.Add(execution.DefaultTimeout)) || r.Row.Action.Timeout != 0 {
		t.Errorf("%+v", r.Row)
	}
}

func TestFinish(t *testing.T) {
	b := newFixture(t)
	w, v := b.activeWorker("w"), b.activeWorker("v")
	key := b.runningExecution(w)
	result := execution.Result{
		Error: "E \x00 ü", Message: "M", FailedBy: execution.Worker, Output: []byte(`{"b": 1,  "a":"<>"}`),
	}
	f := store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection, Result: result}
	if out := b.finishRun(v, f); out.Applied || out.Row.Status != execution.Running {
		t.Errorf("a result of another worker: %+v", out)
	}
	old := f
	old.Key.Epoch--
	if out := b.finishRun(w, old); out.Applied || out.Row.Status != execution.Running {
		t.Errorf("a result at an old epoch: %+v", out)
	}
	b.advanceClock(time.Second)
	out := b.finishRun(w, f)
	got := out.Row
	if !out.Applied || got.Status != execution.Failed || got.FailureReason != execution.Connection || !got.Ended.Equal(b.now) ||
		got.Worker != w.ID || got.Incarnation != w.Incarnation {
		t.Errorf("finished: %+v", got)
	}
	if r := got.Result; r.Error != result.Error || r.Message != "M" || r.FailedBy != execution.Worker || string(r.Output) != string(result.Output) {
		t.Errorf("the result was read as %+v", r)
	}
	if out := b.finishRun(w, f); out.Applied || out.Row.Status != execution.Failed {
		t.Errorf("finished twice: %+v", out)
	}
	if out := b.finishRun(w, store.Finish{Key: execution.Key{ID: 777}, To: execution.Completed}); out.Applied || out.Row.ID != 0 {
		t.Errorf("a result for no row: %+v", out)
	}
	b.must(b.KeepRefusedResult(b.ctx, v, f))
	var kept int
	b.scanRow("select count(*) from refused_result where execution = $1 and incarnation = $2 and status = 'failed' and reason = 'connection'",
		[]any{int64(key.ID), int64(v.Incarnation)}, &kept)
	if kept != 1 {
		t.Errorf("%d refused results kept", kept)
	}
}

// One bad row does not stop the rest of its batch, and its error names it.
func TestOneBadRow(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	good, bad, last := b.runningExecution(w), b.runningExecution(w), b.runningExecution(w)
	out, err := b.Store.Finish(b.ctx, w, []store.Finish{
		{Key: good, To: execution.Completed},
		{Key: bad, To: execution.Completed, Result: execution.Result{Output: []byte("no json")}},
		{Key: last, To: execution.Completed},
	})
	if err == nil || store.Retriable(err) || !out[0].Applied || out[1].Applied || !out[2].Applied {
		t.Errorf("%+v, %v", out, err)
	}
	if got := b.readRow(bad.ID).Status; got != execution.Running {
		t.Errorf("the bad row is %v", got)
	}
	if got := b.readRow(last.ID).Status; got != execution.Completed {
		t.Errorf("the row after it is %v", got)
	}
}

func TestSupersededIncarnation(t *testing.T) {
	b := newFixture(t)
	old := b.activeWorker("w")
	key := b.scheduledExecution(old)
	ran := b.runningExecution(old)
	now := b.registerWorker("w", 8)
	if now.ID != old.ID || now.Incarnation <= old.Incarnation {
		t.Errorf("registered %v after %v", now, old)
	}
	b.advanceClock(time.Second)
	leases := func() (until [2]time.Time) {
		b.scanRow("select a.lease_expires_at, b.lease_expires_at from worker_incarnation a, worker_incarnation b where a.incarnation = $1 and b.incarnation = $2",
			[]any{int64(old.Incarnation), int64(now.Incarnation)}, &until[0], &until[1])
		return until
	}
	granted := leases()
	errs := map[string]error{}
	_, errs["heartbeat"] = b.Heartbeat(b.ctx, store.Beat{WorkerKey: old, Number: 2, Lease: lease})
	_, errs["claim"] = b.Claim(b.ctx, old, []store.Claim{{Key: key}})
	_, errs["release"] = b.Release(b.ctx, old)
	errs["lifecycle"] = b.SetLifecycle(b.ctx, old, execution.Draining)
	for what, err := range errs {
		if !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("the old incarnation's %s: %v", what, err)
		}
	}
	stranger := store.WorkerKey{ID: now.ID + 7, Incarnation: now.Incarnation}
	if _, err := b.Heartbeat(b.ctx, store.Beat{WorkerKey: stranger, Number: 9, Lease: lease}); !errors.Is(err, store.ErrLost) {
		t.Errorf("another worker's heartbeat for the new incarnation: %v", err)
	}
	if until := leases(); until != granted {
		t.Errorf("leases until %v after heartbeats that were refused, until %v before", until, granted)
	}
	// Setting the present lifecycle is allowed.
	b.must(b.SetLifecycle(b.ctx, old, execution.Lost))
	// A result is judged by its epoch alone: the row still belongs to the incarnation.
	if out := b.finishRun(old, store.Finish{Key: ran, To: execution.Completed}); !out.Applied {
		t.Errorf("its result: %+v", out)
	}
	unknown := store.WorkerKey{ID: old.ID + 7, Incarnation: old.Incarnation}
	if err := b.SetLifecycle(b.ctx, unknown, execution.Active); !errors.Is(err, store.ErrLost) {
		t.Errorf("an incarnation of another worker: %v", err)
	}
}

// A delayed registration does not supersede the process that sent it, and a process's older
// incarnation is lost, not superseded.
func TestRegistrationAttempts(t *testing.T) {
	b := newFixture(t)
	g := store.Registration{Process: 1<<63 + 5, Attempt: 2, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: lease}
	first, err := b.Register(b.ctx, g)
	b.must(err)
	for _, attempt := range []uint64{1, 2} {
		g.Attempt = attempt
		if late, err := b.Register(b.ctx, g); !errors.Is(err, store.ErrLost) {
			t.Errorf("attempt %d came after attempt 2 and got %v, %v", attempt, late, err)
		}
	}
	b.sendHeartbeat(first.WorkerKey, 1)
	g.Attempt = 3
	second, err := b.Register(b.ctx, g)
	b.must(err)
	if _, err := b.Heartbeat(b.ctx, store.Beat{WorkerKey: first.WorkerKey, Number: 2, Lease: lease}); !errors.Is(err, store.ErrLost) {
		t.Errorf("the incarnation of the same process before: %v", err)
	}
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	if len(rows) != 1 || rows[0].WorkerKey != second.WorkerKey || rows[0].Lifecycle != execution.Starting || rows[0].Beat != 0 ||
		rows[0].ConsumerAlive || !slices.Equal(rows[0].Runtimes, g.Runtimes) || rows[0].LeaseOverFor != -lease {
		t.Errorf("workers: %+v", rows)
	}
}

func TestLifecycleOnlyMovesForward(t *testing.T) {
	b := newFixture(t)
	w := b.registerWorker("w", 1)
	is := func(want execution.Lifecycle) {
		t.Helper()
		rows, err := b.Workers(b.ctx, nil)
		b.must(err)
		if rows[0].Lifecycle != want {
			t.Errorf("is %v, want %v", rows[0].Lifecycle, want)
		}
	}
	b.must(b.SetLifecycle(b.ctx, w, execution.Draining))
	b.must(b.SetLifecycle(b.ctx, w, execution.Active))
	is(execution.Draining)
	b.must(b.SetLifecycle(b.ctx, w, execution.Draining))
	b.must(b.SetLifecycle(b.ctx, w, execution.Stopped))
	b.must(b.SetLifecycle(b.ctx, w, execution.Stopped))
	is(execution.Stopped)
	if err := b.SetLifecycle(b.ctx, w, execution.Active); !errors.Is(err, store.ErrLost) {
		t.Errorf("active after stopped: %v", err)
	}
}

// A heartbeat ends the runs that were claimed before it and are not held, and nothing else.
func TestHeartbeatEndsUnheldExecutions(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	before, held, after, waits := b.runningExecution(w), b.runningExecution(w), b.scheduledExecution(w), b.scheduledExecution(w)
	if _, err := b.Claim(b.ctx, w, []store.Claim{{Key: after, Beat: 2}}); err != nil {
		t.Fatal(err)
	}
	foreign, done := b.runningExecution(b.activeWorker("v")), b.runningExecution(w)
	b.finishRun(w, store.Finish{Key: done, To: execution.Completed})
	old := execution.Key{ID: held.ID, Epoch: held.Epoch + 1}
	lost := b.sendHeartbeat(w, 2, held, foreign, waits, done, old, execution.Key{ID: 999})
	if want := []execution.Key{foreign, done, old}; !slices.Equal(lost, want) {
		t.Errorf("lost %v, want %v", lost, want)
	}
	row := b.readRow(before.ID)
	if row.Status != execution.Failed || row.FailureReason != execution.WorkerLost || row.Result.Error != "Worker lost" ||
		row.Result.FailedBy != execution.Worker {
		t.Errorf("claimed before the beat and not held: %+v", row)
	}
	for _, key := range []execution.Key{held, after, foreign} {
		if got := b.readRow(key.ID).Status; got != execution.Running {
			t.Errorf("execution %d is %v", key.ID, got)
		}
	}
	// A late beat renews nothing.
	b.advanceClock(time.Second)
	b.sendHeartbeat(w, 1, held)
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	if rows[0].Beat != 2 || rows[0].LeaseOverFor != time.Second-lease || rows[0].Load != 3 {
		t.Errorf("after a late beat: %+v", rows[0])
	}
}

func TestRelease(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	first, second, ran := b.scheduledExecution(w), b.scheduledExecution(w), b.runningExecution(w)
	if keys, err := b.Store.Release(b.ctx, w); err != nil || len(keys) != 0 {
		t.Errorf("released while active: %v, %v", keys, err)
	}
	b.must(b.SetLifecycle(b.ctx, w, execution.Draining))
	b.advanceClock(time.Second)
	keys, err := b.Store.Release(b.ctx, w)
	b.must(err)
	if want := []execution.Key{{ID: first.ID, Epoch: 2}, {ID: second.ID, Epoch: 2}}; !slices.Equal(keys, want) {
		t.Errorf("released %v, want %v", keys, want)
	}
	row := b.readRow(first.ID)
	if row.Status != execution.Requested || row.Worker != 0 || row.Avoid != w.ID || row.Dispatches != 0 || !row.NotBefore.IsZero() {
		t.Errorf("released: %+v", row)
	}
	if got := b.readRow(ran.ID).Status; got != execution.Running {
		t.Errorf("what runs is %v", got)
	}
	if b.claimDispatch(w, second).Applied {
		t.Error("claimed after its release")
	}
	if out := b.reclaimRow(store.Reclaim{Key: first, Cause: store.DeadLettered, By: execution.DeadLetterHandler, Policy: config.Reschedule}); out.Applied {
		t.Errorf("reclaimed at the old epoch: %+v", out)
	}
}

// The operators' fields of the worker's row are those of the contract, as of its last heartbeat.
func TestCapabilitiesMatchLastHeartbeat(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	var text string
	read := func() string {
		b.scanRow(`select (capabilities -> 'health') - 'last_check' - 'last_failure' from worker_incarnation where incarnation = $1`, []any{int64(w.Incarnation)}, &text)
		return text
	}
	if got, want := read(), `{"status": "healthy", "queue_depth": 0, "failure_rate": 0, "total_executions": 0, "failed_executions": 0, "consecutive_failures": 0, "average_execution_time_ms": 0}`; got != want {
		t.Errorf("at first: %s", got)
	}
	b.scheduledExecution(w)
	b.scheduledExecution(w)
	key := b.runningExecution(w)
	_, err := b.Heartbeat(b.ctx, store.Beat{
		WorkerKey: w, Number: 2, Lease: lease, ConsumerAlive: true, Held: []execution.Key{key}, Health: execution.Degraded,
		Figures: execution.Figures{Total: 8, Failed: 2, Consecutive: 1, Average: 1500 * time.Microsecond},
	})
	b.must(err)
	if got, want := read(), `{"status": "degraded", "queue_depth": 2, "failure_rate": 0.25, "total_executions": 8, "failed_executions": 2, "consecutive_failures": 1, "average_execution_time_ms": 1.5}`; got != want {
		t.Errorf("later: %s", got)
	}
}
