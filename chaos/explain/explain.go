// Package explain finds out why a run failed. It gives three kinds of answers.
//
//   - Causes are the events that led to the violation: the nearest ones in its past, not merely the last ones
//     before it.
//   - A counterpart is a similar run, such as the same seed without the planted mutant. Compare finds where
//     the two diverged.
//   - A need records whether a fault belongs to a minimal set of faults that still causes the failure, and
//     whether leaving out only this fault prevents the failure.
//
// The package is pure: it reads histories and runs nothing. The caller makes the runs and fills in
// the needs (sim/explore).
package explain

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Explanation explains why a run failed.
type Explanation struct {
	// Counterparts holds the runs that were compared with the failing one, the most informative first.
	Counterparts []Counterpart
	// Faults holds the scenario's faults, in its order. It is empty if no run without a fault was tried.
	Faults []Need
	// Execution is the execution that failed, 0 for none. Followed reports whether a run without a fault
	// counts as failing only if this execution breaks the rule; otherwise any execution may break it. Missed
	// reports whether the rule is an expectation of the scenario.
	Execution        execution.ID
	Followed, Missed bool
	// Own is the execution's number of attempts if its action failed by itself in every attempt. Then no
	// fault is a cause, and no minimal set of faults was searched for. Otherwise it is 0. It is always 0 with
	// a mutant, and for failures other than a missed expectation.
	Own int
	// Elsewhere holds other executions that miss the same expectation in this run, but not in the run without
	// any fault. It is known only if Execution needs no fault.
	Elsewhere []execution.ID
	// Same reports whether Execution ends in the same status without any fault, although the expectation is
	// then met. In that case the faults make the executions in Others miss it. Same is known only of an
	// expectation for which faults were needed.
	Same   bool
	Others []execution.ID
}

// Counterpart is a run that was set up like the failing one, but with one change.
type Counterpart struct {
	// Change describes the change, for example "without the mutant unguarded-claim".
	Change string
	// Anew reports whether this run has another seed, so its random draws differ.
	Anew bool
	// Passes reports whether this run doesn't have the failure. It may have another: Breaks names the first
	// rule that it breaks, empty for none, and Elsewhere reports whether that is the same rule as in the
	// failing run. Ends is a sentence about the run's end.
	Passes    bool
	Breaks    string
	Elsewhere bool
	Ends      string
	// Difference compares the failing run with this one; nil if the two were not compared event by event.
	Difference *Difference
	// Workers maps this run's workers to their names.
	Workers map[execution.WorkerID]string
}

// Need records whether a fault was needed for a failure.
type Need struct {
	Fault string
	// Needed reports whether the fault belongs to the minimal set that was found: the set causes the failure,
	// but no longer does if any one of its faults is left out. Other such sets, even smaller ones, may exist.
	Needed bool
	// Alone reports whether leaving only this fault out of the whole scenario prevents the failure. It
	// implies Needed. If Needed is set but Alone is not, another fault of the scenario can replace this one.
	Alone bool
	// Struck reports whether the fault began in the failing run.
	Struck bool
	// Elsewhere holds those executions of Explanation.Elsewhere that meet the expectation if only this fault
	// is left out of the whole scenario.
	Elsewhere []execution.ID
}

// Needed returns the number of needed faults.
func (e *Explanation) Needed() (n int) {
	for _, f := range e.Faults {
		if f.Needed {
			n++
		}
	}
	return n
}

// Run is the history of a run.
type Run struct {
	Events []history.Event
	// Parents holds, for each event, the indices of events that the world knows to have led to it; nil for
	// none.
	Parents [][]int32
	// Workers maps workers to their names, because their numbers may differ between runs.
	Workers map[execution.WorkerID]string
	// Failed is the time at which it broke the explained rule; 0 if it broke none, or if the rule concerns
	// the whole run.
	Failed time.Duration
}
