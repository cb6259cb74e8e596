package verdict

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Probes counts the situations that a scenario may ask for under `sometimes`: a sweep that never
// reaches what it is about proves nothing. It implements history.Sink.
type Probes struct {
	hits    [probeCount]int
	names   map[execution.WorkerID]bool
	seen    map[copyKey]int
	drained map[execution.Incarnation]bool
	// failing are the incarnations whose last runs failed by their own fault.
	failing map[execution.Incarnation]bool
	fed     map[dispatchKey]int
	slots   slotProbes
	// patience is the age from which on only a reconciler handles the end of an execution.
	patience time.Duration
}

type copyKey struct {
	message uint64
	queue   string
}

type dispatchKey struct {
	id    execution.ID
	epoch execution.Epoch
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
	endedAtShutdown
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
	probeCount
)

func probeNames() [probeCount]string {
	return [probeCount]string{
		lostWorkerDetected:           "lost_worker_detected",
		workAbandoned:                "work_abandoned",
		unclaimedRescheduled:         "unclaimed_rescheduled",
		unclaimedFailed:              "unclaimed_failed",
		retryScheduled:               "retry_scheduled",
		deadLetteredByTTL:            "dead_lettered_by_ttl",
		reclaimedByDeadLetterHandler: "reclaimed_by_dead_letter_handler",
		reclaimedByTimeoutMonitor:    "reclaimed_by_timeout_monitor",
		staleWriteRefused:            "stale_write_refused",
		claimRefused:                 "claim_refused",
		lateResultRefused:            "late_result_refused",
		fencedItself:                 "fenced_itself",
		registeredAgain:              "registered_again",
		redelivered:                  "redelivered",
		republished:                  "republished",
		returnedUnroutable:           "returned_unroutable",
		noWorkersFailed:              "no_workers_failed",
		parked:                       "parked",
		releasedOnDrain:              "released_on_drain",
		drainedWithRunningWork:       "drained_with_running_work",
		orchestratedWithoutMessage:   "orchestrated_without_message",
		schedulingClaimExpired:       "scheduling_claim_expired",
		duplicateDispatchRefused:     "duplicate_dispatch_refused",
		runTimedOut:                  "run_timed_out",
		overrunEnded:                 "overrun_ended",
		endedAtShutdown:              "ended_at_shutdown",
		cancelledBeforeHandoff:       "cancelled_before_handoff",
		cancelledAfterHandoff:        "cancelled_after_handoff",
		cancelledWhileRunning:        "cancelled_while_running",
		cancelledPendingRetry:        "cancelled_pending_retry",
		cancelledWaitingForSlot:      "cancelled_waiting_for_slot",
		cancelCameTooLate:            "cancel_came_too_late",
		slotPassedOn:                 "slot_passed_on",
		childStarted:                 "child_started",
		childSkipped:                 "child_skipped",
		childOfTheEnded:              "child_of_the_ended",
		workerFailed:                 "worker_failed",
		workerRecovered:              "worker_recovered",
		cordoned:                     "cordoned",
		observedTimeout:              "observed_timeout",
		observedOverrun:              "observed_overrun",
		observedUnreachable:          "observed_unreachable",
		observedReachable:            "observed_reachable",
	}
}

// ProbeNames lists what Probes can count.
func ProbeNames() []string {
	names := probeNames()
	return names[:]
}

// NewProbes returns probes that have seen nothing. patience is executor.reconcile_interval.
func NewProbes(patience time.Duration) *Probes {
	return &Probes{
		names: make(map[execution.WorkerID]bool), seen: make(map[copyKey]int), drained: make(map[execution.Incarnation]bool),
		failing: make(map[execution.Incarnation]bool),
		fed:     make(map[dispatchKey]int), patience: patience,
	}
}

// Hits returns how often each situation was reached, those never reached left out.
func (p *Probes) Hits() map[string]int {
	hits := make(map[string]int)
	for i, name := range probeNames() {
		if p.hits[i] > 0 {
			hits[name] = p.hits[i]
		}
	}
	return hits
}

func (p *Probes) hit(i probe, when bool) {
	if when {
		p.hits[i]++
	}
}

// Observe implements history.Sink.
func (p *Probes) Observe(e *history.Event) {
	switch e.Kind {
	case history.Transition:
		p.transition(e)
	case history.Created:
		p.hit(retryScheduled, e.Count > 0)
		p.slots.newest = e.Execution
	case history.StaleWrite:
		p.hit(staleWriteRefused, true)
		p.hit(claimRefused, e.To == execution.Running)
		p.hit(duplicateDispatchRefused, e.To == execution.Running && p.fed[dispatchKey{e.Execution, e.Epoch}] > 1)
	case history.RefusedResult:
		p.hit(lateResultRefused, true)
	case history.WorkerRegistered:
		p.hit(registeredAgain, p.names[e.Worker])
		p.names[e.Worker] = true
	case history.WorkerLifecycle:
		p.hit(lostWorkerDetected, e.Lifecycle == execution.Lost)
		p.drained[e.Incarnation] = e.Lifecycle == execution.Draining
	case history.ActionDefined, history.SlotTaken, history.SlotFreed:
		p.hit(slotPassedOn, p.slots.observe(e))
	case history.CancelRequested:
		p.hit(cancelledPendingRetry, e.From == execution.Requested && e.Chain != e.Execution)
		p.hit(cancelledWaitingForSlot, e.From == execution.Requested && p.slots.full(e.Action))
	case history.ChildStarted:
		p.hit(childStarted, true)
		p.hit(childOfTheEnded, e.Execution == p.slots.newest)
	case history.HealthReported:
		p.hit(workerFailed, e.Count > 0)
		p.hit(workerRecovered, e.Count == 0 && p.failing[e.Incarnation])
		p.failing[e.Incarnation] = e.Count > 0
	case history.WorkerCordoned:
		p.hit(cordoned, e.Count > 0)
	case history.Observed:
		overrun := e.To == execution.Timeout || e.To == execution.Cancelled
		p.hit(observedTimeout, e.Execution != 0 && !overrun)
		p.hit(observedOverrun, e.Execution != 0 && overrun)
		p.hit(observedUnreachable, e.Execution == 0 && e.Count > 0)
		p.hit(observedReachable, e.Execution == 0 && e.Count == 0)
	case history.Orchestrated:
		p.hit(orchestratedWithoutMessage, e.Due >= p.patience)
	default:
		p.message(e)
	}
}

func (p *Probes) message(e *history.Event) {
	key := copyKey{e.Message, e.Queue}
	switch e.Kind {
	case history.Delivered:
		p.seen[key]++
		p.hit(redelivered, p.seen[key] > 1)
		if e.Execution != 0 {
			p.fed[dispatchKey{e.Execution, e.Epoch}]++
		}
	case history.Acked:
		delete(p.seen, key)
	case history.Expired:
		p.hit(deadLetteredByTTL, e.Execution != 0)
		delete(p.seen, key)
	case history.PublishReturned:
		p.hit(returnedUnroutable, e.Execution != 0)
	case history.Published:
		if e.Execution != 0 {
			at := dispatchKey{e.Execution, -e.Epoch}
			p.fed[at]++
			p.hit(republished, p.fed[at] > 1)
		}
	default:
	}
}

func (p *Probes) transition(e *history.Event) {
	byExecutor := e.By != execution.Worker
	switch {
	case e.From == execution.Scheduled && e.To == execution.Requested:
		p.hit(unclaimedRescheduled, byExecutor)
		p.hit(releasedOnDrain, !byExecutor)
	case e.From == execution.Scheduled && e.To == execution.Failed:
		p.hit(unclaimedFailed, true)
	case e.From == execution.Scheduling:
		p.hit(noWorkersFailed, e.To == execution.Failed)
		p.hit(parked, e.To == execution.Requested && e.By == execution.Scheduler)
		p.hit(schedulingClaimExpired, e.By == execution.Reconciler)
	case e.From.Claimed() && byExecutor:
		p.hit(workAbandoned, e.Reason == execution.WorkerLost)
		p.hit(overrunEnded, e.To == execution.Timeout)
	case e.From.Claimed():
		p.hit(fencedItself, e.Reason == execution.HeartbeatStale)
		p.hit(runTimedOut, e.To == execution.Timeout)
		p.hit(endedAtShutdown, e.Reason == execution.WorkerShutdown)
		p.hit(drainedWithRunningWork, p.drained[e.Incarnation] && e.To == execution.Completed)
	}
	p.cancelled(e)
	if e.From == execution.Scheduled {
		p.hit(reclaimedByDeadLetterHandler, e.By == execution.DeadLetterHandler)
		p.hit(reclaimedByTimeoutMonitor, e.By == execution.TimeoutMonitor)
	}
}

func (p *Probes) cancelled(e *history.Event) {
	if e.By == execution.ExecutionManager {
		p.hit(childSkipped, true)
		return
	}
	if e.To == execution.Cancelled {
		p.hit(cancelledBeforeHandoff, e.From == execution.Requested || e.From == execution.Scheduling)
		p.hit(cancelledAfterHandoff, e.From == execution.Scheduled)
		p.hit(cancelledWhileRunning, e.From.Claimed() && e.By == execution.Worker)
	}
	p.hit(cancelCameTooLate, e.From == execution.Canceling && e.To != execution.Cancelled)
}

// slotProbes knows who waits for a concurrency slot.
type slotProbes struct {
	// newest is the execution that was created last.
	newest execution.ID
	uses   map[string]*slotUse
}

// slotUse is the slots of one action.
type slotUse struct {
	limit, held int64
	// waiting is the newest execution when a slot came free last: older ones may have waited for it.
	waiting execution.ID
}

// observe says whether a slot was given to an execution that was there before it came free.
func (s *slotProbes) observe(e *history.Event) (passedOn bool) {
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

// full says that every slot of an action is held.
func (s *slotProbes) full(action string) bool {
	u := s.uses[action]
	return u != nil && u.limit > 0 && u.held >= u.limit
}
