package sim

import (
	"testing"
	"time"

	"handoff/chaos/invariant"
	"handoff/core/config"
	"handoff/scenarios"
)

// firstRules is the number of invariants before those that were added because of source mutants.
const firstRules = 19

// BenchmarkLaterRules measures the cost of the later invariants. It judges the same runs alternately by all
// invariants and by the first ones. cpu/cpu is the processor time of the former divided by that of the
// latter.
func BenchmarkLaterRules(b *testing.B) {
	var later []int
	for n := firstRules + 1; n <= invariant.Last; n++ {
		later = append(later, n)
	}
	var all, first time.Duration
	for b.Loop() {
		for _, name := range []string{"crash-after-heartbeat", "network-partition", "ttl-race", "dropped-status-messages"} {
			s, err := scenarios.Find(name)
			if err != nil {
				b.Fatal(err)
			}
			for seed := range uint64(60) {
				for _, without := range [][]int{later, nil} {
					began := cpuTime()
					r := Run(s, config.Hardened, Options{Seed: seed + 1, WithoutInvariants: without})
					if took := cpuTime() - began; without == nil {
						all += took
					} else {
						first += took
					}
					if len(r.Violations) > 0 {
						b.Fatal(r.Violations)
					}
				}
			}
		}
	}
	b.ReportMetric(all.Seconds()/first.Seconds(), "cpu/cpu")
}
