package invariant

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file is what becomes of the rules when the database loses what was written last (history.DatabaseRewound).
//
// Up to that moment every rule judges as ever. From then on the suite is silent, and hands the history on to another one,
// which has seen the processes, servers, faults and workers from the beginning and no execution. That one waits until the
// contract holds again: until every incarnation that has lost a heartbeat is over, and nothing from before is left to do.
// Then it judges everything that is accepted from that moment on, by every rule, and nothing else: a message or an end of
// an execution from before is none of its business.
//
// While it waits it judges one thing, as part of rule 12: that those incarnations come to their end in time.

// rewinding is a suite's part in that.
type rewinding struct {
	only []int
	// later judges what follows the next loss; nil where none is expected. over says that it has the word.
	later *Suite
	over  bool

	// waits says that the suite judges nothing yet, and ready that the loss has happened that it follows.
	waits, ready bool
	// quiet asks the world whether nothing is left to do.
	quiet func() bool
	// stale are the incarnations that have lost a heartbeat, and due is when they have to be over.
	stale []execution.Incarnation
	due   time.Duration
	// execution and message are the last from before; foreign are those from after that belong to one from before.
	execution execution.ID
	message   uint64
	foreign   map[execution.ID]bool
}

// ExpectRewinds says how often the database may lose what was written last, and how to ask whether nothing is left to do.
// It comes behind everything else that the suite is told before a run.
func (s *Suite) ExpectRewinds(n int, quiet func() bool) {
	if n == 0 {
		return
	}
	s.later = New(s.config, s.only)
	s.later.requested, s.later.clock, s.later.tolerance, s.later.calmBounds = s.requested, s.clock, s.tolerance, s.calmBounds
	s.later.alerts, s.later.holds, s.later.patience = s.alerts, s.holds, s.patience
	s.later.waits, s.later.quiet, s.later.foreign = true, quiet, make(map[execution.ID]bool)
	s.later.ExpectRewinds(n-1, quiet)
}

// environment says that an event is about what executions run on.
func environment(k history.Kind) bool {
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

// passes hands an event on to who judges later, and says whether the suite itself looks at it.
func (s *Suite) passes(e *history.Event) bool {
	if s.waits && !s.awaits(e) || s.foreign != nil && s.before(e) {
		return false
	}
	switch {
	case s.later == nil:
	case s.over:
		s.later.Observe(e)
		return false
	case e.Kind == history.DatabaseRewound && (s.foreign == nil || s.ready):
		s.over = true
		s.later.lost(e)
		return false
	case environment(e.Kind) || s.later.waits:
		s.later.Observe(e)
	}
	return true
}

// lost begins the wait.
func (s *Suite) lost(e *history.Event) {
	s.ready, s.due = true, e.At+s.surrender()
	for i, t := range s.workers.All() {
		if _, gone := t.gone(); !gone && t.renewed >= e.Due {
			s.stale = append(s.stale, i)
		}
	}
	slices.SortFunc(s.stale, cmp.Compare)
}

// surrender is how long an incarnation may take to be over that has lost a heartbeat: until it beats again, or until an
// executor finds its lease over.
func (s *Suite) surrender() time.Duration {
	return s.bounds.WorkerDead + s.bounds.Warmup + s.bounds.Recovery
}

// awaits sees an event while the suite waits, and says whether it learns from it.
func (s *Suite) awaits(e *history.Event) bool {
	s.execution, s.message = max(s.execution, e.Execution), max(s.message, e.Message)
	if !s.ready {
		return environment(e.Kind)
	}
	s.stale = slices.DeleteFunc(s.stale, func(i execution.Incarnation) bool {
		t := s.workers.Get(i)
		if t == nil {
			return true
		}
		_, gone := t.gone()
		return gone
	})
	switch {
	case len(s.stale) == 0:
		s.waits = !s.quiet()
	case s.calm.hindering > 0:
		s.due = e.At + s.surrender()
	case e.At > s.due:
		s.overdue(s.stale[0])
	}
	return environment(e.Kind)
}

// overdue is a violation of the one rule that holds while the suite waits.
func (s *Suite) overdue(i execution.Incarnation) {
	for _, c := range s.checkers {
		if of, ok := c.(*detectionChecker); ok {
			s.waits = false
			s.violate(of.i, 0, "incarnation %d (%s) goes on although the database has lost a heartbeat of it: what else was lost of it nobody knows",
				i, s.workers.Get(i).process)
			s.waits = true
		}
	}
}

// before says that an event is about what was there before the suite began to judge.
func (s *Suite) before(e *history.Event) bool {
	if s.waits {
		return false
	}
	if e.Kind == history.Created && (e.Chain != 0 && e.Chain <= s.execution || e.Related != 0 && e.Related <= s.execution) {
		s.foreign[e.Execution] = true
	}
	old := e.Execution != 0 && (e.Execution <= s.execution || s.foreign[e.Execution])
	return old || e.Message != 0 && e.Message <= s.message
}

// silent says that what is found is nothing that the contract forbids.
func (s *Suite) silent() bool { return s.over || s.waits }

// laterFindings are those of whoever judges now.
func (s *Suite) laterFindings() []Finding {
	if !s.over {
		return s.findings
	}
	return append(slices.Clone(s.findings), s.later.Findings()...)
}
