// Package explain compares runs and sums up many of them, to say why one failed: where it went
// another way than a run that passes, which faults it needed, and when its failure became
// inevitable. It is pure: it sees histories and counts, and runs nothing.
package explain

import (
	"handoff/chaos/history"
	"handoff/core/execution"
)

// Explanation is what is known about why a run failed.
type Explanation struct {
	// Counterparts are the runs that were compared with it. The first is the most telling one.
	Counterparts []Counterpart
	// Faults are the faults of the scenario, in its order. They are empty if nothing was left out.
	Faults []Need
	// Curve is the share of failures over the run; nil if it was not drawn.
	Curve *Curve
}

// Counterpart is a run beside the failing one.
type Counterpart struct {
	// Change says what is different: "without the mutant unguarded-claim".
	Change string
	// Passes says that the failure is not in it. Ends says how the run ends, in a sentence.
	Passes bool
	Ends   string
	// Difference is nil for a run that was only judged.
	Difference *Difference
	// Workers names its workers.
	Workers map[execution.WorkerID]string
}

// Need says whether a fault was needed for a failure.
type Need struct {
	Fault string
	// Needed says that it belongs to a smallest set of faults with which the failure happens: left
	// out of this set, the failure is gone.
	Needed bool
	// Alone says that leaving out this fault alone makes the failure vanish. A needed fault that is
	// not needed alone has another one that does the same harm.
	Alone bool
	// Struck says that it began in the failing run.
	Struck bool
}

// Needed counts the faults that were needed.
func (x *Explanation) Needed() (n int) {
	for _, f := range x.Faults {
		if f.Needed {
			n++
		}
	}
	return n
}

// Run is the history of a run, to be compared.
type Run struct {
	Events  []history.Event
	Workers map[execution.WorkerID]string
}
