package discovery

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// countsOf returns the counts of runs with the given situations.
func countsOf(runs ...[]uint64) *Counts {
	var c Counts
	for _, r := range runs {
		c.Add(r)
	}
	return &c
}

func TestCountsIgnoreOrderAndSharding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.Uint64Range(0, 40), rapid.ID), 1, 20).Draw(t, "runs")
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		parts := make([]Counts, shards)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		for _, k := range r.Perm(len(runs)) {
			parts[k%shards].Add(runs[k])
		}
		var merged Counts
		for _, k := range r.Perm(shards) {
			text, err := json.Marshal(parts[k])
			var read Counts
			if err != nil || json.Unmarshal(text, &read) != nil {
				t.Fatalf("%s is read as %+v: %v", text, read, err)
			}
			merged.Merge(&read)
		}
		if whole := countsOf(runs...); !reflect.DeepEqual(*whole, merged) {
			t.Fatalf("one run of all: %+v, merged: %+v", whole, merged)
		}
	})
}

func TestCountsBeyondLimitKeepSmallestFingerprints(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact := make(map[uint64]int)
	var all [][]uint64
	for range 40 {
		var run []uint64
		for _, f := range r.Perm(60000)[:2500] {
			exact[uint64(f)]++
			run = append(run, uint64(f))
		}
		all = append(all, run)
	}
	one, two := countsOf(all...), countsOf(all[:20]...)
	two.Merge(countsOf(all[20:]...))
	if a, b := one.Summary(), two.Summary(); a != b || a.Distinct != Limit || !a.Capped || a.Runs != 40 {
		t.Errorf("in one: %+v, in two parts: %+v", a, b)
	}
	text, err := json.Marshal(one)
	if again, _ := json.Marshal(two); err != nil || string(again) != string(text) || len(text) > 500_000 {
		t.Errorf("in two parts the text differs, or is too long: %d bytes, %v", len(text), err)
	}
	one.cutToLimit()
	for f, n := range one.seen {
		if n != exact[f] {
			t.Errorf("situation %d was seen in %d runs, counted %d", f, exact[f], n)
		}
	}
}

func TestCountsRejectImpossibleValues(t *testing.T) {
	for _, bad := range []string{`{"runs":2,"seen":{"1":3}}`, `{"runs":2,"seen":{"1":0}}`, `{"runs":2,"seen":{"x":1}}`, `[]`} {
		var c Counts
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s was read as %+v", bad, c)
		}
	}
}
