package verdict

import "fmt"

// Near is how near runs came to a situation that they did not reach. It counts events that had all
// of the situation but its last condition.
type Near struct {
	// Times is how many such events there were, and Runs in how many runs.
	Times, Runs int
	// Seed is the smallest seed of these runs.
	Seed uint64
}

// and adds what other runs say.
func (n Near) and(o Near) Near {
	switch {
	case n.Runs == 0:
		return o
	case o.Runs == 0:
		return n
	}
	return Near{Times: n.Times + o.Times, Runs: n.Runs + o.Runs, Seed: min(n.Seed, o.Seed)}
}

// addNear adds what a run says of the situations that the scenario expects.
func (s *Scenario) addNear(r *Run) {
	for _, name := range s.tally.Want.Sometimes {
		if n := r.Near[name]; n > 0 {
			if s.Near == nil {
				s.Near = make(map[string]Near)
			}
			s.Near[name] = s.Near[name].and(Near{Times: n, Runs: 1, Seed: r.Seed})
		}
	}
}

// mergeNear adds what another share says.
func (s *Scenario) mergeNear(o *Scenario) {
	for _, name := range s.tally.Want.Sometimes {
		if n, came := o.Near[name]; came {
			if s.Near == nil {
				s.Near = make(map[string]Near)
			}
			s.Near[name] = s.Near[name].and(n)
		}
	}
}

// Unreached lists the situations that the scenario expects and no run reached, in the scenario's
// order.
func (s *Scenario) Unreached() (names []string) {
	for _, name := range s.tally.Want.Sometimes {
		if s.Sometimes[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Nearness says what a situation is and how near the runs came to it.
func (s *Scenario) Nearness(name string) string {
	for i, of := range situations() {
		if of.Name != name {
			continue
		}
		most := conditions()[i]
		switch n := s.Near[name]; {
		case most.event == "":
			return fmt.Sprintf("It is one event, which never came: %s", of.About)
		case n.Runs == 0:
			return fmt.Sprintf("No run came near, for none saw its first condition: %s", most.event)
		default:
			return fmt.Sprintf("Nearest: %s in %s, first with seed %d, %s, but never %s",
				count(n.Times, "time"), count(n.Runs, "run"), n.Seed, most.event, most.missing)
		}
	}
	return ""
}

// condition is what the probe of a situation looks for: an event, and the last condition, which is
// missing where the event does not count. A situation that is one event has neither.
type condition struct{ event, missing string }

// conditions are the conditions of the situations as Probes.Observe checks them.
func conditions() [probeCount]condition {
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
	return [...]condition{
		lostWorkerDetected:           {"the lifecycle of a worker changed", "to lost"},
		workAbandoned:                {abandoned, "because its worker was lost"},
		unclaimedRescheduled:         {given, "by an executor"},
		retryScheduled:               {"an execution was created", "as a retry"},
		deadLetteredByTTL:            {"a message expired", "that was a dispatch"},
		reclaimedByDeadLetterHandler: {taken, "by its dead letter handler"},
		reclaimedByTimeoutMonitor:    {taken, "by its timeout monitor"},
		claimRefused:                 {"a guarded write was refused", "that was a claim"},
		fencedItself:                 {ended, "because it could not renew its lease"},
		registeredAgain:              {"a worker registered", "under a name that had registered before"},
		redelivered:                  {"a message was delivered", "a second time"},
		republished:                  {"a dispatch was published", "a second time at the same epoch"},
		returnedUnroutable:           {"a message was returned because no queue was bound", "that was a dispatch"},
		noWorkersFailed:              {scheduled, "with the execution failed because no worker fitted"},
		parked:                       {scheduled, "with the execution waiting for a worker to fit"},
		releasedOnDrain:              {given, "by its worker"},
		drainedWithRunningWork:       {ended, "as completed while it was draining"},
		orchestratedWithoutMessage:   {"the end of an execution was handled", "as late as executor.reconcile_interval, for want of a message"},
		schedulingClaimExpired:       {scheduled, "because a reconciler took it back"},
		duplicateDispatchRefused:     {"a claim was refused", "of a dispatch that had been delivered twice"},
		runTimedOut:                  {ended, "at its run timeout"},
		overrunEnded:                 {abandoned, "because it ran past its deadline"},
		cancelledBeforeHandoff:       {cancelled, "before it was dispatched"},
		cancelledAfterHandoff:        {cancelled, "while it was dispatched and not claimed"},
		cancelledWhileRunning:        {cancelled, "by its worker while it ran"},
		cancelledPendingRetry:        {asked, "that was a retry"},
		cancelledWaitingForSlot:      {asked, "while all slots of its action were held"},
		cancelCameTooLate:            {"an execution ended whose worker had been asked to cancel it", "in another way than cancelled"},
		slotPassedOn:                 {"a concurrency slot was taken", "by an execution that had waited for it"},
		childOfTheEnded:              {"a workflow child began", "that was created after its parent's chain had completed"},
		workerFailed:                 {"a worker reported its health", "with a failure of its own"},
		workerRecovered:              {"a worker reported no failure of its own", "after failures in a row"},
		cordoned:                     {"a cordon was set or lifted", "as one that was set"},
		observedTimeout:              {execution, "that it would take an unclaimed one back"},
		observedOverrun:              {execution, "that it would end a run past its deadline"},
		observedUnreachable:          {worker, "that it would avoid it"},
		observedReachable:            {worker, "that it was ready again"},
		endedAtShutdown:              {ended, "because it was stopping"},
		returnedTooOften:             {"the broker gave a message up that came back too often", "that was a dispatch"},
		blockDelivered:               {"a message was delivered", "that held several dispatches"},
		blockDied:                    {"a message was dead-lettered", "that held several dispatches"},
	}
}

// Near returns how often each situation that was not reached lacked only its last condition.
func (p *Probes) Near() map[string]int {
	var near map[string]int
	for i, s := range situations() {
		if p.hits[i] == 0 && p.near[i] > 0 {
			if near == nil {
				near = make(map[string]int)
			}
			near[s.Name] = p.near[i]
		}
	}
	return near
}
