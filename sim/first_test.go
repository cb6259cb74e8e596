package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"handoff/scenarios"
)

func TestFirst(t *testing.T) {
	lib, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(os.Getenv("N"))
	for _, s := range lib {
		if o := os.Getenv("S"); o != "" && o != s.Name {
			continue
		}
		for _, p := range s.Profiles {
			some := map[string]int{}
			bad := map[string]int{}
			touched := map[string]int{}
			texts := map[string]int{}
			steps := uint64(0)
			var virt float64
			for seed := 1; seed <= max(n, 1); seed++ {
				r := Run(s, p, Options{Seed: uint64(seed)})
				steps += r.Steps
				virt += r.Virtual.Seconds()
				if r.Panic != "" {
					t.Fatal(r.Panic)
				}
				if r.GaveUp != "" {
					bad["gave up: "+r.GaveUp]++
				}
				for k, v := range r.Sometimes {
					some[k] += v
				}
				for k, v := range r.Texts {
					texts[k] += v
				}
				for _, f := range r.Faults {
					touched[f.Fault] += f.Touched
				}
				for _, v := range r.Violations {
					if bad[v.Name]++; bad[v.Name] == 1 {
						fmt.Printf("   %s/%s seed %d inv %d at %v: %s\n", s.Name, p, seed, v.Invariant, v.At, v.Message)
					}
				}
				if seed == 1 {
					fmt.Println("   chains", r.Chains, "before", r.CompletedBefore, "after", r.CompletedAfter)
				}
			}
			miss := []string{}
			for _, x := range s.Expect(p).Sometimes {
				if some[x] == 0 {
					miss = append(miss, x)
				}
			}
			fmt.Printf("%s/%s steps/run %d virt/run %.0fs bad %v MISSING %v touched %v texts %v\n", s.Name, p, steps/uint64(max(n, 1)), virt/float64(max(n, 1)), bad, miss, touched, texts)
		}
	}
}
