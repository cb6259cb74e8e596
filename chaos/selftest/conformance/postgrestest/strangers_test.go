package postgrestest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// connectStranger opens a session of another program, such as psql, a backup or an index build.
func (fi *fixture) connectStranger() *pgx.Conn {
	fi.Helper()
	conn, err := pgx.Connect(fi.ctx, fi.url)
	fi.must(err)
	fi.Cleanup(func() { conn.Close(fi.ctx) })
	return conn
}

// whileLocked calls do while another session holds the locks that a statement takes.
func (fi *fixture) whileLocked(lock string, args []any, do func()) {
	fi.Helper()
	tx, err := fi.connectStranger().Begin(fi.ctx)
	fi.must(err)
	_, err = tx.Exec(fi.ctx, lock, args...)
	fi.must(err)
	do()
	fi.must(tx.Rollback(fi.ctx))
}

// waitsForALock waits until a session of this database waits for a lock.
func (fi *fixture) waitsForALock() {
	fi.Helper()
	for waits := false; !waits && fi.ctx.Err() == nil; {
		fi.scanRow("select exists (select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database())", nil, &waits)
	}
}

// A row that a stranger has locked holds up no other row of a batch: all others are done while the lock is
// held.
func TestLockedRowBlocksNoOther(t *testing.T) {
	const rows, nth = 12, 5
	b := newFixture(t)
	s := b.openStore(postgres.Options{Now: b.readClock, LockTimeout: 300 * time.Millisecond})
	w := b.activeWorker("w")
	b.execSQL("update worker_incarnation set capacity = 1000")
	lostWorker := b.activeWorker("lost")
	b.execSQL("update worker_incarnation set capacity = 1000")
	keys := func(of func(store.WorkerKey) execution.Key, w store.WorkerKey) (keys []execution.Key) {
		for range rows {
			keys = append(keys, of(w))
		}
		return keys
	}
	for _, call := range []struct {
		name string
		keys []execution.Key
		do   func(keys []execution.Key) (answered []execution.ID, err error)
	}{
		{"claim", keys(b.scheduledExecution, w), func(keys []execution.Key) (answered []execution.ID, err error) {
			var cs []store.Claim
			for _, key := range keys {
				cs = append(cs, store.Claim{Key: key, Beat: 1})
			}
			results, err := s.Claim(b.ctx, w, cs)
			for i := range results {
				if results[i].Applied {
					answered = append(answered, results[i].Row.ID)
				}
			}
			return answered, err
		}},
		{"finish", keys(b.runningExecution, w), func(keys []execution.Key) (answered []execution.ID, err error) {
			var fs []store.Finish
			for _, key := range keys {
				fs = append(fs, store.Finish{Key: key, To: execution.Completed})
			}
			results, err := s.Finish(b.ctx, w, fs)
			for i := range results {
				if results[i].Applied {
					answered = append(answered, results[i].Row.ID)
				}
			}
			return answered, err
		}},
		{"reclaim", keys(b.scheduledExecution, lostWorker), func(keys []execution.Key) (answered []execution.ID, err error) {
			var rs []store.Reclaim
			for _, key := range keys {
				rs = append(rs, store.Reclaim{Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler, Reason: execution.QueueTimeout, MaxDispatches: 5})
			}
			results, err := s.Reclaim(b.ctx, rs)
			for i := range results {
				if results[i].Applied {
					answered = append(answered, results[i].Row.ID)
				}
			}
			return answered, err
		}},
	} {
		t.Run(call.name, func(t *testing.T) {
			var want []execution.ID
			for i, key := range call.keys {
				if i != nth {
					want = append(want, key.ID)
				}
			}
			held := call.keys[nth]
			b.whileLocked("select from execution_work where id = $1 for update", []any{int64(held.ID)}, func() {
				answered, err := call.do(call.keys)
				if slices.Sort(answered); !slices.Equal(answered, want) {
					t.Errorf("with a locked row %v were done, want %v (%v)", answered, want, err)
				}
				if !store.Retriable(err) {
					t.Errorf("the locked row's error is %v, want one that is retried", err)
				}
			})
			answered, err := call.do([]execution.Key{held})
			if err != nil || !slices.Equal(answered, []execution.ID{held.ID}) {
				t.Errorf("when the lock is gone, %v is done: %v", answered, err)
			}
		})
	}
}

// A lease depends on no table but the worker's and the live work's. Others may be locked for as long as an
// index build on them, or a vacuum full, takes.
func TestHeartbeatNeedsNoOtherTable(t *testing.T) {
	b := newFixture(t)
	s := b.openStore(postgres.Options{Now: b.readClock, LockTimeout: 300 * time.Millisecond})
	w := b.activeWorker("w")
	held, ended := b.runningExecution(w), b.runningExecution(w)
	b.finishRun(w, store.Finish{Key: ended, To: execution.Completed})
	unheld := b.runningExecution(w)
	b.execSQL("update execution_work set claim_beat = 0 where id = $1", int64(unheld.ID))
	rows, err := b.conn.Query(b.ctx, `select relname::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1`)
	b.must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.must(err)
	number := uint64(1)
	for _, table := range tables {
		for _, mode := range []string{"share", "access exclusive"} {
			switch {
			case table == "worker", table == "worker_incarnation", table == "execution_work" && mode != "share":
				continue
			}
			number++
			b.whileLocked(fmt.Sprintf("lock table %s in %s mode", table, mode), nil, func() {
				reply, err := s.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Acknowledged: number - 1, Lease: lease, ConsumerAlive: true, Held: []execution.Key{held, ended, unheld}})
				if err != nil {
					t.Errorf("%s in %s mode: %v", table, mode, err)
				}
				if len(reply.Lost) != 1 && reply.Incomplete == nil {
					t.Errorf("%s in %s mode: lost %v, without a word that this is incomplete", table, mode, reply.Lost)
				}
			})
		}
	}
	number++
	b.whileLocked("lock table execution_record in share mode", nil, func() {
		reply, err := s.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Acknowledged: number - 1, Lease: lease, Held: []execution.Key{held}})
		if err != nil || len(reply.Ended) != 0 || !store.Retriable(reply.Incomplete) {
			t.Errorf("a row that is not held can't be ended: %v, %+v", err, reply)
		}
	})
	if got := b.readRow(unheld.ID).Status; got != execution.Running {
		t.Fatalf("the row that is not held is %v", got)
	}
	number++
	reply, err := s.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Acknowledged: number - 1, Lease: lease, Held: []execution.Key{held, ended}})
	if err != nil || reply.Incomplete != nil || len(reply.Ended) != 1 || reply.Ended[0].Row.ID != unheld.ID || !slices.Equal(reply.Lost, []execution.Key{ended}) {
		t.Errorf("the next heartbeat: %v, %+v", err, reply)
	}
}

// A child whose parent's chain is purged at the same moment has no parent. Otherwise it would wait for ever
// for the end of a chain that does not exist.
func TestChildOfPurgedChainHasNoParent(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	parent := b.runningExecution(w)
	b.finishRun(w, store.Finish{Key: parent, To: execution.Completed})
	var created []store.Created
	var err error
	done := make(chan struct{})
	tx, begun := b.connectStranger().Begin(b.ctx)
	b.must(begun)
	_, deleted := tx.Exec(b.ctx, "delete from execution_record where id = $1", int64(parent.ID))
	b.must(deleted)
	go func() {
		defer close(done)
		created, err = b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Parent: parent.ID}})
	}()
	b.waitsForALock()
	b.must(tx.Commit(b.ctx))
	<-done
	b.must(err)
	if !created[0].UnknownParent {
		t.Errorf("created %+v under a parent that is gone", created[0])
	}
}

// A manual edit keeps what happened to the row since the edit's statement began, and no edit lowers an epoch.
func TestManualEditKeepsConcurrentChanges(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	run, key := b.runningExecution(w), b.scheduledExecution(w)
	tx, err := b.connectStranger().Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from execution_work where id = $1 for update", int64(key.ID))
	b.must(err)
	editor, done := b.connectStranger(), make(chan error, 1)
	go func() {
		_, err := editor.Exec(b.ctx, "update execution set max_retries = 5 where id = $1", int64(key.ID))
		done <- err
	}()
	b.waitsForALock()
	// Meanwhile it is reclaimed and dispatched anew.
	_, err = tx.Exec(b.ctx, "update execution_work set status = 'requested', epoch = epoch + 1, written_epoch = epoch, written_by = 'reconciler', worker = null, incarnation = null, scheduled_at = null, dispatch_deadline = null, published_at = null where id = $1", int64(key.ID))
	b.must(err)
	b.must(tx.Commit(b.ctx))
	b.must(<-done)
	row := b.readRow(key.ID)
	if row.Epoch != key.Epoch+1 || row.Status != execution.Requested || row.Action.MaxRetries != 5 {
		t.Errorf("after an edit of max_retries the row is %v at epoch %d, with %d retries; want requested, %d, 5", row.Status, row.Epoch, row.Action.MaxRetries, key.Epoch+1)
	}
	// The same with an execution that completes meanwhile.
	tx, err = b.connectStranger().Begin(b.ctx)
	b.must(err)
	_, err = tx.Exec(b.ctx, "select from execution_record where id = $1 for share", int64(run.ID))
	b.must(err)
	finished := make(chan error, 1)
	go func() {
		_, err := b.Finish(b.ctx, w, []store.Finish{{Key: run, To: execution.Failed, Reason: execution.Transient, Result: execution.Result{Error: "no", Output: []byte(`{"a":  1}`)}}})
		finished <- err
	}()
	b.waitsForALock()
	go func() {
		_, err := editor.Exec(b.ctx, "update execution set max_retries = 7 where id = $1", int64(run.ID))
		done <- err
	}()
	for waiting := 0; waiting < 2; {
		b.scanRow("select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()", nil, &waiting)
	}
	b.must(tx.Rollback(b.ctx))
	b.must(<-finished)
	b.must(<-done)
	ended := b.readRow(run.ID)
	if ended.Status != execution.Failed || ended.Action.MaxRetries != 7 || string(ended.Result.Output) != `{"a":  1}` {
		t.Errorf("after an edit of what ended meanwhile: %v, %d retries, output %s", ended.Status, ended.Action.MaxRetries, ended.Result.Output)
	}
	if listed := b.findRows(store.Unorchestrated, 0); !slices.Equal(listed, []execution.ID{run.ID}) {
		t.Errorf("unhandled ends: %v, want %d", listed, run.ID)
	}
	if _, err := b.conn.Exec(b.ctx, "update execution set epoch = 1 where id = $1", int64(key.ID)); err == nil {
		t.Error("an edit has lowered an epoch")
	}
}
