package invariant

import (
	"slices"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// boundedEffort returns invariant 18: the effort for each execution, and the effort at rest, has a bound
// computed from the configuration. A system can keep every other rule and still overload its database.
func boundedEffort() *Invariant {
	i := &Invariant{
		Number: 18, Name: "work for work", Conduct: true, Across: true,
		Statement: "Effort stays in proportion to the work. Fruitless claims, take-backs, messages and database statements stay under bounds that the configuration implies. Executors look for work once a period, or for a reason. A worker behind useless messages asks the database once a second. No call has an empty list. No process spins while time stands still.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.Published},
	}
	i.make = func(s *Suite) checker {
		return &workChecker{
			i: i, roster: newRoster(s), executors: make(map[string]bool),
			statements: make(map[string]uint64), runtimes: 1, tests: make(map[string]*canaryTest),
		}
	}
	return i
}

// These are the formulas. T is the time since the first counted event, by the faster clock.
//
// A fruitless claim (requested → scheduling → requested) is lawful while no worker could take the execution,
// or while a fault lasts. In that case one per reconcile interval is lawful: 2 + T / interval, plus one for
// each executor, because claims of several executors may overlap. If a fitting worker exists but is full,
// executors know this and don't claim the execution. The exception is lost races, whose cost all executions
// share: a dispatch can cost each other executor one fruitless claim, plus one for each other runtime that
// was offered the same room. If the worker has fitted only recently, a claim is a lost race only if another
// executor has just dispatched to that worker. Each dispatch explains one such claim of each other executor.
// A change of the fleet can cost each executor one batch of the executions that were open then. A dead
// executor's claim is reclaimed once per claim expiry.
//
// A reclaimed dispatch (scheduled → requested) waits for a backoff, which doubles at most five times if the
// dispatch doesn't count. The bound is 2, plus the number of shortest backoffs that fit into T, plus one for
// each change of the fleet. The last term covers executions that a stopping worker releases, because these
// are due immediately.
//
// A dispatch is published once. When it is older than the confirm timeout, each executor republishes it every
// reconcile interval.
//
// These bounds limit the transitions of one execution: three for each dispatch, two for each
// fruitless claim, and its end.
//
// In a minute, a process may make the statements of its loops, with one more pass of each than fits, and
// statementsAnEvent statements for each event of the run, because every message may wake it. A failed
// statement is repeated, and held dead letters are retried with a separate backoff.
const (
	// statementsAnEvent is the number of statements that one event of the run can cause.
	statementsAnEvent = 8
	// workWindow is the length of the windows in which statements are counted and then judged.
	workWindow = time.Minute
	// raceTime is the longest time from an executor's look at the workers until it releases the rows that it
	// then claimed, if nothing slows its calls down.
	raceTime = 100 * time.Millisecond
)

// budget counts the effort for one unfinished execution. It is part of the execution's life.
type budget struct {
	looks, takeBacks, expired int64
	firstLook, firstTakeBack  time.Duration
	firstExpired              time.Duration
	// changes is the number of fleet changes before the execution's first reclaimed dispatch.
	changes int64
	// published counts how often the present dispatch was published.
	published int64
}

type workChecker struct {
	roster
	i         *Invariant
	executors map[string]bool // those that schedule
	// scheduled is the executor that last scheduled any execution.
	scheduled string
	runtimes  int64 // the greatest number that one worker offers

	dispatches, changes, races int64
	// spoilt counts the executions that each executor may have claimed in vain because it did not yet know of
	// a change of the fleet.
	spoilt int64
	// taken holds the dispatches of the last raceTime, the earliest first.
	taken  []recentDispatch
	faults int
	// faultOver is when the last fault ended. forwards is how far the database's clock was set forwards.
	faultOver time.Duration
	forwards  time.Duration

	// These describe the present window: its start, and the number of events and each process's number of
	// statements before it.
	window     time.Duration
	before     int64
	struck     bool // there was a fault in the window
	statements map[string]uint64
	// left counts the rows that the loops may have left in place at the window's start, and ended the
	// executions that ended in it.
	left  leftRows
	ended int64

	// lookers holds each executor's Looker; see i18_passes.go. nextOverdue is when they are next checked.
	lookers     []*Looker
	nextOverdue time.Duration

	// These are for i18_tests.go: the tests of the dead letter path by executor, the time of the last
	// unreadable message, and the executions whose end was handled recently, the earliest first.
	tests   map[string]*canaryTest
	unread  trouble
	handled dense.Table[execution.ID, bool]
	recent  queue[watchEntry]
}

// recentDispatch is a dispatch that took a worker's room, for which other executors may have claimed.
type recentDispatch struct {
	at          time.Duration
	incarnation execution.Incarnation
	by          string
	// losers holds the executors for which this dispatch has explained a fruitless claim.
	losers []string
}

// Work counts the statements of each process since the start. Only the simulated world implements it.
type Work interface {
	// Statements calls visit for each process in a fixed order. worker reports whether it is a worker.
	Statements(visit func(process string, worker bool, made uint64))
}

// SetWork sets the source of statement counts. Without a source, statements are not judged.
func (s *Suite) SetWork(w Work) { s.work = w }

// Spins records that a process loops without time advancing: the run made steps steps at the same time, and
// only bound are allowed. It returns false if this invariant is not judged.
func (s *Suite) Spins(who string, steps, bound uint64) (judged bool) {
	for _, c := range s.checkers {
		if w, ok := c.(*workChecker); ok {
			s.countOccasion(w.i)
			s.recordViolation(w.i, 0, "%s spins without time moving: the run made %d steps at one moment; the bound is %d (a fixed number and some for each open execution)", who, steps, bound)
			judged = true
		}
	}
	return judged
}

// observedKinds implements selective.
func (wc *workChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.Delivered, history.FaultBegan, history.FaultEnded, history.ClockStepped, history.WorkerRegistered,
		history.WorkerLifecycle, history.WorkerCordoned, history.HealthReported, history.HeartbeatRenewed,
		history.ProcessStarted, history.ProcessPaused, history.ProcessFrozen, history.ProcessResumed, history.ProcessThawed,
		history.DeadLetterStored, history.StaleWrite, history.Orchestrated, history.Published, history.Transition,
	}
}

func (wc *workChecker) isTimedChecker() {}

func (wc *workChecker) observeEvent(e *history.Event, l *life) {
	wc.observeWorkers(e)
	wc.judgeStatements(e)
	wc.judgeOverdueLooks(e.At)
	wc.s.wakeAt(min(wc.window+workWindow, wc.nextOverdue))
	switch e.Kind {
	case history.Delivered:
		if e.Queue == broker.QueueRequested || e.Count > 0 {
			wc.noteHint(e)
		}
	case history.FaultBegan:
		wc.faults++
		wc.struck = true
		wc.noteFleetChange()
	case history.FaultEnded:
		wc.faults--
		wc.faultOver = e.At
		wc.noteFleetChange()
	case history.ClockStepped:
		wc.forwards += max(0, e.Due)
	case history.WorkerRegistered:
		wc.noteFleetChange()
		wc.runtimes = max(wc.runtimes, int64(len(wc.byIncarnation.Get(e.Incarnation).runtimes)))
	case history.WorkerLifecycle, history.WorkerCordoned, history.HealthReported:
		wc.noteFleetChange()
	case history.ProcessStarted:
		delete(wc.tests, e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		wc.withLooker(e.Process, (*Looker).noteHalt, e.At)
	case history.ProcessResumed, history.ProcessThawed:
		wc.withLooker(e.Process, (*Looker).noteResume, e.At)
	case history.DeadLetterStored:
		wc.unread.recordMoment(e.At)
	case history.StaleWrite:
		wc.judgeRefusedWrite(e, l)
	case history.Orchestrated:
		wc.rememberHandledEnd(e)
	case history.Published:
		if isCanary(e) {
			wc.judgeCanary(e)
		}
		if l != nil && l.status == execution.Scheduled && e.Epoch == l.epoch {
			wc.judgePublish(e, l)
		}
	case history.Transition:
		wc.judgeTransition(e, l)
	case history.HeartbeatRenewed:
		// The roster has handled it.
	default:
	}
}

// withLooker calls of with the process's Looker, if there is one.
func (wc *workChecker) withLooker(process string, of func(*Looker, time.Duration), at time.Duration) {
	if i := slices.IndexFunc(wc.lookers, func(k *Looker) bool { return k.process == process }); i >= 0 {
		of(wc.lookers[i], at)
	}
}

func (wc *workChecker) judgeTransition(e *history.Event, l *life) {
	if e.By == execution.Scheduler {
		wc.noteScheduler(e.Process)
	}
	switch {
	case l == nil:
	case oracle.Terminal(e.To):
		l.effort = budget{}
		wc.ended++
	case e.From == execution.Scheduling && e.To == execution.Requested && e.By == execution.Scheduler:
		wc.judgeFruitlessClaim(e, l)
	case e.From == execution.Scheduling && e.To == execution.Requested:
		wc.judgeExpiredClaim(e, l)
	case e.To == execution.Scheduled:
		wc.dispatches++
		wc.noteDispatch(e)
		b := &l.effort
		b.published = 0
		if b.takeBacks == 0 {
			b.changes = wc.changes
		}
	case e.From == execution.Scheduled && e.To == execution.Requested:
		wc.judgeTakeBack(e, l)
	}
}

// noteScheduler records that an executor schedules. It is nearly always the same executor as last time.
func (wc *workChecker) noteScheduler(executor string) {
	if executor != wc.scheduled {
		wc.scheduled = executor
		wc.executors[executor] = true
	}
}

// noteFleetChange notes a change of the fleet. For up to one batch of the executions open now, each executor
// may still decide by its old view of the fleet.
func (wc *workChecker) noteFleetChange() {
	wc.changes++
	wc.spoilt += int64(min(wc.s.config.Executor.BatchSize, wc.s.lives.Len()))
}

// isHindered reports whether a fault is present, or ended so recently that its effects may still be present.
func (wc *workChecker) isHindered(at time.Duration) bool {
	return wc.faults > 0 || wc.faultOver > 0 && at-wc.faultOver < wc.s.bounds.Claim+oracle.Lease(&wc.s.config.Worker)
}

// elapsedSince returns the time between from and at, by the faster of the run's and the database's clock.
func (wc *workChecker) elapsedSince(from, at time.Duration) time.Duration {
	return at - from + wc.forwards
}

// judgeFruitlessClaim counts a fruitless claim, and judges the execution's number of them.
func (wc *workChecker) judgeFruitlessClaim(e *history.Event, l *life) {
	wc.s.countOccasion(wc.i)
	b, x := &l.effort, wc.s.config.Executor
	n := int64(max(1, len(wc.executors)))
	// Another executor may have taken the room for which this executor claimed the execution. During a fault,
	// the number of such races has no separate bound.
	if fits := wc.someWorkerFits(l, e.At, wc.s.bounds.Slack) || wc.lostRace(e, l); fits && wc.isHindered(e.At) {
		return
	} else if fits {
		wc.races++
		bound := wc.dispatches*(n*wc.runtimes-1) + n*(wc.spoilt+1)
		if wc.races > bound {
			wc.s.recordViolation(wc.i, e.Execution,
				"execution %d was claimed for scheduling and given back by %s although a fitting worker was only full: %d such claims in this run; the bound is %d (%d dispatches × (%d executors × %d runtimes − 1) + %d executors × %d executions that were open when the fleet changed, at most a batch each time)",
				e.Execution, e.Process, wc.races, bound, wc.dispatches, n, wc.runtimes, n, wc.spoilt+1)
		}
		return
	}
	if b.looks++; b.looks == 1 {
		b.firstLook = e.At
	}
	elapsed := wc.elapsedSince(b.firstLook, e.At)
	if bound := 2 + n + int64(elapsed/x.ReconcileInterval); b.looks > bound+wc.changes-b.changes {
		wc.s.recordViolation(wc.i, e.Execution,
			"execution %d was claimed for scheduling and given back %d times within %v; the bound is %d (2 + %d executors + elapsed / reconcile_interval %v) plus %d for changes of the fleet",
			e.Execution, b.looks, elapsed, bound, n, x.ReconcileInterval, wc.changes-b.changes)
	}
}

// noteDispatch remembers a dispatch that may explain lost races.
func (wc *workChecker) noteDispatch(e *history.Event) {
	wc.forgetDispatches(e.At)
	wc.taken = append(wc.taken, recentDispatch{at: e.At, incarnation: e.Incarnation, by: e.Process})
}

// forgetDispatches removes the dispatches that no longer explain a fruitless claim.
func (wc *workChecker) forgetDispatches(now time.Duration) {
	for len(wc.taken) > 0 && now-wc.taken[0].at > raceTime {
		wc.taken = wc.taken[1:]
	}
}

// lostRace reports whether another executor has just dispatched to a worker that could be given the
// execution, and the dispatch has explained no other fruitless claim of the same executor.
func (wc *workChecker) lostRace(e *history.Event, l *life) bool {
	wc.forgetDispatches(e.At)
	now := wc.s.databaseTime(e.At)
	i := slices.IndexFunc(wc.taken, func(t recentDispatch) bool {
		w := wc.byIncarnation.Get(t.incarnation)
		return t.by != e.Process && !slices.Contains(t.losers, e.Process) &&
			w != nil && (l.pinned == 0 || l.pinned == w.worker) && w.acceptsRuntime(l.runtime, now)
	})
	if i < 0 {
		return false
	}
	wc.taken[i].losers = append(wc.taken[i].losers, e.Process)
	return true
}

func (wc *workChecker) judgeExpiredClaim(e *history.Event, l *life) {
	wc.s.countOccasion(wc.i)
	b, x := &l.effort, wc.s.config.Executor
	if b.expired++; b.expired == 1 {
		b.firstExpired = e.At
	}
	elapsed := wc.elapsedSince(b.firstExpired, e.At)
	if bound := 2 + int64(elapsed/x.ClaimExpiry); b.expired > bound {
		wc.s.recordViolation(wc.i, e.Execution, "the scheduling claim of execution %d expired %d times within %v; the bound is %d (2 + elapsed / claim_expiry %v)",
			e.Execution, b.expired, elapsed, bound, x.ClaimExpiry)
	}
}

func (wc *workChecker) judgeTakeBack(e *history.Event, l *life) {
	wc.s.countOccasion(wc.i)
	b := &l.effort
	if b.takeBacks++; b.takeBacks == 1 {
		b.firstTakeBack = e.At
	}
	elapsed := wc.elapsedSince(b.firstTakeBack, e.At)
	if bound := 2 + backoffsWithin(wc.s.backoffs, elapsed); b.takeBacks > bound+wc.changes-b.changes {
		wc.s.recordViolation(wc.i, e.Execution, "dispatches of execution %d were taken back %d times within %v; the bound is %d (2 + the number of shortest backoffs that fit) plus %d for changes of the fleet",
			e.Execution, b.takeBacks, elapsed, bound, wc.changes-b.changes)
	}
}

// backoffsWithin returns how many consecutive backoffs, each as short as possible, fit into elapsed.
func backoffsWithin(b *oracle.Backoffs, elapsed time.Duration) (n int64) {
	for total := time.Duration(0); ; n++ {
		lowest := b.After(min(int(n), oracle.MostGrowth)).Least
		if total += max(lowest, time.Millisecond); total > elapsed {
			return n
		}
		if n > oracle.MostGrowth {
			return n + int64((elapsed-total)/max(lowest, time.Millisecond)) + 1
		}
	}
}

// judgePublish judges one publish of a dispatch's message.
func (wc *workChecker) judgePublish(e *history.Event, l *life) {
	wc.s.countOccasion(wc.i)
	wc.noteScheduler(e.Process)
	b, x := &l.effort, wc.s.config.Executor
	b.published++
	age, n := wc.elapsedSince(l.entered, e.At), int64(max(1, len(wc.executors)))
	bound := int64(1)
	if age >= x.ConfirmTimeout {
		bound += n * (2 + int64((age-x.ConfirmTimeout)/x.ReconcileInterval))
	}
	if b.published > bound {
		wc.s.recordViolation(wc.i, e.Execution, "epoch %d of execution %d was published %d times within %v; the bound is %d (1, and from confirm_timeout %v on one more per reconcile_interval %v for each of %d executors)",
			e.Epoch, e.Execution, b.published, age, bound, x.ConfirmTimeout, x.ReconcileInterval, n)
	}
}

// judgeStatements judges each process's number of statements once per window.
func (wc *workChecker) judgeStatements(e *history.Event) {
	took := e.At - wc.window
	if took < workWindow {
		return
	}
	if wc.s.work == nil {
		wc.window = e.At
		return
	}
	events := wc.s.events - wc.before
	was, now := wc.left, wc.countLeftRows()
	wc.left = leftRows{max(was.unsettled, now.unsettled) + wc.ended, max(was.late, now.late) + wc.ended}
	wc.s.work.Statements(func(process string, worker bool, made uint64) {
		statements := int64(made - wc.statements[process])
		wc.statements[process] = made
		wc.s.countOccasion(wc.i)
		if bound := wc.statementBound(worker, took, events); statements > bound {
			wc.s.recordViolation(wc.i, 0, "%s made %d database statements within %v, while the run had %d events; the bound is %d (the passes of its loops, one more of each, and %d per event)",
				process, statements, took, events, bound, statementsAnEvent)
		}
	})
	wc.window, wc.before, wc.struck = e.At, wc.s.events, wc.faults > 0
	wc.left, wc.ended = now, 0
}

// leftRows counts the rows that a loop may find in each of its passes and leave in place. The pass continues
// after these rows, a batch at a time.
type leftRows struct {
	// unsettled is the number of unhandled ends, and of children that wait although the end of their parent's
	// chain was handled. If writes fail but the database answers, a pass tries all of these.
	unsettled int64
	// late is the number of runs that began before a step of the database's clock. By that clock they may be
	// past their deadline, although they are not by an executor's own clock.
	late int64
}

// countLeftRows counts the rows that loops may leave in place now.
func (wc *workChecker) countLeftRows() (n leftRows) {
	for _, l := range wc.s.lives.All() {
		if l.orphan || oracle.Terminal(l.status) && !l.orchestrated {
			n.unsettled++
		}
		if wc.forwards > 0 && oracle.Claimed(l.status) && l.entered <= wc.s.stepped {
			n.late++
		}
	}
	return n
}

// statementBound returns the maximum number of statements of a process in a window of length took with this
// number of events.
func (wc *workChecker) statementBound(worker bool, took time.Duration, events int64) (bound int64) {
	x := wc.s.config.Executor
	batch := int64(max(1, x.BatchSize))
	loop := func(statements int64, interval time.Duration) {
		bound += statements * (int64(took/interval) + 2)
	}
	if worker {
		// A failed heartbeat is repeated within its interval.
		loop(4, wc.s.config.Worker.HeartbeatInterval)
	} else {
		// The scheduler; the monitors of leases, claims, owners and cancellations; dispatches;
		// terminal executions.
		loop(10, x.ReconcileInterval)
		loop(4, x.TimeoutCheckInterval)
		// A monitor that only observes leaves rows in place, so each pass continues after them, a batch at a
		// time.
		if wc.s.monitorObserves() {
			loop(2*int64(wc.s.lives.Len())/batch, x.TimeoutCheckInterval)
		}
		// The timeout monitor and the monitor of owners do the same with runs that are late only by the
		// database's clock.
		loop(wc.left.late/batch, x.TimeoutCheckInterval)
		loop(wc.left.late/batch, x.ReconcileInterval)
		loop(4, x.FiguresInterval)
		loop(2, x.HealthCheckInterval)
		loop(6, time.Minute)
		if r := &wc.s.config.Retention; r.Any() {
			// Each kind takes one step for each page of rows, and one step that finds the end.
			loop(keptKinds*(2+int64((wc.s.lives.Len()+int(wc.s.created))/max(1, r.StepSize))), r.Interval)
		}
		// While the brake lets one worker at a time through, the lease monitor looks every second.
		if wc.struck {
			loop(2, time.Second)
		}
	}
	if wc.struck {
		// After a fault, every statement may be repeated. Held messages are retried every 200 ms to 10 s,
		// fifty at a time.
		bound = 2*bound + 50*(6+int64(took/(10*time.Second)))
		if n := wc.left.unsettled; !worker && n > 0 {
			// A batch that can't be written costs a look, the attempt, and a check whether the database
			// answers. Then each of its rows is tried separately, with the same check.
			loop(3*(n/batch), x.ReconcileInterval)
			if batch > 1 {
				loop(2*n, x.ReconcileInterval)
			}
		}
	}
	return bound + statementsAnEvent*events
}

func (wc *workChecker) endRun(bool) {}
