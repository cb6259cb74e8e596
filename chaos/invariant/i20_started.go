package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// promptStarts returns invariant 20 (defects D9, D30): after the claim, only the worker can act on an
// execution. A claim that the worker forgets waits until an executor detects it. Its end then looks like that
// of a lost worker's run.
func promptStarts() *Invariant {
	i := &Invariant{
		Number: 20, Name: "claimed is started", Conduct: true,
		Statement: "A live worker that has its lease starts or ends each execution that it has claimed, in less time than it takes to renew its lease. It does not report such an execution as lost.",
		Needs:     []history.Kind{history.Transition, history.ActionStarted, history.HeartbeatRenewed, history.FaultBegan},
	}
	i.make = func(s *Suite) checker {
		bound := startBound(s)
		return &startedChecker{
			i: i, s: s, bound: bound, afterDatabase: bound + max(0, connectTimeout-s.config.Worker.StatementTimeout),
			shut: make(map[string]*trouble), slowed: make(map[string]*lateAnswers),
		}
	}
	return i
}

// retryPause is the maximum pause between a worker's attempts to get a claim answered.
const retryPause = 2 * time.Second

// startBound returns the maximum time from claim to start if nothing hinders the worker: a claim whose answer
// was lost, the pause after it, an attempt that returns the claim's state, and the start itself.
func startBound(s *Suite) time.Duration { return 3*s.config.Worker.StatementTimeout + retryPause }

// connectTimeout is the timeout of one attempt to connect to the database (Options of core/store/postgres).
const connectTimeout = 5 * time.Second

// stopsWorker is the set of causes that can keep a worker from starting a claimed execution.
const stopsWorker = standsStill | itsClock | hasTwin

// stopsAnswers is the set of causes that can keep a worker from learning that its claim succeeded.
const stopsAnswers = toDatabase | databaseFails

// startedChecker tracks the claims whose actions have not started. At any time there are only a few.
type startedChecker struct {
	i     *Invariant
	s     *Suite
	bound time.Duration
	// afterDatabase is the bound counted from the end of trouble with the database. It is longer because an
	// attempt to connect that began during the trouble keeps its place in the pool even if its caller has
	// given up. If that is the last place, no claim is answered before connectTimeout is over.
	afterDatabase time.Duration
	open          []openClaim
	// next is when the oldest open claim may be overdue.
	next time.Duration
	// shut records when processes were on a frozen machine, even if they started later, or cut off from the
	// database. The database may then have stored renewals whose replies the worker never got.
	shut map[string]*trouble
	// slowed records when the answers to processes came late or were lost.
	slowed map[string]*lateAnswers
	// narrow holds the start times of the faults that slow down links and have not ended, the oldest first.
	narrow []time.Duration
}

// lateAnswers is the period in which answers to a process came late or were lost. It began at since and ended
// at until, unless faults that have not ended prolong it.
type lateAnswers struct {
	lasting      int
	since, until time.Duration
}

// openClaim is a claim whose action has not started.
type openClaim struct {
	id          execution.ID
	epoch       execution.Epoch
	incarnation execution.Incarnation
	at          time.Duration
}

// observedKinds implements selective.
func (sc *startedChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.FaultBegan, history.FaultEnded, history.ActionStarted, history.Transition,
	}
}

func (sc *startedChecker) isTimedChecker() {}

func (sc *startedChecker) observeEvent(e *history.Event, l *life) {
	if len(sc.open) > 0 && e.At >= sc.next {
		sc.judgeOldClaims(e.At)
	}
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		sc.noteFault(e)
	case history.ActionStarted:
		sc.forgetClaim(e)
	case history.Transition:
		switch {
		case e.To == execution.Running:
			if len(sc.open) == 0 {
				sc.next = e.At + sc.bound
			}
			sc.open = append(sc.open, openClaim{e.Execution, e.Epoch, e.Incarnation, e.At})
		case oracle.Claimed(e.From) && !oracle.Claimed(e.To):
			sc.judgeLostEnd(e, l)
			sc.forgetClaim(e)
		}
	default:
	}
	if len(sc.open) > 0 {
		sc.s.wakeAt(sc.next)
	}
}

// noteFault notes the beginning or end of a fault that cuts processes off.
func (sc *startedChecker) noteFault(e *history.Event) {
	switch e.Text {
	case "freeze", "partition", "slow_link":
	case "latency", "database_slow", "reset":
		if e.Text == "reset" && !slices.Contains(strings.Split(e.Queue, ","), fault.Database) {
			return
		}
		// A single late or lost answer costs a worker its lease only if there is no time for another
		// heartbeat before the fence. But all answers during a lease may be late or lost.
		if w := &sc.s.config.Worker; oracle.Lease(w)-w.FenceMargin >= 2*w.HeartbeatInterval {
			sc.noteSlowAnswers(e)
			return
		}
	default:
		return
	}
	at := e.At
	if e.Text == "slow_link" {
		if e.Kind == history.FaultBegan {
			sc.narrow = append(sc.narrow, e.At)
		} else if len(sc.narrow) > 0 {
			// Messages that have queued up in a slow link arrive later than its end by at most its duration.
			at += e.At - sc.narrow[0]
			if sc.narrow = sc.narrow[1:]; len(sc.narrow) == 0 {
				sc.narrow = nil
			}
		}
	}
	for name := range strings.SplitSeq(e.Process, ",") {
		t := sc.shut[name]
		if t == nil {
			t = new(trouble)
			sc.shut[name] = t
		}
		if e.Kind == history.FaultBegan {
			t.begin(e.At)
		} else {
			t.end(at)
		}
	}
}

// noteSlowAnswers notes the beginning or end of a fault that delays or loses answers to processes.
func (sc *startedChecker) noteSlowAnswers(e *history.Event) {
	for name := range strings.SplitSeq(e.Process, ",") {
		t := sc.slowed[name]
		if t == nil {
			t = new(lateAnswers)
			sc.slowed[name] = t
		}
		switch {
		case e.Kind == history.FaultEnded:
			t.lasting, t.until = max(0, t.lasting-1), e.At
		case t.lasting == 0:
			t.lasting, t.since = 1, e.At
		default:
			t.lasting++
		}
	}
}

// forALease reports whether answers were late or lost for longer than fenced, so that the process may have
// fenced itself, and that period lasted until from or longer.
func (a *lateAnswers) forALease(from, now, fenced time.Duration) bool {
	until := a.until
	if a.lasting > 0 {
		until = now
	}
	return until >= from && until-a.since > fenced
}

// isShut reports whether a process was cut off at or after from, or may have got no answer in time during a
// lease that lasted until from or longer.
func (sc *startedChecker) isShut(process string, from time.Duration) bool {
	for _, name := range [...]string{process, fault.Database} {
		if t := sc.slowed[name]; t != nil && t.forALease(from, sc.s.now.At, oracle.Lease(&sc.s.config.Worker)-sc.s.config.Worker.FenceMargin) {
			return true
		}
		if t := sc.shut[name]; t != nil && t.presentSince(from) {
			return true
		}
	}
	return false
}

// forgetClaim removes a claim whose execution has started or ended.
func (sc *startedChecker) forgetClaim(e *history.Event) {
	at := slices.IndexFunc(sc.open, func(w openClaim) bool { return w.id == e.Execution })
	if at < 0 {
		return
	}
	sc.s.countOccasion(sc.i)
	sc.open = slices.Delete(sc.open, at, at+1)
}

// hasLease reports whether an incarnation has its lease and need not have fenced itself by a correct clock.
func (sc *startedChecker) hasLease(t *session, now time.Duration) bool {
	if t == nil {
		return false
	}
	if _, gone := t.goneSince(); gone {
		return false
	}
	w := sc.s.config.Worker
	return now < t.renewed+(oracle.Lease(&w)-w.FenceMargin)*(driftTolerance-1)/driftTolerance && sc.s.databaseTime(now) < t.leaseEnds
}

// lastRenewalSent returns the earliest time at which the last renewal can have been sent. A worker that was
// cut off since then may have fenced itself for want of an answer, although its lease in the database is
// valid.
func (sc *startedChecker) lastRenewalSent(t *session) time.Duration {
	return t.renewed - sc.s.config.Worker.StatementTimeout
}

// judgeOldClaims judges the claims that are older than the bound. If a claim's worker was hindered, the claim
// is checked again later.
func (sc *startedChecker) judgeOldClaims(now time.Duration) {
	sc.next = never
	for _, w := range sc.open {
		t := sc.s.workers.Get(w.incarnation)
		if now-w.at <= sc.bound {
			sc.next = min(sc.next, w.at+sc.bound)
			continue
		}
		sc.next = min(sc.next, now+sc.bound/4)
		if !sc.hasLease(t, now) || sc.isShut(t.process, min(now-sc.bound, sc.lastRenewalSent(t))) || sc.s.ledger.hasStruck(stopsWorker, t.process, t.worker, now-sc.bound) ||
			sc.s.ledger.hasStruck(stopsAnswers, t.process, t.worker, now-sc.afterDatabase) {
			continue
		}
		sc.s.recordViolation(sc.i, w.id, "%s claimed execution %d at epoch %d at %v and has neither started nor ended it since; its lease holds, nothing hinders it, and the bound is %v",
			t.process, w.id, w.epoch, w.at, sc.bound)
	}
}

// judgeLostEnd requires that a worker doesn't report as lost an execution that it claimed and never started.
// Every heartbeat lists the executions that the worker holds, including claims whose outcome it doesn't know
// yet.
func (sc *startedChecker) judgeLostEnd(e *history.Event, l *life) {
	if e.By != execution.Worker || e.Reason != execution.WorkerLost || l == nil || l.started > 0 {
		return
	}
	t := sc.s.workers.Get(e.Incarnation)
	if !sc.hasLease(t, e.At) || t.late || t.lifecycle > execution.Active || sc.isShut(t.process, min(l.entered-sc.bound, sc.lastRenewalSent(t))) || sc.s.ledger.hasStruck(standsStill|itsClock|hasTwin, t.process, t.worker, l.entered) {
		return
	}
	sc.s.countOccasion(sc.i)
	sc.s.recordViolation(sc.i, e.Execution, "%s claimed execution %d at epoch %d at %v, never began it, and ended it as lost by its own heartbeat, although its lease holds",
		e.Process, e.Execution, e.OldEpoch, l.entered)
}

func (sc *startedChecker) endRun(bool) {
	if len(sc.open) > 0 {
		sc.judgeOldClaims(sc.s.now.At)
	}
}
