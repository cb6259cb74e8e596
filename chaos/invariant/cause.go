package invariant

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
)

// cause is a set of possible causes of a bad end. Causes that affect a single worker come first, then those
// that affect every worker.
type cause uint32

const (
	// standsStill: the process crashed, was asked to stop, was paused or frozen, or has not restarted yet.
	standsStill cause = 1 << iota
	// itsClock: the clock of its machine was moved.
	itsClock
	// toDatabase and toBroker: the worker's link to that server was cut, slow or reset, or the broker
	// ended its session because of an unacknowledged delivery.
	toDatabase
	toBroker
	isDeaf
	isMute
	isSick
	// isWithdrawn: an operator has cordoned or drained the worker.
	isWithdrawn
	// hasTwin: another process took its name.
	hasTwin
	// losesQueue: its queue was deleted or unbound or hangs, or its consumers were cancelled or blocked.
	losesQueue

	brokerFails
	databaseFails
	// renewalFails: the database fails, or a foreign session has locked a table that a heartbeat needs.
	renewalFails
	databaseClock
	// dispatchesFail: messages with dispatches were lost, late, unreadable or out of order.
	dispatchesFail
	// executorFails: an executor stopped or was paused, its clock was moved, or its links failed.
	executorFails
	// makesNoQueue: the broker creates no queue, because a message with a hostile header has died in a queue.
	makesNoQueue

	causes = 17
)

// serverCauses is the set of causes that affect every worker.
const serverCauses = brokerFails | databaseFails | renewalFails | databaseClock | dispatchesFail | executorFails | makesNoQueue

// causeNames describes each cause. %s is replaced by the worker's name.
var causeNames = [causes]string{ //detlint:ok a constant table, never written
	"a stop, crash or standstill of %s", "its clock", "its link to the database", "its link to the broker", "deafness", "muteness",
	"a machine that starts nothing", "a cordon or drain by an operator", "a twin under its name", "its queue",
	"the broker", "the database", "the tables that leases need", "the database's clock", "lost or late dispatches", "an executor or its links", "a broker that makes no queue",
}

// describeFor returns the set's causes in words, as they concern the worker.
func (c cause) describeFor(worker string) string {
	var words []string
	for i, name := range causeNames {
		if c&(1<<i) != 0 {
			words = append(words, strings.ReplaceAll(name, "%s", worker))
		}
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// trouble records whether a cause is present now, and when it was last present. That is enough to decide, in
// constant space, whether it was present at any time since a given time.
type trouble struct {
	lasting int16
	seen    bool
	last    time.Duration
}

func (t *trouble) begin(at time.Duration) { t.lasting, t.seen, t.last = t.lasting+1, true, at }
func (t *trouble) end(at time.Duration)   { t.lasting, t.last = max(0, t.lasting-1), at }

// recordMoment records a cause without duration, such as a clock step.
func (t *trouble) recordMoment(at time.Duration) { t.seen, t.last = true, at }

// presentSince reports whether the cause was present at or after from.
func (t *trouble) presentSince(from time.Duration) bool {
	return t.lasting > 0 || t.seen && t.last >= from
}

// processCauses records the causes that have affected one process.
type processCauses struct {
	name string
	// worker is the last worker as which the process registered, 0 for an executor.
	worker execution.WorkerID
	of     [causes]trouble
	// held records when the process was paused or frozen. A restarted process is no longer held.
	held trouble
	// silent records when connections to the database went silent. A process detects that within the
	// statement timeout, so it is not a cause by itself.
	silent trouble
}

// hadCause reports whether the cause c was present at or after from.
func (a *processCauses) hadCause(c cause, from time.Duration) bool {
	return a.of[c.bitIndex()].presentSince(from) || c == standsStill && a.held.presentSince(from)
}

// ledger records which causes affected which process, and when. Where the history has events about a cause
// (processes that end or pause, servers that are down, clocks that jump), it relies on these. Bad links, slow
// servers and sick workers cause no such events, so for them it relies on the announced faults.
type ledger struct {
	processes []*processCauses
	byName    map[string]*processCauses
	// common holds the causes that affect every worker.
	common [causes]trouble
	// noQueueFrom is when the broker stopped creating queues.
	noQueueFrom time.Duration
	// cordoned records when each worker was cordoned.
	cordoned map[execution.WorkerID]*trouble
}

func newLedger() *ledger {
	return &ledger{byName: make(map[string]*processCauses), cordoned: make(map[execution.WorkerID]*trouble)}
}

func (l *ledger) entryOf(name string) *processCauses {
	p := l.byName[name]
	if p == nil {
		p = &processCauses{name: name}
		l.byName[name] = p
		l.processes = append(l.processes, p)
	}
	return p
}

// bitIndex returns the index of a single cause in arrays of causes.
func (c cause) bitIndex() int { return bits.TrailingZeros32(uint32(c)) }

// observeRelevant observes an event unless it is of a frequent kind that says nothing about causes.
func (l *ledger) observeRelevant(e *history.Event) {
	switch e.Kind {
	case history.Transition, history.Published, history.Enqueued, history.Delivered, history.Acked, history.Created, history.HeartbeatRenewed,
		history.ActionStarted, history.ActionEnded, history.PublishedMarked, history.Orchestrated:
	default:
		l.observeEvent(e)
	}
}

// observeEvent applies an event about a process, a server, a clock or an announced fault.
func (l *ledger) observeEvent(e *history.Event) {
	switch e.Kind {
	case history.ProcessStarted:
		p, known := l.byName[e.Process]
		if !known {
			// A process's first start ends no cause.
			l.entryOf(e.Process)
			return
		}
		// The process was down until now.
		p.of[standsStill.bitIndex()], p.held.lasting = trouble{seen: true, last: e.At}, 0
	case history.ProcessCrashed, history.ProcessStopped, history.ProcessStopping:
		// The process is down until it restarts.
		l.entryOf(e.Process).of[standsStill.bitIndex()] = trouble{lasting: 1, seen: true, last: e.At}
	case history.ProcessPaused, history.ProcessFrozen:
		l.entryOf(e.Process).held.begin(e.At)
	case history.ProcessResumed, history.ProcessThawed:
		l.entryOf(e.Process).held.end(e.At)
	case history.WorkerRegistered:
		l.entryOf(e.Process).worker = e.Worker
	case history.WorkerCordoned:
		t := l.cordoned[e.Worker]
		if t == nil {
			t = new(trouble)
			l.cordoned[e.Worker] = t
		}
		*t = trouble{lasting: int16(min(e.Count, 1)), seen: true, last: e.At}
	case history.DatabaseDown:
		l.common[databaseFails.bitIndex()].begin(e.At)
		l.common[renewalFails.bitIndex()].begin(e.At)
	case history.DatabaseUp:
		l.common[databaseFails.bitIndex()].end(e.At)
		l.common[renewalFails.bitIndex()].end(e.At)
	case history.BrokerDown:
		l.common[brokerFails.bitIndex()].begin(e.At)
	case history.BrokerUp:
		l.common[brokerFails.bitIndex()].end(e.At)
		if t := &l.common[makesNoQueue.bitIndex()]; t.lasting > 0 && e.Count == 0 {
			t.end(e.At)
		}
	case history.Expired, history.Rejected, history.ReturnedTooOften:
		if t := &l.common[makesNoQueue.bitIndex()]; t.lasting == 0 && e.Count > 0 {
			l.noQueueFrom = e.At
			t.begin(e.At)
		}
	case history.ConsumerTimedOut:
		// The worker is without a consumer until it has reconnected or resubscribed.
		c := toBroker
		if e.Count > 0 {
			c = losesQueue
		}
		l.entryOf(e.Process).of[c.bitIndex()].recordMoment(e.At)
	case history.ClockStepped:
		l.common[databaseClock.bitIndex()].recordMoment(e.At)
	case history.FaultBegan:
		l.noteAnnouncedFault(e, (*trouble).begin)
	case history.FaultEnded:
		l.noteAnnouncedFault(e, (*trouble).end)
	default:
	}
}

// dispatchType is the type of the messages that carry dispatches.
var dispatchType = broker.ExecutionScheduled.String() //detlint:ok a constant, never written

// tablesOfLeases holds the names of the tables that a heartbeat needs.
var tablesOfLeases = []string{"worker", "worker_incarnation", "execution_work"} //detlint:ok a constant table, never written

// noteAnnouncedFault records the beginning or end of a fault that causes no other events. It records the
// causes that this kind of fault can be, for each of the fault's targets.
func (l *ledger) noteAnnouncedFault(e *history.Event, note func(*trouble, time.Duration)) {
	kind := fault.Find(e.Text)
	if kind == nil {
		return
	}
	common := func(c cause) { note(&l.common[c.bitIndex()], e.At) }
	each := func(c cause) {
		for name := range strings.SplitSeq(e.Process, ",") {
			note(&l.entryOf(name).of[c.bitIndex()], e.At)
		}
	}
	ends := func(server string) bool { return slices.Contains(strings.Split(e.Queue, ","), server) }
	if kind.Name == "silent_connections" && ends(fault.Database) {
		for name := range strings.SplitSeq(e.Process, ",") {
			note(&l.entryOf(name).silent, e.At)
		}
	}
	for _, c := range kind.Excuses {
		switch c {
		case fault.LinkToDatabase:
			if ends(fault.Database) {
				each(toDatabase)
			}
		case fault.LinkToBroker:
			if ends(fault.Broker) {
				each(toBroker)
			}
		case fault.ClockOfProcess:
			if e.Process != fault.Database {
				each(itsClock)
			}
		case fault.ClockOfDatabase:
			if e.Process == fault.Database {
				common(databaseClock)
			}
		case fault.DispatchesFail:
			if e.Queue == dispatchType || e.Queue == fault.EveryMessage {
				common(dispatchesFail)
			}
		case fault.BrokerFails:
			common(brokerFails)
		case fault.DatabaseFails:
			common(databaseFails)
			if kind.Name != "locked_table" || slices.Contains(tablesOfLeases, e.Queue) {
				common(renewalFails)
			}
		case fault.WorkerDeaf:
			each(isDeaf)
		case fault.WorkerMute:
			each(isMute)
		case fault.WorkerSick:
			each(isSick)
		case fault.WorkerWithdrawn:
			each(isWithdrawn)
		case fault.WorkerTwin:
			each(hasTwin)
		case fault.WorkerQueue, fault.WorkerQueueStuck:
			each(losesQueue)
		}
	}
}

// causeLasts reports whether a cause that affects single processes is present for this process now.
func (l *ledger) causeLasts(c cause, process string) bool {
	p := l.byName[process]
	return p != nil && p.of[c.bitIndex()].lasting > 0
}

// hasStruck reports whether any of the causes affected the worker, or the process running it, at or after
// from. worker is 0 if the caller knows only the process.
func (l *ledger) hasStruck(of cause, process string, worker execution.WorkerID, from time.Duration) bool {
	for i := range causes {
		c := cause(1) << i
		switch {
		case of&c == 0:
		case c == executorFails:
			if l.anyExecutorTroubled(from) {
				return true
			}
		case c&serverCauses != 0:
			if l.common[i].presentSince(from) {
				return true
			}
		default:
			if p := l.byName[process]; p != nil && p.hadCause(c, from) {
				return true
			}
		}
	}
	if t := l.cordoned[worker]; of&isWithdrawn != 0 && t != nil && t.presentSince(from) {
		return true
	}
	if of&hasTwin == 0 {
		return false
	}
	// A twin is announced for the process whose name it takes. It affects all processes that registered as
	// that worker, even another twin.
	if p := l.byName[process]; worker == 0 && p != nil {
		worker = p.worker
	}
	return worker != 0 && slices.ContainsFunc(l.processes, func(p *processCauses) bool {
		return p.worker == worker && p.of[hasTwin.bitIndex()].presentSince(from)
	})
}

// lastPresence returns when any cause in of was last present for a process, 0 for never, and if one still is.
func (l *ledger) lastPresence(of cause, process string) (at time.Duration, lasts bool) {
	note := func(t *trouble) {
		if t.seen {
			at, lasts = max(at, t.last), lasts || t.lasting > 0
		}
	}
	p := l.byName[process]
	for i := range causes {
		switch c := cause(1) << i; {
		case of&c == 0:
		case c&serverCauses != 0:
			note(&l.common[i])
		case p != nil:
			note(&p.of[i])
		}
	}
	if p != nil && of&standsStill != 0 {
		note(&p.held)
	}
	return at, lasts
}

// anyExecutorTroubled reports whether any executor or its links had trouble at or after from.
func (l *ledger) anyExecutorTroubled(from time.Duration) bool {
	return slices.ContainsFunc(l.processes, func(p *processCauses) bool {
		if p.worker != 0 {
			return false
		}
		return p.hadCause(standsStill, from) || p.hadCause(itsClock, from) || p.hadCause(toDatabase, from) || p.hadCause(toBroker, from)
	})
}
