package postgrestest_test

import (
	"testing"

	"handoff/core/store"
)

// A pass reads the workers every second. These are the numbers of pods in a year, and of the pages that it
// may read then.
const (
	podsOfAYear  = 20_000
	mostOfAFleet = 40
)

// A read of the workers costs as much as the live ones, however many are permanently gone.
func TestGoneWorkersAddNoCost(t *testing.T) {
	t.Parallel() // it compares pages, not times
	c := newCosts(t)
	c.execSQL("delete from worker where id > 1")
	c.execSQL("delete from worker_incarnation where incarnation > 1")
	c.execSQL(`with new as (insert into worker (name, incarnation) select 'pod' || n, n from generate_series(1000, $1::int + 999) n returning id, incarnation)
		insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at)
		select incarnation, id, 1, 1, 'lost', '{cost}', 10, now() - interval '2 days', now() - interval '3 days' from new`, podsOfAYear)
	look := func() cost {
		c.observer.plans = nil
		rows, err := c.Workers(c.ctx, nil)
		c.must(err)
		c.must(c.observer.wrong)
		t.Logf("%d workers: %v buffers", len(rows), c.observer.totalCost().cost.buffers)
		return c.observer.totalCost().cost
	}
	c.analyzeTables()
	for range 6 { // a session keeps its plans
		look()
	}
	if before := look(); before.buffers < podsOfAYear {
		t.Fatalf("a look at %d workers read %v pages: this test measures something else", podsOfAYear, before.buffers)
	}
	// Executors mark them in batches, as their queues are deleted, on the tables of that time.
	var all []store.WorkerKey
	rows, err := c.Workers(c.ctx, nil)
	c.must(err)
	for i := range rows {
		all = append(all, rows[i].WorkerKey)
	}
	marked := 0
	for len(all) > 0 {
		batch := all[:min(len(all), 500)]
		all = all[len(batch):]
		done, err := c.MarkQueuesDeleted(c.ctx, batch)
		c.must(err)
		for _, ok := range done {
			if ok {
				marked++
			}
		}
	}
	if marked != podsOfAYear {
		t.Errorf("%d workers are marked, want all %d that are gone", marked, podsOfAYear)
	}
	for _, statistics := range []string{"old", "fresh"} {
		if statistics == "fresh" {
			c.analyzeTables()
		} else {
			c.execSQL("vacuum worker") // as it is vacuumed in production, too
		}
		if after := look(); after.buffers > mostOfAFleet {
			t.Errorf("with %s statistics reading the workers takes %v pages with %d that are gone, want at most %d", statistics, after.buffers, podsOfAYear, mostOfAFleet)
		}
	}
}
