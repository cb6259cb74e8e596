package invariant

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// doubt is a dispatch to a worker although another worker seemed the better choice. It is judged once the
// pass has ended: later events of the same pass may dispatch work to the other worker and make it a worse
// choice.
type doubt struct {
	// old is the time of the oldest information on which the dispatch may be based. at is the time of the
	// dispatch, and until the end of its pass.
	old, at, until time.Duration
	// refusing is the executor if the database may have refused its other dispatches, otherwise empty.
	refusing  string
	execution execution.ID
	better    *candidate
	// since returns since when the other worker has been the better choice. why is the violation's text.
	since func(*candidate) time.Duration
	why   string
}

// judgeDoubts judges the doubtful dispatches of passes that have ended.
func (p *placementChecker) judgeDoubts(now time.Duration) {
	p.doubts = slices.DeleteFunc(p.doubts, func(d doubt) bool {
		if now <= d.until {
			return false
		}
		if d.since(d.better) <= d.old && !p.leftClaimed(&d) {
			p.s.recordViolation(p.i, d.execution, "%s", d.why)
		}
		return true
	})
}

// leftClaimed reports whether the dispatch's pass has claimed other rows that the better worker could run.
// The pass may have planned these for that worker, and so considered it full.
func (p *placementChecker) leftClaimed(d *doubt) bool {
	if d.refusing == "" {
		return false
	}
	for _, l := range p.s.lives.All() {
		if l.status == execution.Scheduling && l.by == d.refusing && l.entered >= d.old && l.entered <= d.at &&
			slices.Contains(d.better.runtimes, l.runtime) && (l.pinned == 0 || l.pinned == d.better.worker) {
			return true
		}
	}
	return false
}

// wasHalted reports whether an executor was halted after it may have read the workers. When it resumes, it
// decides by that earlier reading.
func (p *placementChecker) wasHalted(e *history.Event) bool {
	return p.s.ledger.entryOf(e.Process).held.presentSince(e.At - p.memory)
}

// addDoubt records that a dispatch should have gone to the worker better, if that worker is still the better
// choice once the pass has ended. A pass dispatches all its rows in one statement. If the database refuses
// it, each row is dispatched separately, and the better worker's rows may come last or not at all.
func (p *placementChecker) addDoubt(e *history.Event, better *candidate, since func(*candidate) time.Duration, format string, args ...any) {
	if better != nil && !p.wasHalted(e) {
		why := fmt.Sprintf("execution %d was dispatched by %s to worker %d (incarnation %d), ", e.Execution, e.Process, e.Worker, e.Incarnation) + fmt.Sprintf(format, args...)
		d := doubt{old: e.At - p.memory, at: e.At, until: e.At, execution: e.Execution, better: better, since: since, why: why}
		if p.s.ledger.hasStruck(databaseFails, e.Process, 0, e.At) {
			d.refusing, d.until = e.Process, e.At+p.s.config.Executor.StatementTimeout
		}
		p.doubts = append(p.doubts, d)
	}
}

// roomSince returns a function that returns since when a worker has had room for an execution claimed at
// claimed. It returns never if the claiming executor may consider the worker full.
func (p *placementChecker) roomSince(claimed time.Duration) func(*candidate) time.Duration {
	look := claimed - 2*p.s.config.Executor.StatementTimeout
	return func(w *candidate) time.Duration {
		if w.seemedFull(look) {
			return never
		}
		return w.roomSince
	}
}

func idleSince(w *candidate) time.Duration { return w.idleSince }

// judgeAvoidance requires that an execution doesn't go to the worker that it should avoid. This applies if
// another worker has been fit and well, with room, for longer than a decision can be old.
func (p *placementChecker) judgeAvoidance(w *candidate, e *history.Event, l *life) {
	if l.avoid != w.worker || l.pinned != 0 {
		return
	}
	p.s.countOccasion(p.i)
	room := p.roomSince(l.entered)
	if other := p.betterWorker(w, e.At, l, room); other != nil {
		p.addDoubt(e, other, room, "from which it was taken back last, or on which its predecessor failed, although worker %d (incarnation %d) fits, is well and has had room since %v",
			other.worker, other.incarnation, other.roomSince)
	}
}

// judgeIdleWorker requires that an execution doesn't go to a busy worker while another worker has been idle
// for so long that every executor must know that it is well. The busy worker must already have had work when
// the executor looked, because several executors may simultaneously choose the same idle worker. Executors
// also learn from probes which workers are well, so the rule applies only if nothing hindered probes.
func (p *placementChecker) judgeIdleWorker(w *candidate, e *history.Event, l *life) {
	if l.pinned != 0 || p.s.hindrances.lasting > 0 || e.At-p.s.hindrances.lastEnd < p.s.bounds.Probes || e.At < p.s.setBack+p.s.bounds.Probes ||
		w.busySince == never || w.busySince > l.entered-p.s.promptBound() {
		return
	}
	p.s.countOccasion(p.i)
	other := p.betterWorker(w, e.At, l, func(other *candidate) time.Duration {
		if !p.isSpotless(other, e.At) || !p.answersProbes(other, e.At) {
			return never
		}
		return other.idleSince
	})
	if other != nil {
		p.addDoubt(e, other, idleSince, "which holds %d already, although worker %d (incarnation %d) fits, is well, and has had nothing to do since %v", w.load, other.worker, other.incarnation, other.idleSince)
	}
}

// answersProbes reports whether nothing kept a worker from answering health probes for as long as executors
// take to detect it: neither its own trouble nor that of its links, including the links to executors.
func (p *placementChecker) answersProbes(w *candidate, now time.Duration) bool {
	if !p.s.config.Health.Enabled || p.s.config.Executor.HealthProbes != config.Act {
		return true
	}
	t := p.s.workers.Get(w.incarnation)
	return t != nil && p.s.roads.roadOf(t.process).isClear(now-p.s.bounds.Probes)
}

// betterWorker returns a worker other than w that an executor must know to fit an execution, and for which
// since's condition has held for long enough; nil if there is none.
func (p *placementChecker) betterWorker(w *candidate, now time.Duration, l *life, since func(*candidate) time.Duration) *candidate {
	old := now - p.memory
	for _, other := range p.candidates {
		if other.worker == w.worker || other.worker == l.avoid || !other.acceptsRuntime(l.runtime, p.s.latestShownTime(old, now)) || other.goodSince > old {
			continue
		}
		if from := since(other); from <= old && from != never {
			return other
		}
	}
	return nil
}

// isSpotless reports whether nothing makes a worker the last choice among healthy workers: within the health
// window no failure was blamed on it, and it left no dispatch unclaimed.
func (p *placementChecker) isSpotless(w *candidate, now time.Duration) bool {
	h := p.s.config.Health
	s := w.latestSnapshot()
	if s.consecutive > 0 || s.failed > 0 {
		return false
	}
	if n := len(s.expired); n > 0 && p.s.databaseTime(now)-s.expired[n-1] <= h.Window+h.Window/10 {
		return false
	}
	n := len(w.failures)
	return n == 0 || now-w.failures[n-1].at > h.Window+h.Window/10
}

// judgeGrace requires that an execution fails for want of a fitting worker only after the grace, counted from
// when it was due and from when a worker last fitted it.
func (p *placementChecker) judgeGrace(e *history.Event, l *life) {
	grace := p.s.config.Executor.UnschedulableGrace
	if p.s.stepped > 0 && p.s.stepped >= e.At-grace || p.s.setBack > 0 && e.At < p.s.setBack+grace {
		return
	}
	p.s.countOccasion(p.i)
	if x := p.s.config; p.brokerUp >= 0 && e.At-p.brokerUp < x.MessageQueue.RabbitMQ.ReconnectMax+2*x.Executor.StatementTimeout {
		p.s.recordViolation(p.i, e.Execution, "execution %d failed for want of workers %v after the broker came back at %v; the workers have %v to come back, too, before anybody may conclude that there are none",
			e.Execution, e.At-p.brokerUp, p.brokerUp, x.MessageQueue.RabbitMQ.ReconnectMax+2*x.Executor.StatementTimeout)
	}
	last := p.lastFit(l, e.At)
	// The decision is based on a claim and an earlier look at the workers. Both are older than the failure.
	if waited := e.At - max(l.waits, last); waited < grace-p.s.tolerance {
		p.s.recordViolation(p.i, e.Execution, "execution %d failed for want of workers after %v; it has been due since %v, a worker fitted it until %v, and its grace is %v",
			e.Execution, waited, l.waits, last, grace)
	}
}

// nobodyIsBetter reports whether all workers that fitted the runtime from since to now were surely unhealthy
// all that time. In that case unhealthy workers get work like any others.
func (p *placementChecker) nobodyIsBetter(runtime string, since, now time.Duration) bool {
	for _, w := range p.candidates {
		if !slices.Contains(w.runtimes, runtime) {
			continue
		}
		last := w.wellUntil
		if w.wellSince != never {
			last = min(now, w.leaseOver)
		}
		if last >= since {
			return false
		}
	}
	return true
}
