package invariant

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file adapts the rules to a database that loses its latest writes (history.DatabaseRewound).
//
// Until the loss every rule judges as usual. After it this suite reports nothing more and passes the history
// on to another suite. That suite has observed processes, servers, faults and workers from the beginning. Of
// executions it has observed only the failures that workers count. It waits until the contract holds again:
// every incarnation that has lost an answered heartbeat is over, and no older work is left. Then it judges
// everything accepted from that time on, by every rule, and ignores messages and ends of older executions.
//
// While it waits, it judges only one rule, as part of invariant 12: the incarnations that have lost an
// answered heartbeat must end in time.

// rewindState is a suite's state about losses of the database.
type rewindState struct {
	only []int
	// later is the suite that judges the history after the next loss, nil if none is expected. over reports
	// whether it has taken over.
	later *Suite
	over  bool

	// waits reports whether the suite does not judge yet, and ready whether the awaited loss has happened.
	waits, ready bool
	// quiet reports whether the world has nothing left to do.
	quiet func() bool
	// stale holds the incarnations that have lost an answered heartbeat. due is when they must be over. The
	// writes between from and to are lost.
	stale         []execution.Incarnation
	due, from, to time.Duration
	// execution and message are the last numbers that were given before the suite began to judge. foreign
	// holds later executions that belong to earlier executions.
	execution execution.ID
	message   uint64
	foreign   map[execution.ID]bool
}

// ExpectRewinds sets how often the database may lose its latest writes. quiet reports whether nothing is left
// to do. It must be called after all other setters, and before the run.
func (s *Suite) ExpectRewinds(n int, quiet func() bool) {
	if n == 0 {
		return
	}
	s.later = New(s.config, s.only)
	s.later.requested, s.later.clock, s.later.tolerance, s.later.calmBounds = s.requested, s.clock, s.tolerance, s.calmBounds
	s.later.alerts, s.later.holds, s.later.patience = s.alerts, s.holds, s.patience
	if s.each != nil {
		s.later.EachExecution()
	}
	s.later.waits, s.later.quiet, s.later.foreign = true, quiet, make(map[execution.ID]bool)
	s.later.ExpectRewinds(n-1, quiet)
}

// isEnvironment reports whether a kind of event is about the environment of executions: processes, servers,
// faults or workers.
func isEnvironment(k history.Kind) bool {
	switch k {
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopping, history.ProcessStopped, history.ProcessPaused,
		history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed, history.FaultBegan, history.FaultEnded,
		history.FaultTouched, history.ActionDefined, history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed,
		history.HealthReported, history.WorkerCordoned, history.DatabaseDown, history.DatabaseUp, history.BrokerDown,
		history.BrokerUp, history.ClockStepped:
		return true
	default:
		return false
	}
}

// routeEvent passes an event on to the later suite, and reports whether this suite observes it too.
func (s *Suite) routeEvent(e *history.Event) bool {
	if s.waits && !s.observeWaiting(e) || s.foreign != nil && s.concernsOlder(e) {
		s.noteForeignFailures(e)
		return false
	}
	switch {
	case s.later == nil:
	case s.over:
		s.later.Observe(e)
		return false
	case e.Kind == history.DatabaseRewound && (s.foreign == nil || s.ready):
		s.over = true
		s.later.beginWait(e)
		return false
	case isEnvironment(e.Kind) || s.later.waits:
		s.later.Observe(e)
	}
	return true
}

// beginWait begins the wait after a loss.
func (s *Suite) beginWait(e *history.Event) {
	s.ready, s.due, s.from, s.to = true, e.At+s.surrenderTime(), e.Due, e.At
	for i, t := range s.workers.All() {
		// A worker that got no reply to a heartbeat does not know that the heartbeat was lost.
		known := t.answered
		if !s.called {
			known = t.renewed
		}
		s.markStale(i, t, known)
	}
	slices.SortFunc(s.stale, cmp.Compare)
	for _, c := range s.checkers {
		if of, ok := c.(*gracefulChecker); ok {
			of.forgetLostRequests(s.from)
		}
	}
}

// markStale adds an incarnation to stale if a heartbeat stored at the time at is lost. A heartbeat stored
// exactly at from may have been kept.
func (s *Suite) markStale(i execution.Incarnation, t *session, at time.Duration) {
	if _, gone := t.goneSince(); !gone && at > s.from && !slices.Contains(s.stale, i) {
		s.stale = append(s.stale, i)
	}
}

// storedBeat is a heartbeat that the database has stored.
type storedBeat struct {
	number uint64
	at     time.Duration
}

// noteAnsweredBeat notes that a heartbeat was answered.
func (s *Suite) noteAnsweredBeat(i execution.Incarnation, number uint64) {
	t := s.workers.Get(i)
	if t == nil {
		return
	}
	for _, b := range t.beats {
		if b.number != number {
			continue
		}
		t.answered = max(t.answered, b.at)
		if s.waits && s.ready && b.at < s.to {
			// The answer was under way when the database was lost.
			s.markStale(i, t, b.at)
			s.due = max(s.due, s.now.At+s.surrenderTime())
		}
	}
	t.beats = slices.DeleteFunc(t.beats, func(b storedBeat) bool { return b.number <= number })
}

// surrenderTime returns for how long an incarnation that has lost an answered heartbeat may continue: until
// its next heartbeat, or until an executor detects that its lease is over.
func (s *Suite) surrenderTime() time.Duration {
	return s.bounds.WorkerDead + s.bounds.Warmup + s.bounds.Recovery
}

// observeWaiting observes an event while the suite waits, and reports whether the suite applies it.
func (s *Suite) observeWaiting(e *history.Event) bool {
	s.execution, s.message = max(s.execution, e.Execution), max(s.message, e.Message)
	if !s.ready {
		return isEnvironment(e.Kind)
	}
	s.stale = slices.DeleteFunc(s.stale, func(i execution.Incarnation) bool {
		t := s.workers.Get(i)
		if t == nil {
			return true
		}
		_, gone := t.goneSince()
		return gone
	})
	switch {
	case len(s.stale) == 0:
		s.waits = !s.quiet()
	case s.hindrances.lasting > 0:
		s.due = e.At + s.surrenderTime()
	case e.At > s.due:
		s.reportOverdue(s.stale[0])
	}
	return isEnvironment(e.Kind)
}

// reportOverdue records a violation of the only rule that is judged while the suite waits.
func (s *Suite) reportOverdue(i execution.Incarnation) {
	for _, c := range s.checkers {
		if of, ok := c.(*detectionChecker); ok {
			s.waits = false
			s.recordViolation(of.i, 0, "incarnation %d (%s) goes on although the database has lost a heartbeat that it had answered, and perhaps more of its writes",
				i, s.workers.Get(i).process)
			s.waits = true
		}
	}
}

// concernsOlder reports whether an event is about an execution or message from before the suite began to
// judge.
func (s *Suite) concernsOlder(e *history.Event) bool {
	if s.waits {
		return false
	}
	if e.Kind == history.Created && (e.Chain != 0 && e.Chain <= s.execution || e.Related != 0 && e.Related <= s.execution) {
		s.foreign[e.Execution] = true
	}
	old := e.Execution != 0 && (e.Execution <= s.execution || s.foreign[e.Execution])
	return old || e.Message != 0 && e.Message <= s.message
}

// noteForeignFailures records the failures of workers in executions that this suite does not judge. A worker
// continues to count these failures, even if the database has lost them.
func (s *Suite) noteForeignFailures(e *history.Event) {
	if e.Kind != history.Transition && e.Kind != history.StaleWrite {
		return
	}
	for _, c := range s.checkers {
		if of, ok := c.(*placementChecker); ok {
			of.noteWorkerFailures(e)
		}
	}
	if s.later != nil {
		s.later.noteForeignFailures(e)
	}
}

// isSilent reports whether the suite must not record findings now.
func (s *Suite) isSilent() bool { return s.over || s.waits }

// laterFindings returns the findings of this suite and of the suites that took over from it.
func (s *Suite) laterFindings() []Finding {
	if !s.over {
		return s.findings
	}
	return append(slices.Clone(s.findings), s.later.Findings()...)
}
