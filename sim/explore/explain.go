package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/vary"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/sim"
	"handoff/sim/kernel"
)

// Case is a failing run to be explained, with all of its draws.
type Case struct {
	// Record is the run.
	Record *verdict.Record
	// Violation is the violation that is explained.
	Violation verdict.Violation
	// Most is the largest number of differences that are shown between two runs.
	Most int

	ctx    context.Context
	target Target // plain; for a varied target, the variant that the seed draws
	from   Target
	seed   uint64
	mutant *mutant.Mutant
	tape   *kernel.Tape
	// key and retry identify the execution of the violation in other runs, where its number may differ. The
	// key is empty if the execution has none.
	key   string
	retry int
	// tried maps the indexes of left-out faults to the outcome of the run without them.
	tried map[string]ablationOutcome
}

// ErrPasses means that the run to explain does not fail.
type ErrPasses struct {
	Target Target
	Seed   uint64
}

// Error implements error.
func (e *ErrPasses) Error() string {
	return fmt.Sprintf("%s does not fail in seed %d, so there is nothing to explain", e.Target, e.Seed)
}

// NewCase repeats a seed's run and records its draws. The error is an *ErrPasses if the run does not fail.
// When ctx ends, the case's runs stop. The explained violation is the first one, like the headline of the
// run's page.
func NewCase(ctx context.Context, t Target, seed uint64, f *mutant.Mutant) (*Case, error) {
	plain, _, err := t.Plain(seed)
	if err != nil {
		return nil, err
	}
	c := &Case{ctx: ctx, target: plain, from: t, seed: seed, mutant: f, tape: kernel.NewTape(seed, ofFaults), Most: shown}
	rec, r := recordRun(t, c.runOptions(sim.Options{Seed: seed, Mutant: f, Chooser: c.tape}))
	c.Record = rec
	failures := r.Failures()
	switch {
	case r.Interrupted:
		return nil, ctx.Err()
	case len(failures) == 0:
		return nil, &ErrPasses{Target: t, Seed: seed}
	}
	c.Violation = slices.MinFunc(failures, func(a, b verdict.Violation) int { return verdict.Before(&a, &b) })
	c.key, c.retry = chainKey(r.Execution, c.Violation.Execution)
	return c, nil
}

// ofFaults reports whether a stream determines a fault of the scenario: its beginning, its duration and its
// targets. These draws keep their order, because they are made once.
func ofFaults(label string) bool { return strings.HasPrefix(label, "fault/") }

// runOptions returns options with the seed and the limits of the case.
func (c *Case) runOptions(o sim.Options) sim.Options {
	o.Seed = c.seed
	if o.Interrupted == nil {
		o.Interrupted = interruptOn(c.ctx)
	}
	if c.from.Varied {
		o.CutAt = vary.MostSteps
	}
	return o
}

// rerunCase runs a variant of the case with the draws of its tape.
func (c *Case) rerunCase(o sim.Options) *sim.Result {
	o.Chooser = c.tape.Rerun()
	return runOnce(c.target, c.runOptions(o))
}

// sameRule reports whether a violation breaks the rule of this case: the same invariant or the same
// expectation.
func (c *Case) sameRule(v *verdict.Violation) bool {
	return v.Invariant == c.Violation.Invariant && v.Name == c.Violation.Name && v.Expects() == c.Violation.Expects()
}

// sameFailure reports whether a violation of this case's rule is about its execution. Many executions may
// miss an expectation, but its violation names only one of the largest group.
func (c *Case) sameFailure(row rowOf, v *verdict.Violation) bool {
	return c.isSameExecution(row, v.Execution) || slices.ContainsFunc(v.Missed, func(id execution.ID) bool { return c.isSameExecution(row, id) })
}

// isFollowed reports whether the execution of the case can be found in other runs.
func (c *Case) isFollowed() bool { return c.Violation.Execution != 0 && c.key != "" }

// breaksRule reports whether a run breaks the rule of this case; if its execution can be followed, whether
// this execution breaks it.
func (c *Case) breaksRule(r *sim.Result) bool {
	return slices.ContainsFunc(r.Failures(), func(v verdict.Violation) bool {
		return c.sameRule(&v) && (!c.isFollowed() || c.sameFailure(r.Execution, &v))
	})
}

// untilBroken returns the sim.Options.Until that stops one run when the rule is broken. It ends the run as
// soon as the rule of the case is broken, or, if this is set, as soon as the case's execution breaks it. It
// is nil for an expectation, which is judged at the end.
func (c *Case) untilBroken(this bool) func(sim.Findings) bool {
	if c.Violation.Invariant == 0 {
		return nil
	}
	seen := 0 // findings already checked: this is called often, and there may be many
	return func(so sim.Findings) bool {
		fresh := so.List[seen:]
		seen = len(so.List)
		return slices.ContainsFunc(fresh, func(f invariant.Finding) bool {
			return f.Invariant.Number == c.Violation.Invariant && (!this || c.isSameExecution(so.Execution, f.Execution))
		})
	}
}

// rowOf returns the row of an execution in any run.
type rowOf func(execution.ID) (execution.Execution, bool)

// chainKey returns the idempotency key of the first row of an execution's chain, and the execution's retry
// number.
func chainKey(row rowOf, id execution.ID) (key string, retry int) {
	r, known := row(id)
	if !known {
		return "", 0
	}
	if first, known := row(r.Original); known && r.Original != 0 {
		return first.IdempotencyKey, r.RetryCount
	}
	return r.IdempotencyKey, r.RetryCount
}

// isSameExecution reports whether an execution of another run corresponds to the execution of the case. It
// compares keys, because submissions in another order get other numbers; without a key, it compares numbers.
// If the violation is about no execution, every execution matches. An expectation about executions counts an
// execution with its retries, so every retry matches.
func (c *Case) isSameExecution(row rowOf, id execution.ID) bool {
	if c.Violation.Execution == 0 {
		return true
	}
	key, retry := chainKey(row, id)
	if key == "" || c.key == "" {
		return id == c.Violation.Execution
	}
	return key == c.key && (retry == c.retry || strings.HasPrefix(c.Violation.Expects(), "executions "))
}

// shown is the default of Case.Most.
const shown = 4

// nearest is the largest distance from the failing seed at which a passing seed is searched for.
const nearest = 10

// Name returns the target and the seed of the run.
func (c *Case) Name() string { return fmt.Sprintf("%s, seed %d", c.from, c.seed) }

// Compare compares the case with its counterparts. With a mutant, the counterpart is the run without it.
// Otherwise the counterparts are the runs that each lack one of its faults, and the nearest seed that
// passes.
func (c *Case) Compare() *explain.Explanation {
	x := c.ensureExplanation()
	if c.mutant != nil {
		x.Counterparts = []explain.Counterpart{c.runCounterpart("without the mutant "+c.mutant.Name, sim.Options{})}
		return x
	}
	x.Counterparts = c.withoutFaults()
	if !c.from.Varied {
		if other, there := c.nearestPassing(); there {
			x.Counterparts = append(x.Counterparts, other)
		}
	}
	return x
}

// ensureExplanation returns the explanation of the record, and creates an empty one if there is none.
func (c *Case) ensureExplanation() *explain.Explanation {
	if c.Record.Explained == nil {
		c.Record.Explained = &explain.Explanation{}
	}
	return c.Record.Explained
}

// counterpartRank ranks counterparts: 0 for a run without any violation, 1 for a run with another failure,
// 2 for a run with the same failure.
func counterpartRank(c *explain.Counterpart) int {
	switch {
	case c.Passes && c.Breaks == "":
		return 0
	case c.Passes:
		return 1
	}
	return 2
}

// withoutFaults compares the case with runs that each lack one fault. The list is ordered by
// counterpartRank; among equals, the run that differs latest from the case comes first.
func (c *Case) withoutFaults() (list []explain.Counterpart) {
	began := c.faultBeginnings()
	for i := range c.target.Scenario.Faults {
		f := &c.target.Scenario.Faults[i]
		if _, struck := began[f.Name]; struck && c.ctx.Err() == nil {
			list = append(list, c.runCounterpart("without the fault “"+f.Name+"”", sim.Options{LeaveOut: []int{f.Index}}))
		}
	}
	slices.SortStableFunc(list, func(a, b explain.Counterpart) int {
		return cmp.Or(counterpartRank(&a)-counterpartRank(&b), b.Difference.Same-a.Difference.Same)
	})
	return list
}

// runCounterpart runs the case with a change, and compares both runs.
func (c *Case) runCounterpart(change string, o sim.Options) explain.Counterpart {
	var kept events
	o.Record, o.EachExecution = &kept, true
	r := c.rerunCase(o)
	if o.LeaveOut != nil {
		c.keepOutcome(o.LeaveOut, r)
	}
	return c.compareWith(change, r, kept)
}

// compareWith compares another run with the case.
func (c *Case) compareWith(change string, r *sim.Result, kept events) explain.Counterpart {
	other := explain.Counterpart{
		Change: change, Passes: !c.breaksRule(r), Ends: c.describeEnd(r, kept),
		Difference: explain.Compare(
			explain.Run{Events: c.Record.Events, Workers: c.Record.Workers, Failed: c.failedAt()},
			explain.Run{Events: kept, Workers: r.Workers()}, c.Violation.Execution, c.Most),
		Workers: r.Workers(),
	}
	if failures := r.Failures(); len(failures) > 0 {
		other.Breaks, other.Elsewhere = failures[0].Rule(), c.sameRule(&failures[0])
	}
	return other
}

// failedAt returns when the rule was broken, or 0 for an expectation, which is about the whole run.
func (c *Case) failedAt() time.Duration {
	if c.Violation.Name == verdict.Expectation {
		return 0
	}
	return c.Violation.At
}

// describeEnd describes how a run ends: its violation, or the status of the execution that failed in the
// case.
func (c *Case) describeEnd(r *sim.Result, kept events) string {
	failures, id := r.Failures(), c.Violation.Execution
	switch {
	case r.GaveUp != "":
		return "can't be judged: " + r.GaveUp
	case len(failures) > 0:
		return fmt.Sprintf("breaks %s: %s", failures[0].Rule(), failures[0].Message)
	case id == 0:
		return "breaks no rule"
	}
	there, known := c.matchingRow(r, kept)
	switch {
	case !known:
		return fmt.Sprintf("breaks no rule, and has no execution that matches execution %d", id)
	case there.ID == id:
		return fmt.Sprintf("breaks no rule; execution %d is %s", id, there.Status)
	}
	return fmt.Sprintf("breaks no rule; execution %d has the number %d in that run, and is %s", id, there.ID, there.Status)
}

// matchingRow returns the execution of the case in another run; for an expectation, the last row of its
// chain.
func (c *Case) matchingRow(r *sim.Result, kept events) (row execution.Execution, known bool) {
	for i := range kept {
		e := &kept[i]
		if e.Kind != history.Created || !c.isSameExecution(r.Execution, e.Execution) {
			continue
		}
		if found, there := r.Execution(e.Execution); there && (!known || found.RetryCount > row.RetryCount) {
			row, known = found, true
		}
	}
	return row, known
}

// nearestPassing compares the case with the nearest seed that breaks no rule; it returns false if there is
// none within the distance nearest.
func (c *Case) nearestPassing() (explain.Counterpart, bool) {
	for d := uint64(1); d <= nearest; d++ {
		for _, seed := range []uint64{c.seed - d, c.seed + d} {
			if d > c.seed && seed == c.seed-d || c.ctx.Err() != nil {
				continue
			}
			var kept events
			r := runOnce(c.target, sim.Options{Seed: seed, Record: &kept, Interrupted: interruptOn(c.ctx)})
			if len(r.Failures()) == 0 && r.GaveUp == "" {
				other := c.compareWith(fmt.Sprintf("in seed %d, the nearest that passes", seed), r, kept)
				other.Anew = true
				return other, true
			}
		}
	}
	return explain.Counterpart{}, false
}

// dropHalves removes elements from a list: first half of them at a time, finally one at a time. drop tries to
// remove n elements from the i-th on, and reports whether it did. over ends the search. dropHalves reports
// whether anything was removed.
func dropHalves(count func() int, over func() bool, drop func(i, n int) bool) (changed bool) {
	for size := count(); size >= 1; size /= 2 {
		for i := 0; i < count() && !over(); {
			n := min(size, count()-i)
			if drop(i, n) {
				changed = true
				continue
			}
			i += n
		}
	}
	return changed
}

// faultBeginnings returns the time at which each fault of the case began. Faults that did not begin are
// missing.
func (c *Case) faultBeginnings() map[string]time.Duration {
	at := make(map[string]time.Duration)
	for i := range c.Record.Events {
		if e := &c.Record.Events[i]; e.Kind == history.FaultBegan {
			if _, known := at[e.Fault]; !known {
				at[e.Fault] = e.At
			}
		}
	}
	return at
}
