package discovery

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCountsDependOnNoOrderAndNoParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.SliceOfDistinct(rapid.Uint64Range(0, 40), rapid.ID), 1, 20).Draw(t, "runs")
		shards := rapid.IntRange(1, 5).Draw(t, "shards")
		whole, parts := counted(runs...), make([]Counts, shards)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0))
		for _, k := range r.Perm(len(runs)) {
			parts[k%shards].Add(uint64(k+1), runs[k])
		}
		var merged Counts
		for _, k := range r.Perm(shards) {
			text, err := json.Marshal(parts[k])
			var read Counts
			if err != nil || json.Unmarshal(text, &read) != nil || !reflect.DeepEqual(read, parts[k]) {
				t.Fatalf("%s reads as %+v: %v", text, read, err)
			}
			merged.Merge(&read)
		}
		if whole.seen == nil && len(merged.seen) == 0 {
			merged.seen = nil
		}
		if !reflect.DeepEqual(*whole, merged) {
			t.Fatalf("one run of all: %+v, merged: %+v", whole, merged)
		}
	})
}

func TestBeyondTheLimitTheSmallestFingerprintsAreCountedExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all [][]uint64
	for range 40 {
		seen := make(map[uint64]bool)
		for range 2500 {
			seen[r.Uint64N(60000)] = true
		}
		var run []uint64
		for f := range seen {
			run = append(run, f)
		}
		all = append(all, run)
	}
	exact := make(map[uint64]int)
	for _, run := range all {
		for _, f := range run {
			exact[f]++
		}
	}
	smallest := slices.Sorted(maps.Keys(exact))[:Limit]
	one, two := counted(all...), counted(all[:20]...)
	var rest Counts
	for i, run := range all[20:] {
		rest.Add(uint64(21+i), run)
	}
	two.Merge(&rest)
	for _, c := range []*Counts{one, two} {
		if kept := c.kept(); len(kept) != Limit || !c.capped || c.Runs() != 40 || !slices.Equal(kept, smallest) {
			t.Fatalf("%d situations of %d kept, capped: %v", len(kept), len(exact), c.capped)
		}
		for _, f := range smallest {
			if got := c.seen[f].runs; got != exact[f] {
				t.Errorf("situation %d was seen in %d runs, counted %d", f, exact[f], got)
			}
		}
	}
	if a, b := one.Incidence(), two.Incidence(); !reflect.DeepEqual(a, b) || a.Distinct() != Limit || !a.Capped {
		t.Errorf("in one: %d situations, in two parts: %d", a.Distinct(), b.Distinct())
	}
	text, err := json.Marshal(one)
	if again, _ := json.Marshal(two); string(again) != string(text) {
		t.Error("in two parts the text is another one")
	}
	if err != nil || len(text) > 250_000 {
		t.Errorf("%d bytes of JSON: %v", len(text), err)
	}
}

func TestCountsThatWereChangedAreRefused(t *testing.T) {
	text, err := json.Marshal(counted([]uint64{1, 2}, []uint64{2}))
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		`{"runs":-1}`, `{"runs":2,"seen":"?"}`, `{"runs":2,"seen":"AAAA"}`, strings.Replace(string(text), `"runs":2`, `"runs":1`, 1), `[]`,
	} {
		var c Counts
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s was read as %+v", bad, c)
		}
	}
}
