// Package invariant holds the rules that every run must keep, whatever goes wrong: who may own an execution,
// what must never be lost, what must happen exactly once.
//
// Each invariant has a checker, in the file with its number. Checkers are incremental: they see every event
// once, in order, take constant time for it, and keep state only for live executions, messages and workers.
// So a sweep can stream its histories through them. They rely on evidence (rows, messages, runs) and not on
// the core's reports.
//
// An invariant lists the kinds of events that it needs. For a history without these it counts as not judged,
// and not as kept.
package invariant

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// Invariant is a rule for every run.
type Invariant struct {
	Number int
	Name   string
	// Statement is the rule in short sentences, each with one idea; reports print it.
	Statement string
	// Needs lists the kinds of events without which the rule can't be judged.
	Needs []history.Kind
	// Whole lists the kinds of events without which only a part of the rule is judged. Part describes it.
	Whole []history.Kind
	Part  string
	// Across reports whether the rule compares or counts executions. Such a rule can't be judged if a single
	// execution has unknown events.
	Across bool
	// Conduct reports whether the rule is about how this executor and these workers behave: punctual, frugal, candid.
	// The other rules are about safety. History and oracle alone show a breach of them, and any executor must
	// keep them.
	Conduct bool
	// Unconfigured reports whether no bound of the rule depends on the configuration, so the rule can be
	// judged where the configuration is unknown.
	Unconfigured bool
	// make creates the rule's checker for a suite.
	make func(*Suite) checker
}

// checker judges one rule on one run.
type checker interface {
	// observeEvent observes one event. l is the state of its execution before the event, nil if the event is
	// not about an execution or is about a finished execution.
	observeEvent(e *history.Event, l *life)
	// endRun is called once, after the last event. settled reports whether the run ended because nothing was
	// left to do.
	endRun(settled bool)
}

// selectiveChecker is a checker that observes only some kinds of events, and need not detect that time passes
// between them. Most events are of a few frequent kinds, and a suite spends most of its time passing them to
// checkers.
type selectiveChecker interface {
	checker
	// observedKinds lists the kinds of events that the checker observes.
	observedKinds() []history.Kind
}

// timedChecker is a selective checker that also checks conditions at certain times. It sets each time with
// Suite.wakeAt. It then observes the first event at or after that time, whatever the event's kind. It also
// observes the first event of the run.
type timedChecker interface {
	selectiveChecker
	isTimedChecker()
}

// besidesMessages lists all kinds of events except the most common message events, for rules about rows,
// processes and actions.
var besidesMessages = sync.OnceValue(func() []history.Kind { //detlint:ok it is always the same
	kinds := make([]history.Kind, 0, history.Kinds)
	for k := range history.Kind(history.Kinds) {
		switch k {
		case history.Published, history.PublishedMarked, history.Enqueued, history.Delivered, history.Acked, history.Hinted:
		default:
			kinds = append(kinds, k)
		}
	}
	return kinds
})

// besidesRuns lists the kinds in besidesMessages without creations, starts and ends of actions, for rules
// about processes and about the ends of executions.
var besidesRuns = sync.OnceValue(func() []history.Kind { //detlint:ok it is always the same
	return slices.DeleteFunc(slices.Clone(besidesMessages()), func(k history.Kind) bool {
		return k == history.Created || k == history.ActionStarted || k == history.ActionEnded
	})
})

// Finding is a violation of a rule, as its checker records it.
type Finding struct {
	Invariant *Invariant
	Execution execution.ID
	Step      uint64
	At        time.Duration
	Message   string
}

// Count is the number of invariants, and Last the highest number of an invariant. They are numbered from 1.
// Number 31 is unused: its rule was about pure functions of the core, which
// chaos/selftest/conformance/policytest tests now.
const (
	Count = 31
	Last  = 32
)

// All returns every invariant, by number. Each call returns the same elements in a new slice.
func All() []*Invariant {
	list := every()
	return list[:]
}

var (
	every = sync.OnceValue(newInvariants)             //detlint:ok they are always the same
	table = sync.OnceValue(oracle.NewTransitionTable) //detlint:ok it is always the same
)

// newInvariants returns the invariants by number. If Count is not their number, it does not compile.
func newInvariants() [Count]*Invariant {
	return [...]*Invariant{
		legalTransitions(), statusOwnership(), epochFencing(), singleRun(), nothingLost(), messageConservation(),
		orchestrationOnce(), boundedRetries(), workPlacement(), gracefulStop(), concurrencyLimits(), timelyDetection(), ownResult(), drainedQueues(),
		expectedAlerts(), acceptedOnce(), explainedEnds(), boundedEffort(), ownLimits(), promptStarts(), inService(), withinCapacity(), awayServers(), leftLying(),
		handedOn(), promptWakes(), cancelledAtOnce(), ownReaping(), reportedFailures(), givenBack(), timelyRetention(),
	}
}

// InPart reports whether only a part of the rule is judged on a history with only these kinds of events. nil
// means all kinds.
func (i *Invariant) InPart(kinds []history.Kind) bool {
	return kinds != nil && slices.ContainsFunc(i.Whole, func(k history.Kind) bool { return !slices.Contains(kinds, k) })
}

// ByNumber returns an invariant by its number, nil if there is none.
func ByNumber(n int) *Invariant {
	for _, i := range All() {
		if i.Number == n {
			return i
		}
	}
	return nil
}

// Suite judges one run. It implements history.Sink.
type Suite struct {
	config config.Config
	bounds Bounds
	// calmBounds holds the bounds for undisturbed executors and servers.
	calmBounds  Bounds
	transitions *oracle.TransitionTable
	backoffs    *oracle.Backoffs
	checkers    []checker
	// heard holds, for each kind of event, a bit set of the indices in checkers of those that observe it.
	heard [history.Kinds]uint64
	// timed is the bit set of the timed checkers. wakes holds each checker's next time by its index, and next
	// is the earliest of these times.
	timed uint64
	wakes [64]time.Duration
	next  time.Duration
	// observing is the index of the checker that is observing an event now, negative for none.
	observing int
	// events counts the events that checkers have observed.
	events   int64
	findings []Finding
	// broken holds the invariants that have a finding. Their later findings are ignored.
	broken map[*Invariant]bool
	// each holds the executions about which each invariant has a finding; nil if only an invariant's first
	// finding counts.
	each map[foundAbout]bool
	// occasions counts how often each invariant was judged, by its number less one; see Judged.
	occasions [Last]uint64

	lives   dense.Table[execution.ID, *life]
	workers dense.Table[execution.Incarnation, *session]
	// registered holds each worker's incarnations in the order of their registration. After a rewind, numbers
	// may repeat.
	registered dense.Table[execution.WorkerID, []execution.Incarnation]
	// started is when each process last started.
	started map[string]time.Duration
	free    []*life
	now     history.Event
	created execution.ID
	// cancelled holds the chains that have not ended and whose cancellation was requested. ended holds the
	// final status of ended chains.
	cancelled map[execution.ID]bool
	ended     finalStatuses
	// endsHandled counts the ends that executors have handled.
	endsHandled int
	// actions holds the names of the actions so far, and actionAt the index of each name.
	actions  []string
	actionAt map[string]uint16
	orphans  orphans
	// hindrances records the faults that could hinder an executor.
	hindrances hindranceLog
	roads      roads
	fleet      *fleet
	// ledger records the causes that affected each process, for rules about unhindered processes.
	ledger *ledger
	alerts Alerts
	work   Work
	// clock returns the present step and time; nil if the world has no clock.
	clock func() (step uint64, at time.Duration)
	// skew is the sum of all steps of the database's clock since the start.
	skew time.Duration
	// lockedRows is how many rows are locked by another program's session.
	lockedRows int
	// latest is the latest time that the database's clock had shown when it was moved. setBack is when it
	// will show that time again; until then its times are too early. Several backward steps add up. stepped
	// is when it was last moved.
	latest   time.Duration
	setBack  time.Duration
	stepped  time.Duration
	back     stepBack
	patience time.Duration
	// tolerance is how much a decision may seem to come before its lawful time.
	tolerance time.Duration
	// requested returns the action with the limits that apply to the execution created under an idempotency
	// key. It is nil if requests are unknown.
	requested func(key string) (execution.Action, bool)
	// holds lists the kinds of events that the history records whenever they happen; nil for all.
	holds []history.Kind
	// called reports whether workers' calls are reported to a suite that judges after a loss.
	called   bool
	excluded excludedHistory
	rewindState
}

// New returns a suite of the invariants in only, or of all if it is nil.
func New(c config.Config, only []int) *Suite {
	s := &Suite{
		config: c, bounds: BoundsOf(c), calmBounds: boundsOf(c, callTime), transitions: table(), backoffs: oracle.NewBackoffs(&c.Retry), broken: make(map[*Invariant]bool),
		cancelled: make(map[execution.ID]bool), started: make(map[string]time.Duration),
		ended: make(finalStatuses), actionAt: make(map[string]uint16),
		roads: newRoads(), fleet: newFleet(c), ledger: newLedger(), tolerance: clockTolerance,
		orphans:     orphans{waiting: make(map[execution.ID][]execution.ID), settling: make(map[execution.ID]int)},
		rewindState: rewindState{only: only}, observing: -1,
	}
	for _, i := range every() {
		if isWanted(only, i.Number) {
			s.addChecker(i.make(s))
		}
	}
	return s
}

// wakeAt makes the suite call the observing checker at the first event at or after at. If no checker is
// observing, the caller is unknown, so the call applies to all timed checkers.
func (s *Suite) wakeAt(at time.Duration) {
	s.next = min(s.next, at)
	if s.observing >= 0 {
		s.wakes[s.observing] = min(s.wakes[s.observing], at)
		return
	}
	for i := range s.wakes {
		s.wakes[i] = min(s.wakes[i], at)
	}
}

// dueCheckers returns a bit for each timed checker whose time has come. Such a checker must set a new time if
// it needs one.
func (s *Suite) dueCheckers(at time.Duration) (due uint64) {
	s.next = never
	for of := s.timed; of != 0; of &= of - 1 {
		i := bits.TrailingZeros64(of)
		if s.wakes[i] <= at {
			due |= 1 << i
			s.wakes[i] = never
		}
		s.next = min(s.next, s.wakes[i])
	}
	return due
}

func (s *Suite) addChecker(c checker) {
	bit := uint64(1) << len(s.checkers)
	s.checkers = append(s.checkers, c)
	if of, ok := c.(selectiveChecker); ok {
		for _, k := range of.observedKinds() {
			s.heard[k] |= bit
		}
		if _, ok := c.(timedChecker); ok {
			s.timed |= bit
		}
		return
	}
	for k := range s.heard {
		s.heard[k] |= bit
	}
}

func isWanted(only []int, n int) bool {
	if only == nil {
		return true
	}
	for _, o := range only {
		if o == n {
			return true
		}
	}
	return false
}

// SetClock sets the source of a finding's step and time. Without it, a finding about a call or a log line
// gets the step and time of the previous event. The clock must not be behind the last event.
func (s *Suite) SetClock(now func() (step uint64, at time.Duration)) { s.clock = now }

// SetPatience sets the age from which an unfinished execution counts as stuck, for a history that was cut off
// during work. Zero, the default, is for a history that ended because nothing was left to do.
func (s *Suite) SetPatience(d time.Duration) { s.patience = d }

// databaseTime returns the time that the database's clock shows at the run's time at.
func (s *Suite) databaseTime(at time.Duration) time.Duration { return at + s.skew }

// SetTolerance sets how far an event's time may differ from the time at which the core decided. The default
// is for a history in which both are equal. A real database's triggers fire a little later.
func (s *Suite) SetTolerance(d time.Duration) {
	s.tolerance = d
	s.calmBounds = boundsOf(s.config, s.promptBound())
}

// SetEvidence sets the kinds of events that the history records whenever they happen; the default
// is all. It determines which invariants are judged only in part (see Invariant.InPart).
func (s *Suite) SetEvidence(kinds []history.Kind) { s.holds = kinds }

// recordsKind reports whether the history records a kind of event whenever it happens.
func (s *Suite) recordsKind(kind history.Kind) bool {
	return s.holds == nil || slices.Contains(s.holds, kind)
}

// SetRequests sets the function that looks up requests by idempotency key. It returns the action with the
// limits that apply to the execution, and whether the key is known. By default no key is known.
func (s *Suite) SetRequests(requested func(key string) (execution.Action, bool)) {
	s.requested = requested
}

// Open returns the number of unfinished executions.
func (s *Suite) Open() int { return s.lives.Len() }

// isStuck reports whether a state that began at since should have changed by now.
func (s *Suite) isStuck(since time.Duration) bool {
	return s.patience == 0 || s.now.At-since > s.patience
}

// Findings returns the violations so far, at most one of each invariant; with EachExecution at most one
// of each invariant about each execution.
func (s *Suite) Findings() []Finding { return s.laterFindings() }

// Judged returns how often each invariant was judged so far; invariant n is at index n-1. It counts the
// occasions on which a condition of the rule was evaluated for something that could have broken it, such as a
// start of an action, a bad end, or a queue at the end of the run, whether or not it did. It does not count
// events that a checker only observed. If an event must meet several conditions that don't always apply, each
// condition that applies counts. Excused occasions don't count, and an invariant that is not in the suite has
// 0. Call it after End, because some rules judge only then. The caller owns the slice.
//
// Verdicts don't depend on it. Two runs of the same scenario with the same seed have the same counts, so if a
// count is smaller after a change to a checker, something is no longer judged.
func (s *Suite) Judged() []uint64 {
	n := slices.Clone(s.occasions[:])
	if s.over {
		for i, more := range s.later.Judged() {
			n[i] += more
		}
	}
	return n
}

// countOccasion counts one occasion on which an invariant was judged.
func (s *Suite) countOccasion(i *Invariant) {
	if !s.isSilent() {
		s.occasions[i.Number-1]++
	}
}

// Observe implements history.Sink.
func (s *Suite) Observe(e *history.Event) {
	s.now.At, s.now.Step = e.At, e.Step
	if !s.routeEvent(e) {
		return
	}
	if s.excluded.executions != nil {
		s.excludeRelated(e)
	}
	s.fleet.examineUntil(e.At)
	s.noteReadings(e)
	s.ledger.observeRelevant(e)
	var l *life
	if e.Execution != 0 {
		l = s.lives.Get(e.Execution)
	}
	of := s.heard[e.Kind]
	if e.At >= s.next {
		of |= s.dueCheckers(e.At)
	}
	s.events++
	for ; of != 0; of &= of - 1 {
		s.observing = bits.TrailingZeros64(of)
		s.checkers[s.observing].observeEvent(e, l)
	}
	s.observing = -1
	s.applyEvent(e, l)
}

// foundAbout identifies a finding by its rule and its execution.
type foundAbout struct {
	rule *Invariant
	id   execution.ID
}

// EachExecution makes the suite record each invariant's first finding about each execution, and not only its
// first finding. It helps to decide whether a certain execution fails even if another execution fails
// earlier. It must be called before the run, and before ExpectRewinds.
func (s *Suite) EachExecution() { s.each = make(map[foundAbout]bool) }

// isKnownFinding reports whether a finding is to be ignored because of an earlier finding.
func (s *Suite) isKnownFinding(i *Invariant, id execution.ID) bool {
	return s.broken[i] && (s.each == nil || s.each[foundAbout{i, id}])
}

// End judges the conditions that need the end of the history, and returns all findings. settled reports
// whether the run ended because nothing was left to do.
func (s *Suite) End(settled bool) []Finding {
	switch {
	case s.over:
		s.later.End(settled)
	case !s.waits:
		for _, c := range s.checkers {
			c.endRun(settled)
		}
	}
	return s.laterFindings()
}

// recordViolation records a finding unless its invariant already has one; with EachExecution, one about the
// same execution.
func (s *Suite) recordViolation(i *Invariant, id execution.ID, format string, args ...any) {
	if s.isKnownFinding(i, id) || s.isSilent() || s.isExcluded(i, id) {
		return
	}
	s.broken[i] = true
	if s.each != nil {
		s.each[foundAbout{i, id}] = true
	}
	step, at := s.now.Step, s.now.At
	if s.clock != nil {
		step, at = s.clock()
	}
	s.findings = append(s.findings, Finding{Invariant: i, Execution: id, Step: step, At: at, Message: fmt.Sprintf(format, roundDurations(args)...)})
}

// roundDurations rounds the durations among args to the millisecond, or to the microsecond below a second,
// for readability. If two different durations would look alike, as 8s and 7.999999999s, it rounds none,
// because their difference is the point of the message.
func roundDurations(args []any) []any {
	out := slices.Clone(args)
	exact := make(map[time.Duration]time.Duration)
	for i, arg := range args {
		d, ok := arg.(time.Duration)
		if !ok {
			continue
		}
		short := d.Round(time.Millisecond)
		if d.Abs() < time.Second {
			short = d.Round(time.Microsecond)
		}
		if other, taken := exact[short]; taken && other != d {
			return args
		}
		exact[short] = d
		out[i] = short
	}
	return out
}
