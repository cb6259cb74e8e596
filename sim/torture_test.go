package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"handoff/scenarios"
)

func TestTorture(t *testing.T) {
	path := os.Getenv("T")
	if path == "" {
		t.Skip()
	}
	s, err := scenarios.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(os.Getenv("N"))
	for _, p := range s.Profiles {
		bad := map[string]int{}
		some := map[string]int{}
		var steps uint64
		var chains [11]int64
		for seed := 1; seed <= n; seed++ {
			r := Run(s, p, Options{Seed: uint64(seed)})
			steps += r.Steps
			if r.Panic != "" {
				t.Fatal(r.Panic)
			}
			if r.GaveUp != "" {
				bad["gave up: "+r.GaveUp]++
			}
			for i, c := range r.Chains {
				chains[i] += c
			}
			for k, v := range r.Sometimes {
				some[k] += v
			}
			for _, v := range r.Violations {
				if bad[v.Name]++; bad[v.Name] <= 2 {
					fmt.Printf("   %s/%s seed %d inv %d at %v: %s\n", s.Name, p, seed, v.Invariant, v.At, v.Message)
				}
			}
		}
		fmt.Println(p, "steps", steps, bad, chains, some)
	}
}
