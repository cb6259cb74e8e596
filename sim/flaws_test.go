package sim

import (
	"fmt"
	"testing"
	"time"

	"handoff/scenarios"
	"handoff/sim/flaw"
)

func TestFlawsFirst(t *testing.T) {
	lib, _ := scenarios.Library()
	for _, f := range flaw.All() {
		began := time.Now()
		killed := false
		order := []*scenarios.Scenario{}
		for _, s := range lib {
			if s.Name == f.Scenario {
				order = append(order, s)
			}
		}
		for _, s := range lib {
			if s.Name != f.Scenario {
				order = append(order, s)
			}
		}
	search:
		for _, s := range order {
			for _, p := range s.Profiles {
				for seed := uint64(1); seed <= 300; seed++ {
					r := Run(s, p, Options{Seed: seed, Flaw: f})
					if len(r.Violations) == 0 && r.Panic == "" {
						continue
					}
					nums := []int{}
					msg := ""
					for _, v := range r.Violations {
						nums = append(nums, v.Invariant)
						if v.Invariant == f.Killer {
							killed = true
							msg = v.Message
						}
					}
					fmt.Printf("%-26s want %2d got %v in %s/%s seed %d %.2fs %s\n", f.Name, f.Killer, nums, s.Name, p, seed, time.Since(began).Seconds(), msg)
					break search
				}
			}
		}
		if !killed {
			fmt.Printf("SURVIVED %s\n", f.Name)
		}
	}
}
