package postgrestest_test

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

func TestCreate(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "x"}, action}))
	parameters := []byte(`{"z": 1, "a":[ ]}`)
	created, err := b.Create(b.ctx, []store.NewExecution{
		{ActionRef: "a", Parameters: parameters, IdempotencyKey: "k"},
		{ActionRef: "none"},
		{ActionRef: "none", IdempotencyKey: "late"},
		{ActionRef: "a", IdempotencyKey: "late"},
		{ActionRef: "none", IdempotencyKey: "late"},
		{ActionRef: "a"},
	})
	b.must(err)
	if !created[1].UnknownAction || !created[2].UnknownAction || created[0].Existed || created[3].ID == 0 || created[3].Existed ||
		created[4].ID != created[3].ID || !created[4].Existed || created[5].ID == 0 {
		t.Errorf("created %+v", created)
	}
	again, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "none", IdempotencyKey: "k"}, {ActionRef: "a"}})
	b.must(err)
	if again[0] != (store.Created{ID: created[0].ID, Existed: true}) || again[1].ID == created[5].ID {
		t.Errorf("created twice: %+v", again)
	}
	row := b.readRow(created[0].ID)
	if row.Action != action || string(row.Parameters) != string(parameters) || row.Status != execution.Requested || row.IdempotencyKey != "k" ||
		!row.Created.Equal(b.now) || !row.NotBefore.IsZero() || row.Epoch != 0 {
		t.Errorf("created: %+v", row)
	}
	// A later change of an action does not affect executions created before.
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "other"}}))
	if got := b.readRow(created[0].ID).Action; got != action {
		t.Errorf("the action became %+v", got)
	}
	rows, err := b.Executions(b.ctx, []execution.ID{created[5].ID, 999, created[0].ID, created[5].ID})
	b.must(err)
	if len(rows) != 2 || rows[0].ID != created[0].ID || rows[1].ID != created[5].ID {
		t.Errorf("read %+v", rows)
	}
}

func TestClaimForScheduling(t *testing.T) {
	b := newFixture(t)
	var items []store.NewExecution
	for _, runtime := range []string{"shell", "python", "node", "ruby"} {
		b.must(b.PutActions(b.ctx, []execution.Action{{Ref: runtime, Runtime: runtime}}))
		items = append(items, store.NewExecution{ActionRef: runtime}, store.NewExecution{ActionRef: runtime})
	}
	created, err := b.Create(b.ctx, items)
	b.must(err)
	id := func(n int) execution.ID { return created[n].ID }
	claim := func(others int, demands ...store.Demand) []execution.ID {
		t.Helper()
		rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: demands, Others: others})
		b.must(err)
		ids := []execution.ID{}
		for _, row := range rows {
			if row.Status != execution.Scheduling || row.SchedulingBy != "e" || !row.SchedulingAt.Equal(b.now) || !row.SchedulingExpiresAt.Equal(b.now.Add(time.Minute)) {
				t.Errorf("claimed: %+v", row)
			}
			ids = append(ids, row.ID)
		}
		return ids
	}
	if got, want := claim(0, store.Demand{Runtime: "python", Limit: 1}, store.Demand{Runtime: "shell", Limit: 5}, store.Demand{Runtime: "none", Limit: 5}),
		[]execution.ID{id(0), id(1), id(2)}; !slices.Equal(got, want) {
		t.Errorf("claimed %v, want %v", got, want)
	}
	if got, want := claim(3, store.Demand{Runtime: "python", Limit: 0}), []execution.ID{id(4), id(5), id(6)}; !slices.Equal(got, want) {
		t.Errorf("claimed of others %v, want %v", got, want)
	}
	if got, want := claim(10), []execution.ID{id(3), id(7)}; !slices.Equal(got, want) {
		t.Errorf("claimed the rest %v, want %v", got, want)
	}
	if got := claim(10, store.Demand{Runtime: "shell", Limit: 10}); len(got) != 0 {
		t.Errorf("claimed %v twice", got)
	}
}

// The oldest due row comes first, and a waiting row does not come before it is due.
func TestDueOrder(t *testing.T) {
	b := newFixture(t)
	late := b.schedulingExecution()
	_, err := b.Park(b.ctx, "e", []store.Park{{Key: late.Key(), Delay: 5 * time.Second}})
	b.must(err)
	b.advanceClock(6 * time.Second)
	early := b.requestedExecution()
	b.advanceClock(-time.Second - time.Microsecond)
	claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 9}}}
	if rows, err := b.ClaimForScheduling(b.ctx, claim); err != nil || len(rows) != 0 {
		t.Errorf("claimed before its moment: %v, %v", rows, err)
	}
	b.advanceClock(time.Second + time.Microsecond)
	rows, err := b.ClaimForScheduling(b.ctx, claim)
	b.must(err)
	if len(rows) != 2 || rows[0].ID != late.ID || rows[1].ID != early {
		t.Errorf("claimed %v", rows)
	}
}

func TestDispatch(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	row := b.schedulingExecution()
	dispatch := func(executor string, key execution.Key, w store.WorkerKey) store.DispatchResult {
		t.Helper()
		got, err := b.Dispatch(b.ctx, executor, []store.Dispatch{{Key: key, Worker: w, Timeout: time.Minute}})
		b.must(err)
		return got[0]
	}
	starting := b.registerWorker("starting", 1)
	deaf := b.registerWorker("deaf", 1)
	b.must(b.SetLifecycle(b.ctx, deaf, execution.Active))
	draining := b.activeWorker("draining")
	b.must(b.SetLifecycle(b.ctx, draining, execution.Draining))
	old := b.activeWorker("old")
	b.activeWorker("old")
	for name, unfit := range map[string]store.WorkerKey{
		"starting": starting, "deaf": deaf, "draining": draining, "superseded": old, "none": {ID: 99, Incarnation: 99},
		"mismatched": {ID: w.ID + 1, Incarnation: w.Incarnation},
	} {
		if got := dispatch("e", row.Key(), unfit); got.Applied || !got.WorkerUnfit || got.Row.Status != execution.Scheduling {
			t.Errorf("a dispatch to a worker that is %s: %+v", name, got)
		}
	}
	if got := dispatch("f", row.Key(), w); got.Applied || got.WorkerUnfit {
		t.Errorf("by another executor: %+v", got)
	}
	if got := dispatch("e", execution.Key{ID: row.ID, Epoch: 1}, w); got.Applied || got.WorkerUnfit {
		t.Errorf("at another epoch: %+v", got)
	}
	b.advanceClock(lease)
	got := dispatch("e", row.Key(), w)
	if r := got.Row; !got.Applied || r.Status != execution.Scheduled || r.Epoch != 1 || r.Worker != w.ID || r.Incarnation != w.Incarnation ||
		!r.ScheduledAt.Equal(b.now) || !r.DispatchDeadline.Equal(b.now.Add(time.Minute)) || r.SchedulingBy != "e" {
		t.Errorf("dispatched at the end of the lease: %+v", got)
	}
	if got := dispatch("e", row.Key(), w); got.Applied || got.WorkerUnfit || got.Row.Epoch != 1 {
		t.Errorf("dispatched twice: %+v", got)
	}
	next := b.schedulingExecution()
	b.advanceClock(time.Microsecond)
	if got := dispatch("e", next.Key(), w); got.Applied || !got.WorkerUnfit {
		t.Errorf("a dispatch after the lease: %+v", got)
	}
	key := got.Row.Key()
	b.markPublished(execution.Key{ID: key.ID, Epoch: 0}, execution.Key{ID: 999})
	if !b.readRow(key.ID).PublishedAt.IsZero() {
		t.Error("a confirm of another epoch was recorded")
	}
	b.markPublished(key, key)
	first := b.readRow(key.ID).PublishedAt
	b.advanceClock(time.Second)
	b.markPublished(key)
	if again := b.readRow(key.ID).PublishedAt; first.IsZero() || again != first {
		t.Errorf("published at %v, then %v", first, again)
	}
}

func TestPark(t *testing.T) {
	b := newFixture(t)
	row := b.schedulingExecution()
	park := func(p store.Park) store.Outcome {
		t.Helper()
		got, err := b.Park(b.ctx, "e", []store.Park{p})
		b.must(err)
		return got[0]
	}
	again := func() execution.Key {
		t.Helper()
		rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
		b.must(err)
		return rows[0].Key()
	}
	if got, err := b.Park(b.ctx, "f", []store.Park{{Key: row.Key()}}); err != nil || got[0].Applied || got[0].Row.ID != row.ID {
		t.Errorf("by another executor: %+v, %v", got, err)
	}
	p := store.Park{Key: row.Key(), Unschedulable: true, Grace: 10 * time.Second, Delay: time.Second, Result: execution.Result{Error: "No workers available"}}
	since := b.now
	got := park(p)
	if r := got.Row; !got.Applied || r.Status != execution.Requested || r.Epoch != 1 || !r.UnschedulableSince.Equal(since) ||
		!r.NotBefore.Equal(since.Add(time.Second)) || r.SchedulingBy != "" || !r.SchedulingAt.IsZero() {
		t.Errorf("parked: %+v", got)
	}
	b.advanceClock(9 * time.Second)
	p.Key = again()
	if got = park(p); got.Row.Status != execution.Requested || !got.Row.UnschedulableSince.Equal(since) {
		t.Errorf("parked within its grace: %+v", got)
	}
	// If all workers are only full, the grace ends.
	b.advanceClock(time.Second)
	if got = park(store.Park{Key: again()}); !got.Row.UnschedulableSince.IsZero() || !got.Row.NotBefore.IsZero() {
		t.Errorf("parked for full workers: %+v", got)
	}
	p.Key = again()
	park(p)
	b.advanceClock(10 * time.Second)
	p.Key = again()
	if got = park(p); got.Row.Status != execution.Failed || got.Row.FailureReason != execution.NoWorkers || got.Row.Result.Error != p.Result.Error ||
		got.Row.Epoch != p.Key.Epoch || !got.Row.Ended.Equal(b.now) || got.Row.SchedulingBy != "e" {
		t.Errorf("parked at the end of its grace: %+v", got)
	}
	if got = park(p); got.Applied || got.Row.Status != execution.Failed {
		t.Errorf("parked after its end: %+v", got)
	}
}

// A reclaim raises the epoch, records the worker to avoid, and counts only if the worker is still present.
func TestReclaimUnclaimed(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.scheduledExecution(w)
	r := store.Reclaim{
		Key: key, Cause: store.Unclaimed, Age: 30 * time.Second, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout,
		Policy: config.Reschedule, MaxDispatches: 2, Counts: true, Delay: time.Second, Result: execution.Result{Error: "late", FailedBy: execution.TimeoutMonitor},
	}
	b.advanceClock(30*time.Second - time.Microsecond)
	if out := b.reclaimRow(r); out.Applied || len(b.findRows(store.Unclaimed, r.Age)) != 0 {
		t.Error("reclaimed a microsecond before its age")
	}
	b.advanceClock(time.Microsecond)
	if got := b.findRows(store.Unclaimed, r.Age); !slices.Equal(got, []execution.ID{key.ID}) {
		t.Errorf("found %v", got)
	}
	out := b.reclaimRow(r)
	row := out.Row
	if !out.Applied || row.Status != execution.Requested || row.Epoch != key.Epoch+1 || row.Avoid != w.ID || row.Dispatches != 1 || row.Worker != 0 ||
		row.Incarnation != 0 || !row.NotBefore.Equal(b.now.Add(time.Second)) || !row.DispatchDeadline.IsZero() || row.FailureReason != execution.NoReason {
		t.Errorf("reclaimed: %+v", row)
	}
	if out := b.reclaimRow(r); out.Applied || out.Row.Epoch != row.Epoch {
		t.Errorf("reclaimed a second time: %+v", out)
	}

	// The second unclaimed dispatch uses up the allowed number. The worker's name alone does not
	// count.
	b.advanceClock(2 * time.Second)
	rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 1})
	b.must(err)
	_, err = b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: time.Second}})
	b.must(err)
	r.Key, r.Cause = execution.Key{ID: key.ID, Epoch: 3}, store.DeadLettered
	out = b.reclaimRow(r)
	if got := out.Row; got.Status != execution.Failed || got.Dispatches != 2 || got.FailureReason != execution.DispatchTimeout || got.Result.Error != "late" ||
		got.Worker != w.ID || got.Epoch != 3 || !got.Ended.Equal(b.now) {
		t.Errorf("the last dispatch: %+v", got)
	}

	other := b.scheduledExecution(w)
	b.must(b.SetLifecycle(b.ctx, w, execution.Draining))
	r.Key, r.MaxDispatches = other, 1
	if out := b.reclaimRow(r); out.Row.Status != execution.Requested || out.Row.Dispatches != 0 {
		t.Errorf("a worker that is not active any more counted: %+v", out)
	}
	failing := b.schedulingExecution()
	b.advanceClock(15 * time.Second)
	r = store.Reclaim{Key: failing.Key(), Cause: store.ClaimExpired, By: execution.Reconciler, Reason: execution.Transient, Policy: config.Reschedule}
	if out := b.reclaimRow(r); out.Applied {
		t.Errorf("a claim that just expires: %+v", out)
	}
	b.advanceClock(time.Microsecond)
	if got := b.findRows(store.ClaimExpired, 0); !slices.Equal(got, []execution.ID{failing.ID}) {
		t.Errorf("expired claims: %v", got)
	}
	if out := b.reclaimRow(r); out.Row.Status != execution.Requested || out.Row.Avoid != 0 || out.Row.Epoch != 1 {
		t.Errorf("a claim that has expired: %+v", out)
	}
}

func TestReclaimPolicyFail(t *testing.T) {
	b := newFixture(t)
	key := b.scheduledExecution(b.activeWorker("w"))
	out := b.reclaimRow(store.Reclaim{Key: key, Cause: store.Undeliverable, By: execution.Scheduler, Reason: execution.Unroutable, Policy: config.Fail, MaxDispatches: 9})
	if !out.Applied || out.Row.Status != execution.Failed || out.Row.Dispatches != 0 || out.Row.FailureReason != execution.Unroutable {
		t.Errorf("%+v", out)
	}
}

// A mark waits for no lock: it skips rows that another transaction holds, marks the others, and returns the
// skipped ones.
func TestMarkPublishedSkipsLockedRows(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	held, free, claimed := b.scheduledExecution(w), b.scheduledExecution(w), b.runningExecution(w)
	tx, err := b.conn.Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from execution_work where id = any($1) for no key update", []int64{int64(held.ID), int64(claimed.ID)})
	b.must(err)
	impatient, cancel := context.WithTimeout(b.ctx, testenv.Patience())
	defer cancel()
	keys := []execution.Key{claimed, free, held, {ID: held.ID, Epoch: held.Epoch - 1}}
	left, err := b.MarkPublished(impatient, keys)
	b.must(err)
	if !slices.Equal(left, []execution.Key{held}) {
		t.Errorf("left %v, want only %v, which is locked and scheduled at that epoch", left, held)
	}
	if b.readRow(free.ID).PublishedAt.IsZero() || !b.readRow(held.ID).PublishedAt.IsZero() {
		t.Errorf("the free row: %v, the locked one: %v", b.readRow(free.ID).PublishedAt, b.readRow(held.ID).PublishedAt)
	}
	b.must(tx.Rollback(b.ctx))
	b.markPublished(left...)
	if b.readRow(held.ID).PublishedAt.IsZero() {
		t.Error("the skipped rows are not marked by a second request")
	}
}

func TestUnpublished(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	first, second := b.scheduledExecution(w), b.scheduledExecution(w)
	b.markPublished(first)
	b.advanceClock(5 * time.Second)
	if got := b.findRows(store.Unpublished, 5*time.Second); !slices.Equal(got, []execution.ID{second.ID}) {
		t.Errorf("unpublished: %v", got)
	}
	r := store.Reclaim{Key: first, Cause: store.Unpublished, Age: 5 * time.Second, By: execution.Reconciler, Policy: config.Reschedule}
	if out := b.reclaimRow(r); out.Applied {
		t.Errorf("published and reclaimed as unpublished: %+v", out)
	}
	r.Key = second
	if out := b.reclaimRow(r); !out.Applied {
		t.Errorf("unpublished: %+v", out)
	}
}

// A running row is reclaimed from a worker only when its lease has been over for the grace. An unclaimed row
// is reclaimed at once.
func TestOwnerGone(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	waits, runs := b.scheduledExecution(w), b.runningExecution(w)
	const grace = 5 * time.Second
	for _, c := range []struct {
		after func()
		want  []execution.ID
	}{
		{func() {}, []execution.ID{}},
		{func() { b.must(b.SetLifecycle(b.ctx, w, execution.Draining)) }, []execution.ID{waits.ID}},
		{func() { b.registerWorker("w", 8) }, []execution.ID{waits.ID}},
		{func() { b.advanceClock(lease + grace - time.Microsecond) }, []execution.ID{waits.ID}},
		{func() { b.advanceClock(time.Microsecond) }, []execution.ID{waits.ID, runs.ID}},
	} {
		c.after()
		if got := b.findRows(store.OwnerGone, grace); !slices.Equal(got, c.want) {
			t.Errorf("found %v, want %v", got, c.want)
		}
		early := b.reclaimRow(store.Reclaim{Key: execution.Key{ID: runs.ID, Epoch: runs.Epoch + 1}, Cause: store.OwnerGone, Age: grace, By: execution.Reconciler, To: execution.Abandoned})
		if early.Applied {
			t.Error("taken away at another epoch")
		}
	}
	r := store.Reclaim{
		Key: runs, Cause: store.OwnerGone, Age: grace + time.Microsecond, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
		Policy: config.Reschedule, Result: execution.Result{Error: "Worker lost"},
	}
	if out := b.reclaimRow(r); out.Applied {
		t.Errorf("taken away before its age: %+v", out)
	}
	r.Age = grace
	out := b.reclaimRow(r)
	if !out.Applied || out.Row.Status != execution.Abandoned || out.Row.FailureReason != execution.WorkerLost || out.Row.Epoch != runs.Epoch || out.Row.Incarnation != w.Incarnation {
		t.Errorf("taken away: %+v", out)
	}
	r.Key, r.Counts, r.MaxDispatches = waits, true, 1
	if out := b.reclaimRow(r); !out.Applied || out.Row.Status != execution.Requested || out.Row.Dispatches != 0 {
		t.Errorf("reclaimed: %+v", out)
	}
}

func TestOverrun(t *testing.T) {
	b := newFixture(t)
	key := b.runningExecution(b.activeWorker("w"))
	r := store.Reclaim{Key: key, Cause: store.Overrun, Age: 5 * time.Second, By: execution.TimeoutMonitor, Reason: execution.RunTimeout, To: execution.Timeout}
	b.advanceClock(15*time.Second - time.Microsecond)
	if out := b.reclaimRow(r); out.Applied || len(b.findRows(store.Overrun, r.Age)) != 0 {
		t.Errorf("a microsecond early: %+v", out)
	}
	b.advanceClock(time.Microsecond)
	if got := b.findRows(store.Overrun, r.Age); !slices.Equal(got, []execution.ID{key.ID}) {
		t.Errorf("found %v", got)
	}
	if out := b.reclaimRow(r); !out.Applied || out.Row.Status != execution.Timeout {
		t.Errorf("overrun: %+v", out)
	}
}

// The terminal handling of a row is committed once, however often it is requested, and a retry is unique.
func TestOrchestrateOnce(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key, plain := b.runningExecution(w), b.runningExecution(w)
	b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
	b.advanceClock(time.Second)
	b.finishRun(w, store.Finish{Key: plain, To: execution.Failed, Reason: execution.Validation})
	if got := b.findRows(store.Unorchestrated, 0); !slices.Equal(got, []execution.ID{key.ID, plain.ID}) {
		t.Errorf("found %v", got)
	}
	if got := b.findRows(store.Unorchestrated, time.Second); !slices.Equal(got, []execution.ID{key.ID}) {
		t.Errorf("found %v", got)
	}
	unfinished := b.scheduledExecution(w)
	retry := store.Retry{Count: 1, Reason: execution.Connection, Delay: time.Second}
	all := []store.Orchestration{{ID: key.ID, Retry: &retry}, {ID: plain.ID}, {ID: unfinished.ID}, {ID: 999}, {ID: key.ID, Retry: &retry}}
	first, err := b.Orchestrate(b.ctx, all)
	b.must(err)
	id := first[0].Retry
	if !first[0].Applied || id == 0 || !reflect.DeepEqual(first[1], store.Orchestrated{Applied: true}) || first[2].Applied || first[3].Applied || first[4].Applied {
		t.Errorf("handled %+v", first)
	}
	second, err := b.Orchestrate(b.ctx, all)
	b.must(err)
	for i := range second {
		if !reflect.DeepEqual(second[i], store.Orchestrated{}) {
			t.Errorf("handled twice: %+v", second[i])
		}
	}
	row := b.readRow(id)
	if row.Original != key.ID || row.RetryCount != 1 || row.Avoid != w.ID || row.RetryReason != execution.Connection || row.Action != action ||
		!row.NotBefore.Equal(b.now.Add(time.Second)) || row.Status != execution.Requested || row.Epoch != 0 {
		t.Errorf("the retry: %+v", row)
	}
	if got := b.findRows(store.Unorchestrated, 0); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	// An existing retry is found and not created twice.
	b.execSQL("update execution set orchestrated_at = null where id = $1", int64(key.ID))
	third, err := b.Orchestrate(b.ctx, all[:1])
	b.must(err)
	if !reflect.DeepEqual(third[0], store.Orchestrated{Applied: true, Retry: id}) {
		t.Errorf("with a retry that exists: %+v", third[0])
	}
}

func TestDeadLetters(t *testing.T) {
	b := newFixture(t)
	b.must(b.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "q", Reason: "expired", Body: []byte{0, 1, 255}, Outcome: "malformed"}))
	b.must(b.StoreDeadLetters(b.ctx, store.DeadLetter{Key: execution.Key{ID: 5, Epoch: 2}, Queue: "q", Reason: "expired", Outcome: "reclaimed"}))
	var anonymous, named int
	b.scanRow("select count(*) filter (where execution is null and body = '\\x0001ff'), count(*) filter (where execution = 5 and epoch = 2) from dead_letter",
		nil, &anonymous, &named)
	if anonymous != 1 || named != 1 {
		t.Errorf("%d without a key, %d with one", anonymous, named)
	}
}
