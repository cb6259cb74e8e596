// Package simstore is the model of the database: store.Store over rows in memory, every method one
// atomic step at the server, reached over the simulated network.
//
// A step runs in kernel context: nothing runs beside it, so its guards are judged on the newest
// version of every row, as a guarded statement's are. What a caller sees of it depends on the
// network: a step whose reply was lost was applied and is reported as an unknown outcome, and one
// whose request was held may be applied long after its caller gave up.
//
// The history is written here and not by the core: the model is the audit trigger, so an execution's
// story is what the rows went through, whatever the processes believe.
//
// A restart keeps everything that was committed, and every step that was applied is committed; that
// is what fsync and synchronous_commit promise of the real one.
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
	// made counts the statements of each process, across its restarts.
	made        map[string]*uint64
	transitions *oracle.Law
	// told is called in the caller's task with the outcome of each statement of a process; nil if nobody asks.
	told func(ctx context.Context, err error)
	// idle is called in the caller's task for each call of a process that names nothing; nil if nobody asks.
	idle func()

	rows    table
	byKey   map[string]execution.ID
	actions map[string]execution.Action
	retries map[retryKey]execution.ID

	workers      []worker // by worker id - 1
	byName       map[string]execution.WorkerID
	incarnations []incarnation // by incarnation - 1

	lists    [listCount]list
	requests map[lane]*queue
	lanes    []*queue // of requests, by runtime and worker
	claiming claiming
	// requested counts the rows in that status.
	requested int
	slots     map[string]*slots
	limits    []string                        // the actions of slots, in order of first appearance
	children  map[execution.ID][]execution.ID // that wait, by the first row of their parent's chain
	settling  []execution.ID                  // the first rows of the chains whose children are to be settled, in the order of SettlingAt
	keyed     []execution.ID                  // those with an idempotency key, oldest first

	letters []store.StoredDeadLetter // by id, those that were purged left out
	stored  int
	// observations are in the order of their ids, those that were purged left out; observed is how many were made.
	observations []store.Observation
	observed     int64
	refused      int

	// foreign are the rows that this program can't read, and why; nil for none.
	foreign map[execution.ID]string
	// readOnly, full and noConnections are the faults that make it so, empty for none.
	readOnly, full, noConnections string
	// demoted is the fault that has made another server the primary, at demotedAt; empty for none. A connection from
	// before still leads to the old one. retired is when the last such server has ended its connections.
	demoted            string
	demotedAt, retired time.Duration
	rollback, unread   rollback
	// session numbers the times for which the server was up, from 1: a connection is lost with its session.
	session uint64
}

// rollback lets so many of a million writes, or reads, fail, with an error; drawn from its own stream.
type rollback struct {
	fault      string
	err        error
	perMillion uint64
	stream     *kernel.Stream
}

type retryKey struct {
	original execution.ID
	count    int
}

// worker is what survives the incarnations of a name.
type worker struct {
	name         string
	current      execution.Incarnation
	cordoned     bool
	cordonReason string
	// cordonChangedBy is who set the cordon, or lifted it, last.
	cordonChangedBy string
}

// incarnation is one registration.
type incarnation struct {
	worker        execution.WorkerID
	lifecycle     execution.Lifecycle
	runtimes      []string
	capacity      int
	leaseExpires  time.Time
	beatAt        time.Time // of the latest heartbeat; of the registration before the first
	beat          uint64
	consumerAlive bool
	load          int
	queued        int
	// claimedAt is when it last claimed; fullAt is when it was last full, by its own heartbeats. The zero time
	// means never.
	claimedAt time.Time
	fullAt    time.Time
	healthURL string
	messages  int
	// figures are as they were at reported.
	figures  execution.Figures
	reported time.Time
	// expired are the last dispatches that died of their time to live, the latest last.
	expired []time.Time
	drain   bool
	// process and attempt are its registration's.
	process, attempt uint64
}

// New returns an empty database that writes its history to sink.
func New(k *kernel.Kernel, net *simnet.Network, sink history.Sink) *Database {
	clock := k.NewClock(Server)
	return &Database{
		k: k, net: net, sink: sink, clock: clock, start: clock.Wall(),
		byKey: make(map[string]execution.ID), actions: make(map[string]execution.Action), retries: make(map[retryKey]execution.ID),
		byName: make(map[string]execution.WorkerID), requests: make(map[lane]*queue), transitions: oracle.NewLaw(),
		made: make(map[string]*uint64), slots: make(map[string]*slots), children: make(map[execution.ID][]execution.ID),
		session: 1, retired: never,
	}
}

// Statements returns how many statements the processes of a name have made, failed ones included.
func (db *Database) Statements(process string) uint64 {
	if made := db.made[process]; made != nil {
		return *made
	}
	return 0
}

// Clock is the database's own clock.
func (db *Database) Clock() *kernel.Clock { return db.clock }

// now is what clock_timestamp() returns, in microseconds like timestamptz.
func (db *Database) now() time.Time { return db.clock.Wall().Truncate(time.Microsecond) }

// Stop takes the server down: statements under way fail, sessions end. Start brings it back.
func (db *Database) Stop() {
	db.net.SetServer(Server, false)
	db.session++
	db.emit(history.Event{Kind: history.DatabaseDown, Process: Server})
}

// Start brings the server back with everything that was committed.
func (db *Database) Start() {
	db.net.SetServer(Server, true)
	db.emit(history.Event{Kind: history.DatabaseUp, Process: Server})
}

// SetReadOnly lets the database refuse every write, as a standby does, for the fault of that name; the empty
// name ends it.
func (db *Database) SetReadOnly(fault string) { db.readOnly = fault }

// SetRollback lets a share of the writes fail with nothing applied, for the fault of that name; a share of zero ends
// it. The SQLSTATE tells the client whether the same statement may succeed later, as a serialization failure (40001)
// does; what class 40 does not begin is told as what is wrong with the statement.
func (db *Database) SetRollback(perMillion uint64, fault, code, message string) {
	err := fmt.Errorf("%s (%s)", message, code)
	if strings.HasPrefix(code, "40") {
		err = fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	db.rollback = rollback{fault: fault, err: err, perMillion: perMillion, stream: db.k.Stream("database/rollback")}
}

// SetReadErrors lets a share of the statements that only read fail for want of memory (SQLSTATE 53200), for the fault of
// that name; a share of zero ends it.
func (db *Database) SetReadErrors(perMillion uint64, fault string) {
	db.unread = rollback{fault: fault, err: errMemory, perMillion: perMillion, stream: db.k.Stream("database/reads")}
}

// SetHang has the database accept everything and answer nothing, for the fault of that name; the empty name ends it.
// What has come meanwhile is applied then, also what its callers have given up.
func (db *Database) SetHang(fault string) { db.net.SetHang(Server, fault) }

// SetFull lets the database refuse every write, as a server does whose disk is full (SQLSTATE 53100), for the
// fault of that name; the empty name ends it. Reads go on.
//
// A real server still has room for some writes: in pages that are not full, and in what vacuum has freed. Here every
// statement that may write is refused, also one that would find nothing to write. A server whose write-ahead log has
// no room ends and can't start: that is Stop and Start.
func (db *Database) SetFull(fault string) { db.full = fault }

// OnAnswer has each statement of a process told to f, in the task that made it, with what it was answered.
func (db *Database) OnAnswer(f func(ctx context.Context, err error)) { db.told = f }

// OnNothing has each call of a process that is about to be made with an empty list told to f, in the task that makes it.
func (db *Database) OnNothing(f func()) { db.idle = f }

// SetNoConnections lets the database refuse new connections, as a server does that has as many clients as it takes
// (SQLSTATE 53300), for the fault of that name; the empty name ends it. Calls go on over the connections that pools
// have; one that needs another is refused, a read as well, with nothing applied.
//
// Not modelled: connections end of old age or idleness; the slots that a server reserves for superusers.
func (db *Database) SetNoConnections(fault string) { db.noConnections = fault }

// Demote makes another server the primary that takes the address over, for the fault of that name. The connections that
// there are stay with the old server, which answers reads and refuses writes; new ones reach the new primary. Retire ends
// the old server, and the connections to it with it.
//
// Not modelled: a demoted server whose reads fall behind the new primary.
func (db *Database) Demote(fault string) { db.demoted, db.demotedAt = fault, db.k.Now() }

// Retire ends what Demote began.
func (db *Database) Retire() { db.demoted, db.retired = "", db.demotedAt }

// refusal says why a statement over a connection is refused by a fault that lasts, nil if it is not.
func (db *Database) refusal(process string, over *connection, writes bool) error {
	if !writes {
		return db.unread.roll(db, process)
	}
	if db.readOnly != "" {
		db.net.Touch(simnet.Touched{Fault: db.readOnly, Process: process})
		return errReadOnly
	}
	if db.demoted != "" && over != nil && over.made <= db.demotedAt {
		db.net.Touch(simnet.Touched{Fault: db.demoted, Process: process})
		return errReadOnly
	}
	if db.full != "" {
		db.net.Touch(simnet.Touched{Fault: db.full, Process: process})
		return errFull
	}
	return db.rollback.roll(db, process)
}

// roll draws whether a statement fails.
func (r *rollback) roll(db *Database, process string) error {
	if r.perMillion == 0 || !r.stream.Chance(r.perMillion) {
		return nil
	}
	db.net.Touch(simnet.Touched{Fault: r.fault, Process: process})
	return r.err
}

// What PostgreSQL says, with its SQLSTATE. Nothing was applied in any of these cases.
var (
	errReadOnly      = fmt.Errorf("%w: cannot execute in a read-only transaction (25006)", store.ErrUnavailable)
	errFull          = fmt.Errorf("%w: could not extend file: No space left on device (53100)", store.ErrUnavailable)
	errMemory        = fmt.Errorf("%w: out of memory (53200)", store.ErrUnavailable)
	errNoConnections = fmt.Errorf("%w: sorry, too many clients already (53300)", store.ErrUnavailable)
)

// StepClock sets the database's clock, backwards when d is negative, and writes by how much: what a moment of
// it means changes with it.
func (db *Database) StepClock(d time.Duration) {
	db.clock.Step(d)
	db.emit(history.Event{Kind: history.ClockStepped, Process: Server, Due: d})
}

// emit writes one event, stamped.
func (db *Database) emit(e history.Event) {
	db.event = e
	db.event.At, db.event.Step = db.k.Now(), db.k.Step()
	db.sink.Observe(&db.event)
}

// sinceStart turns a moment of the database's clock into time since the start of the run.
func (db *Database) sinceStart(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(db.start)
}

func (db *Database) row(id execution.ID) *row {
	if id < 1 || int(id) > db.rows.n {
		return nil
	}
	if r := db.rows.at(int32(id - 1)); r.Status != execution.None {
		return r
	}
	return nil // its number was given by a primary that is gone: see Standby
}

func (db *Database) incarnation(i execution.Incarnation) *incarnation {
	if i < 1 || int(i) > len(db.incarnations) {
		return nil
	}
	return &db.incarnations[i-1]
}

// Execution returns a copy of a row for harness and tests; false if there is none.
func (db *Database) Execution(id execution.ID) (execution.Execution, bool) {
	if r := db.row(id); r != nil {
		return r.Execution, true
	}
	return execution.Execution{}, false
}

// Rows is how many executions exist.
func (db *Database) Rows() int { return db.rows.n }

// Unfinished is how many rows are not terminal, or terminal without terminal handling.
func (db *Database) Unfinished() int {
	return db.requested + db.lists[listScheduling].n + db.lists[listScheduled].n +
		db.lists[listRunning].n + db.lists[listUnorchestrated].n
}

// WorkerName is the name of a worker, empty if there is none.
func (db *Database) WorkerName(id execution.WorkerID) string {
	if id < 1 || int(id) > len(db.workers) {
		return ""
	}
	return db.workers[id-1].name
}

// Workers is how many worker names have registered.
func (db *Database) Workers() int { return len(db.workers) }
