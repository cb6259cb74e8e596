// Package invariant says what must be true of every run, whatever goes wrong: who may own an
// execution, what may never be lost, what must happen once.
//
// Each invariant is one file with one checker. Checkers are incremental: they see every event once,
// in order, spend constant time on it, and keep only what is alive, so that a sweep can stream its
// histories through them. They read evidence, not claims: rows, messages, runs.
//
// An invariant states which kinds of events it needs. Where a history lacks them it is not judged,
// and says so, instead of passing.
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

// Invariant is one rule.
type Invariant struct {
	Number int
	Name   string
	// Statement is the rule in one sentence; reports print it.
	Statement string
	// Needs are the kinds of events without which the rule can't be judged.
	Needs []history.Kind
	// Whole are the kinds of events without which only a part of the rule is judged; Part says which part.
	Whole []history.Kind
	Part  string
	// Across says that the rule compares executions, or counts them: one of which something is not known makes it worthless.
	Across bool
	// Bounds says that the rule is about time and needs the configuration.
	make func(*Suite) checker
}

// checker judges one rule over one run.
type checker interface {
	// observe sees one event. l is what is known of its execution before the event, nil where the
	// event is about none or about one that is finished.
	observe(e *history.Event, l *life)
	// end is called once, after the last event. settled says that the run ended because nothing was
	// left to do.
	end(settled bool)
}

// selective is a checker that does nothing at events of other kinds than it hears: it counts no time between them. Most
// events are of a few frequent kinds, so that a suite spends most of its time on handing them out.
type selective interface {
	checker
	// hears are the kinds of events that the checker observes.
	hears() []history.Kind
}

// timed is a selective checker that looks at things when their time has come, at whatever event is next then: before that
// event it is called as if it heard it. It says when by Suite.wake, for each time anew. It is first called at the first event.
type timed interface {
	selective
	timed()
}

// besidesMessages are all kinds of events but the most common ones of messages, which a rule about rows, processes and
// actions has no use for.
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

// besidesRuns are those but the ones of single executions that are neither transitions nor handled ends, for rules about
// processes and about how executions end.
var besidesRuns = sync.OnceValue(func() []history.Kind { //detlint:ok it is always the same
	return slices.DeleteFunc(slices.Clone(besidesMessages()), func(k history.Kind) bool {
		return k == history.Created || k == history.ActionStarted || k == history.ActionEnded
	})
})

// Finding is a violation as a checker sees it.
type Finding struct {
	Invariant *Invariant
	Execution execution.ID
	Step      uint64
	At        time.Duration
	Message   string
}

// Count is the number of invariants; they are numbered from 1 without gaps.
const Count = 31

// All lists every invariant, by number. They are the same at each call; the caller owns the slice.
func All() []*Invariant {
	list := every()
	return list[:]
}

var (
	every = sync.OnceValue(all)           //detlint:ok they are always the same
	law   = sync.OnceValue(oracle.NewLaw) //detlint:ok it is always the same
)

// all does not compile while Count is not the number of the last one.
func all() [Count]*Invariant {
	return [...]*Invariant{
		legalTransitions(), ownership(), fencing(), singleRun(), nothingLost(), messageConservation(),
		orchestrationOnce(), boundedRetries(), placement(), gracefulStop(), concurrency(), detection(), ownResult(), drained(),
		alerting(), acceptedOnce(), earned(), work(), ownLimits(), started(), inService(), capacity(), awayServers(), leftLying(),
		handedOn(), wakes(), cancelledAtOnce(), ownReaping(), told(), givenBack(), contractInForce(),
	}
}

// InPart says whether only a part of the rule is judged on a history of only these kinds of events; nil stands for
// all kinds.
func (i *Invariant) InPart(kinds []history.Kind) bool {
	return kinds != nil && slices.ContainsFunc(i.Whole, func(k history.Kind) bool { return !slices.Contains(kinds, k) })
}

// ByNumber returns an invariant, nil if there is none of that number.
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
	// calmBounds are those for executors and servers with which nothing is wrong.
	calmBounds  Bounds
	transitions *oracle.Law
	backoffs    *oracle.Backoffs
	checkers    []checker
	// heard are, for each kind of event, the checkers that observe it: one bit for each, by its place in checkers.
	heard [history.Kinds]uint64
	// timed are those that wait for a moment, wakes these moments, by their places, and next the first of them.
	timed uint64
	wakes [64]time.Duration
	next  time.Duration
	// observing is the place of the checker that observes, negative for none.
	observing int
	// events counts those that the checkers were shown.
	events   int64
	findings []Finding
	// stopped is set at the first finding of each invariant: what follows a broken rule is noise.
	broken map[*Invariant]bool
	// occasions counts, for each invariant, how often it has judged something; see Judged.
	occasions [Count]uint64

	lives   dense.Table[execution.ID, *life]
	workers dense.Table[execution.Incarnation, *session]
	// started is when each process was started last.
	started map[string]time.Duration
	free    []*life
	now     history.Event
	created execution.ID
	// cancelled are the chains that are not at their end and whose cancellation was requested; ended says how
	// the others have ended.
	cancelled map[execution.ID]bool
	ended     ends
	// actions are the names of the actions so far, actionAt the place of each.
	actions  []string
	actionAt map[string]uint16
	orphans  orphans
	// chains counts the rows of a chain that are alive.
	calm  calm
	roads roads
	fleet *fleet
	// ledger is what has struck which process, for rules that demand something of whom nothing hinders.
	ledger *ledger
	alerts Alerts
	work   Work
	// clock tells the present step and moment, if the world has one.
	clock func() (step uint64, at time.Duration)
	// retired is when a worker had been gone for the retention of its queues last.
	retired time.Duration
	// skew is how far the database's clock has been moved since the start.
	skew time.Duration
	// latest is the latest moment that clock has shown before it was moved, setBack when it shows that again: until then
	// what it tells is late. Several steps back add up. stepped is when it was moved last.
	latest   time.Duration
	setBack  time.Duration
	stepped  time.Duration
	patience time.Duration
	// tolerance is how much earlier than its bound a decision may seem to come.
	tolerance time.Duration
	// requested says what counts for the execution that is created under an idempotency key; nil if nobody knows.
	requested func(key string) (execution.Action, bool)
	// holds are the kinds of events that the history records whenever they happen; nil for all.
	holds []history.Kind
	aside aside
	rewinding
}

// New returns a suite of the invariants in only, or of all when it is nil.
func New(c config.Config, only []int) *Suite {
	s := &Suite{
		config: c, bounds: BoundsOf(c), calmBounds: boundsOf(c, callTime), transitions: law(), backoffs: oracle.NewBackoffs(&c.Retry), broken: make(map[*Invariant]bool),
		cancelled: make(map[execution.ID]bool), started: make(map[string]time.Duration),
		ended: make(ends), actionAt: make(map[string]uint16),
		roads: newRoads(), fleet: newFleet(c), ledger: newLedger(), tolerance: clockTolerance,
		orphans:   orphans{waiting: make(map[execution.ID][]execution.ID), settling: make(map[execution.ID]int)},
		rewinding: rewinding{only: only}, observing: -1,
	}
	for _, i := range every() {
		if wanted(only, i.Number) {
			s.add(i.make(s))
		}
	}
	return s
}

// wake has the timed checker that observes called at the first event from a moment on. What is said when none observes
// concerns all timed checkers, because nobody knows whose it is.
func (s *Suite) wake(at time.Duration) {
	s.next = min(s.next, at)
	if s.observing >= 0 {
		s.wakes[s.observing] = min(s.wakes[s.observing], at)
		return
	}
	for i := range s.wakes {
		s.wakes[i] = min(s.wakes[i], at)
	}
}

// woken are the timed checkers whose time has come. Whoever still waits then says so again.
func (s *Suite) woken(at time.Duration) (due uint64) {
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

func (s *Suite) add(c checker) {
	bit := uint64(1) << len(s.checkers)
	s.checkers = append(s.checkers, c)
	if of, ok := c.(selective); ok {
		for _, k := range of.hears() {
			s.heard[k] |= bit
		}
		if _, ok := c.(timed); ok {
			s.timed |= bit
		}
		return
	}
	for k := range s.heard {
		s.heard[k] |= bit
	}
}

func wanted(only []int, n int) bool {
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

// SetClock says how to ask for the step and the moment of a finding. Without it a finding that a call or a line has shown
// is dated by the event before. It must not be behind the last event.
func (s *Suite) SetClock(now func() (step uint64, at time.Duration)) { s.clock = now }

// SetPatience says how old something unfinished must be to count as stuck, in a history that was cut off while
// work was going on. Zero, the default, is for one that ended when nothing was left to do.
func (s *Suite) SetPatience(d time.Duration) { s.patience = d }

// database is what the database's clock shows at a moment of the run.
func (s *Suite) database(at time.Duration) time.Duration { return at + s.skew }

// SetTolerance says how far the moment of an event may lie from the one at which it was judged. The default is
// for a history whose events carry just that moment; a real database's triggers fire a little later.
func (s *Suite) SetTolerance(d time.Duration) {
	s.tolerance = d
	s.calmBounds = boundsOf(s.config, s.prompt())
}

// SetEvidence says which kinds of events the history records whenever they happen; the default is all. Invariants
// that can be judged in part (see Invariant.InPart) depend on it.
func (s *Suite) SetEvidence(kinds []history.Kind) { s.holds = kinds }

// records says whether the history records that kind of event whenever it happens.
func (s *Suite) records(kind history.Kind) bool {
	return s.holds == nil || slices.Contains(s.holds, kind)
}

// SetRequests says how to look up what the request under an idempotency key asked for: the action as it counts for its
// execution, and whether the key is known. By default nobody knows.
func (s *Suite) SetRequests(requested func(key string) (execution.Action, bool)) {
	s.requested = requested
}

// Open is how many executions are not finished.
func (s *Suite) Open() int { return s.lives.Len() }

// stuck says whether something that has been as it is since then should have gone on.
func (s *Suite) stuck(since time.Duration) bool {
	return s.patience == 0 || s.now.At-since > s.patience
}

// Findings are the violations so far, at most one of each invariant.
func (s *Suite) Findings() []Finding { return s.laterFindings() }

// Judged tells how much each invariant has judged so far; the one of number n is at index n-1. It counts the occasions on
// which a condition of the rule was evaluated on something that could have broken it, kept or broken, and not the events
// that were looked at: a start of an action, a bad end, a queue at the end of the run. Where an event has to meet several
// conditions that do not always apply, each that does counts. What a checker excuses does not count, and an invariant that
// the suite was not asked to judge has 0. Call it after End, because some rules judge only then. The caller owns the slice.
//
// A verdict does not depend on it. Two runs of one scenario with one seed have the same counts, so a smaller count after a
// change to a checker means that something is no longer judged.
func (s *Suite) Judged() []uint64 {
	n := slices.Clone(s.occasions[:])
	if s.over {
		for i, more := range s.later.Judged() {
			n[i] += more
		}
	}
	return n
}

// judged counts one occasion on which an invariant was judged.
func (s *Suite) judged(i *Invariant) {
	if !s.silent() {
		s.occasions[i.Number-1]++
	}
}

// Observe implements history.Sink.
func (s *Suite) Observe(e *history.Event) {
	s.now.At, s.now.Step = e.At, e.Step
	if !s.passes(e) {
		return
	}
	if s.aside.executions != nil {
		s.spread(e)
	}
	s.fleet.pass(e.At)
	s.ledger.hear(e)
	var l *life
	if e.Execution != 0 {
		l = s.lives.Get(e.Execution)
	}
	of := s.heard[e.Kind]
	if e.At >= s.next {
		of |= s.woken(e.At)
	}
	s.events++
	for ; of != 0; of &= of - 1 {
		s.observing = bits.TrailingZeros64(of)
		s.checkers[s.observing].observe(e, l)
	}
	s.observing = -1
	s.learn(e, l)
}

// End judges what can only be judged when nothing more will come.
func (s *Suite) End(settled bool) []Finding {
	switch {
	case s.over:
		s.later.End(settled)
	case !s.waits:
		for _, c := range s.checkers {
			c.end(settled)
		}
	}
	return s.laterFindings()
}

// violate records a finding, the first one of its invariant.
func (s *Suite) violate(i *Invariant, id execution.ID, format string, args ...any) {
	if s.broken[i] || s.silent() || s.unjudged(i, id) {
		return
	}
	s.broken[i] = true
	step, at := s.now.Step, s.now.At
	if s.clock != nil {
		step, at = s.clock()
	}
	s.findings = append(s.findings, Finding{Invariant: i, Execution: id, Step: step, At: at, Message: fmt.Sprintf(format, args...)})
}
