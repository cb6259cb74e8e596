package explore

import (
	"cmp"
	"fmt"
	"slices"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/sim"
)

// This file finds out which faults caused a failure.

// ablationOutcome is the outcome of a run without some faults.
type ablationOutcome struct {
	broken bool
	// missed holds the keys of the executions that missed the expectation of the case.
	missed map[string]bool
}

// Ablate finds a minimal set of faults: the run breaks the rule with these faults, and passes if any one of
// them is left out. There may be other such sets, even smaller ones. If the execution of the case can be
// followed into other runs, that execution must break the rule. The search removes faults, first halves and
// finally single ones, as long as the rule stays broken. Ablate returns false if the search was
// interrupted.
//
// If the action failed by itself in every attempt, Ablate searches no set: no fault causes that, and a run
// with other attempts draws other errors.
func (c *Case) Ablate() (found bool) {
	x := c.ensureExplanation()
	faults, began := c.target.Scenario.Faults, c.faultBeginnings()
	x.Execution, x.Followed, x.Missed = c.Violation.Execution, c.isFollowed(), c.Violation.Name == verdict.Expectation
	x.Faults = make([]explain.Need, len(faults))
	var out, left []int
	for i := range faults {
		f := &faults[i]
		_, struck := began[f.Name]
		x.Faults[i] = explain.Need{Fault: f.Name, Struck: struck}
		if struck {
			left = append(left, f.Index)
		} else {
			out = append(out, f.Index) // the fault had no effect
		}
	}
	over := func() bool { return c.ctx.Err() != nil }
	if x.Missed && c.mutant == nil {
		x.Own = c.ownErrors(c.Violation.Execution)
	}
	if x.Own == 0 {
		c.markNeededFaults(x, out, left, over)
	}
	c.findOthers(x, over)
	c.findElsewhere(x, out, left, over)
	return !over()
}

// markNeededFaults marks a minimal set of the faults in left. The faults in out had no effect.
func (c *Case) markNeededFaults(x *explain.Explanation, out, left []int, over func() bool) {
	left = slices.Clone(left)
	for again := true; again; {
		again = dropHalves(func() int { return len(left) }, over, func(i, n int) bool {
			fewer := slices.Sorted(slices.Values(append(slices.Clone(out), left[i:i+n]...)))
			if !c.brokenWithout(fewer) {
				return false
			}
			out, left = fewer, slices.Delete(left, i, i+n)
			return true
		})
	}
	for i := range x.Faults {
		need, index := &x.Faults[i], c.target.Scenario.Faults[i].Index
		need.Needed = slices.Contains(left, index)
		need.Alone = need.Needed && !c.brokenWithout([]int{index})
	}
}

// findElsewhere finds, for a missed expectation, other executions that miss it because of a fault, although
// the execution of the case misses it without any fault. It skips executions whose action failed by itself,
// and cancelled ones: a fault may determine whether a cancellation comes in time, but it is not the cause.
func (c *Case) findElsewhere(x *explain.Explanation, out, left []int, over func() bool) {
	if !x.Missed || !x.Followed || c.mutant != nil || x.Needed() > 0 || len(left) == 0 {
		return
	}
	none := c.runWithout(slices.Sorted(slices.Values(slices.Concat(out, left))))
	for _, id := range c.Violation.Missed {
		key := c.keyOf(id)
		if key == "" || none.missed[key] || c.wasCancelled(id) || c.ownErrors(id) > 0 || over() {
			continue
		}
		x.Elsewhere = append(x.Elsewhere, id)
		for i := range x.Faults {
			if f := &x.Faults[i]; f.Struck && !c.runWithout([]int{c.target.Scenario.Faults[i].Index}).missed[key] {
				f.Elsewhere = append(f.Elsewhere, id)
			}
		}
	}
}

// findOthers compares, for a missed expectation that needed faults, how its executions end without any
// fault. An expectation counts executions, so a fault may be needed because of executions other than the
// shown one.
func (c *Case) findOthers(x *explain.Explanation, over func() bool) {
	if !x.Missed || !x.Followed || x.Needed() == 0 || over() {
		return
	}
	var all []int
	for i := range c.target.Scenario.Faults {
		all = append(all, c.target.Scenario.Faults[i].Index)
	}
	var kept events
	c.rerunCase(sim.Options{Mutant: c.mutant, LeaveOut: all, Record: &kept, EachExecution: true})
	here, there := lastRows(c.Record.Events), lastRows(kept)
	same := func(id execution.ID) bool {
		key := c.keyOf(id)
		return key != "" && here[key] == there[key]
	}
	if x.Same = same(x.Execution); !x.Same {
		return
	}
	for _, id := range c.Violation.Missed {
		if !same(id) && c.keyOf(id) != "" {
			x.Others = append(x.Others, id)
		}
	}
}

// lastRows returns the last status of the last row of each chain, by the idempotency key of its first row.
func lastRows(all []history.Event) map[string]execution.Status {
	keys, last := make(map[execution.ID]string), make(map[string]execution.Status)
	for i := range all {
		switch e := &all[i]; {
		case e.Kind == history.Created && e.Key != "":
			keys[e.Execution] = e.Key
		case e.Kind == history.Transition:
			if key := keys[cmp.Or(e.Chain, e.Execution)]; key != "" {
				last[key] = e.To
			}
		}
	}
	return last
}

// wasCancelled reports whether an execution of the failing run was cancelled, by a client or because its
// parent had not completed.
func (c *Case) wasCancelled(id execution.ID) bool {
	for i := range c.Record.Events {
		if e := &c.Record.Events[i]; e.Kind == history.Transition && e.Execution == id && e.To == execution.Cancelled {
			return true
		}
	}
	return false
}

// keyOf returns the idempotency key of an execution's chain in the failing run, or "" if it has none.
func (c *Case) keyOf(id execution.ID) string {
	chain := chainOf(c.Record, id)
	for i := range c.Record.Events {
		if e := &c.Record.Events[i]; e.Kind == history.Created && e.Execution == chain {
			return e.Key
		}
	}
	return ""
}

// ownErrors returns the number of attempts of an execution's chain if its action failed by itself in all of
// them; otherwise 0.
func (c *Case) ownErrors(id execution.ID) (attempts int) {
	chain := chainOf(c.Record, id)
	for i := range c.Record.Events {
		e := &c.Record.Events[i]
		if e.Kind != history.Transition || e.Chain != chain && e.Execution != chain || !oracle.Terminal(e.To) {
			continue
		}
		if e.To != execution.Failed || e.By != execution.Worker || !oracle.OfAction(e.Reason) {
			return 0
		}
		attempts++
	}
	return attempts
}

// brokenWithout reports whether the failure of the case also happens when some faults are left out.
func (c *Case) brokenWithout(faults []int) bool { return c.runWithout(faults).broken }

// runWithout runs the case without some faults, at most once for each set of faults.
func (c *Case) runWithout(faults []int) ablationOutcome {
	if known, there := c.tried[fmt.Sprint(faults)]; there {
		return known
	}
	r := c.rerunCase(sim.Options{Mutant: c.mutant, LeaveOut: faults, Until: c.untilBroken(c.isFollowed()), EachExecution: c.isFollowed()})
	return c.keepOutcome(faults, r)
}

// keepOutcome stores and returns the outcome of a run without some faults.
func (c *Case) keepOutcome(faults []int, r *sim.Result) ablationOutcome {
	now := ablationOutcome{broken: c.breaksRule(r), missed: make(map[string]bool)}
	for _, v := range r.Failures() {
		if !c.sameRule(&v) {
			continue
		}
		for _, id := range v.Missed {
			key, _ := chainKey(r.Execution, id)
			now.missed[key] = true
		}
	}
	if c.tried == nil {
		c.tried = make(map[string]ablationOutcome)
	}
	c.tried[fmt.Sprint(faults)] = now
	return now
}
