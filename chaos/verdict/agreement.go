package verdict

import (
	"maps"
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Side is one world's result for a scenario under a profile.
type Side struct {
	Verdict  Verdict
	Runs     int
	Outcomes [execution.Statuses]int64
	// Sometimes lists the reached situations, sorted.
	Sometimes []string
	// Detection is the duration of the slowest detection of each kind, on the scenario's own time scale.
	Detection map[string]time.Duration
}

// Agreement compares the results of the two worlds.
type Agreement struct {
	Scenario  string
	Profile   config.Profile
	Sim, Live Side
	// Differs describes the disagreement; empty if there is none. A disagreement counts as a
	// failure of the harness until it is explained.
	Differs string
}

// Agree compares the simulated and the live result of a scenario. scale is the live run's time scale.
func Agree(sim, live *Scenario, scale float64) Agreement {
	a := Agreement{Scenario: live.Name, Profile: live.Profile, Sim: sideOf(sim, 1), Live: sideOf(live, scale)}
	if a.Sim.Verdict != a.Live.Verdict {
		a.Differs = a.Sim.Verdict.String() + " in the simulated world, " + a.Live.Verdict.String() + " in the live one"
	}
	return a
}

func sideOf(s *Scenario, scale float64) Side {
	d := make(map[string]time.Duration, len(s.Detection))
	for name, took := range s.Detection {
		d[name] = time.Duration(float64(took) / scale).Round(100 * time.Millisecond)
	}
	return Side{Verdict: s.Verdict, Runs: s.Seeds, Outcomes: s.Chains, Sometimes: slices.Sorted(maps.Keys(s.Sometimes)), Detection: d}
}

// Completed returns the percentage of executions that completed, rounded; 0 without executions.
func (s Side) Completed() int {
	var all int64
	for _, n := range s.Outcomes {
		all += n
	}
	if all == 0 {
		return 0
	}
	return int((s.Outcomes[execution.Completed]*100 + all/2) / all)
}

// OnlySim returns the situations that only the simulated world reached.
func (a Agreement) OnlySim() []string { return namesWithout(a.Sim.Sometimes, a.Live.Sometimes) }

// OnlyLive returns the situations that only the live world reached.
func (a Agreement) OnlyLive() []string { return namesWithout(a.Live.Sometimes, a.Sim.Sometimes) }

func namesWithout(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
}
