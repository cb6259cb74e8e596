package postgrestest_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/testenv"
)

// snapshotCall is a call that a fleet makes continually, about one row at most. prepare and tidy are not
// measured.
type snapshotCall struct {
	name                string
	prepare, call, tidy func()
}

// snapshotCalls returns the calls. The worker runs some executions, and has others in its queue.
func snapshotCalls(k *keeper, held []execution.Key) []snapshotCall {
	var id execution.ID
	create := func() {
		k.Helper()
		created, err := k.Create(k.ctx, []store.NewExecution{{ActionRef: "noop"}})
		k.must(err)
		id = created[0].ID
	}
	cancel := func() { k.must(errorOf(k.Cancel(k.ctx, []execution.ID{id}, "test"))) }
	nothing := func() {}
	beat := uint64(1)
	return []snapshotCall{
		{"DispatchDue", create, func() { k.must(dispatchDue(k.Store, k.worker, 1)) }, cancel},
		{"DispatchDue, nothing due", nothing, func() {
			o := store.Offer{Runtimes: []string{"noop"}, Spread: []store.Place{{Worker: k.worker, Limit: 1 << 20}}}
			o.Packed = o.Spread
			k.must(errorOf(k.DispatchDue(k.ctx, store.DueDispatch{Executor: "e", Expiry: time.Hour, Timeout: time.Hour, Offers: []store.Offer{o}})))
		}, nothing},
		{"ClaimForScheduling", create, func() {
			rows, err := k.ClaimForScheduling(k.ctx, store.SchedulingClaim{
				Executor: "e", Expiry: time.Hour, Demands: []store.Demand{{Runtime: "noop", Limit: 1}},
			})
			if k.must(err); len(rows) != 1 || rows[0].ID != id {
				k.Errorf("claimed %v, want execution %d", rows, id)
			}
		}, cancel},
		{"Workers", nothing, func() { k.must(errorOf(k.Workers(k.ctx, nil))) }, nothing},
		{"Heartbeat", nothing, func() {
			beat++
			reply, err := k.Heartbeat(k.ctx, store.Beat{WorkerKey: k.worker, Number: beat, Lease: 24 * time.Hour, ConsumerAlive: true, Held: held})
			if k.must(err); len(reply.Lost)+len(reply.Ended) > 0 {
				k.Errorf("the heartbeat lost %v and ended %v", reply.Lost, reply.Ended)
			}
		}, nothing},
	}
}

// While an old snapshot is held, the index entries of removed rows stay. Calls skip them once, and not each
// time, although the worker holds rows that are older.
func TestSnapshotCosts(t *testing.T) {
	n := 20_000
	if testenv.All() {
		n = 100_000
	}
	var ahead atomic.Int64
	k := newKeeperAt(t, nil, func() (time.Time, bool) {
		return time.Now().Add(time.Duration(ahead.Load())), true
	})
	const long = 6 // executions that the worker holds throughout, half of which it runs
	_, err := k.Create(k.ctx, slices.Repeat([]store.NewExecution{{ActionRef: "noop"}}, long))
	k.must(err)
	k.must(dispatchDue(k.Store, k.worker, long))
	dispatched, err := k.Dispatched(k.ctx, k.worker, long)
	k.must(err)
	var held []execution.Key
	for i := range dispatched[:long/2] {
		results, err := k.Claim(k.ctx, k.worker, []store.Claim{{Key: dispatched[i].Key(), Beat: 1}})
		if k.must(err); !results[0].Applied {
			t.Fatalf("the claim was refused: %+v", results[0])
		}
		held = append(held, dispatched[i].Key())
	}
	calls := snapshotCalls(k, held)
	calls[4].call() // a lease for a day

	pass := func() {
		t.Helper()
		for range n / 500 {
			k.runLife(500, false)
		}
		// Rows that have just left may still be skipped.
		ahead.Add(int64(time.Hour))
	}
	// measure returns the pages of each call. It takes the cheapest of several attempts, because occasionally
	// a call walks from the head on purpose.
	measure := func() map[string]float64 {
		t.Helper()
		least := make(map[string]float64)
		for attempt := range 4 {
			time.Sleep(1100 * time.Millisecond) // each attempt renews what the store caches
			for _, c := range calls {
				c.prepare()
				k.observer.plans = nil
				c.call()
				k.must(k.observer.wrong)
				pages := k.observer.totalCost().buffers
				c.tidy()
				if was, ok := least[c.name]; attempt > 0 && (!ok || pages < was) {
					least[c.name] = pages
				}
			}
		}
		return least
	}
	pass()
	before := measure()

	stranger, err := pgx.Connect(k.ctx, k.url)
	k.must(err)
	defer stranger.Close(context.Background())
	tx, err := stranger.BeginTx(k.ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	k.must(err)
	_, err = tx.Exec(k.ctx, "select pg_current_xact_id(), (select count(*) from execution)")
	k.must(err)
	pass()
	during := measure()
	for _, c := range calls {
		t.Logf("%s: %v pages before the snapshot, %v after %d executions have passed during it", c.name, before[c.name], during[c.name], n)
		if during[c.name] > 2*before[c.name] {
			t.Errorf("%s reads %v pages after %d executions have passed during an old snapshot, and %v without one: at most twice as many are allowed",
				c.name, during[c.name], n, before[c.name])
		}
	}
	workers, err := k.Workers(k.ctx, nil)
	k.must(err)
	if workers[0].Load != long || workers[0].Queued != long-long/2 {
		t.Errorf("the worker holds %d executions, %d of them in its queue; want %d and %d", workers[0].Load, workers[0].Queued, long, long-long/2)
	}
	// The limit of a dispatch counts them, too.
	k.must(errorOf(k.Create(k.ctx, []store.NewExecution{{ActionRef: "noop"}})))
	for _, limit := range []int{long, long + 1} {
		o := store.Offer{Runtimes: []string{"noop"}, Spread: []store.Place{{Worker: k.worker, Limit: limit}}}
		o.Packed = o.Spread
		due, err := k.DispatchDue(k.ctx, store.DueDispatch{Executor: "e", Expiry: time.Hour, Timeout: time.Hour, Offers: []store.Offer{o}})
		if k.must(err); len(due.Rows) != limit-long {
			t.Errorf("%d executions are dispatched to a worker that holds %d and may hold %d", len(due.Rows), long, limit)
		}
	}
	k.must(tx.Rollback(k.ctx))
}
