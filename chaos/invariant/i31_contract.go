package invariant

import (
	"strings"

	"handoff/chaos/history"
)

// ContractInForce is the number of the invariant about what the core answers beside a run.
const ContractInForce = 31

// contractInForce is invariant 31: a run meets the exact value of a bound by chance at best, so the
// core is asked outside the run (chaos/policies). What the simulated broker finds out about the form
// of the run's own messages comes in the same events.
func contractInForce() *Invariant {
	i := &Invariant{
		Number: ContractInForce, Name: "the contract in force",
		Statement: "Defaults, tables, bounds, pure policies and the form of messages are those of the contract.",
		Needs:     []history.Kind{history.PoliciesAsked},
	}
	i.make = func(s *Suite) checker { return &contractChecker{i: i, s: s} }
	return i
}

type contractChecker struct {
	i *Invariant
	s *Suite
}

// hears implements selective.
func (c *contractChecker) hears() []history.Kind {
	return []history.Kind{history.PoliciesAsked}
}

func (c *contractChecker) observe(e *history.Event, _ *life) {
	if e.Kind != history.PoliciesAsked {
		return
	}
	c.s.occasions[c.i.Number-1] += uint64(max(0, e.Count)) //nolint:gosec // a count
	if first, _, _ := strings.Cut(e.Text, "\n"); first != "" {
		c.s.violate(c.i, 0, "%s", first)
	}
}

func (c *contractChecker) end(bool) {}
