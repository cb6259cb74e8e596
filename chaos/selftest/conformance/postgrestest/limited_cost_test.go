package postgrestest_test

import (
	"slices"
	"testing"
	"time"

	"handoff/core/store"
)

// Each action with a limit has its own lane, which a pass reads even if all slots of the action are taken. So
// a pass over nothing but such lanes may read this many pages and rows for each: three or four pages to find
// the lane, and two or three for its first row or for the action and its slots.
const (
	fullActions      = 5_000
	pagesOfADispatch = 6
	rowsOfADispatch  = 20
	pagesOfAClaim    = 7
	rowsOfAClaim     = 40
	pagesOfEachPass  = 200 // however many lanes there are
)

func TestPassOverFullActionsReadsFewPages(t *testing.T) {
	t.Parallel() // it compares pages, not times
	c := newCosts(t)
	limited := slices.IndexFunc(allDimensions(), func(d dimension) bool { return d.name == "limited actions" })
	allDimensions()[limited].fill(c, 0, fullActions)
	var waiting int
	c.must(c.hand.QueryRow(c.ctx, "select count(*) from execution_work where waits and lane_action > 0").Scan(&waiting))
	if waiting != fullActions {
		t.Fatalf("%d executions wait for a slot, want %d", waiting, fullActions)
	}
	c.analyzeTables()
	for _, x := range []struct {
		name        string
		pages, rows float64
		call        func() (int, error)
	}{
		{"dispatch", pagesOfADispatch, rowsOfADispatch, func() (int, error) {
			o := store.Offer{Runtimes: []string{"cost"}, Spread: []store.Place{{Worker: c.worker, Limit: 1 << 20}}}
			o.Packed = o.Spread
			due, err := c.DispatchDue(c.ctx, store.DueDispatch{Executor: "e", Expiry: time.Hour, Timeout: time.Hour, Offers: []store.Offer{o}})
			return len(due.Rows), err
		}},
		{"claim", pagesOfAClaim, rowsOfAClaim, func() (int, error) {
			rows, err := c.ClaimForScheduling(c.ctx, store.SchedulingClaim{
				Executor: "e", Expiry: time.Hour, Demands: []store.Demand{{Runtime: "other", Limit: few}}, Others: few,
			})
			return len(rows), err
		}},
	} {
		c.observer.plans = nil
		n, err := x.call()
		c.must(err)
		c.must(c.observer.wrong)
		got := c.observer.totalCost().cost
		t.Logf("a %s over %d full actions reads %v pages and %v rows", x.name, fullActions, got.buffers, got.rows)
		if n > 0 {
			t.Errorf("a %s gives %d rows, without a free slot", x.name, n)
		}
		if got.buffers > x.pages*fullActions+pagesOfEachPass || got.rows > x.rows*fullActions+pagesOfEachPass {
			t.Errorf("a %s over %d full actions reads %v pages and %v rows, want at most %v and %v for each", x.name, fullActions, got.buffers, got.rows, x.pages, x.rows)
		}
	}
}
