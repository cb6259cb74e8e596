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

// work is invariant 18: the effort for each execution, and the effort at rest, has a bound computed
// from the configuration. A system can keep every other rule and still wear out its database.
func work() *Invariant {
	i := &Invariant{
		Number: 18, Name: "work for work", Across: true,
		Statement: "Effort stays in proportion to the work. Fruitless claims, take-backs, messages and database statements stay under bounds that the configuration implies. Executors look for work once a period, or for a reason. A worker behind useless messages asks the database once a second. No call has an empty list. No process spins while time stands still.",
		Needs:     []history.Kind{history.Transition, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.Published},
	}
	i.make = func(s *Suite) checker {
		return &workChecker{
			i: i, roster: newRoster(s), executors: make(map[string]bool),
			statements: make(map[string]uint64), runtimes: 1, tests: make(map[string]*canaries),
		}
	}
	return i
}

// The formulas. T is the time since the first of the counted events, by the faster clock.
//
// A fruitless claim (requested → scheduling → requested) is lawful while no worker could take the
// execution, or while a fault lasts. Then there is one per reconcile interval: 2 + T / interval,
// plus one for each executor, because claims of several executors may cross. While a fitting worker
// is only full, executors know this and leave the execution alone. The exception is lost races,
// whose cost all executions share: a dispatch can cost each other executor one fruitless claim,
// plus one for each other runtime that was offered the same room. If the worker fits only since
// recently, a claim is a lost race only if another executor has just given that worker something,
// and each dispatch explains one such claim of each other executor. A change of the fleet can cost
// each executor one batch of the executions that were open then. The claim of a dead executor is
// taken back once each claim expiry.
//
// A dispatch that is taken back (scheduled → requested) waits a backoff, which doubles at most five
// times if the dispatch doesn't count. The bound is 2, plus as many of the shortest backoffs as fit
// into T, plus one for each change of the fleet, because executions that a stopping worker gives
// back are due at once.
//
// A dispatch is published once. Once it is older than the confirm timeout, each executor publishes
// it again every reconcile interval.
//
// These bounds limit the transitions of one execution: three for each dispatch, two for each
// fruitless claim, and its end.
//
// In a minute, a process makes the statements of its loops, one pass more of each than fits, and
// statementsAnEvent for each event of the run, because every message may wake it. A failed
// statement is repeated; held dead letters are retried with a backoff of their own.
const (
	// statementsAnEvent is the number of statements of the passes that one event of the run can
	// wake.
	statementsAnEvent = 8
	// workWindow is the time over which statements are counted and then judged.
	workWindow = time.Minute
	// raceTime is the longest time from an executor's look at the workers until it gives back what
	// it claimed then, if nothing slows its calls down.
	raceTime = 100 * time.Millisecond
)

// budget counts the effort for one execution that is not terminal. It is part of the execution's
// life.
type budget struct {
	looks, takeBacks, expired int64
	firstLook, firstTakeBack  time.Duration
	firstExpired              time.Duration
	// changes is the number of changes of the fleet before the first dispatch of the execution.
	changes int64
	// published counts the messages of the present dispatch.
	published int64
}

type workChecker struct {
	roster
	i         *Invariant
	executors map[string]bool // that schedule
	// scheduled is the executor that last scheduled.
	scheduled string
	runtimes  int64 // the greatest number that one worker offers

	dispatches, changes, races int64
	// spoilt counts the executions that one executor may have claimed before it knew of a change of
	// the fleet.
	spoilt int64
	// taken are the dispatches of the last raceTime, the earliest first.
	taken  []taken
	faults int
	// faultOver is when the last fault ended; forwards is how far the database's clock has been set
	// forwards.
	faultOver time.Duration
	forwards  time.Duration

	// The present window: its start, the number of events before it, and each process's number of
	// statements before it.
	window     time.Duration
	before     int64
	struck     bool // a fault lasted in it
	statements map[string]uint64
	// left is what the loops may have left in place at its start, ended counts the executions that
	// ended in it.
	left  left
	ended int64

	// lookers follow the executors' looks; see i18_passes.go. nextOverdue is when they are next
	// checked.
	lookers     []*Looker
	nextOverdue time.Duration

	// For i18_tests.go: the tests of the dead letter path by executor, the time of the last
	// unreadable message, and the executions whose end was handled a moment ago, the earliest
	// first.
	tests   map[string]*canaries
	unread  trouble
	handled dense.Table[execution.ID, bool]
	recent  queue[watched]
}

// taken is a dispatch that took room from the other executors.
type taken struct {
	at          time.Duration
	incarnation execution.Incarnation
	by          string
	// losers are the executors of which it has explained a fruitless claim.
	losers []string
}

// Work counts the statements of each process since the start. Only the simulated world implements
// it.
type Work interface {
	// Statements calls visit for each process in a fixed order; worker tells workers from
	// executors.
	Statements(visit func(process string, worker bool, made uint64))
}

// SetWork sets the source of statement counts. Without it they are not judged.
func (s *Suite) SetWork(w Work) { s.work = w }

// Spins records that a process took steps without time moving: the run made steps at one moment,
// but only bound are allowed. It returns false if this invariant is not judged.
func (s *Suite) Spins(who string, steps, bound uint64) (judged bool) {
	for _, c := range s.checkers {
		if w, ok := c.(*workChecker); ok {
			s.judged(w.i)
			s.violate(w.i, 0, "%s spins without time moving: the run made %d steps at one moment; the bound is %d (a fixed number and some for each open execution)", who, steps, bound)
			judged = true
		}
	}
	return judged
}

// hears implements selective.
func (c *workChecker) hears() []history.Kind {
	return []history.Kind{
		history.Delivered, history.FaultBegan, history.FaultEnded, history.ClockStepped, history.WorkerRegistered,
		history.WorkerLifecycle, history.WorkerCordoned, history.HealthReported, history.HeartbeatRenewed,
		history.ProcessStarted, history.ProcessPaused, history.ProcessFrozen, history.ProcessResumed, history.ProcessThawed,
		history.DeadLetterStored, history.StaleWrite, history.Orchestrated, history.Published, history.Transition,
	}
}

func (c *workChecker) timed() {}

func (c *workChecker) observe(e *history.Event, l *life) {
	c.hear(e)
	c.count(e)
	c.overdue(e.At)
	c.s.wake(min(c.window+workWindow, c.nextOverdue))
	switch e.Kind {
	case history.Delivered:
		if e.Queue == broker.QueueRequested || e.Count > 0 {
			c.hinted(e)
		}
	case history.FaultBegan:
		c.faults++
		c.struck = true
		c.changed()
	case history.FaultEnded:
		c.faults--
		c.faultOver = e.At
		c.changed()
	case history.ClockStepped:
		c.forwards += max(0, e.Due)
	case history.WorkerRegistered:
		c.changed()
		c.runtimes = max(c.runtimes, int64(len(c.byIncarnation.Get(e.Incarnation).runtimes)))
	case history.WorkerLifecycle, history.WorkerCordoned, history.HealthReported:
		c.changed()
	case history.ProcessStarted:
		delete(c.tests, e.Process)
	case history.ProcessPaused, history.ProcessFrozen:
		c.looker(e.Process, (*Looker).stands, e.At)
	case history.ProcessResumed, history.ProcessThawed:
		c.looker(e.Process, (*Looker).resumes, e.At)
	case history.DeadLetterStored:
		c.unread.strike(e.At)
	case history.StaleWrite:
		c.refused(e, l)
	case history.Orchestrated:
		c.handles(e)
	case history.Published:
		if isCanary(e) {
			c.canary(e)
		}
		if l != nil && l.status == execution.Scheduled && e.Epoch == l.epoch {
			c.published(e, l)
		}
	case history.Transition:
		c.transition(e, l)
	case history.HeartbeatRenewed:
		// The roster has handled it.
	default:
	}
}

// looker calls of with the Looker of a process, if there is one.
func (c *workChecker) looker(process string, of func(*Looker, time.Duration), at time.Duration) {
	if i := slices.IndexFunc(c.lookers, func(k *Looker) bool { return k.process == process }); i >= 0 {
		of(c.lookers[i], at)
	}
}

func (c *workChecker) transition(e *history.Event, l *life) {
	if e.By == execution.Scheduler {
		c.schedules(e.Process)
	}
	switch {
	case l == nil:
	case oracle.Terminal(e.To):
		l.effort = budget{}
		c.ended++
	case e.From == execution.Scheduling && e.To == execution.Requested && e.By == execution.Scheduler:
		c.looked(e, l)
	case e.From == execution.Scheduling && e.To == execution.Requested:
		c.claimExpired(e, l)
	case e.To == execution.Scheduled:
		c.dispatches++
		c.takes(e)
		b := &l.effort
		b.published = 0
		if b.takeBacks == 0 {
			b.changes = c.changes
		}
	case e.From == execution.Scheduled && e.To == execution.Requested:
		c.takenBack(e, l)
	}
}

// schedules notes that an executor schedules. It is nearly always the same executor as last time.
func (c *workChecker) schedules(executor string) {
	if executor != c.scheduled {
		c.scheduled = executor
		c.executors[executor] = true
	}
}

// changed notes a change of the fleet. Every executor may have decided on its old view, for up to
// one batch of the executions open at that moment.
func (c *workChecker) changed() {
	c.changes++
	c.spoilt += int64(min(c.s.config.Executor.BatchSize, c.s.lives.Len()))
}

// hindered says that a fault lasts, or ended so recently that its effects may last.
func (c *workChecker) hindered(at time.Duration) bool {
	return c.faults > 0 || c.faultOver > 0 && at-c.faultOver < c.s.bounds.Claim+oracle.Lease(&c.s.config.Worker)
}

// since is the time between two moments, by the faster of the two clocks.
func (c *workChecker) since(from, at time.Duration) time.Duration { return at - from + c.forwards }

// looked judges one fruitless claim.
func (c *workChecker) looked(e *history.Event, l *life) {
	c.s.judged(c.i)
	b, x := &l.effort, c.s.config.Executor
	n := int64(max(1, len(c.executors)))
	// Another executor may have taken the room that this one claimed for. While a fault acts, the
	// number of such races has no bound of its own.
	if fits := c.fits(l, e.At, c.s.bounds.Slack) || c.outrun(e, l); fits && c.hindered(e.At) {
		return
	} else if fits {
		c.races++
		bound := c.dispatches*(n*c.runtimes-1) + n*(c.spoilt+1)
		if c.races > bound {
			c.s.violate(c.i, e.Execution,
				"execution %d was claimed for scheduling and given back by %s although a fitting worker was only full: %d such claims in this run; the bound is %d (%d dispatches × (%d executors × %d runtimes − 1) + %d executors × %d executions that were open when the fleet changed, at most a batch each time)",
				e.Execution, e.Process, c.races, bound, c.dispatches, n, c.runtimes, n, c.spoilt+1)
		}
		return
	}
	if b.looks++; b.looks == 1 {
		b.firstLook = e.At
	}
	elapsed := c.since(b.firstLook, e.At)
	if bound := 2 + n + int64(elapsed/x.ReconcileInterval); b.looks > bound+c.changes-b.changes {
		c.s.violate(c.i, e.Execution,
			"execution %d was claimed for scheduling and given back %d times within %v; the bound is %d (2 + %d executors + elapsed / reconcile_interval %v) plus %d for changes of the fleet",
			e.Execution, b.looks, elapsed, bound, n, x.ReconcileInterval, c.changes-b.changes)
	}
}

// takes notes a dispatch.
func (c *workChecker) takes(e *history.Event) {
	c.forget(e.At)
	c.taken = append(c.taken, taken{at: e.At, incarnation: e.Incarnation, by: e.Process})
}

// forget drops the dispatches that explain no fruitless claim any more.
func (c *workChecker) forget(now time.Duration) {
	for len(c.taken) > 0 && now-c.taken[0].at > raceTime {
		c.taken = c.taken[1:]
	}
}

// outrun says that another executor has just dispatched something to a worker that could be given
// the execution, and that this dispatch has explained no other fruitless claim of the same executor.
func (c *workChecker) outrun(e *history.Event, l *life) bool {
	c.forget(e.At)
	now := c.s.database(e.At)
	i := slices.IndexFunc(c.taken, func(t taken) bool {
		w := c.byIncarnation.Get(t.incarnation)
		return t.by != e.Process && !slices.Contains(t.losers, e.Process) &&
			w != nil && (l.pinned == 0 || l.pinned == w.worker) && w.offers(l.runtime, now)
	})
	if i < 0 {
		return false
	}
	c.taken[i].losers = append(c.taken[i].losers, e.Process)
	return true
}

func (c *workChecker) claimExpired(e *history.Event, l *life) {
	c.s.judged(c.i)
	b, x := &l.effort, c.s.config.Executor
	if b.expired++; b.expired == 1 {
		b.firstExpired = e.At
	}
	elapsed := c.since(b.firstExpired, e.At)
	if bound := 2 + int64(elapsed/x.ClaimExpiry); b.expired > bound {
		c.s.violate(c.i, e.Execution, "the scheduling claim of execution %d expired %d times within %v; the bound is %d (2 + elapsed / claim_expiry %v)",
			e.Execution, b.expired, elapsed, bound, x.ClaimExpiry)
	}
}

func (c *workChecker) takenBack(e *history.Event, l *life) {
	c.s.judged(c.i)
	b := &l.effort
	if b.takeBacks++; b.takeBacks == 1 {
		b.firstTakeBack = e.At
	}
	elapsed := c.since(b.firstTakeBack, e.At)
	if bound := 2 + backoffsWithin(c.s.backoffs, elapsed); b.takeBacks > bound+c.changes-b.changes {
		c.s.violate(c.i, e.Execution, "dispatches of execution %d were taken back %d times within %v; the bound is %d (2 + the number of shortest backoffs that fit) plus %d for changes of the fleet",
			e.Execution, b.takeBacks, elapsed, bound, c.changes-b.changes)
	}
}

// backoffsWithin counts how many consecutive shortest backoffs fit into a time.
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

// published judges one message of a dispatch.
func (c *workChecker) published(e *history.Event, l *life) {
	c.s.judged(c.i)
	c.schedules(e.Process)
	b, x := &l.effort, c.s.config.Executor
	b.published++
	age, n := c.since(l.entered, e.At), int64(max(1, len(c.executors)))
	bound := int64(1)
	if age >= x.ConfirmTimeout {
		bound += n * (2 + int64((age-x.ConfirmTimeout)/x.ReconcileInterval))
	}
	if b.published > bound {
		c.s.violate(c.i, e.Execution, "epoch %d of execution %d was published %d times within %v; the bound is %d (1, and from confirm_timeout %v on one more per reconcile_interval %v for each of %d executors)",
			e.Epoch, e.Execution, b.published, age, bound, x.ConfirmTimeout, x.ReconcileInterval, n)
	}
}

// count judges the statements of each process once per window.
func (c *workChecker) count(e *history.Event) {
	took := e.At - c.window
	if took < workWindow {
		return
	}
	if c.s.work == nil {
		c.window = e.At
		return
	}
	events := c.s.events - c.before
	was, now := c.left, c.lying()
	c.left = left{max(was.unsettled, now.unsettled) + c.ended, max(was.late, now.late) + c.ended}
	c.s.work.Statements(func(process string, worker bool, made uint64) {
		statements := int64(made - c.statements[process])
		c.statements[process] = made
		c.s.judged(c.i)
		if bound := c.statementBound(worker, took, events); statements > bound {
			c.s.violate(c.i, 0, "%s made %d database statements within %v, while the run had %d events; the bound is %d (the passes of its loops, one more of each, and %d per event)",
				process, statements, took, events, bound, statementsAnEvent)
		}
	})
	c.window, c.before, c.struck = e.At, c.s.events, c.faults > 0
	c.left, c.ended = now, 0
}

// left counts the rows that a loop may find at each of its passes and leave in place. The pass
// reads on beyond them, a batch at a time.
type left struct {
	// unsettled are the ends that nobody has handled, and the children that wait although the end
	// of their parent's chain was handled. While writes fail but the database answers, a pass tries
	// all of them.
	unsettled int64
	// late are the runs from before a step of the database's clock. By that clock their time may be
	// over; by an executor's own clock it isn't.
	late int64
}

// lying counts them.
func (c *workChecker) lying() (n left) {
	for _, l := range c.s.lives.All() {
		if l.orphan || oracle.Terminal(l.status) && !l.orchestrated {
			n.unsettled++
		}
		if c.forwards > 0 && oracle.Claimed(l.status) && l.entered <= c.s.stepped {
			n.late++
		}
	}
	return n
}

// statementBound is the greatest number of statements of a process in a window with so many events.
func (c *workChecker) statementBound(worker bool, took time.Duration, events int64) (bound int64) {
	x := c.s.config.Executor
	batch := int64(max(1, x.BatchSize))
	loop := func(statements int64, interval time.Duration) {
		bound += statements * (int64(took/interval) + 2)
	}
	if worker {
		// A failed heartbeat is repeated within its interval.
		loop(4, c.s.config.Worker.HeartbeatInterval)
	} else {
		// The scheduler; the monitors of leases, claims, owners and cancellations; dispatches;
		// terminal executions.
		loop(10, x.ReconcileInterval)
		loop(4, x.TimeoutCheckInterval)
		// A monitor that only observes leaves what it has found where it is, so each pass reads on
		// beyond it, a batch at a time.
		if c.s.monitorObserves() {
			loop(2*int64(c.s.lives.Len())/batch, x.TimeoutCheckInterval)
		}
		// So do the timeout monitor and the monitor of owners with runs that only the database's
		// clock made late.
		loop(c.left.late/batch, x.TimeoutCheckInterval)
		loop(c.left.late/batch, x.ReconcileInterval)
		loop(4, x.FiguresInterval)
		loop(2, x.HealthCheckInterval)
		loop(6, time.Minute)
		if r := &c.s.config.Retention; r.Any() {
			// A step for each page of rows, and one that finds the end, for each kind.
			loop(keptKinds*(2+int64((c.s.lives.Len()+int(c.s.created))/max(1, r.StepSize))), r.Interval)
		}
		// While the brake lets one worker at a time through, the lease monitor looks every second.
		if c.struck {
			loop(2, time.Second)
		}
	}
	if c.struck {
		// After a fault, every statement may be repeated. Held messages are retried every 200 ms to
		// 10 s, fifty at a time.
		bound = 2*bound + 50*(6+int64(took/(10*time.Second)))
		if n := c.left.unsettled; !worker && n > 0 {
			// A batch that can't be written costs a look, the attempt, and a question whether the
			// database answers. Then each of its rows is tried alone, with the same question.
			loop(3*(n/batch), x.ReconcileInterval)
			if batch > 1 {
				loop(2*n, x.ReconcileInterval)
			}
		}
	}
	return bound + statementsAnEvent*events
}

func (c *workChecker) end(bool) {}
