// Package policies asks the core's tables and pure policies questions that may never come up in a
// run, and compares the answers with the contract's: which defaults are in force, which part may
// write which status, how long a backoff is, which worker gets the next execution, when a lease is
// over, with which settings a daemon may start, what a worker declares at the broker, how a message
// is written and read.
//
// A run rarely meets a bound exactly, once in a thousand times if ever: for example, that a worker
// has been full for exactly a quarter of the dispatch timeout. So each simulated run draws a few
// questions at the edges, and asks them beside the run. That takes no virtual time, changes
// nothing, and takes well under one percent of the run's real time. An answer that differs from the
// contract's violates invariant 31. The same questions are a property in
// chaos/selftest/conformance/policytest.
//
// This package may call the core, because it only compares. The right answers come from chaos/oracle
// alone, which is written from the documentation. Each report of a wrong answer names the page.
package policies

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/executor"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/worker"
)

// Core has the functions that are asked. A planted mutant replaces one of them.
type Core struct {
	Default  func(config.Profile) config.Config
	Validate func(config.Config) []config.Problem
	// Started returns the errors with which a daemon answers these settings on its command line.
	Started func(settings []config.Flag) []error

	May         func(by execution.Part, from, to execution.Status) bool
	Legal       func(from, to execution.Status) bool
	Claimed     func(execution.Status) bool
	Terminal    func(execution.Status) bool
	Retriable   func(execution.Reason) bool
	ParseStatus func(string) (execution.Status, error)
	ParseReason func(string) (execution.Reason, error)
	LimitsNamed func([]string, execution.Action) execution.Limits
	// ExitReason is the reason of an action that ended with this exit code and declares others.
	ExitReason func(code int, retried execution.ExitCodes) execution.Reason

	Backoff  func(r config.Retry, n int, draw func(uint64) uint64) time.Duration
	Brakes   func(x config.Executor, alive, over int) bool
	Roster   func(workers []store.WorkerRow, c config.Config, failed map[execution.Incarnation]int, draw func(uint64) uint64) executor.Asked
	Filled   func([]store.Demand, []int, []execution.Execution) (full bool, others int)
	Outage   func(c config.Config, now time.Duration) (answer func(time.Duration), recent func(now, d time.Duration) bool)
	Absences func(patience time.Duration) (look func(time.Duration, executor.Asked), of func(*execution.Execution) (least, most time.Duration))
	Leases   func(lease time.Duration) (look func(time.Duration, []store.WorkerRow), expected func(time.Duration, []store.WorkerRow, *execution.Execution) bool)
	Owners   func(h host.Host, lease time.Duration) (survey func([]store.WorkerRow), reaped func(execution.Incarnation), over func(*execution.Execution) bool)
	Brake    func(config.Config) (admit func(now time.Duration, over []store.Reap, alive int) []store.Reap)
	Lease    func(h host.Host, c config.Worker, granted time.Duration) (renew func(time.Duration) bool, deadline func() (fence, kill time.Duration), fence func() bool)

	Executors func(config.RabbitMQ) broker.Topology
	Workers   func(config.RabbitMQ, execution.WorkerID) broker.Topology
	Bounded   func(store.DeadLetter) store.DeadLetter

	Encode  func(*broker.Envelope) ([]byte, error)
	Decode  func(body []byte) (broker.Envelope, error)
	Readers func(body []byte) Readers
	Pack    func(rows []execution.Execution, most int, blocks func(execution.Incarnation) bool) (messages [][]int)
}

// InForce is the core that this program was built with.
func InForce() *Core {
	table := execution.NewTransitionTable()
	return &Core{
		Default: config.Default, Validate: config.Config.Validate, Started: started,
		May: table.May, Legal: table.Legal, Claimed: execution.Status.Claimed, Terminal: execution.Status.Terminal, Retriable: execution.Reason.Retriable,
		ParseStatus: execution.ParseStatus, ParseReason: execution.ParseReason, LimitsNamed: execution.LimitsNamed, ExitReason: worker.ReasonOf,
		Backoff: config.Retry.Backoff, Brakes: config.Executor.Brakes, Roster: executor.AskRoster, Filled: executor.AskFilled,
		Outage: executor.AskOutage, Absences: executor.AskAbsences, Leases: executor.AskLeaseWatch, Owners: executor.AskOwnerWatch,
		Brake: executor.AskBrake, Lease: worker.AskLease,
		Executors: broker.ExecutorTopology, Workers: broker.WorkerTopology, Bounded: store.DeadLetter.Bounded,
		Encode: broker.Encode, Decode: broker.Decode, Readers: BothReaders, Pack: executor.AskPack,
	}
}

// Draw draws a number below n.
type Draw func(n uint64) uint64

// Lots returns a Draw that begins anew with each seed and each label, so that its numbers depend on
// nothing else.
func Lots(seed uint64, label string) Draw {
	state := seed * 0x9e3779b97f4a7c15
	for i := range len(label) {
		state = (state ^ uint64(label[i])) * 0x100000001b3
	}
	return func(n uint64) uint64 {
		// SplitMix64.
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		high, _ := bits.Mul64(z^z>>31, n)
		return high
	}
}

// Answers is the outcome of the questions.
type Answers struct {
	// Asked counts the questions.
	Asked uint64
	// Wrong describes the answers that differ from the contract's, each with the question, both
	// answers and the page.
	Wrong []string
}

// Ask asks the core each kind of question with inputs that draw makes.
func Ask(core *Core, draw Draw) Answers { return ask(core, draw, 1) }

// besides: AskBeside asks each kind of question with a chance of one in besides.
const besides = 6

// AskBeside asks as much as a run can afford: everything about the tables, and one in six kinds of
// questions about the policies.
func AskBeside(core *Core, draw Draw) Answers { return ask(core, draw, besides) }

// AskInForceBeside does the same as AskBeside for the core that this program was built with.
// Answers about fixed tables are the same in every run, so it asks for them once.
func AskInForceBeside(draw Draw) Answers {
	a := &asker{Answers: answersInForce(), core: inForce(), draw: draw}
	a.Wrong = slices.Clone(a.Wrong)
	a.ask(fixed, besides)
	return a.Answers
}

// inForce is InForce, made once; nobody changes it.
var inForce = sync.OnceValue(InForce) //detlint:ok what it holds depends on the program alone, and no task waits for it

// answersInForce are the answers about the fixed tables.
var answersInForce = sync.OnceValue(func() Answers { //detlint:ok what it holds depends on the program alone, and no task waits for it
	a := &asker{core: InForce(), draw: func(uint64) uint64 { panic("a fixed table needs no draw") }}
	for _, about := range a.subjects()[:fixed] {
		a.about(about)
	}
	return a.Answers
})

func ask(core *Core, draw Draw, oneIn int) Answers {
	a := &asker{core: core, draw: draw}
	a.ask(0, oneIn)
	return a.Answers
}

// ask asks about the subjects, beginning with number from.
func (a *asker) ask(from, oneIn int) {
	for n, about := range a.subjects() {
		if n >= from && (n < tables || a.oneIn(oneIn)) {
			a.about(about)
		}
	}
}

// about asks questions of one kind. A panic of the core counts as an answer, too. A panic of the
// draw goes on to the caller: the library pgregory.net/rapid stops a test by it if a stored example
// gives too few draws.
func (a *asker) about(s subject) {
	drawing, draw := false, a.draw
	a.draw = func(n uint64) uint64 {
		drawing = true
		lot := draw(n)
		drawing = false
		return lot
	}
	defer func() {
		a.draw = draw
		if drawing {
			return
		}
		if failure := recover(); failure != nil {
			a.wrong("chaos/policies", "the core panics when it is asked about %s: %v", s.name, failure)
		}
	}()
	s.ask()
}

// Subjects are the names of the kinds of questions, in their order.
func Subjects() (names []string) {
	for _, s := range new(asker).subjects() {
		names = append(names, s.name)
	}
	return names
}

// asker asks one core.
type asker struct {
	Answers
	core *Core
	draw Draw
}

// tables is the number of subjects that are tables; they come first, and everything in them is
// asked. fixed is the number of fixed tables, the first of these: nothing is drawn for them.
const (
	fixed  = 3
	tables = 4
)

type subject struct {
	name string
	ask  func()
}

func (a *asker) subjects() []subject {
	return []subject{
		{"defaults", a.defaults},
		{"transitions", a.transitions},
		{"names", a.names},
		{"sets", a.sets},
		{"limits of a request", a.limits},
		{"backoff", a.backoff},
		{"health", a.health},
		{"choice of a worker", a.choice},
		{"size of a pass", a.size},
		{"leases that only the database calls over", a.often(a.leases)},
		{"superseded owners", a.often(a.owners)},
		{"absence of workers", a.often(a.absences)},
		{"outages", a.often(a.outages)},
		{"brake", a.often(a.brake)},
		{"a worker's right", a.often(a.right)},
		{"topology", a.topology},
		{"dead letters", a.deadLetters},
		{"settings", a.settings},
		{"a start", a.starts},
		{"exit codes", a.exitCodes},
		{"messages", a.codec},
		{"blocks", a.packing},
	}
}

// expect counts a question, and reports the answer if it is not right. page is where the contract
// says so.
func expect[T comparable](a *asker, answer, right T, page, question string, args ...any) bool {
	a.Asked++
	if answer == right {
		return true
	}
	a.wrong(page, "%s: the contract says %v, the core says %v", fmt.Sprintf(question, args...), right, answer)
	return false
}

// wrong reports an answer. It keeps only the first few, because one mistake often shows in many.
func (a *asker) wrong(page, text string, args ...any) {
	if len(a.Wrong) < 5 {
		a.Wrong = append(a.Wrong, fmt.Sprintf(text, args...)+"; see "+page)
	}
}

// number draws a number from least to most.
func (a *asker) number(least, most int) int { return least + int(a.draw(uint64(most-least+1))) }

// seconds draws whole seconds from least to most.
func (a *asker) seconds(least, most int) time.Duration {
	return time.Duration(a.number(least, most)) * time.Second
}

// edge is a moment just before a bound, at it or just after it.
func (a *asker) edge(bound time.Duration) time.Duration {
	return bound + time.Duration(a.number(-1, 1))*time.Nanosecond
}

// near is a number one below a bound, at it or one above it, but not negative.
func (a *asker) near(bound int) int { return max(0, bound+a.number(-1, 1)) }

// often asks a cheap question with several inputs.
func (a *asker) often(ask func()) func() {
	return func() {
		for range 4 {
			ask()
		}
	}
}

// oneIn is true once in n times.
func (a *asker) oneIn(n int) bool { return a.number(1, n) == 1 }

func pick[T any](a *asker, of ...T) T { return of[a.number(0, len(of)-1)] }
