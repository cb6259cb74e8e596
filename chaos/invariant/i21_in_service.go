package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// inService returns invariant 21 (defect D32): a worker becomes active once it consumes. If its report is
// lost although the worker believes that it was received, the machine stays unused, and nothing detects that.
func inService() *Invariant {
	i := &Invariant{
		Number: 21, Name: "in service", Conduct: true,
		Statement: "A worker that has registered, renews its lease and consumes is active within one heartbeat and two statements. The time counts from the last moment at which something kept the worker from reporting this. A worker whose claim is refused because its lease is over renews it at once.",
		Needs:     []history.Kind{history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.FaultBegan},
	}
	i.make = func(s *Suite) checker {
		w := s.config.Worker
		return &inServiceChecker{i: i, s: s, ready: make(map[execution.Incarnation]time.Duration), bound: w.HeartbeatInterval + 2*w.StatementTimeout}
	}
	return i
}

// noActivation is the set of causes that can keep a worker from reporting that it is active, or from learning
// that the report was received.
const noActivation = standsStill | itsClock | toDatabase | isMute | hasTwin | databaseFails

type inServiceChecker struct {
	i     *Invariant
	s     *Suite
	bound time.Duration
	// ready holds since when each starting incarnation has reported with every heartbeat that it consumes.
	ready map[execution.Incarnation]time.Duration
}

// observedKinds implements selective.
func (isc *inServiceChecker) observedKinds() []history.Kind {
	return []history.Kind{history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed}
}

func (isc *inServiceChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.WorkerRegistered:
		// Older incarnations of the worker can no longer become active.
		for n := range isc.ready { //detlint:ok deletes those that match, in any order
			if t := isc.s.workers.Get(n); t != nil && t.worker == e.Worker {
				delete(isc.ready, n)
			}
		}
	case history.WorkerLifecycle:
		if since, known := isc.ready[e.Incarnation]; known {
			isc.judgeStarting(e, since)
			delete(isc.ready, e.Incarnation)
		}
	case history.HeartbeatRenewed:
		t := isc.s.workers.Get(e.Incarnation)
		if t == nil || t.lifecycle != execution.Starting || t.superseded || e.Limit == 0 {
			delete(isc.ready, e.Incarnation)
			return
		}
		if since, known := isc.ready[e.Incarnation]; known {
			isc.judgeStarting(e, since)
		} else {
			isc.ready[e.Incarnation] = e.At
		}
	default:
	}
}

// judgeStarting judges how long an incarnation has been starting although it consumes.
func (isc *inServiceChecker) judgeStarting(e *history.Event, since time.Duration) {
	t := isc.s.workers.Get(e.Incarnation)
	if t == nil || t.late {
		return
	}
	isc.s.countOccasion(isc.i)
	at := e.At
	if e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Lost {
		// A worker that could not renew its lease fences itself and then reports nothing more. Executors may
		// detect its loss only long after that, when the servers have recovered.
		at = min(at, t.renewed+oracle.Lease(&isc.s.config.Worker)-isc.s.config.Worker.FenceMargin)
	}
	bound := isc.bound
	if silent := &isc.s.ledger.entryOf(t.process).silent; silent.seen && silent.last >= since-isc.s.config.Worker.StatementTimeout {
		// The worker learns from a heartbeat's answer that it may become active. A heartbeat may take a third
		// of the lease, if its connection went silent while it was under way.
		bound += oracle.Lease(&isc.s.config.Worker) / 3
	}
	if at-since > bound && !isc.s.ledger.hasStruck(noActivation, t.process, t.worker, at-bound) {
		isc.s.recordViolation(isc.i, 0, "%s (incarnation %d) has said since %v that it consumes and is still %v at %v; nothing hinders it, and the bound is %v",
			t.process, e.Incarnation, since, t.lifecycle, at, bound)
	}
}

func (isc *inServiceChecker) endRun(bool) {}
