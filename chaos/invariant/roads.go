package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// roads records what was wrong, when and where: one entry for each process, with its links, its clock and its
// machine, and one for what all processes share. A bound about one process, or about the path from a process
// to the executors, counts from the last trouble of that process or path. Other trouble doesn't extend it.
//
// Trouble that isn't known to concern a single process counts for all processes.
type roads struct {
	byName map[string]*road
	// executors holds the processes that have started and are not known to be workers, in the order of their
	// first start.
	executors []*road
	// servers records trouble with the database, the broker, their clocks and their queues.
	servers trouble
	// dispatches and hints record trouble with messages of these types.
	dispatches, hints trouble
	// ofWorker lists the processes that have registered as each worker. There may be several, because a twin
	// uses another process's queues.
	ofWorker map[execution.WorkerID][]*road
	// strangers counts, by target, the faults that have not ended and whose target was not a known process
	// when they began.
	strangers map[string]int
}

// road records the trouble of one process.
type road struct {
	name   string
	worker bool
	// up reports whether the process has started, and has neither stopped nor crashed since.
	up bool
	// ended reports whether it has stopped or crashed, and has not restarted. A process whose start the
	// history does not record is neither up nor ended.
	ended bool
	wrong trouble
	// stuck records when the queue of the process hung, if it is a worker.
	stuck trouble
	// givenUp records when it gave up its session with the broker; see Suite.GivenUp.
	givenUp trouble
	// read is when it must have read the database's clock since its start, 0 if that is not certain; see
	// Suite.firstReading.
	read time.Duration
	// missed is when the database's clock was last moved before that reading.
	missed time.Duration
	// stopping reports whether it was asked to stop. held counts the faults that halt it. A restart resets
	// both.
	stopping bool
	held     int16
	// frozen holds the latest periods since its start in which its machine was frozen and its clock stopped,
	// the latest last, at most mostFrozen. The last period may not have ended.
	frozen []freezePeriod
}

// freezePeriod is a period in which a machine is frozen. until is never if it has not ended.
type freezePeriod struct{ from, until time.Duration }

// mostFrozen is the maximum number of freeze periods that are remembered for a machine.
const mostFrozen = 100

// beginFreeze notes that the machine of a process is frozen.
func (r *road) beginFreeze(at time.Duration) {
	if n := len(r.frozen); n > 0 && r.frozen[n-1].until == never {
		return
	}
	if r.frozen = append(r.frozen, freezePeriod{at, never}); len(r.frozen) > mostFrozen {
		r.frozen = slices.Delete(r.frozen, 0, 1)
	}
}

// endFreeze notes that the machine is no longer frozen.
func (r *road) endFreeze(at time.Duration) {
	if n := len(r.frozen); n > 0 && r.frozen[n-1].until == never {
		r.frozen[n-1].until = at
	}
}

// clockStoppage returns for how long the clock of a process was stopped between from and until.
func (r *road) clockStoppage(from, until time.Duration) (long time.Duration) {
	for _, f := range r.frozen {
		long += max(0, min(f.until, until)-max(f.from, from))
	}
	return long
}

// leastClockStoppage returns the minimum of clockStoppage for the running executors.
func (r *roads) leastClockStoppage(from, until time.Duration) time.Duration {
	least := never
	for _, p := range r.executors {
		if p.up {
			least = min(least, p.clockStoppage(from, until))
		}
	}
	if least == never {
		return 0
	}
	return least
}

func newRoads() roads {
	return roads{byName: make(map[string]*road), ofWorker: make(map[execution.WorkerID][]*road), strangers: make(map[string]int)}
}

// roadOf returns the road of a process, and creates it if it is new. A new process is not up.
func (r *roads) roadOf(name string) *road {
	p := r.byName[name]
	if p == nil {
		p = &road{name: name}
		r.byName[name] = p
	}
	return p
}

// applyEvent applies an event about processes, links, servers or messages.
func (r *roads) applyEvent(e *history.Event) {
	switch e.Kind {
	case history.ProcessStarted:
		p := r.roadOf(e.Process)
		if !p.worker && !slices.Contains(r.executors, p) {
			r.executors = append(r.executors, p)
		}
		p.up, p.ended, p.stopping, p.held, p.read, p.frozen = true, false, false, 0, 0, nil
		p.wrong.recordMoment(e.At)
	case history.ProcessCrashed, history.ProcessStopped:
		p := r.roadOf(e.Process)
		p.up, p.ended = false, true
		p.wrong.recordMoment(e.At)
	case history.ProcessStopping:
		p := r.roadOf(e.Process)
		p.stopping = true
		p.wrong.recordMoment(e.At)
	case history.ProcessPaused, history.ProcessFrozen:
		p := r.roadOf(e.Process)
		p.held++
		p.wrong.recordMoment(e.At)
		if e.Kind == history.ProcessFrozen {
			p.beginFreeze(e.At)
		}
	case history.ProcessResumed, history.ProcessThawed:
		p := r.roadOf(e.Process)
		p.held = max(0, p.held-1)
		p.wrong.recordMoment(e.At)
		if e.Kind == history.ProcessThawed {
			p.endFreeze(e.At)
		}
	case history.WorkerRegistered:
		p := r.roadOf(e.Process)
		if !slices.Contains(r.ofWorker[e.Worker], p) {
			r.ofWorker[e.Worker] = append(r.ofWorker[e.Worker], p)
		}
		if !p.worker {
			p.worker = true
			r.executors = slices.DeleteFunc(r.executors, func(x *road) bool { return x == p })
		}
	case history.DatabaseDown, history.BrokerDown:
		r.servers.begin(e.At)
	case history.DatabaseUp, history.BrokerUp:
		r.servers.end(e.At)
	case history.ClockStepped:
		r.servers.recordMoment(e.At)
	case history.FaultBegan:
		r.noteFault(e, (*trouble).begin)
	case history.FaultEnded:
		r.noteFault(e, (*trouble).end)
	default:
	}
}

// noteFault notes the beginning or end of a fault for each of its targets.
func (r *roads) noteFault(e *history.Event, note func(*trouble, time.Duration)) {
	kind := fault.Find(e.Text)
	switch {
	case kind != nil && kind.Under == "messages":
		if e.Queue == dispatchType || e.Queue == fault.EveryMessage {
			note(&r.dispatches, e.At)
		}
		if e.Queue != dispatchType {
			note(&r.hints, e.At)
		}
		return
	case kind != nil && kind.Edits:
		return
	case e.Process == fault.Database || e.Process == fault.Broker || e.Process == "":
		note(&r.servers, e.At)
		return
	}
	for name := range strings.SplitSeq(e.Process, ",") {
		p := r.byName[name]
		began := e.Kind == history.FaultBegan
		switch {
		case p == nil && began:
			// The target is a queue of the executors, or a process that has not started yet.
			r.strangers[name]++
			note(&r.servers, e.At)
		case !began && r.strangers[name] > 0:
			r.strangers[name]--
			note(&r.servers, e.At)
		case p != nil:
			note(&p.wrong, e.At)
			if kind != nil && slices.Contains(kind.Excuses, fault.WorkerQueueStuck) {
				note(&p.stuck, e.At)
			}
		}
	}
}

// queueStuck reports whether the queue of an execution's worker has hung at any time since the dispatch.
// Messages that the broker doesn't confirm need not arrive.
func (s *Suite) queueStuck(l *life) bool { return s.queueStuckSince(l, l.entered) }

// queueStuckSince reports whether this queue has hung at or after from.
func (s *Suite) queueStuckSince(l *life, from time.Duration) bool {
	t := s.workers.Get(l.incarnation)
	if t == nil {
		return false
	}
	return slices.ContainsFunc(s.roads.ofWorker[t.worker], func(p *road) bool { return p.stuck.presentSince(from) })
}

// stuckQueues returns the number of workers whose queue has hung at or after from.
func (r *roads) stuckQueues(from time.Duration) (n time.Duration) {
	for _, of := range r.ofWorker { //detlint:ok the order makes no difference to a count
		if slices.ContainsFunc(of, func(p *road) bool { return p.stuck.presentSince(from) }) {
			n++
		}
	}
	return n
}

// GivenUp reports that a process has ended its session with the broker because a publish waited too long
// (docs/queues.md, "A broker that is half well"). Its unsent messages are not sent, and its scheduler makes
// no pass until it has reconnected. Only the simulated world reports it.
func (s *Suite) GivenUp(process string, at time.Duration) {
	s.roads.roadOf(process).givenUp.recordMoment(at)
	if s.later != nil {
		s.later.GivenUp(process, at)
	}
}

// reconnectBound returns the maximum time from the end of an executor's session, which it has given up, to
// its scheduler's next pass: it reconnects within ReconnectMax, and the pass follows within a period.
func (s *Suite) reconnectBound() time.Duration {
	period := s.config.Executor.ReconcileInterval
	return s.config.MessageQueue.RabbitMQ.ReconnectMax + period + clockDrift(period) + 2*s.promptBound()
}

// gaveUp reports whether a process has given up its session with the broker at or after from.
func (r *roads) gaveUp(process string, from time.Duration) bool {
	p := r.byName[process]
	return p != nil && p.givenUp.presentSince(from)
}

// isClear reports whether a process runs and had no trouble at or after from.
func (r *road) isClear(from time.Duration) bool {
	return r != nil && r.up && !r.stopping && r.held == 0 && !r.wrong.presentSince(from)
}

// isAway reports whether a process is known to have ended, or is paused or frozen.
func (r *road) isAway() bool { return r != nil && (r.ended || r.held > 0) }

// lastTrouble returns when a process last had trouble, as far as is known, 0 for never.
func (r *road) lastTrouble() time.Duration {
	if r == nil {
		return 0
	}
	return r.wrong.last
}

// serversClear reports whether the servers had no trouble at or after from.
func (r *roads) serversClear(from time.Duration) bool { return !r.servers.presentSince(from) }

// hasClearExecutor reports whether the servers and some running executor had no trouble at or after from.
func (r *roads) hasClearExecutor(from time.Duration) bool {
	return r.serversClear(from) && slices.ContainsFunc(r.executors, func(p *road) bool { return p.isClear(from) })
}

// hintsArrive reports whether a hint published at or after from must reach an executor that acts on it. At
// least one executor must run, all running executors must be well, because any of them may get the hint, and
// no fault may have affected hints.
func (r *roads) hintsArrive(from time.Duration) bool {
	if !r.serversClear(from) || r.hints.presentSince(from) {
		return false
	}
	any := false
	for _, p := range r.executors {
		if p.up && !p.isClear(from) || !p.up && p.wrong.last >= from {
			return false
		}
		any = any || p.up
	}
	return any
}
