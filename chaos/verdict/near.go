package verdict

import "fmt"

// Near is how near runs came to a situation that they did not reach. It counts events that had all
// of the situation but its last condition.
type Near struct {
	// Times is how many such events there were, and Runs in how many runs.
	Times, Runs int
	// Seed is the smallest seed of these runs.
	Seed uint64
}

// combinedWith adds what other runs say.
func (n Near) combinedWith(o Near) Near {
	switch {
	case n.Runs == 0:
		return o
	case o.Runs == 0:
		return n
	}
	return Near{Times: n.Times + o.Times, Runs: n.Runs + o.Runs, Seed: min(n.Seed, o.Seed)}
}

// addNear adds what a run says of the situations that the scenario expects.
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

// mergeNear adds what another share says.
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

// Unreached lists the situations that the scenario expects and no run reached, in the scenario's
// order.
func (s *Scenario) Unreached() (names []string) {
	for _, name := range s.tally.Want.Sometimes {
		if s.Sometimes[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Nearness says what a situation is and how near the runs came to it.
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

// Near returns how often each situation that was not reached lacked only its last condition.
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
