package execution

// Transition is one lawful change of status and the part that may make it.
type Transition struct {
	From, To Status
	By       Part
}

// Transitions lists every lawful change. A change that is not listed is a violation, whichever part
// makes it. The checkers and the database's trigger use the same list.
func Transitions() []Transition {
	return []Transition{
		{None, Requested, API},
		{None, Requested, RetryManager},

		// The executor owns it until the handoff.
		{Requested, Scheduling, Scheduler},
		{Scheduling, Scheduled, Scheduler},
		{Scheduling, Requested, Scheduler}, // parked: no worker fits yet
		{Scheduling, Failed, Scheduler},    // no worker fits and the grace is over
		{Scheduling, Requested, Reconciler},
		{Requested, Cancelled, API},
		{Requested, Cancelled, ExecutionManager}, // a child whose parent did not complete
		{Scheduling, Cancelled, API},
		{Scheduled, Cancelled, API},

		// The execution is handed off and not claimed: the executor may only take it back.
		{Scheduled, Requested, Scheduler}, // returned as unroutable, or refused by the broker
		{Scheduled, Failed, Scheduler},
		{Scheduled, Requested, TimeoutMonitor},
		{Scheduled, Failed, TimeoutMonitor},
		{Scheduled, Requested, DeadLetterHandler},
		{Scheduled, Failed, DeadLetterHandler},
		{Scheduled, Requested, Reconciler},
		{Scheduled, Failed, Reconciler},
		{Scheduled, Requested, Worker}, // release while draining

		// The worker owns it from the claim on.
		{Scheduled, Running, Worker},
		{Running, Completed, Worker},
		{Running, Failed, Worker},
		{Running, Timeout, Worker},
		{Canceling, Completed, Worker},
		{Canceling, Failed, Worker},
		{Canceling, Timeout, Worker},
		{Canceling, Cancelled, Worker},
		{Running, Canceling, API},

		// The worker has lost its right to the execution: its lease and grace have run out, its incarnation
		// has ended, or the run deadline and grace have passed.
		{Running, Abandoned, Reconciler},
		{Running, Failed, Reconciler},
		{Running, Abandoned, TimeoutMonitor},
		{Running, Failed, TimeoutMonitor},
		{Running, Timeout, TimeoutMonitor},
		{Canceling, Cancelled, Reconciler},
		{Canceling, Cancelled, TimeoutMonitor},
	}
}

// TransitionTable answers questions about Transitions in constant time.
type TransitionTable struct {
	by [Statuses][Statuses][Parts]bool
}

// NewTransitionTable builds the table.
func NewTransitionTable() *TransitionTable {
	l := new(TransitionTable)
	for _, t := range Transitions() {
		l.by[t.From][t.To][t.By] = true
	}
	return l
}

// Legal reports whether any part may make this change. Staying in a status is not a change, so it is not
// legal.
func (t *TransitionTable) Legal(from, to Status) bool {
	for _, ok := range t.by[from][to] {
		if ok {
			return true
		}
	}
	return false
}

// May reports whether this part may make this change.
func (t *TransitionTable) May(by Part, from, to Status) bool { return t.by[from][to][by] }
