package verdict

import "fmt"

// Near measures how near runs came to a situation that they did not reach. It counts near misses, the events
// that lacked only the situation's last condition.
type Near struct {
	// Times is the number of near misses, and Runs the number of runs with any.
	Times, Runs int
	// Seed is the smallest seed of a run with a near miss.
	Seed uint64
}

// combinedWith returns the sum of n and the counts of other runs.
func (n Near) combinedWith(o Near) Near {
	switch {
	case n.Runs == 0:
		return o
	case o.Runs == 0:
		return n
	}
	return Near{Times: n.Times + o.Times, Runs: n.Runs + o.Runs, Seed: min(n.Seed, o.Seed)}
}

// addNear adds a run's near misses of the situations that the scenario expects.
func (s *Scenario) addNear(r *Run) {
	for _, name := range s.tally.Want.Sometimes {
		if n := r.Near[name]; n > 0 {
			if s.Near == nil {
				s.Near = make(map[string]Near)
			}
			s.Near[name] = s.Near[name].combinedWith(Near{Times: n, Runs: 1, Seed: r.Seed})
		}
	}
}

// mergeNear adds another share's near misses.
func (s *Scenario) mergeNear(o *Scenario) {
	for _, name := range s.tally.Want.Sometimes {
		if n, came := o.Near[name]; came {
			if s.Near == nil {
				s.Near = make(map[string]Near)
			}
			s.Near[name] = s.Near[name].combinedWith(n)
		}
	}
}

// Unreached returns the expected situations that no run reached, in the scenario's order.
func (s *Scenario) Unreached() (names []string) {
	for _, name := range s.tally.Want.Sometimes {
		if s.Sometimes[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Nearness returns a sentence that describes how near the runs came to a situation.
func (s *Scenario) Nearness(name string) string {
	for _, of := range situationTable() {
		if of.Name != name {
			continue
		}
		switch n := s.Near[name]; {
		case of.event == "":
			return fmt.Sprintf("It is one event, which never came: %s", of.About)
		case n.Runs == 0:
			return fmt.Sprintf("No run came near, for none saw its first condition: %s", of.event)
		default:
			return fmt.Sprintf("Nearest: %s in %s, first with seed %d, %s, but never %s",
				countPhrase(n.Times, "time"), countPhrase(n.Runs, "run"), n.Seed, of.event, of.missing)
		}
	}
	return ""
}

// Near returns the number of near misses of each situation that was not reached.
func (p *Probes) Near() map[string]int {
	var near map[string]int
	for i, s := range situationTable() {
		if p.hits[i] == 0 && p.near[i] > 0 {
			if near == nil {
				near = make(map[string]int)
			}
			near[s.Name] = p.near[i]
		}
	}
	return near
}
