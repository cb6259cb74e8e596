package oracle

import "handoff/core/execution"

// Change is a change of status by a part. From is None for a creation.
type Change struct {
	From, To execution.Status
	By       execution.Part
}

// TransitionTable is the table of docs/ownership.md ("The transition table"), by writer: which part may
// move an execution from which status to which. The core has the same table ordered by status, and the
// migrations have it in SQL.
type TransitionTable struct {
	by [execution.Statuses][execution.Statuses][execution.Parts]bool
	// anybody reports whether any part may make the change.
	anybody [execution.Statuses][execution.Statuses]bool
}

// NewTransitionTable builds the table.
func NewTransitionTable() *TransitionTable {
	const (
		none, requested, scheduling, scheduled = execution.None, execution.Requested, execution.Scheduling, execution.Scheduled
		running, canceling                     = execution.Running, execution.Canceling
		completed, failed, timeout             = execution.Completed, execution.Failed, execution.Timeout
		cancelled, abandoned                   = execution.Cancelled, execution.Abandoned
	)
	type to []execution.Status
	l := new(TransitionTable)
	may := func(by execution.Part, from execution.Status, list to) {
		for _, s := range list {
			l.by[from][s][by], l.anybody[from][s] = true, true
		}
	}
	// A client requests an execution, or its cancellation. A request can't end a claimed execution; it only
	// asks its worker to.
	may(execution.API, none, to{requested})
	may(execution.API, requested, to{cancelled})
	may(execution.API, scheduling, to{cancelled})
	may(execution.API, scheduled, to{cancelled})
	may(execution.API, running, to{canceling})
	may(execution.RetryManager, none, to{requested})
	may(execution.ExecutionManager, requested, to{cancelled})

	// The scheduler finds a worker, hands the execution off, or finds none.
	may(execution.Scheduler, requested, to{scheduling})
	may(execution.Scheduler, scheduling, to{scheduled, requested, failed})

	// A part that detects that a dispatch will not be claimed reclaims the execution.
	may(execution.Scheduler, scheduled, to{requested, failed})
	may(execution.DeadLetterHandler, scheduled, to{requested, failed})
	may(execution.TimeoutMonitor, scheduled, to{requested, failed})
	may(execution.Reconciler, scheduled, to{requested, failed})
	may(execution.Reconciler, scheduling, to{requested})

	// The worker releases the execution unclaimed, or claims and ends it. It may end as cancelled only if a
	// client requested that.
	may(execution.Worker, scheduled, to{requested, running})
	may(execution.Worker, running, to{completed, failed, timeout})
	may(execution.Worker, canceling, to{completed, failed, timeout, cancelled})

	// The worker has lost its right to the execution.
	may(execution.Reconciler, running, to{abandoned, failed})
	may(execution.Reconciler, canceling, to{cancelled})
	may(execution.TimeoutMonitor, running, to{timeout, abandoned, failed})
	may(execution.TimeoutMonitor, canceling, to{cancelled})
	return l
}

// May reports whether this part may make this change.
func (t *TransitionTable) May(by execution.Part, from, to execution.Status) bool {
	return t.by[from][to][by]
}

// Legal reports whether any part may make this change. Staying in a status is not a change, so it is not
// legal.
func (t *TransitionTable) Legal(from, to execution.Status) bool { return t.anybody[from][to] }

// Fences reports whether a change raises the epoch by one: every dispatch and every take-back does
// (docs/glossary.md, "epoch"). Every return to requested counts as a take-back, whether or not the
// execution was dispatched.
func Fences(from, to execution.Status) bool {
	return to == execution.Requested && from != execution.None || from == execution.Scheduling && to == execution.Scheduled
}
