package verdict

import (
	"slices"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// Probes counts how often a run reaches the situations that a scenario may name under `sometimes`. A sweep
// that never reaches its situation proves nothing. It implements history.Sink.
type Probes struct {
	hits [probeCount]int
	// near counts the events that lacked only a situation's last condition.
	near  [probeCount]int
	names map[execution.WorkerID]bool
	// seen holds, for each message, the queues that still contain it and have delivered it. spared holds
	// empty lists for reuse.
	seen    dense.Table[uint64, []string]
	spared  [][]string
	drained map[execution.Incarnation]bool
	// failing holds the incarnations whose latest health report counts failures that blame the worker.
	failing map[execution.Incarnation]bool
	// dispatches counts, for each execution, how often its dispatches were delivered and published.
	dispatches dense.Table[execution.ID, []dispatchTally]
	slots      slotProbes
	// patience is the age from which an execution's end is handled only by a reconciler.
	patience time.Duration
}

// dispatchTally counts how often a dispatch was delivered and published.
type dispatchTally struct {
	epoch                execution.Epoch
	delivered, published int32
}

// tallyOf returns the tally of an event's dispatch. The pointer is valid until the next call.
func (p *Probes) tallyOf(e *history.Event) *dispatchTally {
	all := p.dispatches.Make(e.Execution)
	for i := range *all {
		if f := &(*all)[i]; f.epoch == e.Epoch {
			return f
		}
	}
	*all = append(*all, dispatchTally{epoch: e.Epoch})
	return &(*all)[len(*all)-1]
}

// Situation is a state that a sweep should reach; a scenario names it under `sometimes`.
type Situation struct {
	Name  string
	About string
	// event describes the event that a probe looks for, and missing the last condition that it must meet.
	// Both are empty if the situation is an event without such a condition.
	event, missing string
}

// Situations returns everything that Probes counts. `sometimes` accepts exactly these names.
func Situations() []Situation {
	all := situationTable()
	return all[:]
}

type probe uint8

const (
	lostWorkerDetected probe = iota
	workAbandoned
	unclaimedRescheduled
	unclaimedFailed
	retryScheduled
	deadLetteredByTTL
	reclaimedByDeadLetterHandler
	reclaimedByTimeoutMonitor
	staleWriteRefused
	claimRefused
	lateResultRefused
	fencedItself
	registeredAgain
	redelivered
	republished
	returnedUnroutable
	noWorkersFailed
	parked
	releasedOnDrain
	drainedWithRunningWork
	orchestratedWithoutMessage
	schedulingClaimExpired
	duplicateDispatchRefused
	runTimedOut
	overrunEnded
	cancelledBeforeHandoff
	cancelledAfterHandoff
	cancelledWhileRunning
	cancelledPendingRetry
	cancelledWaitingForSlot
	cancelCameTooLate
	slotPassedOn
	childStarted
	childSkipped
	childOfTheEnded
	workerFailed
	workerRecovered
	cordoned
	observedTimeout
	observedOverrun
	observedUnreachable
	observedReachable
	endedAtShutdown
	returnedTooOften
	blockDelivered
	blockDied
	probeCount
)

// situationTable returns every situation, with the event and the condition by which Probes.Observe detects
// it. A situation that is an event without a condition has neither.
func situationTable() [probeCount]Situation {
	const (
		cancelled = "an execution was cancelled"
		taken     = "an executor ended an unclaimed execution or took it back"
		ended     = "a worker ended a run"
		abandoned = "an executor ended a claimed execution or took it back"
		scheduled = "a claim for scheduling ended"
		given     = "an unclaimed execution was given back"
		asked     = "a request to cancel met a waiting execution"
		execution = "a monitor that only observes recorded something about an execution"
		worker    = "a prober that only observes recorded something about a worker"
	)
	return [...]Situation{
		lostWorkerDetected:           {"lost_worker_detected", "the executor marked a worker as lost", "the lifecycle of a worker changed", "to lost"},
		workAbandoned:                {"work_abandoned", "a claimed execution was taken from a worker that lost its right to it", abandoned, "because its worker was lost"},
		unclaimedRescheduled:         {"unclaimed_rescheduled", "an execution that was never claimed was taken back for another dispatch", given, "by an executor"},
		unclaimedFailed:              {"unclaimed_failed", "an execution that was never claimed was failed", "", ""},
		retryScheduled:               {"retry_scheduled", "a retry was created", "an execution was created", "as a retry"},
		deadLetteredByTTL:            {"dead_lettered_by_ttl", "a dispatch expired in a worker's queue and reached the dead letter queue", "a message expired", "that was a dispatch"},
		reclaimedByDeadLetterHandler: {"reclaimed_by_dead_letter_handler", "the dead letter handler took an execution back", taken, "by its dead letter handler"},
		reclaimedByTimeoutMonitor:    {"reclaimed_by_timeout_monitor", "the timeout monitor took an unclaimed execution back", taken, "by its timeout monitor"},
		staleWriteRefused:            {"stale_write_refused", "a guarded write matched no row", "", ""},
		claimRefused:                 {"claim_refused", "a worker's claim was refused", "a guarded write was refused", "that was a claim"},
		lateResultRefused:            {"late_result_refused", "a result was refused because its worker had lost the execution", "", ""},
		fencedItself:                 {"fenced_itself", "a worker ended an action because it could not renew its lease", ended, "because it could not renew its lease"},
		registeredAgain:              {"registered_again", "a worker name was registered a second time", "a worker registered", "under a name that had registered before"},
		redelivered:                  {"redelivered", "a message was delivered a second time", "a message was delivered", "a second time"},
		republished:                  {"republished", "a dispatch was published a second time at the same epoch", "a dispatch was published", "a second time at the same epoch"},
		returnedUnroutable:           {"returned_unroutable", "a dispatch was returned because no queue was bound", "a message was returned because no queue was bound", "that was a dispatch"},
		noWorkersFailed:              {"no_workers_failed", "an execution failed because no worker fitted", scheduled, "with the execution failed because no worker fitted"},
		parked:                       {"parked", "an execution waited for a worker to fit", scheduled, "with the execution waiting for a worker to fit"},
		releasedOnDrain:              {"released_on_drain", "a draining worker gave unclaimed work back", given, "by its worker"},
		drainedWithRunningWork:       {"drained_with_running_work", "a stopping worker finished what was running", ended, "as completed while it was draining"},
		orchestratedWithoutMessage:   {"orchestrated_without_message", "terminal handling was done by the reconciler because no message came", "the end of an execution was handled", "as late as executor.reconcile_interval, for want of a message"},
		schedulingClaimExpired:       {"scheduling_claim_expired", "the claim of a dead executor was taken back", scheduled, "because a reconciler took it back"},
		duplicateDispatchRefused:     {"duplicate_dispatch_refused", "a second delivery of a dispatch had no effect", "a claim was refused", "of a dispatch that had been delivered twice"},
		runTimedOut:                  {"run_timed_out", "a worker ended an action at its run timeout", ended, "at its run timeout"},
		overrunEnded:                 {"overrun_ended", "the timeout monitor ended an execution whose worker had not", abandoned, "because it ran past its deadline"},
		cancelledBeforeHandoff:       {"cancelled_before_handoff", "an execution was cancelled before it was dispatched", cancelled, "before it was dispatched"},
		cancelledAfterHandoff:        {"cancelled_after_handoff", "an execution was cancelled that was dispatched and not claimed", cancelled, "while it was dispatched and not claimed"},
		cancelledWhileRunning:        {"cancelled_while_running", "a worker ended an execution because it was cancelled", cancelled, "by its worker while it ran"},
		cancelledPendingRetry:        {"cancelled_pending_retry", "the cancellation of a chain ended its waiting retry", asked, "that was a retry"},
		cancelledWaitingForSlot:      {"cancelled_waiting_for_slot", "an execution was cancelled while all slots of its action were held", asked, "while all slots of its action were held"},
		cancelCameTooLate:            {"cancel_came_too_late", "an execution ended in another way after its worker was asked to cancel it", "an execution ended whose worker had been asked to cancel it", "in another way than cancelled"},
		slotPassedOn:                 {"slot_passed_on", "a concurrency slot went to an execution that had waited for it", "a concurrency slot was taken", "by an execution that had waited for it"},
		childStarted:                 {"child_started", "a workflow child began after its parent's chain had completed", "", ""},
		childSkipped:                 {"child_skipped", "a workflow child was skipped because its parent's chain did not complete", "", ""},
		childOfTheEnded:              {"child_of_the_ended", "a workflow child was created after its parent's chain had completed", "a workflow child began", "that was created after its parent's chain had completed"},
		workerFailed:                 {"worker_failed", "a worker reported a failure of its own", "a worker reported its health", "with a failure of its own"},
		workerRecovered:              {"worker_recovered", "a worker that had reported failures of its own in a row reported none", "a worker reported no failure of its own", "after failures in a row"},
		cordoned:                     {"cordoned", "an operator cordoned a worker", "a cordon was set or lifted", "as one that was set"},
		observedTimeout:              {"observed_timeout", "a timeout monitor that only observes recorded that it would take an unclaimed execution back", execution, "that it would take an unclaimed one back"},
		observedOverrun:              {"observed_overrun", "a timeout monitor that only observes recorded that it would end a run past its deadline", execution, "that it would end a run past its deadline"},
		observedUnreachable:          {"observed_unreachable", "a prober that only observes recorded that it would avoid a worker", worker, "that it would avoid it"},
		observedReachable:            {"observed_reachable", "a prober that only observes recorded that a worker was ready again", worker, "that it was ready again"},
		endedAtShutdown:              {"ended_at_shutdown", "a stopping worker ended an action that outlasted the shutdown timeout", ended, "because it was stopping"},
		returnedTooOften:             {"returned_too_often", "the broker gave a dispatch up because it came back to its queue more often than that allows", "the broker gave a message up that came back too often", "that was a dispatch"},
		blockDelivered:               {"block_delivered", "a message of several dispatches reached its worker", "a message was delivered", "that held several dispatches"},
		blockDied:                    {"block_died", "a message of several dispatches was dead-lettered", "a message was dead-lettered", "that held several dispatches"},
	}
}

// NewProbes returns Probes that have observed no events. patience is executor.reconcile_interval.
func NewProbes(patience time.Duration) *Probes {
	return &Probes{
		names: make(map[execution.WorkerID]bool), drained: make(map[execution.Incarnation]bool),
		failing:  make(map[execution.Incarnation]bool),
		patience: patience,
	}
}

// Hits returns how often each situation was reached. It omits situations that were never reached.
func (p *Probes) Hits() map[string]int {
	hits := make(map[string]int)
	for i, s := range situationTable() {
		if p.hits[i] > 0 {
			hits[s.Name] = p.hits[i]
		}
	}
	return hits
}

func (p *Probes) recordProbe(i probe, when bool) {
	if when {
		p.hits[i]++
	} else {
		p.near[i]++
	}
}

// Observe implements history.Sink.
func (p *Probes) Observe(e *history.Event) {
	switch e.Kind {
	case history.Transition:
		p.observeTransition(e)
	case history.Created:
		p.recordProbe(retryScheduled, e.Count > 0)
		p.slots.newest = e.Execution
	case history.StaleWrite:
		p.recordProbe(staleWriteRefused, true)
		p.recordProbe(claimRefused, e.To == execution.Running)
		if e.To == execution.Running {
			p.recordProbe(duplicateDispatchRefused, p.tallyOf(e).delivered > 1)
		}
	case history.RefusedResult:
		p.recordProbe(lateResultRefused, true)
	case history.WorkerRegistered:
		p.recordProbe(registeredAgain, p.names[e.Worker])
		p.names[e.Worker] = true
	case history.WorkerLifecycle:
		p.recordProbe(lostWorkerDetected, e.Lifecycle == execution.Lost)
		p.drained[e.Incarnation] = e.Lifecycle == execution.Draining
	case history.ActionDefined, history.SlotTaken, history.SlotFreed:
		if passedOn := p.slots.observeSlot(e); e.Kind == history.SlotTaken {
			p.recordProbe(slotPassedOn, passedOn)
		}
	case history.CancelRequested:
		if e.From == execution.Requested {
			p.recordProbe(cancelledPendingRetry, e.Chain != e.Execution)
			p.recordProbe(cancelledWaitingForSlot, p.slots.allSlotsHeld(e.Action))
		}
	case history.ChildStarted:
		p.recordProbe(childStarted, true)
		p.recordProbe(childOfTheEnded, e.Execution == p.slots.newest)
	case history.HealthReported:
		p.recordProbe(workerFailed, e.Count > 0)
		if e.Count == 0 {
			p.recordProbe(workerRecovered, p.failing[e.Incarnation])
		}
		p.failing[e.Incarnation] = e.Count > 0
	case history.WorkerCordoned:
		p.recordProbe(cordoned, e.Count > 0)
	case history.Observed:
		if e.Execution != 0 {
			overrun := e.To == execution.Timeout || e.To == execution.Cancelled
			p.recordProbe(observedTimeout, !overrun)
			p.recordProbe(observedOverrun, overrun)
		} else {
			p.recordProbe(observedUnreachable, e.Count > 0)
			p.recordProbe(observedReachable, e.Count == 0)
		}
	case history.Orchestrated:
		p.recordProbe(orchestratedWithoutMessage, e.Due >= p.patience)
	default:
		p.observeMessage(e)
	}
}

func (p *Probes) observeMessage(e *history.Event) {
	switch e.Kind {
	case history.Delivered:
		p.recordProbe(redelivered, p.recordDelivery(e))
		p.recordProbe(blockDelivered, e.Limit > 1)
		if e.Execution != 0 {
			p.tallyOf(e).delivered++
		}
	case history.Acked:
		p.forgetMessage(e)
	case history.Expired:
		p.recordProbe(deadLetteredByTTL, e.Execution != 0)
		p.forgetMessage(e)
	case history.ReturnedTooOften:
		p.recordProbe(returnedTooOften, e.Execution != 0)
		p.forgetMessage(e)
	case history.DeadLettered:
		p.recordProbe(blockDied, e.Limit > 1)
	case history.PublishReturned:
		p.recordProbe(returnedUnroutable, e.Execution != 0)
	case history.Published:
		if e.Execution != 0 {
			of := p.tallyOf(e)
			of.published++
			p.recordProbe(republished, of.published > 1)
		}
	default:
	}
}

// recordDelivery records a delivery and reports whether the message was delivered from that queue before.
func (p *Probes) recordDelivery(e *history.Event) bool {
	queues := p.seen.Get(e.Message)
	if slices.Contains(queues, e.Queue) {
		return true
	}
	if n := len(p.spared); queues == nil && n > 0 {
		queues, p.spared = p.spared[n-1], p.spared[:n-1]
	}
	p.seen.Set(e.Message, append(queues, e.Queue))
	return false
}

// forgetMessage forgets a message that has left a queue.
func (p *Probes) forgetMessage(e *history.Event) {
	queues := p.seen.Get(e.Message)
	i := slices.Index(queues, e.Queue)
	switch {
	case i < 0:
	case len(queues) > 1:
		p.seen.Set(e.Message, slices.Delete(queues, i, i+1))
	default:
		p.seen.Delete(e.Message)
		p.spared = append(p.spared, queues[:0])
	}
}

func (p *Probes) observeTransition(e *history.Event) {
	byExecutor := e.By != execution.Worker
	switch {
	case e.From == execution.Scheduled && e.To == execution.Requested:
		p.recordProbe(unclaimedRescheduled, byExecutor)
		p.recordProbe(releasedOnDrain, !byExecutor)
	case e.From == execution.Scheduled && e.To == execution.Failed:
		p.recordProbe(unclaimedFailed, true)
	case e.From == execution.Scheduling:
		p.recordProbe(noWorkersFailed, e.To == execution.Failed)
		p.recordProbe(parked, e.To == execution.Requested && e.By == execution.Scheduler)
		p.recordProbe(schedulingClaimExpired, e.By == execution.Reconciler)
	case oracle.Claimed(e.From) && byExecutor:
		p.recordProbe(workAbandoned, e.Reason == execution.WorkerLost)
		p.recordProbe(overrunEnded, e.To == execution.Timeout)
	case oracle.Claimed(e.From):
		p.recordProbe(fencedItself, e.Reason == execution.HeartbeatStale)
		p.recordProbe(runTimedOut, e.To == execution.Timeout)
		p.recordProbe(endedAtShutdown, e.Reason == execution.WorkerShutdown)
		p.recordProbe(drainedWithRunningWork, p.drained[e.Incarnation] && e.To == execution.Completed)
	}
	p.observeCancellation(e)
	if e.From == execution.Scheduled && byExecutor {
		p.recordProbe(reclaimedByDeadLetterHandler, e.By == execution.DeadLetterHandler)
		p.recordProbe(reclaimedByTimeoutMonitor, e.By == execution.TimeoutMonitor)
	}
}

func (p *Probes) observeCancellation(e *history.Event) {
	if e.By == execution.ExecutionManager {
		p.recordProbe(childSkipped, true)
		return
	}
	if e.To == execution.Cancelled {
		p.recordProbe(cancelledBeforeHandoff, e.From == execution.Requested || e.From == execution.Scheduling)
		p.recordProbe(cancelledAfterHandoff, e.From == execution.Scheduled)
		p.recordProbe(cancelledWhileRunning, oracle.Claimed(e.From) && e.By == execution.Worker)
	}
	if e.From == execution.Canceling {
		p.recordProbe(cancelCameTooLate, e.To != execution.Cancelled)
	}
}

// slotProbes tracks which executions may be waiting for a concurrency slot.
type slotProbes struct {
	// newest is the most recently created execution.
	newest execution.ID
	uses   map[string]*slotUse
}

// slotUse counts the slots of one action.
type slotUse struct {
	limit, held int64
	// waiting is the newest execution at the time when a slot last became free. It and older executions may
	// have waited for the slot.
	waiting execution.ID
}

// observeSlot reports whether the last free slot went to an execution that existed before the slot became
// free.
func (s *slotProbes) observeSlot(e *history.Event) (passedOn bool) {
	if s.uses == nil {
		s.uses = make(map[string]*slotUse)
	}
	u := s.uses[e.Action]
	if u == nil {
		u = new(slotUse)
		s.uses[e.Action] = u
	}
	switch e.Kind {
	case history.SlotTaken:
		passedOn = u.held == u.limit-1 && e.Execution <= u.waiting
		u.held++
	case history.SlotFreed:
		u.held--
		u.waiting = s.newest
	default:
		u.limit = e.Count
	}
	return passedOn
}

// allSlotsHeld reports whether all slots of an action are held.
func (s *slotProbes) allSlotsHeld(action string) bool {
	u := s.uses[action]
	return u != nil && u.limit > 0 && u.held >= u.limit
}
