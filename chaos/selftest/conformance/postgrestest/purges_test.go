package postgrestest_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"handoff/core/store"
)

// mostIdlePages is the largest number of pages that a purge may read when nothing is due. A purge that
// searches by an index reads the root and a leaf of it. One that walks the remaining rows reads a step of
// 100, each with what could keep it.
const (
	mostIdlePages    = 10
	mostWalkingPages = 1000
	purgeStep        = 100
)

// idlePurge is a purge of a table in which nothing is due. Every executor makes each, every ten seconds or
// every minute, so it must not read the rows that stay.
type idlePurge struct {
	// method is the method of the store that it calls.
	method, of string
	most       float64
	call       func(c *costs) error
}

func idlePurges() []idlePurge {
	all := []idlePurge{
		{"PurgeObservations", "", mostIdlePages, func(c *costs) error { return errorOf(c.PurgeObservations(c.ctx, 24*time.Hour, purgeStep)) }},
		{"PurgeDeadLetters", "", mostIdlePages, func(c *costs) error { return errorOf(c.PurgeDeadLetters(c.ctx, 24*time.Hour, purgeStep)) }},
		{"ForgetKeys", "", mostIdlePages, func(c *costs) error { return errorOf(c.ForgetKeys(c.ctx, 24*time.Hour, purgeStep)) }},
	}
	most := map[store.Kept]float64{store.KeptExecutions: mostWalkingPages, store.KeptIncarnations: mostWalkingPages, store.KeptWorkers: mostWalkingPages, store.KeptTransitions: 2 * purgeStep}
	for _, what := range store.AllKept() {
		p := idlePurge{"Purge", what.String(), most[what], func(c *costs) error {
			return errorOf(c.Purge(c.ctx, store.Purge{What: what, Age: 24 * time.Hour, Limit: purgeStep}))
		}}
		if p.most == 0 {
			p.most = mostIdlePages
		}
		all = append(all, p)
	}
	return all
}

// A purge with nothing due reads a few pages, however many rows stay.
func TestIdlePurgesAreCheap(t *testing.T) {
	t.Parallel() // it compares pages, not times
	c := newCosts(t)
	kept := []string{"finished", "keys", "names", "incarnations", "open dead letters", "handled dead letters", "transitions", "expiries", "observations", "refused results"}
	const n = 2000
	grow := func(from, to int) {
		filled := 0
		for _, d := range allDimensions() {
			for _, name := range kept {
				if d.name == name {
					if name == "incarnations" { // names have used those from -1 on
						d.fill(c, 1_000_000+from, 1_000_000+to)
					} else {
						d.fill(c, from, to)
					}
					filled++
				}
			}
		}
		if filled != len(kept) {
			t.Fatalf("%d of the dimensions %v are known", filled, kept)
		}
		c.execSQL("update worker_incarnation set lease_expires_at = now() where lifecycle = 'lost'")
		c.analyzeTables()
	}
	measure := func(p *idlePurge) cost {
		c.observer.plans = nil
		c.must(p.call(c))
		c.must(c.observer.wrong)
		return c.observer.totalCost().cost
	}
	purges := idlePurges()
	grow(0, n)
	for range 6 { // a session keeps its plans
		for i := range purges {
			measure(&purges[i])
		}
	}
	once := make([]cost, len(purges))
	for i := range purges {
		once[i] = measure(&purges[i])
	}
	grow(n, 2*n)
	for i := range purges {
		p := &purges[i]
		twice := measure(p)
		t.Logf("%s %s: %v buffers, then %v", p.method, p.of, once[i].buffers, twice.buffers)
		if twice.buffers > p.most || growthOf(once[i], twice) != constant || twice.buffers > once[i].buffers+mostIdlePages {
			t.Errorf("%s %s with nothing due reads %v pages, and %v with twice the rows; want at most %v at both", p.method, p.of, once[i].buffers, twice.buffers, p.most)
		}
	}
}

// Every method of the store that purges is measured.
func TestEveryPurgeIsMeasured(t *testing.T) {
	measured := make(map[string]bool)
	for _, p := range idlePurges() {
		measured[p.method] = true
	}
	s := reflect.TypeFor[store.Store]()
	for i := range s.NumMethod() {
		if name := s.Method(i).Name; (strings.HasPrefix(name, "Purge") || strings.HasPrefix(name, "Forget")) && !measured[name] {
			t.Errorf("the method %s purges, and no idle purge calls it: add it to idlePurges", name)
		}
	}
}
