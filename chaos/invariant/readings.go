package invariant

import (
	"time"

	"handoff/chaos/history"
)

// An executor compares the database's clock with its own (docs/ownership.md, "Two clocks"). It can't know of
// a clock step before its first reading. Its timeout monitor reads the clock at its start or, if the database
// is unreachable at that time, in a later pass.

// hindersReading is the set of causes that can keep an executor from reading the database's clock.
const hindersReading = standsStill | toDatabase | databaseFails

// firstReading returns by when an executor must have read the database's clock for the first time since its
// start, never if it need not have yet. A process whose start is unknown counts as started with the history.
func (s *Suite) firstReading(process string, now time.Duration) time.Duration {
	p := s.roads.byName[process]
	if p != nil && p.read != 0 {
		return p.read
	}
	start := s.started[process]
	last, lasts := s.ledger.lastPresence(hindersReading, process)
	at := start + s.promptBound()
	if last > start {
		// A call that was under way ends, and the next pass reads the clock.
		e := &s.config.Executor
		at = last + e.StatementTimeout + e.TimeoutCheckInterval + clockDrift(e.TimeoutCheckInterval) + s.promptBound()
	}
	if lasts || now < at {
		return never
	}
	if p != nil {
		p.read = at
	}
	return at
}

// missedStep returns when the database's clock was last moved before an executor must have read it, 0 for
// never.
func (s *Suite) missedStep(process string) time.Duration {
	if p := s.roads.byName[process]; p != nil {
		return p.missed
	}
	return 0
}

// noteReadings must be called before an event that may hinder executors. It records which executors have read
// the clock by then, and which of them miss a step of the clock.
func (s *Suite) noteReadings(e *history.Event) {
	switch e.Kind {
	case history.ClockStepped:
		if e.Due < 0 {
			s.back = stepBack{e.At, -e.Due, s.skew}
		}
		for _, p := range s.roads.executors {
			if s.firstReading(p.name, e.At) > e.At {
				p.missed = e.At
			}
		}
	case history.FaultBegan, history.DatabaseDown, history.ProcessPaused, history.ProcessFrozen,
		history.ProcessStopping, history.ProcessStopped, history.ProcessCrashed:
		for _, p := range s.roads.executors {
			s.firstReading(p.name, e.At)
		}
	default:
	}
}

// stepBack is a backward step of the database's clock: its time, its size, and the clock's skew before it.
type stepBack struct{ at, by, skew time.Duration }

// offsetTolerance is the maximum step of the clock that an executor does not detect.
const offsetTolerance = 500 * time.Millisecond

// unseenBack returns how much longer a wait that began at since may seem to an executor, because the clock
// was set back before since and forwards after it. An executor does not detect a step that another step
// undoes before its next reading, which its timeout monitor makes in every pass.
func (s *Suite) unseenBack(process string, since time.Duration) time.Duration {
	b, interval := s.back, s.config.Executor.TimeoutCheckInterval
	if b.by == 0 || b.at > since || s.stepped <= since || s.skew < b.skew-offsetTolerance {
		return 0
	}
	if s.stepped-b.at > interval+clockDrift(interval)+s.promptBound() && !s.ledger.hasStruck(hindersReading, process, 0, b.at) {
		return 0
	}
	return b.by
}
