package invariant

import (
	"time"

	"handoff/chaos/history"
)

// givenBack returns invariant 30: a process releases its contexts, sessions, consumers and tasks, so their
// number doesn't grow with its passes. Only the simulated world counts what processes hold; see Conduct.
func givenBack() *Invariant {
	i := &Invariant{
		Number: 30, Name: "what was taken is given back", Conduct: true,
		Statement: "A waiting part holds no deadlines except those under which it waits. A part that has ended holds no context. A process has at most three broker sessions, one consumer of a queue on each, and as many tasks as it has parts and executions.",
		// Only histories of the simulated world contain Logged, and only that world has the evidence.
		Needs: []history.Kind{history.Logged},
	}
	i.make = func(s *Suite) checker { return &heldChecker{i: i, s: s} }
	return i
}

const (
	// mostSessions is the maximum number of a process's sessions. An executor works over one session, sends
	// canaries over another, and uses a third before it deletes idle queues. A worker consumes over one and
	// publishes over another.
	mostSessions = 3
	// mostPlainContexts is the maximum number of contexts without a deadline that a part may hold while it
	// waits. Each exists as long as the work that it cancels, so there may be a few, but their number must
	// not grow with each pass.
	mostPlainContexts = 4
	// mostParts is greater than the number of parts of any process. mostProbes is the number of workers that
	// an executor probes concurrently.
	mostParts, mostProbes = 40, 16
)

type heldChecker struct {
	i *Invariant
	s *Suite
}

// observedKinds implements selective.
func (*heldChecker) observedKinds() []history.Kind {
	return []history.Kind{}
}

func (h *heldChecker) observeEvent(*history.Event, *life) {}

func (h *heldChecker) endRun(bool) {}

// judgeWaiting judges the contexts that a waiting part holds. deadlines counts the contexts with a deadline
// under which it does not wait.
func (h *heldChecker) judgeWaiting(p Part, deadlines, plain int) {
	if deadlines+plain == 0 {
		return
	}
	h.s.countOccasion(h.i)
	if deadlines > 0 {
		h.s.recordViolation(h.i, 0, "%s: %s waits, and holds %d contexts with a deadline that it has not ended: each keeps a timer until its time has passed", p.Process, p.Name, deadlines)
	}
	if plain > mostPlainContexts {
		h.s.recordViolation(h.i, 0, "%s: %s waits, and holds %d contexts without a deadline that it has not ended; the bound is %d", p.Process, p.Name, plain, mostPlainContexts)
	}
}

func (h *heldChecker) judgeEnded(p Part, contexts int) {
	if contexts == 0 {
		return
	}
	h.s.countOccasion(h.i)
	h.s.recordViolation(h.i, 0, "%s: %s has ended, but has not ended %d contexts that it made", p.Process, p.Name, contexts)
}

func (h *heldChecker) judgeLateCall(p Part, call string, at time.Duration) {
	h.s.countOccasion(h.i)
	h.s.recordViolation(h.i, 0, "%s: %s makes the call %s under a context with a deadline that it made itself and had already ended at %v", p.Process, p.Name, call, at)
}

func (h *heldChecker) judgeTasks(p Part, worker bool, concurrency, tasks int) {
	h.s.countOccasion(h.i)
	bound := mostParts + mostProbes
	if worker {
		// An incarnation's remaining results may be written while the next incarnation works.
		bound = mostParts + 2*concurrency
	}
	if tasks > bound {
		h.s.recordViolation(h.i, 0, "%s has %d tasks when it starts %s; the bound is %d (a fixed number, and some for probes or executions)", p.Process, tasks, p.Name, bound)
	}
}

func (h *heldChecker) judgeSessions(process string, open int) {
	h.s.countOccasion(h.i)
	if open > mostSessions {
		h.s.recordViolation(h.i, 0, "%s has %d sessions of the broker open; the bound is %d", process, open, mostSessions)
	}
}

func (h *heldChecker) judgeConsumers(process, queue string, open int) {
	h.s.countOccasion(h.i)
	if open > 1 {
		h.s.recordViolation(h.i, 0, "%s consumes the queue %s %d times over one session", process, queue, open)
	}
}
