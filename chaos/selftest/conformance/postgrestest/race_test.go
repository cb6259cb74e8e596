package postgrestest_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// If many claim one epoch at once, over batches and over connections, exactly one wins, and the
// others see its claim.
func TestClaimRace(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	other := b.openStore(postgres.Options{Now: b.readClock})
	for range 10 {
		key := b.scheduledExecution(w)
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for n := range 16 {
			s := b.Store
			if n%2 == 1 {
				s = other
			}
			wg.Go(func() {
				results, err := s.Claim(b.ctx, w, []store.Claim{{Key: key, Beat: 1}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Error(err)
				case results[0].Applied:
					won++
				case results[0].Row.Status != execution.Running || results[0].DeadlinePassed:
					t.Errorf("refused with %+v", results[0])
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d claims of one epoch won", won)
		}
	}
}

// A claim and a reclaim of one epoch: exactly one succeeds, and the loser sees the winner's row.
func TestClaimAgainstReclaim(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	for range 20 {
		key := b.scheduledExecution(w)
		var wg sync.WaitGroup
		var claimed store.ClaimResult
		var taken store.Outcome
		wg.Go(func() { claimed = b.claimDispatch(w, key) })
		wg.Go(func() {
			taken = b.reclaimRow(store.Reclaim{Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler, Policy: config.Fail})
		})
		wg.Wait()
		if claimed.Applied == taken.Applied {
			t.Fatalf("claimed %+v, reclaimed %+v", claimed, taken)
		}
		if claimed.Applied && taken.Row.Status != execution.Running || taken.Applied && claimed.Row.Status != execution.Failed {
			t.Fatalf("claimed %+v, reclaimed %+v", claimed, taken)
		}
		// A worker whose slots are all taken is not charged for rows that it leaves unclaimed.
		if claimed.Applied {
			b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
		}
	}
}

// Executors that claim for scheduling at the same time never get the same row.
func TestExecutorsDoNotOverlap(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action, {Ref: "p", Runtime: "python"}}))
	items := make([]store.NewExecution, 400)
	for i := range items {
		items[i] = store.NewExecution{ActionRef: []string{"a", "p"}[i%2]}
	}
	_, err := b.Create(b.ctx, items)
	b.must(err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	owner := map[execution.ID]string{}
	for _, executor := range []string{"e", "f", "g"} {
		wg.Go(func() {
			for {
				rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{
					Executor: executor, Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 7}}, Others: 5,
				})
				if err != nil {
					t.Error(err)
				}
				if len(rows) == 0 {
					return
				}
				mu.Lock()
				for i := range rows {
					if before := owner[rows[i].ID]; before != "" || rows[i].SchedulingBy != executor {
						t.Errorf("execution %d was claimed by %s and %s (%s)", rows[i].ID, before, executor, rows[i].SchedulingBy)
					}
					owner[rows[i].ID] = executor
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// An executor that skipped rows locked by another may have finished early. The last one takes
	// the remaining rows.
	if len(owner) != len(items) {
		t.Errorf("%d of %d were claimed", len(owner), len(items))
	}
}

// The same keys at once, in opposite orders, from two stores: one row each.
func TestCreateRace(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	// Both have the same clock: for a store with a clock a day ahead or behind, the keys would be
	// old, and free.
	other := b.openStore(postgres.Options{Now: b.readClock})
	forward := []store.NewExecution{{ActionRef: "a", IdempotencyKey: "x"}, {ActionRef: "a", IdempotencyKey: "y"}, {ActionRef: "a", IdempotencyKey: "z"}}
	backward := []store.NewExecution{forward[2], forward[1], forward[0]}
	var mu sync.Mutex
	ids := map[string]map[execution.ID]int{"x": {}, "y": {}, "z": {}}
	var wg sync.WaitGroup
	for n := range 12 {
		s, items := b.Store, forward
		if n%2 == 1 {
			s, items = other, backward
		}
		wg.Go(func() {
			created, err := s.Create(b.ctx, items)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for i, c := range created {
				if !c.Existed {
					ids[items[i].IdempotencyKey][0]++
				}
				ids[items[i].IdempotencyKey][c.ID]++
			}
		})
	}
	wg.Wait()
	for key, seen := range ids {
		if len(seen) != 2 || seen[0] != 1 {
			t.Errorf("key %s: %v", key, seen)
		}
	}
}

// A dispatch and the end of its worker: a row dispatched before the end is found as that worker's.
func TestDispatchAgainstReap(t *testing.T) {
	b := newFixture(t)
	for n := range 10 {
		w := b.activeWorker(string(rune('a' + n)))
		row := b.schedulingExecution()
		b.advanceClock(lease)
		var wg sync.WaitGroup
		var results []store.DispatchResult
		var err error
		wg.Go(func() {
			results, err = b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: time.Minute}})
		})
		wg.Go(func() { b.registerWorker(string(rune('a'+n)), 99) })
		wg.Wait()
		b.must(err)
		if gone := b.findRows(store.OwnerGone, 0); results[0].Applied != (len(gone) == 1) {
			t.Fatalf("dispatched: %+v, found %v", results[0], gone)
		}
		if results[0].Applied {
			b.reclaimRow(store.Reclaim{Key: results[0].Row.Key(), Cause: store.OwnerGone, By: execution.Reconciler, Policy: config.Fail})
		} else {
			_, err := b.Park(b.ctx, "e", []store.Park{{Key: row.Key(), Unschedulable: true}})
			b.must(err)
		}
	}
}

// Executors that dispatch to one worker at the same time do not give it more, together, than each of them may
// alone.
func TestDispatchKeepsWorkerLimit(t *testing.T) {
	b := newFixture(t)
	const limit, executors = 3, 4
	for n := range 15 {
		w := b.activeWorker(string(rune('a' + n)))
		var asked [executors][]store.Dispatch
		for i := range asked {
			for range 2 {
				row := b.schedulingExecution()
				asked[i] = append(asked[i], store.Dispatch{Key: row.Key(), Worker: w, Timeout: time.Minute, Limit: limit})
			}
		}
		var wg sync.WaitGroup
		var applied atomic.Int64
		for i := range asked {
			wg.Go(func() {
				results, err := b.Dispatch(b.ctx, "e", asked[i])
				if err != nil {
					t.Error(err)
				}
				for j := range results {
					if results[j].Applied {
						applied.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if applied.Load() != limit {
			t.Fatalf("round %d: the worker was given %d executions, want %d", n, applied.Load(), limit)
		}
	}
}
