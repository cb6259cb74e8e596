package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// workPlacement returns invariant 9 (defects D32, D33, D42 to D46).
func workPlacement() *Invariant {
	i := &Invariant{
		Number: 9, Name: "placement", Conduct: true, Across: true,
		Statement: "Work goes only to a worker that the executor could know to be fit and to have room. A healthy worker goes before a degraded one. Work does not go back to the worker that it came from while another one has room. While a worker fits, work neither waits nor fails for want of workers. Work fails for want of workers only after its grace. The failure names stale heartbeats if they are its only cause.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.HealthReported},
	}
	i.make = func(s *Suite) checker {
		x := s.config.Executor
		return &placementChecker{
			i: i, roster: newRoster(s), thresholds: oracle.NewThresholds(&s.config.Health),
			limited: make(map[string]bool), frozen: make(map[string]time.Duration), slept: make(map[string]time.Duration), brokerUp: -1,
			// A decision may be as old as the claim under which it was made, plus the look at the workers
			// before the claim.
			memory: x.ClaimExpiry + 2*x.StatementTimeout,
			// This allows four looks, each as slow as is lawful.
			patience: 4*x.ReconcileInterval + 4*x.StatementTimeout,
		}
	}
	return i
}

// textStale is the contract's text for stale heartbeats.
const textStale = "No workers with fresh heartbeats available"

type placementChecker struct {
	roster
	i        *Invariant
	memory   time.Duration
	patience time.Duration
	nextLook time.Duration
	// thresholds holds the limits at which a worker is degraded or unhealthy.
	thresholds *oracle.Thresholds
	// doubts holds the recent dispatches for which another worker seemed the better choice.
	doubts []doubt
	// limited holds the actions with a concurrency limit. Their executions may wait for a slot.
	limited map[string]bool
	// brokerUp is when the broker last came up, negative if it never did.
	brokerUp time.Duration
	hung     hungQueues
	// frozen is when each frozen machine was frozen, and slept how long it was frozen before that in total. A
	// frozen machine's clocks are stopped.
	frozen, slept map[string]time.Duration
	// shares is the buffer for the result of possibleEvidence.
	shares [3]oracle.Evidence
}

// observedKinds implements selective.
func (p *placementChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.WorkerCordoned,
		history.HealthReported, history.BrokerUp, history.ProcessFrozen, history.ProcessThawed, history.ActionDefined,
		history.Transition, history.StaleWrite, history.FaultBegan, history.FaultEnded, history.BrokerDown,
	}
}

func (p *placementChecker) isTimedChecker() {}

func (p *placementChecker) observeEvent(e *history.Event, l *life) {
	if e.At >= p.nextLook {
		p.nextLook = e.At + p.s.config.Executor.ReconcileInterval
		p.judgeWaiting(e.At)
	}
	p.s.wakeAt(p.nextLook)
	if len(p.doubts) > 0 {
		p.judgeDoubts(e.At)
	}
	p.observeWorkers(e)
	switch e.Kind {
	case history.HealthReported:
		if w := p.byIncarnation.Get(e.Incarnation); w != nil {
			p.judgeReport(w, e)
		}
	case history.BrokerUp:
		p.brokerUp = e.At
	case history.BrokerDown:
		// After a restart of the broker, no queue hangs.
		p.hung.names = nil
	case history.FaultBegan, history.FaultEnded:
		if p.s.config.MessageQueue.RabbitMQ.QueueType == "classic" {
			p.hung.noteFault(e)
		}
	case history.ProcessFrozen:
		if _, is := p.frozen[e.Process]; !is {
			p.frozen[e.Process] = e.At
		}
	case history.ProcessThawed:
		if since, is := p.frozen[e.Process]; is {
			p.slept[e.Process] += e.At - since
			delete(p.frozen, e.Process)
		}
	case history.ActionDefined:
		p.limited[e.Action] = e.Count > 0
	case history.Transition:
		p.noteWorkerFailures(e)
		p.judgeTransition(e, l)
	case history.StaleWrite:
		p.noteWorkerFailures(e)
	case history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.WorkerCordoned:
		// The roster has already handled the event.
	default:
	}
	if len(p.doubts) > 0 {
		p.s.wakeAt(e.At)
	}
}

// judgeReport records a worker's report about its runs, and requires that it is correct: a worker that is
// blamed for its actions' failures loses work without reason (defect D44).
func (p *placementChecker) judgeReport(w *candidate, e *history.Event) {
	h := p.s.config.Health
	since := e.At - h.Window - h.Window/10 - p.slept[e.Process]
	// A report that the database or a link has delayed is stored long after the worker counted.
	late := p.s.ledger.hasStruck(databaseFails|toDatabase, e.Process, e.Worker, e.At-p.s.config.Worker.HeartbeatInterval)
	had := 0
	for _, f := range w.failures {
		if f.at >= since || late {
			had++
		}
	}
	p.s.countOccasion(p.i)
	if int(e.Limit) > had || int(e.Count) > len(w.failures) {
		p.s.recordViolation(p.i, 0, "worker %d (incarnation %d) is charged with %d failures, %d of them in a row, and has had %d of its own, %d of them within the window",
			e.Worker, e.Incarnation, e.Limit, e.Count, len(w.failures), had)
	}
	s := w.latestSnapshot()
	s.from, s.failed, s.consecutive, s.total, s.lastFailure = e.At, int(e.Limit), int(e.Count), int(e.Message), e.Due
	p.addSnapshot(w, s)
}

// noteWorkerFailures records the failures for which workers blame themselves.
func (p *placementChecker) noteWorkerFailures(e *history.Event) {
	switch {
	case e.Kind == history.StaleWrite:
		if e.To != execution.Running {
			for _, w := range p.candidates {
				w.noteRefusedEnd(e)
			}
		}
	case oracle.Claimed(e.From) && e.By == execution.Worker && oracle.BlamesWorker(e.Reason):
		if w := p.byIncarnation.Get(e.Incarnation); w != nil {
			w.failures = append(w.failures, ownFailure{execution.Key{ID: e.Execution, Epoch: e.OldEpoch}, e.Process, e.At})
		}
	}
}

func (p *placementChecker) addSnapshot(w *candidate, s snapshot) {
	for len(w.snapshots) > 1 && w.snapshots[1].from < s.from-p.memory {
		w.snapshots = w.snapshots[1:]
	}
	w.snapshots = append(w.snapshots, s)
	p.updateHealth(w, s.from)
}

// updateHealth computes whether executors may, or must, consider a worker unhealthy because of its failures
// or its unclaimed dispatches.
func (p *placementChecker) updateHealth(w *candidate, at time.Duration) {
	s, h := w.latestSnapshot(), p.s.config.Health
	deep := h.Enabled && w.waiting >= h.QueueDepthUnhealthy
	w.unhealthy = deep || slices.ContainsFunc(p.possibleEvidence(w, &s, at), p.thresholds.Failing)
	w.surelyUnhealthy = deep || p.surelyHolds(w, &s, at, p.thresholds.Failing)
	w.updatePeriods(at, p.cordoned[w.worker])
}

func (p *placementChecker) judgeTransition(e *history.Event, l *life) {
	if w := p.byIncarnation.Get(e.Incarnation); w != nil {
		p.noteOutcome(w, e, l)
	}
	if l == nil {
		return
	}
	switch {
	case e.To == execution.Scheduled:
		p.hung.dispatched = e.At
		w := p.byIncarnation.Get(e.Incarnation)
		p.s.countOccasion(p.i)
		if why := p.unfitReason(w, e, l); why != "" {
			p.s.recordViolation(p.i, e.Execution, "execution %d was dispatched by %s to worker %d (incarnation %d), %s", e.Execution, e.Process, e.Worker, e.Incarnation, why)
		} else {
			p.judgeAvoidance(w, e, l)
			p.judgeIdleWorker(w, e, l)
		}
		p.healthierFirst(w, e, l)
		if w != nil {
			w.countDispatch(e.At)
			p.updateHealth(w, e.At)
		}
	case e.From == execution.Scheduling && e.To == execution.Failed && e.Reason == execution.NoWorkers:
		p.judgeNoWorkers(e, l)
	}
}

// noteOutcome applies an execution's transition to the worker that had the execution.
func (p *placementChecker) noteOutcome(w *candidate, e *history.Event, l *life) {
	w.countRelease(e)
	if e.To == execution.Running {
		w.claims++
	}
	if e.From == execution.Scheduled {
		p.updateHealth(w, e.At)
	}
	if e.From == execution.Scheduled && l != nil && e.Count > l.dispatches {
		s := w.latestSnapshot()
		// Only the latest snapshot is appended to, so all snapshots share one list.
		s.from, s.expired = e.At, append(s.expired, p.s.databaseTime(e.At))
		p.addSnapshot(w, s)
	}
}

// unfitReason returns why a worker should not have got an execution, empty if it could have it.
func (p *placementChecker) unfitReason(w *candidate, e *history.Event, l *life) string {
	most := p.s.config.Executor.DispatchAhead
	switch {
	case w == nil:
		return "which never registered"
	case w.left || w.state != execution.Active:
		return fmt.Sprintf("which is %v", w.state)
	case p.s.databaseTime(e.At) > w.leaseEnds+clockTolerance:
		return fmt.Sprintf("whose lease ended %v ago", p.s.databaseTime(e.At)-w.leaseEnds)
	case !w.consuming:
		return "which has said that it does not consume"
	case p.cordoned[w.worker]:
		return "which is cordoned"
	case !slices.Contains(w.runtimes, l.runtime):
		return fmt.Sprintf("which does not have its runtime %q", l.runtime)
	case l.pinned != 0 && l.pinned != w.worker:
		return fmt.Sprintf("and it is pinned to worker %d", l.pinned)
	case w.load >= w.capacity+most:
		return fmt.Sprintf("which holds %d already: its capacity is %d, and %d may be dispatched ahead", w.load, w.capacity, most)
	case l.pinned == 0 && p.isQuarantined(w, e.At, l) && !p.wasHalted(e):
		s := w.latestSnapshot()
		return fmt.Sprintf("which is unhealthy (%d failures in a row, %d of %d runs failed, %d dispatches stayed unclaimed) while a better one fits",
			s.consecutive, s.failed, s.total, len(s.expired))
	}
	return ""
}

// isQuarantined reports whether a worker should have got no work: it was unhealthy by any evidence that the
// executor may have had, a better worker fitted, and the execution was not a half-open probe. Executors
// measure by the database's clock, so nothing is certain right after a step of that clock.
func (p *placementChecker) isQuarantined(w *candidate, now time.Duration, l *life) bool {
	for n := range w.snapshots {
		s := &w.snapshots[n]
		until := now
		if n+1 < len(w.snapshots) {
			until = w.snapshots[n+1].from
		}
		if until >= now-p.memory && (!p.surelyHolds(w, s, until, p.thresholds.Failing) || p.halfOpen(w, s, until)) {
			return false
		}
	}
	if len(w.snapshots) == 0 || w.snapshots[0].from > now-p.memory || p.s.stepped > now-p.memory {
		return false
	}
	p.s.countOccasion(p.i)
	return slices.ContainsFunc(p.candidates, func(other *candidate) bool {
		return other != w && other.worker != l.avoid && other.acceptsRuntime(l.runtime, p.s.latestShownTime(now-p.memory, now)) && other.goodSince <= now-p.memory
	})
}

// halfOpen reports whether the worker may get one execution that tests whether it has recovered.
func (p *placementChecker) halfOpen(w *candidate, s *snapshot, now time.Duration) bool {
	last := s.lastFailure
	if n := len(s.expired); n > 0 {
		last = max(last, s.expired[n-1])
	}
	return w.load == 0 && p.s.databaseTime(now)-last >= p.s.config.Executor.HealthCheckInterval-clockTolerance
}

// judgeNoWorkers judges a failure for want of workers: it is lawful only if no fitting worker existed.
func (p *placementChecker) judgeNoWorkers(e *history.Event, l *life) {
	p.s.countOccasion(p.i)
	look := l.entered - 2*p.s.config.Executor.StatementTimeout
	for _, w := range p.candidates {
		if w.fitSince <= look && w.acceptsRuntime(l.runtime, p.s.latestShownTime(look, e.At)) && (l.pinned == 0 || l.pinned == w.worker) {
			p.s.recordViolation(p.i, e.Execution, "execution %d failed for want of workers although worker %d (incarnation %d) has fitted since %v", e.Execution, w.worker, w.incarnation, w.fitSince)
			return
		}
	}
	p.judgeGrace(e, l)
	p.judgeStaleText(e, l, look)
}

// judgeStaleText requires that a failure for want of workers names stale heartbeats if they are the only
// possible cause: the executor saw an active worker whose lease was over, and none with a valid lease.
func (p *placementChecker) judgeStaleText(e *history.Event, l *life, look time.Duration) {
	if strings.Contains(e.Text, textStale) || p.s.setBack >= look {
		return
	}
	p.s.countOccasion(p.i)
	var stale *candidate
	for _, w := range p.candidates {
		if !slices.Contains(w.runtimes, l.runtime) || l.pinned != 0 && l.pinned != w.worker {
			continue
		}
		if w.leaseEnds+clockTolerance >= p.s.databaseTime(look) {
			return
		}
		if !w.left && w.state == execution.Active {
			stale = w
		}
	}
	if stale != nil {
		p.s.recordViolation(p.i, e.Execution, "execution %d failed for want of workers with %q, which does not say %q: the lease of worker %d (incarnation %d) ended %v ago, and nobody else was left",
			e.Execution, e.Text, textStale, stale.worker, stale.incarnation, p.s.databaseTime(e.At)-stale.leaseEnds)
	}
}

// judgeWaiting judges executions that have been due for longer than placement may take while an executor was
// connected. It is a violation if a fitting worker was idle all that time, or well with room. Anything that
// may have hindered an executor postpones the judgement.
func (p *placementChecker) judgeWaiting(now time.Duration) {
	since := p.hung.connectedUntil(now) - p.patience
	if p.s.hindrances.lasting > 0 || p.s.hindrances.lastEnd > since || now < p.s.setBack+p.patience {
		return
	}
	var first *life
	for _, l := range p.s.lives.All() {
		if l.status != execution.Requested || !p.waitsOnlyForWorker(l) || max(l.waits, l.shown, l.claimLost) > since {
			continue
		}
		p.s.countOccasion(p.i)
		if (first == nil || l.id < first.id) && p.availableWorker(l.runtime, since, now) != nil {
			first = l
		}
	}
	if first != nil {
		w := p.availableWorker(first.runtime, since, now)
		p.s.recordViolation(p.i, first.id, "execution %d has been due for %v and waits although worker %d (incarnation %d) fits and has had room since %v: it holds %d, and its capacity is %d",
			first.id, now-first.waits, w.worker, w.incarnation, w.roomSince, w.load, w.capacity)
	}
}

// waitsOnlyForWorker reports whether an execution waits for any worker, and not for its parent, a particular
// worker, a concurrency slot or a program that can read it.
func (p *placementChecker) waitsOnlyForWorker(l *life) bool {
	return !l.hidden && l.pinned == 0 && l.parent == 0 && !p.limited[p.s.actions[l.action]]
}

// availableWorker returns a worker that fits the runtime and, from since to now, has held nothing or was well
// and had room; nil if there is none. Its latest failure is older than the time after which an unhealthy
// worker is retried.
func (p *placementChecker) availableWorker(runtime string, since, now time.Duration) *candidate {
	recovery := p.s.config.Executor.HealthCheckInterval
	for _, w := range p.candidates {
		if !w.acceptsRuntime(runtime, p.s.databaseTime(now)) || w.fitSince > since || w.idleSince > since && (w.roomSince > since || w.goodSince > since && !p.nobodyIsBetter(runtime, since, now)) {
			continue
		}
		last, known := -recovery, w.latestSnapshot()
		if n := len(w.failures); n > 0 {
			last = max(last, w.failures[n-1].at)
		}
		if n := len(known.expired); n > 0 {
			last = max(last, known.expired[n-1]-p.s.skew)
		}
		if last+recovery <= since || w.roomSince <= since && p.nobodyIsBetter(runtime, since, now) {
			return w
		}
	}
	return nil
}

func (p *placementChecker) endRun(bool) { p.judgeDoubts(never) }
