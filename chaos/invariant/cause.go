package invariant

import (
	"math/bits"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// cause is a set of things that can explain a bad end. What strikes a worker stands first, then what strikes
// everybody.
type cause uint16

const (
	// standsStill: the process crashed, was asked to stop, stood still, or is not back yet.
	standsStill cause = 1 << iota
	// itsClock: the clock of its machine was moved.
	itsClock
	// toDatabase and toBroker: its link there was cut, slow or reset.
	toDatabase
	toBroker
	isDeaf
	isMute
	isSick
	// isWithdrawn: an operator has cordoned or drained it.
	isWithdrawn
	// hasTwin: another process took its name.
	hasTwin
	// losesQueue: its queue was deleted or unbound, or its consumers were cancelled.
	losesQueue

	brokerFails
	databaseFails
	databaseClock
	// dispatchesFail: the messages that carry dispatches were lost, late, unreadable or out of order.
	dispatchesFail
	// executorFails: an executor stood still, or its links did.
	executorFails

	causes = 15
)

// servers are the causes that strike everybody.
const servers = brokerFails | databaseFails | databaseClock | dispatchesFail | executorFails

// causeNames say what each is, of worker %s.
var causeNames = [causes]string{ //detlint:ok a constant table, never written
	"a stop, crash or standstill of %s", "its clock", "its link to the database", "its link to the broker", "deafness", "muteness",
	"a machine that starts nothing", "a cordon or drain by an operator", "a twin under its name", "its queue",
	"the broker", "the database", "the database's clock", "lost or late dispatches", "an executor or its links",
}

// describe lists the causes of a set in words.
func (c cause) describe(worker string) string {
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

// trouble is whether one cause lasts, and when it lasted last. That is enough to say whether it was there at any
// time since a moment, and it does not grow with the run.
type trouble struct {
	lasting int16
	seen    bool
	last    time.Duration
}

func (t *trouble) begin(at time.Duration) { t.lasting, t.seen, t.last = t.lasting+1, true, at }
func (t *trouble) end(at time.Duration)   { t.lasting, t.last = max(0, t.lasting-1), at }

// strike is for what is over as soon as it has happened.
func (t *trouble) strike(at time.Duration) { t.seen, t.last = true, at }

// since says whether the cause was there at that moment or later.
func (t *trouble) since(from time.Duration) bool { return t.lasting > 0 || t.seen && t.last >= from }

// afflicted is a process and what has struck it.
type afflicted struct {
	name string
	// worker is who it registered as last, 0 for an executor.
	worker execution.WorkerID
	of     [causes]trouble
	// held is that it was paused or frozen. A process may end meanwhile, and is held no more when its machine is.
	held trouble
}

// had says whether a cause was there since a moment.
func (p *afflicted) had(c cause, from time.Duration) bool {
	return p.of[c.at()].since(from) || c == standsStill && p.held.since(from)
}

// ledger remembers what has struck whom. It believes what was seen before what was announced: processes that
// end or stand still, servers that are down, clocks that jump. Only of links, slow servers and sick workers is the
// announcement of a fault all that there is.
type ledger struct {
	processes []*afflicted
	byName    map[string]*afflicted
	// common is what strikes everybody.
	common [causes]trouble
	// cordoned are those that an operator has cordoned.
	cordoned map[execution.WorkerID]*trouble
}

func newLedger() *ledger {
	return &ledger{byName: make(map[string]*afflicted), cordoned: make(map[execution.WorkerID]*trouble)}
}

func (l *ledger) process(name string) *afflicted {
	p := l.byName[name]
	if p == nil {
		p = &afflicted{name: name}
		l.byName[name] = p
		l.processes = append(l.processes, p)
	}
	return p
}

// at is the place of a single cause in the arrays.
func (c cause) at() int { return bits.TrailingZeros16(uint16(c)) }

// observe learns from what happens to processes, servers and clocks, and from what is announced.
func (l *ledger) observe(e *history.Event) {
	switch e.Kind {
	case history.ProcessStarted:
		p, known := l.byName[e.Process]
		if !known {
			// Its first start ends nothing.
			l.process(e.Process)
			return
		}
		// Until now it was not there.
		p.of[standsStill.at()], p.held.lasting = trouble{seen: true, last: e.At}, 0
	case history.ProcessCrashed, history.ProcessStopped, history.ProcessStopping:
		// Until it starts again.
		l.process(e.Process).of[standsStill.at()] = trouble{lasting: 1, seen: true, last: e.At}
	case history.ProcessPaused, history.ProcessFrozen:
		l.process(e.Process).held.begin(e.At)
	case history.ProcessResumed, history.ProcessThawed:
		l.process(e.Process).held.end(e.At)
	case history.WorkerRegistered:
		l.process(e.Process).worker = e.Worker
	case history.WorkerCordoned:
		t := l.cordoned[e.Worker]
		if t == nil {
			t = new(trouble)
			l.cordoned[e.Worker] = t
		}
		*t = trouble{lasting: int16(min(e.Count, 1)), seen: true, last: e.At}
	case history.DatabaseDown:
		l.common[databaseFails.at()].begin(e.At)
	case history.DatabaseUp:
		l.common[databaseFails.at()].end(e.At)
	case history.BrokerDown:
		l.common[brokerFails.at()].begin(e.At)
	case history.BrokerUp:
		l.common[brokerFails.at()].end(e.At)
	case history.ClockStepped:
		l.common[databaseClock.at()].strike(e.At)
	case history.FaultBegan:
		l.announced(e, (*trouble).begin)
	case history.FaultEnded:
		l.announced(e, (*trouble).end)
	default:
	}
}

// The names of servers, and of what messages of dispatches are called, in announcements.
const (
	serverDatabase = "database"
	serverBroker   = "broker"
	dispatchType   = "execution.scheduled"
	everyType      = "*"
)

// announced notes the beginning or the end of a fault that leaves no trace of its own.
func (l *ledger) announced(e *history.Event, note func(*trouble, time.Duration)) {
	common := func(c cause) { note(&l.common[c.at()], e.At) }
	each := func(c cause) {
		for name := range strings.SplitSeq(e.Process, ",") {
			note(&l.process(name).of[c.at()], e.At)
		}
	}
	switch e.Text {
	case "partition", "latency", "slow_link", "reset":
		for end := range strings.SplitSeq(e.Queue, ",") {
			switch end {
			case serverDatabase:
				each(toDatabase)
			case serverBroker:
				each(toBroker)
			}
		}
	case "clock_offset", "clock_step", "clock_drift":
		if e.Process == serverDatabase {
			common(databaseClock)
			return
		}
		each(itsClock)
	case "broker_alarm":
		common(brokerFails)
	case "database_read_only", "database_slow", "serialization_failures":
		common(databaseFails)
	case "drop_messages", "delay_messages", "corrupt_messages", "reorder_messages":
		if e.Queue == dispatchType || e.Queue == everyType {
			common(dispatchesFail)
		}
	case "deaf":
		each(isDeaf)
	case "mute":
		each(isMute)
	case "sick":
		each(isSick)
	case "drain":
		each(isWithdrawn)
	case "twin":
		each(hasTwin)
	case "delete_queue", "unbind_queue", "cancel_consumers":
		each(losesQueue)
	}
}

// struck says whether one of the causes was there since a moment, for a worker whose incarnation is that of a process.
func (l *ledger) struck(of cause, process string, worker execution.WorkerID, from time.Duration) bool {
	for i := range causes {
		c := cause(1) << i
		switch {
		case of&c == 0:
		case c == executorFails:
			if l.executors(from) {
				return true
			}
		case c&servers != 0:
			if l.common[i].since(from) {
				return true
			}
		default:
			if p := l.byName[process]; p != nil && p.had(c, from) {
				return true
			}
		}
	}
	if t := l.cordoned[worker]; of&isWithdrawn != 0 && t != nil && t.since(from) {
		return true
	}
	// A twin is announced for the process whose name it takes, whichever of the two this is.
	return of&hasTwin != 0 && slices.ContainsFunc(l.processes, func(p *afflicted) bool {
		return p.worker == worker && p.of[hasTwin.at()].since(from)
	})
}

// executors says whether an executor, or its links, had trouble since a moment.
func (l *ledger) executors(from time.Duration) bool {
	return slices.ContainsFunc(l.processes, func(p *afflicted) bool {
		if p.worker != 0 {
			return false
		}
		return p.had(standsStill, from) || p.had(itsClock, from) || p.had(toDatabase, from) || p.had(toBroker, from)
	})
}
