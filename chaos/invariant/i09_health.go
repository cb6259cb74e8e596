package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// healthierFirst adds a doubt about a dispatch to a degraded worker if every executor must have known that a
// healthy worker fitted and had room. Executors also learn from probes which workers are well, so the rule
// applies only if nothing hindered probes.
func (p *placementChecker) healthierFirst(w *candidate, e *history.Event, l *life) {
	calm := max(p.s.hindrances.lastEnd, p.s.setBack)
	if w == nil || l.pinned != 0 || p.s.hindrances.lasting > 0 || e.At-calm < p.s.bounds.Probes || !p.alwaysHasHealth(w, e.At, execution.Degraded) {
		return
	}
	p.s.countOccasion(p.i)
	old, room := e.At-p.memory, p.roomSince(l.entered)
	for _, other := range p.candidates {
		if other != w && other.worker != l.avoid && other.acceptsRuntime(l.runtime, p.s.latestShownTime(old, e.At)) && other.goodSince <= old && room(other) <= old &&
			other.capacity < p.s.config.Health.QueueDepthDegraded && p.alwaysHasHealth(other, e.At, execution.Healthy) && p.answersProbes(other, e.At) {
			known := w.latestSnapshot()
			p.addDoubt(e, other, room, "which is degraded (%d failures in a row, %d of %d runs failed), while worker %d is healthy and has had room since %v",
				known.consecutive, known.failed, known.total, other.worker, other.roomSince)
			return
		}
	}
}

// alwaysHasHealth reports whether a worker has this health by all evidence that the executor may have had
// when it decided.
func (p *placementChecker) alwaysHasHealth(w *candidate, now time.Duration, is execution.Health) bool {
	old := now - p.memory
	if len(w.snapshots) == 0 {
		return is == execution.Healthy && w.fitSince <= old
	}
	if is != execution.Healthy && w.snapshots[0].from > old {
		return false
	}
	for n := range w.snapshots {
		s, until := &w.snapshots[n], now
		if n+1 < len(w.snapshots) {
			until = w.snapshots[n+1].from
		}
		if until < old {
			continue
		}
		as := func(e oracle.Evidence) bool { return p.thresholds.Health(e) == is }
		if !p.surelyHolds(w, s, max(s.from, old), as) || !p.surelyHolds(w, s, until, as) {
			return false
		}
	}
	return true
}

// surelyHolds reports whether the condition holds for all possible evidence about the worker.
func (p *placementChecker) surelyHolds(w *candidate, s *snapshot, at time.Duration, holds func(oracle.Evidence) bool) bool {
	for _, e := range p.possibleEvidence(w, s, at) {
		if !holds(e) {
			return false
		}
	}
	return true
}

// possibleEvidence returns the extremes of the possible evidence for a worker's health at a given time. A
// worker reports the number of its runs only while failures are blamed on it. Otherwise the number lies
// between 0 and the number of its claims. The least and the greatest possible number give the smallest shares
// of failures, unclaimed dispatches included. The least number with which shares count gives the largest
// share. The result is valid until the next call.
func (p *placementChecker) possibleEvidence(w *candidate, s *snapshot, at time.Duration) []oracle.Evidence {
	e := oracle.Evidence{Total: s.total, Failed: s.failed, Consecutive: s.consecutive}
	for _, left := range s.expired {
		if p.s.databaseTime(at)-left <= p.s.config.Health.Window {
			e.Unclaimed++
		}
	}
	if s.failed+s.consecutive > 0 || e.Unclaimed == 0 {
		return append(p.shares[:0], e)
	}
	least, few, most := e, e, e
	least.Total, few.Total, most.Total = 0, min(w.claims, max(0, p.s.config.Health.MinSamples-e.Unclaimed)), w.claims
	return append(p.shares[:0], least, few, most)
}
