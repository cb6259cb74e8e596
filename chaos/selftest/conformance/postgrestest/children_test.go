package postgrestest_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// createChildren creates `each` children for every parent, under keys, in one call.
func createChildren(t *testing.T, s *postgres.Store, parents []execution.ID, each int) []store.Created {
	t.Helper()
	var items []store.NewExecution
	for _, parent := range parents {
		for n := range each {
			items = append(items, store.NewExecution{ActionRef: "a", Parent: parent, IdempotencyKey: fmt.Sprint(parent, "/", n)})
		}
	}
	created, err := s.Create(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// Over a slow path a request must succeed, however many children it has, and so must its
// repetition.
func TestCreateChildrenTakesConstantRoundTrips(t *testing.T) {
	b := newFixture(t)
	p, address := startProxy(t, b.url)
	s, err := postgres.Open(b.ctx, address, postgres.Options{MaxConns: 1, Now: b.readClock})
	b.must(err)
	defer s.Close()
	var parents []execution.ID
	for range 4 {
		parents = append(parents, b.requestedExecution())
	}
	createChildren(t, s, parents[:1], 1)
	p.roundTrips()
	createChildren(t, s, parents[1:2], 1)
	one := p.roundTrips()
	createChildren(t, s, parents, 25)
	hundred := p.roundTrips()
	again := createChildren(t, s, parents, 25)
	repeated := p.roundTrips()
	if hundred > one+1 || repeated > one+1 || one > 8 {
		t.Errorf("%d round trips for one child, %d for a hundred, %d for their repetition", one, hundred, repeated)
	}
	if slices.ContainsFunc(again, func(c store.Created) bool { return !c.Existed }) {
		t.Errorf("the repetition created something")
	}
	t.Logf("%d round trips for one child, %d for a hundred, %d for their repetition", one, hundred, repeated)
}

// completedWithChildren creates an execution that has completed, with this many waiting children.
func (fi *fixture) completedWithChildren(waiting int) execution.ID {
	fi.Helper()
	w := fi.activeWorker("w")
	key := fi.runningExecution(w)
	createChildren(fi.T, fi.Store, []execution.ID{key.ID}, 1)
	fi.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, parent, due_at, created, written_by)
		select action, action_ref, runtime, entrypoint, max_retries, $1, 'infinity', created, 'api'
		  from execution, generate_series(2, $2) where id = $1`, int64(key.ID), waiting)
	outcomes, err := fi.Finish(fi.ctx, w, []store.Finish{{Key: key, To: execution.Completed}})
	fi.must(err)
	if !outcomes[0].Applied {
		fi.Fatal("the result was refused")
	}
	return key.ID
}

// The handling of an end, and each batch of its children, touch a bounded number of rows however many
// children there are. Only make test-all judges the time that they take.
func TestManyChildrenAreHandledInShortStatements(t *testing.T) {
	waiting, limit := 1000, testenv.Patience()
	if testenv.All() {
		waiting, limit = 5000, time.Second
	}
	const most = 100
	b := newFixture(t)
	id := b.completedWithChildren(waiting)
	s := b.openStore(postgres.Options{Now: b.readClock, StatementTimeout: limit})
	began := time.Now()
	done, err := s.Orchestrate(b.ctx, []store.Orchestration{{ID: id}})
	b.must(err)
	handled := time.Since(began)
	if !done[0].Applied || !done[0].Children {
		t.Fatalf("%+v", done[0])
	}
	started, batches, longest := 0, 0, time.Duration(0)
	for more := true; more; batches++ {
		began := time.Now()
		settled, err := s.SettleChildren(b.ctx, []execution.ID{id}, most)
		b.must(err)
		longest = max(longest, time.Since(began))
		started, more = started+len(settled[0].Started), settled[0].More
		if len(settled[0].Started) > most || len(settled[0].Skipped) > 0 || batches > waiting {
			t.Fatalf("batch %d: %d started, %d skipped", batches, len(settled[0].Started), len(settled[0].Skipped))
		}
	}
	if started != waiting || batches != waiting/most {
		t.Errorf("%d of %d children were started in %d batches, want %d", started, waiting, batches, waiting/most)
	}
	t.Logf("the end was handled in %v, %d batches of %d took at most %v each", handled, batches, most, longest)
}

// However creations, the handling of the end and the settling interleave, no child is left waiting and none
// is settled twice.
func TestNoChildIsMissedWhileParentEnds(t *testing.T) {
	rounds := 3
	if testenv.All() {
		rounds = 10
	}
	for round := range rounds {
		b := newFixture(t)
		w := b.activeWorker("w")
		key := b.runningExecution(w)
		if round%2 == 0 {
			createChildren(t, b.Store, []execution.ID{key.ID}, 3)
		}
		var mu sync.Mutex
		var settled []execution.ID
		var group sync.WaitGroup
		for n := range 4 {
			group.Go(func() {
				for k := range 5 {
					_, err := b.Create(b.ctx, []store.NewExecution{
						{ActionRef: "a", Parent: key.ID, IdempotencyKey: fmt.Sprint(n, "-", k)}, {ActionRef: "a", Parent: key.ID, IdempotencyKey: fmt.Sprint("shared-", k)},
					})
					if err != nil && !errors.Is(err, store.ErrUnavailable) {
						t.Error(err)
					}
				}
			})
		}
		settle := func(s *postgres.Store) (more bool) {
			answers, err := s.SettleChildren(b.ctx, []execution.ID{key.ID}, 2)
			if err != nil {
				t.Error(err)
				return true
			}
			mu.Lock()
			defer mu.Unlock()
			settled = append(settled, answers[0].Started...)
			return answers[0].More
		}
		group.Go(func() {
			to := execution.Completed
			if round%3 == 0 {
				to = execution.Failed
			}
			_, err := b.Finish(b.ctx, w, []store.Finish{{Key: key, To: to, Reason: execution.Validation}})
			if err == nil {
				_, err = b.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}})
			}
			if err != nil {
				t.Error(err)
			}
			for range 3 {
				group.Go(func() {
					for range 5 {
						settle(b.Store)
					}
				})
			}
		})
		group.Wait()
		for range 30 {
			settle(b.Store)
		}
		var waiting, notes int
		b.scanRow(`select count(*) filter (where awaits_parent), count(settling_at) from execution`, nil, &waiting, &notes)
		if waiting != 0 || notes != 0 {
			t.Errorf("round %d: %d children are left waiting, %d chains noted", round, waiting, notes)
		}
		before := len(settled)
		slices.Sort(settled)
		if len(slices.Compact(settled)) != before {
			t.Errorf("round %d: a child was started twice", round)
		}
		if t.Failed() {
			return
		}
	}
}

// A child is created while a result ends its parent. Whichever comes first, the child finally is due, and
// never waits for handling that is already done.
func TestInlineEndHandlingMissesNoChild(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "child", Runtime: "python"}}))
	seen := make(map[bool]int)
	for range 40 {
		key := b.runningExecution(w)
		var group sync.WaitGroup
		var created []store.Created
		var ended []store.Outcome
		group.Go(func() {
			var err error
			if created, err = b.Create(b.ctx, []store.NewExecution{{ActionRef: "child", Parent: key.ID}}); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			var err error
			if ended, err = b.Finish(b.ctx, w, []store.Finish{{Key: key, To: execution.Completed}}); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		if t.Failed() {
			return
		}
		rows, err := b.Executions(b.ctx, []execution.ID{key.ID, created[0].ID})
		b.must(err)
		handled := !ended[0].Row.OrchestratedAt.IsZero()
		seen[handled]++
		if waits := rows[1].AwaitsParent; waits == handled {
			t.Fatalf("the result handled the end: %v, the child waits: %v", handled, waits)
		}
		done, err := b.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID}})
		b.must(err)
		if done[0].Applied == handled || done[0].Children == handled {
			t.Fatalf("the result handled the end: %v, and then %+v", handled, done[0])
		}
	}
	t.Logf("handled with the result: %d, afterwards: %d", seen[true], seen[false])
}

// If several requests reuse one old key, only one creates an execution.
func TestOldKeyIsTakenOverOnce(t *testing.T) {
	b := newFixture(t)
	b.requestedExecution()
	item := []store.NewExecution{{ActionRef: "a", IdempotencyKey: "k"}}
	stores := []*postgres.Store{b.Store, b.openStore(postgres.Options{Now: b.readClock}), b.openStore(postgres.Options{Now: b.readClock})}
	for range 10 {
		var mu sync.Mutex
		ids, fresh := make(map[execution.ID]bool), 0
		var group sync.WaitGroup
		for _, s := range stores {
			group.Go(func() {
				created, err := s.Create(b.ctx, item)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				ids[created[0].ID] = true
				if !created[0].Existed {
					fresh++
				}
			})
		}
		group.Wait()
		if len(ids) != 1 || fresh != 1 {
			t.Fatalf("%d executions were answered, %d created", len(ids), fresh)
		}
		b.advanceClock(execution.KeyLifetime)
	}
}
