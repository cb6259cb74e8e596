// Package simstore is the model of the database: store.Store over rows in memory, reached over the
// simulated network. Every method is one atomic step at the server.
//
// A step runs in kernel context, where nothing else runs. So its guards check the newest version of every
// row, as those of a guarded statement do. The caller's view depends on the network. If the reply is lost,
// the step was applied and is reported as an unknown outcome. If the request was held, the step may be
// applied long after its caller gave up.
//
// The model writes the history, not the core. It plays the audit trigger, so an execution's history records
// what happened to its rows, whatever the processes believe.
//
// A restart keeps every committed step, and every applied step is committed. fsync and synchronous_commit
// promise the same for the real database.
package simstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// Server is the name of the database on the network.
const Server = "database"

// Database is the server.
type Database struct {
	k     *kernel.Kernel
	net   *simnet.Network
	sink  history.Sink
	clock *kernel.Clock
	start time.Time
	event history.Event
	// steps reports whether a statement is being applied. before is the strand of its caller, after that
	// of its answer: the events of one statement don't lead to one another.
	steps         bool
	before, after kernel.Strand
	// made counts the statements of each process, across its restarts.
	made        map[string]*uint64
	transitions *oracle.TransitionTable
	// onStatement is called in the caller's task with each statement's name and outcome; may be nil.
	onStatement func(ctx context.Context, call string, err error)
	// onEmptyCall is called in the caller's task with the name of each of a process's calls that has no
	// items; may be nil.
	onEmptyCall func(call string)

	rows    table
	byKey   map[string]execution.ID
	actions map[string]execution.Action
	retries map[retryKey]execution.ID
	// progeny counts, for each first row of a chain, the children of that chain.
	progeny map[execution.ID]int

	workers      []worker // by worker id - 1
	byName       map[string]execution.WorkerID
	incarnations []incarnation // by incarnation - 1

	lists    [listCount]list
	requests map[lane]*queue
	lanes    []*queue // the queues in requests, sorted by runtime and worker
	claiming claimScratch
	// spare has a *[]*statement[T] for each type of answer, with statements to reuse.
	spare []any
	// requested counts the requested rows.
	requested int
	slots     map[string]*slots
	limits    []string                        // the actions of slots, in order of first appearance
	children  map[execution.ID][]execution.ID // waiting children, by the first row of their parent's chain
	settling  []execution.ID                  // the first rows of the chains whose children are to be settled, in the order of SettlingAt
	keyed     []execution.ID                  // rows with an idempotency key, oldest first

	letters []store.StoredDeadLetter // by id, without purged ones
	stored  int
	// observations are in the order of their ids, without purged ones. observed is the number ever made.
	observations []store.Observation
	observed     int64
	// left are the executions that a purge has deleted, as they were.
	left []execution.Execution
	// refusals are the storage times of the refused results that still exist, oldest first.
	refusals []time.Time

	// foreign maps rows that this program can't read to the reason; nil if there are none.
	foreign map[execution.ID]string
	// locks maps rows that another session has locked to the fault; nil if there are none.
	locks map[execution.ID]string
	// tables are the tables that another program's session has locked.
	tables []lockedTable
	// open holds the open transactions of other programs. transactions counts all transactions that they have
	// begun.
	open         []uint64
	transactions uint64
	// readOnly, full and noConnections are the faults that cause these states, or "".
	readOnly, full, noConnections string
	// demoted is the fault that has made another server the primary, at demotedAt, or "". Older connections
	// still lead to the old server. retired is the demotedAt of the latest demotion that Retire has ended,
	// with all connections made until then.
	demoted                     string
	demotedAt, retired          time.Duration
	writeFailures, readFailures failureShare
	// session numbers the periods in which the server was up, from 1: connections are lost with
	// their session.
	session uint64
}

// failureShare makes a share of the writes, or of the reads, fail with an error; its stream draws which.
type failureShare struct {
	fault      string
	err        error
	perMillion uint64
	stream     *kernel.Stream
}

type retryKey struct {
	original execution.ID
	count    int
}

// worker is the data of a worker name that outlives each incarnation.
type worker struct {
	name         string
	current      execution.Incarnation
	cordoned     bool
	cordonReason string
	// cordonChangedBy is the name of the actor who last set or lifted the cordon.
	cordonChangedBy string
	// queuesDeletedAfter is the last incarnation when the worker's queues were deleted, or 0 if they never
	// were.
	queuesDeletedAfter execution.Incarnation
}

// incarnation is one registration of a worker.
type incarnation struct {
	worker        execution.WorkerID
	lifecycle     execution.Lifecycle
	runtimes      []string
	capacity      int
	leaseExpires  time.Time
	beatAt        time.Time // time of the latest heartbeat, or of the registration before the first heartbeat
	beat          uint64
	consumerAlive bool
	load          int
	queued        int
	// claimedAt is the time of its last claim, and fullAt the last time that its heartbeats reported it full.
	// The zero time means never.
	claimedAt time.Time
	fullAt    time.Time
	healthURL string
	messages  int
	// figures are the run figures that it reported at the time reported.
	figures  execution.Figures
	reported time.Time
	// expired are the times at which dispatches that it left unclaimed were reclaimed past their deadline,
	// latest last.
	expired []time.Time
	drain   bool
	// process and attempt are those of its registration.
	process, attempt uint64
}

// New returns an empty database that writes its history to sink.
func New(k *kernel.Kernel, net *simnet.Network, sink history.Sink) *Database {
	clock := k.NewClock(Server)
	return &Database{
		k: k, net: net, sink: sink, clock: clock, start: clock.Wall(),
		byKey: make(map[string]execution.ID), actions: make(map[string]execution.Action), retries: make(map[retryKey]execution.ID),
		byName: make(map[string]execution.WorkerID), requests: make(map[lane]*queue), transitions: oracle.NewTransitionTable(),
		progeny: make(map[execution.ID]int), made: make(map[string]*uint64), slots: make(map[string]*slots), children: make(map[execution.ID][]execution.ID),
		session: 1, retired: never,
	}
}

// Statements returns how many statements the processes of a name have made, including failed ones.
func (da *Database) Statements(process string) uint64 {
	if made := da.made[process]; made != nil {
		return *made
	}
	return 0
}

// Clock returns the database's own clock.
func (da *Database) Clock() *kernel.Clock { return da.clock }

// clockNow returns the value of clock_timestamp(), in microseconds like timestamptz.
func (da *Database) clockNow() time.Time { return da.clock.Wall().Truncate(time.Microsecond) }

// Stop takes the server down: statements in progress fail, and sessions end. Start brings it back.
func (da *Database) Stop() {
	da.net.SetServer(Server, false)
	da.session++
	da.emit(&history.Event{Kind: history.DatabaseDown, Process: Server})
}

// Start restarts the server with everything that was committed.
func (da *Database) Start() {
	da.net.SetServer(Server, true)
	da.emit(&history.Event{Kind: history.DatabaseUp, Process: Server})
}

// SetReadOnly makes the database refuse every write, as a standby does, for the fault of that name;
// the empty name ends it.
func (da *Database) SetReadOnly(fault string) { da.readOnly = fault }

// SetRollback makes a share of the writes fail without applying anything, for the fault of that name; a share
// of zero ends it. The SQLSTATE tells the client whether the same statement may succeed later, as after a
// serialization failure (40001). A code outside class 40 means that the statement itself is wrong.
func (da *Database) SetRollback(perMillion uint64, fault, code, message string) {
	err := error(statementError{fmt.Sprintf("%s (%s)", message, code)})
	if strings.HasPrefix(code, "40") {
		err = fmt.Errorf("%w: %s (%s)", store.ErrUnavailable, message, code)
	}
	da.writeFailures = failureShare{fault: fault, err: err, perMillion: perMillion, stream: da.k.Stream("database/rollback")}
}

// statementError is an error about a statement itself, which the database would refuse again.
type statementError struct{ text string }

// Error gives the database's message and its SQLSTATE.
func (s statementError) Error() string { return s.text }

// SetReadErrors makes a share of the statements that only read fail with "out of memory" (SQLSTATE 53200),
// for the fault of that name; a share of zero ends it.
func (da *Database) SetReadErrors(perMillion uint64, fault string) {
	da.readFailures = failureShare{fault: fault, err: errMemory, perMillion: perMillion, stream: da.k.Stream("database/reads")}
}

// SetHang makes the database accept everything and answer nothing, for the fault of that name; the
// empty name ends it. Then everything that has arrived is applied, even if its caller has given up.
func (da *Database) SetHang(fault string) { da.net.SetHang(Server, fault) }

// SetFull makes the database refuse every write, like a server whose disk is full (SQLSTATE 53100),
// for the fault of that name; the empty name ends it. Reads still work.
//
// A real server still has room for some writes: in pages that are not full, and in space that
// vacuum has freed. Here every statement that may write is refused, even one that would find
// nothing to write. A server whose write-ahead log has no room ends and can't start; for that use
// Stop and Start.
func (da *Database) SetFull(fault string) { da.full = fault }

// OnAnswer sets a function that is called with the outcome of each statement of a process, in the
// task that made it. call is the name of the method, such as "Dispatch".
func (da *Database) OnAnswer(f func(ctx context.Context, call string, err error)) { da.onStatement = f }

// OnNothing sets a function that is called before each call that a process makes with an empty list, in the
// task that makes the call.
func (da *Database) OnNothing(f func(call string)) { da.onEmptyCall = f }

// SetNoConnections makes the database refuse new connections, like a server with its maximum number of
// clients (SQLSTATE 53300), for the fault of that name; the empty name ends it. Calls continue over existing
// connections of the pools. A call that needs another connection is refused, even a read, with nothing
// applied.
//
// Not modelled: connections that end because they are old or idle; the slots that a server reserves
// for superusers.
func (da *Database) SetNoConnections(fault string) { da.noConnections = fault }

// Demote makes another server the primary, which takes over the address, for the fault of that
// name. Existing connections stay with the old server, which answers reads and refuses writes; new
// ones reach the new primary. Retire ends the old server with its connections.
//
// Not modelled: a demoted server whose reads fall behind the new primary.
func (da *Database) Demote(fault string) { da.demoted, da.demotedAt = fault, da.k.Now() }

// Retire ends the state that Demote began.
func (da *Database) Retire() { da.demoted, da.retired = "", da.demotedAt }

// faultError returns the error with which a lasting fault refuses a statement over a connection, or nil if
// none does.
func (da *Database) faultError(process string, over *connection, writes bool) error {
	if !writes {
		return da.readFailures.drawFailure(da, process)
	}
	if da.readOnly != "" {
		da.net.Touch(simnet.Touched{Fault: da.readOnly, Process: process})
		return errReadOnly
	}
	if da.demoted != "" && over != nil && over.made <= da.demotedAt {
		da.net.Touch(simnet.Touched{Fault: da.demoted, Process: process})
		return errReadOnly
	}
	if da.full != "" {
		da.net.Touch(simnet.Touched{Fault: da.full, Process: process})
		return errFull
	}
	return da.writeFailures.drawFailure(da, process)
}

// drawFailure draws whether a statement fails.
func (f *failureShare) drawFailure(db *Database, process string) error {
	if f.perMillion == 0 || !f.stream.Chance(f.perMillion) {
		return nil
	}
	db.net.Touch(simnet.Touched{Fault: f.fault, Process: process})
	return f.err
}

// PostgreSQL's errors, with their SQLSTATE. Nothing was applied in any of these cases.
var (
	errReadOnly      = fmt.Errorf("%w: cannot execute in a read-only transaction (25006)", store.ErrUnavailable)
	errFull          = fmt.Errorf("%w: could not extend file: No space left on device (53100)", store.ErrUnavailable)
	errMemory        = fmt.Errorf("%w: out of memory (53200)", store.ErrUnavailable)
	errNoConnections = fmt.Errorf("%w: sorry, too many clients already (53300)", store.ErrUnavailable)
)

// StepClock sets the database's clock, backwards if d is negative. It writes the step to the
// history, because the step changes what a time on that clock means.
func (da *Database) StepClock(d time.Duration) {
	da.clock.Step(d)
	da.emit(&history.Event{Kind: history.ClockStepped, Process: Server, Due: d})
}

// emit writes one event, with time and step filled in.
func (da *Database) emit(e *history.Event) {
	da.event = *e
	da.event.At, da.event.Step = da.k.Now(), da.k.Step()
	da.sink.Observe(&da.event)
	if da.steps {
		da.after = da.k.Met(da.after, da.k.Strand())
		da.k.SetStrand(da.before)
	}
}

// sinceStart converts a time on the database's clock to time since the start of the run.
func (da *Database) sinceStart(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(da.start)
}

func (da *Database) row(id execution.ID) *row {
	if id < 1 || int(id) > da.rows.n {
		return nil
	}
	if r := da.rows.rowAt(int32(id - 1)); r.Status != execution.None {
		return r
	}
	return nil // a former primary used this number: see Standby
}

func (da *Database) incarnation(i execution.Incarnation) *incarnation {
	if i < 1 || int(i) > len(da.incarnations) || da.incarnations[i-1].worker == 0 {
		return nil // no row has this number, a former primary used it, or its row was purged
	}
	return &da.incarnations[i-1]
}

// Execution returns a copy of a row for the harness and tests, and false if there is none.
func (da *Database) Execution(id execution.ID) (execution.Execution, bool) {
	if r := da.row(id); r != nil {
		return r.Execution, true
	}
	return execution.Execution{}, false
}

// Look returns the row itself, not a copy, for reading a database that nothing writes to any more; nil if
// there is no such row.
func (da *Database) Look(id execution.ID) *execution.Execution {
	if r := da.row(id); r != nil {
		return &r.Execution
	}
	return nil
}

// Left returns the executions that a purge has deleted, as they were, in the order of deletion.
func (da *Database) Left() []execution.Execution { return da.left }

// Rows returns the number of executions, including deleted executions.
func (da *Database) Rows() int { return da.rows.n }

// Unfinished returns the number of rows that are not terminal, or are terminal but not handled.
func (da *Database) Unfinished() int {
	return da.requested + da.lists[listScheduling].n + da.lists[listScheduled].n +
		da.lists[listRunning].n + da.lists[listUnorchestrated].n
}

// AnyUnfinished reports whether any row is unfinished. It is called before every step of a run.
func (da *Database) AnyUnfinished() bool {
	return da.lists[listRunning].n > 0 || da.requested > 0 || da.lists[listScheduled].n > 0 ||
		da.lists[listScheduling].n > 0 || da.lists[listUnorchestrated].n > 0
}

// WorkerName returns the name of a worker, or "" if there is no such worker.
func (da *Database) WorkerName(id execution.WorkerID) string {
	if id < 1 || int(id) > len(da.workers) {
		return ""
	}
	return da.workers[id-1].name
}

// Workers returns the number of worker names that have registered.
func (da *Database) Workers() int { return len(da.workers) }
