// Package explain finds why a run failed. There are three answers.
//
//   - Causes are what led to the violation: the events of its past that are nearest to it, in place of
//     the last ones before it.
//   - A counterpart is a similar run, such as the same seed without the planted mutant. Compare
//     finds where the two went different ways.
//   - A need says of a fault whether it belongs to a minimal set of faults with which the failure
//     still happens, and whether the failure vanishes if only this fault is left out.
//
// The package is pure: it reads histories and runs nothing. The caller makes the runs and fills in
// the needs (sim/explore).
package explain

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Explanation is what is known about why a run failed.
type Explanation struct {
	// Counterparts are the runs that were compared with the failing one. The first is the most
	// telling one.
	Counterparts []Counterpart
	// Faults are the faults of the scenario, in its order. They are empty if nobody tried to leave
	// faults out.
	Faults []Need
	// Execution is the execution of the failure, 0 for none. Followed says that faults were judged by
	// this execution; otherwise by the rule, whichever execution breaks it. Missed says that the rule
	// is an expectation of the scenario.
	Execution        execution.ID
	Followed, Missed bool
	// Own is the number of attempts of this execution if its action failed by itself in every one of
	// them. Then no fault is a cause, and no minimal set of faults was searched for. Otherwise it is
	// 0, as it always is with a mutant and for a failure that is no missed expectation.
	Own int
	// Elsewhere are other executions that miss the same expectation in this run, but not in the run
	// without any fault. It is only known if Execution needs no fault.
	Elsewhere []execution.ID
	// Same says that Execution ends in the same status without any fault, although the expectation is
	// met then: the faults make others miss it, and Others are these. It is only known of an
	// expectation for which faults were needed.
	Same   bool
	Others []execution.ID
}

// Counterpart is a run that differs from the failing one by one change.
type Counterpart struct {
	// Change says what is different: "without the mutant unguarded-claim".
	Change string
	// Anew says that this run draws other random numbers, because it is of another seed.
	Anew bool
	// Passes says that this run does not have the failure. It may have another one: Breaks names the
	// first rule that this run breaks, empty for none, and Elsewhere says that it is the rule of the
	// failure. Ends says how the run ends, in a sentence.
	Passes    bool
	Breaks    string
	Elsewhere bool
	Ends      string
	// Difference compares the failing run with this one; nil if this run was only judged.
	Difference *Difference
	// Workers has the names of this run's workers.
	Workers map[execution.WorkerID]string
}

// Need says whether a fault was needed for a failure.
type Need struct {
	Fault string
	// Needed says that the fault belongs to the minimal set of faults that was found: with the set,
	// the failure happens, and with any one of its faults left out, it doesn't. There may be other
	// such sets, also smaller ones.
	Needed bool
	// Alone says that the failure vanishes if only this fault is left out of the whole scenario. It
	// implies Needed. If a fault is needed but not alone, another fault of the scenario can take over
	// its part.
	Alone bool
	// Struck says that the fault began in the failing run.
	Struck bool
	// Elsewhere are those of Explanation.Elsewhere that don't miss the expectation if only this fault
	// is left out of the whole scenario.
	Elsewhere []execution.ID
}

// Needed counts the faults with Needed.
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
	// Parents are, for each event, the numbers of the events that led to it, as far as the world knows;
	// nil for none.
	Parents [][]int32
	// Workers has the names of its workers: their numbers may differ between runs.
	Workers map[execution.WorkerID]string
	// Failed is when it broke the rule that is explained; 0 if it broke none, or if the rule is about
	// the run as a whole.
	Failed time.Duration
}
