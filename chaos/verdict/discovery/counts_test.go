package discovery

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
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
		for range 300 {
			seen[r.Uint64N(20000)] = true
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
	one, two := counted(all...), counted(all[:20]...)
	two.Merge(counted(all[20:]...))
	for _, c := range []*Counts{one, two} {
		if len(c.seen) != Limit || !c.Capped() || c.Runs() != 40 {
			t.Fatalf("%d situations of %d kept, capped: %v", len(c.seen), len(exact), c.Capped())
		}
		for f, s := range c.seen {
			if s.runs != exact[f] {
				t.Errorf("situation %d was seen in %d runs, counted %d", f, exact[f], s.runs)
			}
		}
	}
	text, err := json.Marshal(one)
	if err != nil || len(text) > 70_000 {
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
