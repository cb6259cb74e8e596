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

// Case is a failing run that is to be explained, with everything that it drew.
type Case struct {
	// Record is the run.
	Record *verdict.Record
	// Violation is the one that is explained.
	Violation verdict.Violation
	// Most is how many differences are shown of two runs.
	Most int

	ctx    context.Context
	target Target // plain: of a varied one, the variant that the seed draws
	from   Target
	seed   uint64
	mutant *mutant.Mutant
	tape   *kernel.Tape
	// key and retry name the execution of the violation in other runs, where it may have another
	// number. The key is empty if the execution has none.
	key   string
	retry int
	// tried has the outcomes of runs without some faults, by the indexes of these faults.
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

// NewCase runs a seed again and keeps what it draws. The error is an *ErrPasses if the run does not
// fail. When ctx ends, the case's runs stop. The violation is the first one, which is the headline of
// the run's page, too.
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

// ofFaults says that a stream decides about a fault of the scenario: when it begins, how long it
// lasts and whom it strikes. These draws keep their order, because they are made once.
func ofFaults(label string) bool { return strings.HasPrefix(label, "fault/") }

// runOptions completes the options of a run.
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

// rerunCase runs the case once more, beside its tape.
func (c *Case) rerunCase(o sim.Options) *sim.Result {
	o.Chooser = c.tape.Rerun()
	return runOnce(c.target, c.runOptions(o))
}

// sameRule says that a violation is of the rule of this case: of the same invariant, or of the same
// expectation.
func (c *Case) sameRule(v *verdict.Violation) bool {
	return v.Invariant == c.Violation.Invariant && v.Name == c.Violation.Name && v.Expects() == c.Violation.Expects()
}

// sameFailure says that a violation of the rule of this case is about its execution. An expectation
// is missed by many executions, and its violation names only one of the largest group.
func (c *Case) sameFailure(row rowOf, v *verdict.Violation) bool {
	return c.isSameExecution(row, v.Execution) || slices.ContainsFunc(v.Missed, func(id execution.ID) bool { return c.isSameExecution(row, id) })
}

// isFollowed says that the execution of the case can be found in other runs.
func (c *Case) isFollowed() bool { return c.Violation.Execution != 0 && c.key != "" }

// breaksRule says that a run breaks the rule of this case; if its execution can be followed, that this
// execution breaks it.
func (c *Case) breaksRule(r *sim.Result) bool {
	return slices.ContainsFunc(r.Failures(), func(v verdict.Violation) bool {
		return c.sameRule(&v) && (!c.isFollowed() || c.sameFailure(r.Execution, &v))
	})
}

// untilBroken returns the sim.Options.Until of one run: it ends the run as soon as the rule of the case
// is broken, or, if this is set, as soon as the case's execution breaks it. It is nil for a rule
// that is no invariant: those are judged at the end.
func (c *Case) untilBroken(this bool) func(sim.Findings) bool {
	if c.Violation.Invariant == 0 {
		return nil
	}
	seen := 0 // it is asked often, and there may be many
	return func(so sim.Findings) bool {
		fresh := so.List[seen:]
		seen = len(so.List)
		return slices.ContainsFunc(fresh, func(f invariant.Finding) bool {
			return f.Invariant.Number == c.Violation.Invariant && (!this || c.isSameExecution(so.Execution, f.Execution))
		})
	}
}

// rowOf returns the row of an execution of some run.
type rowOf func(execution.ID) (execution.Execution, bool)

// chainKey is the idempotency key of the first row of an execution's chain, and which retry it is.
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

// isSameExecution says that an execution of another run is that of the case. It is found by its key, because
// submissions that come in another order get other numbers; without a key, by its number. If the
// violation is about none, every one is. An expectation about executions counts one with all its
// retries, so every retry is the same there.
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

// shown is how many differences are shown of two runs.
const shown = 4

// nearest is how far from the failing seed a passing one is looked for.
const nearest = 10

// Name names the run.
func (c *Case) Name() string { return fmt.Sprintf("%s, seed %d", c.from, c.seed) }

// Compare compares the case with its counterparts. With a mutant that is the run without it. Else
// these are the runs that lack one of its faults each, and the nearest seed that passes.
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

// ensureExplanation returns the explanation of the record, empty at first.
func (c *Case) ensureExplanation() *explain.Explanation {
	if c.Record.Explained == nil {
		c.Record.Explained = &explain.Explanation{}
	}
	return c.Record.Explained
}

// counterpartRank orders counterparts: a run without any violation, a run that breaks the rule otherwise or
// another rule, and a run with the same failure.
func counterpartRank(c *explain.Counterpart) int {
	switch {
	case c.Passes && c.Breaks == "":
		return 0
	case c.Passes:
		return 1
	}
	return 2
}

// withoutFaults compares the case with runs that each lack one fault. The list begins with the run
// that tells most (counterpartRank); among equals, with the run that differs from the case latest.
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

// runCounterpart runs the case with a change, and compares both.
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

// failedAt is when the rule was broken; 0 for an expectation, which is about the whole run.
func (c *Case) failedAt() time.Duration {
	if c.Violation.Name == verdict.Expectation {
		return 0
	}
	return c.Violation.At
}

// describeEnd says how a run ends: what it violates, or what becomes of the execution that failed in the
// other one.
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

// matchingRow returns the execution of the case in another run. For an expectation, that is the last row
// of its chain.
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

// nearestPassing is the run of the nearest seed that breaks no rule; false if there is none near.
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

// dropHalves takes elements out of a list, half of them at a time first and single ones last. drop
// takes n elements out from the i-th on, and says whether it did. over ends the search. dropHalves
// returns whether anything was taken out.
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

// faultBeginnings returns when each fault began in the case. A fault that did not begin is missing.
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
