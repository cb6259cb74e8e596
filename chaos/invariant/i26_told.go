package invariant

import (
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 26 about the hints themselves (docs/queues.md, "Messages"). The writer
// of a change that needs a hint must report it immediately, only once, correctly and to the right receivers.
// A missing hint costs time, and a superfluous one costs work. Other rules rarely detect this, because
// periodic looks find the change anyway. Only the simulated world reports the content of hints.

// These are from docs/contract.md, "Numbers that no key changes".
const (
	hintSize     = 100
	hintAttempts = 4
)

// longestHint is how long the ids of hints are remembered. Every attempt of a hint falls within this time.
const longestHint = time.Minute

// statusChange is a change of an execution's status, as a hint reports it.
type statusChange struct {
	id    execution.ID
	epoch execution.Epoch
	to    execution.Status
}

// committedChange is a change that was committed, with its writer and time, and which of its hints have
// reached the broker.
type committedChange struct {
	statusChange
	from             execution.Status
	process          string
	at               time.Duration
	changed, through bool
	// sentTypes has a bit for each type of hint that its writer has sent about the change.
	sentTypes uint8
	// before is the previous change of the same execution.
	before *committedChange
}

// publishedHint is a hint that has reached the broker, with its sender, the time of its first attempt, its
// last message and its number of attempts.
type publishedHint struct {
	id       string
	position hintPosition
	process  string
	at       time.Duration
	message  uint64
	attempts int32
	routed   bool
}

// hintChecker tracks the changes committed in the last second and the hints of the last minute.
type hintChecker struct {
	i *Invariant
	s *Suite
	// recent holds the changes not judged yet, and kept the judged changes of the last minute, both the
	// oldest first. byChange holds the latest change of each execution, which links to the earlier changes.
	recent, kept queue[*committedChange]
	byChange     dense.Table[execution.ID, *committedChange]
	// sent holds the hints by id, and order the same hints, the oldest first.
	sent  sentHints
	order queue[*publishedHint]
	// newest is the hint of the last event.
	newest *publishedHint
	// next is the time after which the next check is due.
	next time.Duration
	// spared and unsent hold unused entries for reuse.
	spared []*committedChange
	unsent []*publishedHint
	// restarted holds when each restarted process last started. It then numbers its hints from 1 again.
	restarted map[string]time.Duration
	// hasContent reports whether the history reports the content of hints. If it doesn't, a missing hint
	// can't be detected.
	hasContent bool
	senderState
}

func newHintChecker(i *Invariant, s *Suite) *hintChecker {
	return &hintChecker{i: i, s: s, sent: newSentHints(), restarted: make(map[string]time.Duration)}
}

func (hc *hintChecker) observeEvent(e *history.Event, l *life) {
	if e.At > hc.next || len(hc.unaccepted) > 0 {
		hc.checkDue(e.At)
	}
	switch e.Kind {
	case history.ProcessStarted:
		if _, known := hc.s.started[e.Process]; known {
			hc.restarted[e.Process] = e.At
		}
	case history.Transition:
		if earnsHint(e) {
			n := spareEntry(&hc.spared)
			*n = committedChange{statusChange: statusChange{e.Execution, e.Epoch, e.To}, from: e.From, process: e.Process, at: e.At}
			hc.recent.add(n)
			hc.next = min(hc.next, n.at+hc.s.promptBound())
			last := hc.byChange.Make(e.Execution)
			n.before, *last = *last, n
		}
	case history.Hinted:
		hc.judgeHint(e, l)
	default:
	}
}

// findChange returns the last commit of this change in the last minute, nil if there was none.
func (hc *hintChecker) findChange(of statusChange) *committedChange {
	n := hc.byChange.Get(of.id)
	for n != nil && n.statusChange != of {
		n = n.before
	}
	return n
}

// forgetChange removes the oldest change of an execution.
func (hc *hintChecker) forgetChange(oldest *committedChange) {
	at := hc.byChange.At(oldest.id)
	for *at != oldest {
		at = &(*at).before
	}
	if *at = nil; hc.byChange.Get(oldest.id) == nil {
		hc.byChange.Delete(oldest.id)
	}
}

// nextCheck returns the time at which the next check is due.
func (hc *hintChecker) nextCheck() time.Duration {
	at := never
	if hc.next != never {
		at = hc.next + time.Nanosecond
	}
	for i := range hc.unaccepted {
		if u := &hc.unaccepted[i]; u.waits {
			at = min(at, u.at+hc.s.hintRetryBound()+time.Nanosecond)
		}
	}
	return at
}

// earnsHint reports whether a change needs a hint, as a claim, an end, or a request to end a run does.
func earnsHint(e *history.Event) bool {
	return e.To == execution.Running || e.To == execution.Canceling || oracle.Terminal(e.To)
}

// judgeHint judges one change in a hint.
func (hc *hintChecker) judgeHint(e *history.Event, l *life) {
	hc.hasContent = true
	hc.s.countOccasion(hc.i)
	if e.Limit > hintSize {
		hc.s.recordViolation(hc.i, e.Execution, "%s reported %d changes in one message, %s; at most %d are allowed", e.Process, e.Limit, e.Key, hintSize)
	}
	hc.judgeSingleSend(e)
	t := broker.Type(e.Type)
	if n := hc.findChange(statusChange{e.Execution, e.Epoch, e.To}); n != nil {
		n.changed = n.changed || t == broker.ExecutionStatusChanged
		n.through = n.through || t == broker.ExecutionCompleted
		// If the answer was lost, the writer can't know the previous status.
		if t != broker.ExecutionCancel && e.From != n.from && hc.isClear(n) {
			hc.s.recordViolation(hc.i, e.Execution, "%s reported in %s that execution %d, epoch %d, went from %v to %v, but it went from %v", e.Process, e.Key, e.Execution, e.Epoch, e.From, e.To, n.from)
		}
	}
	switch {
	case l == nil:
	case t == broker.ExecutionCancel && l.epoch == e.Epoch && l.worker != e.Worker:
		hc.s.recordViolation(hc.i, e.Execution, "%s told worker %d in %s to end execution %d, epoch %d, which is worker %d's", e.Process, e.Worker, e.Key, e.Execution, e.Epoch, l.worker)
	case l.epoch < e.Epoch || l.epoch == e.Epoch && e.To > l.status && e.To != execution.Requested:
		hc.s.recordViolation(hc.i, e.Execution, "%s reported in %s that execution %d, epoch %d, is %v, but it is %v at epoch %d", e.Process, e.Key, e.Execution, e.Epoch, e.To, l.status, l.epoch)
	}
}

// judgeSingleSend requires that a hint that may have arrived is not repeated, and that no two hints have the
// same id. But a restarted process numbers its hints from 1 again, and so does each of two processes of one
// name.
func (hc *hintChecker) judgeSingleSend(e *history.Event) {
	h := hc.newest
	if h == nil || h.id != e.Key {
		position := hc.sent.positionOf(e.Key)
		if h = position.table.Get(position.number); h == nil {
			h = spareEntry(&hc.unsent)
			*h = publishedHint{id: e.Key, position: position, process: e.Process, at: e.At, message: e.Message, attempts: 1, routed: e.Count > 0}
			position.table.Set(position.number, h)
			hc.order.add(h)
			hc.next = min(hc.next, h.at+longestHint)
			hc.newest = h
			return
		}
	}
	hc.newest = h
	if h.message == e.Message && e.Message != 0 && h.process == e.Process {
		return // another change in the same message
	}
	for _, process := range [...]string{h.process, e.Process} {
		if _, again := hc.restarted[process]; again || hc.s.ledger.hasStruck(hasTwin, process, 0, 0) {
			*h = publishedHint{id: h.id, position: h.position, process: e.Process, at: h.at, message: e.Message, attempts: 1, routed: e.Count > 0}
			return
		}
	}
	switch {
	case h.process != e.Process:
		hc.s.recordViolation(hc.i, e.Execution, "%s and %s have both published a hint with the id %q", h.process, e.Process, e.Key)
	case h.routed:
		hc.s.recordViolation(hc.i, e.Execution, "%s has published its hint %s again, %v after the broker had taken it", e.Process, e.Key, e.At-h.at)
	case e.Message != 0 && h.attempts >= hintAttempts:
		hc.s.recordViolation(hc.i, e.Execution, "%s has published its hint %s %d times", e.Process, e.Key, h.attempts+1)
	}
	h.message, h.attempts, h.routed = e.Message, h.attempts+1, e.Count > 0
}

// isClear reports whether nothing has been wrong with a change's writer and the servers since the change, nor
// in the recovery time before it.
func (hc *hintChecker) isClear(n *committedChange) bool {
	from := hc.s.recoveryStart(n.at)
	return hc.s.roads.byName[n.process].isClear(from) && hc.s.roads.serversClear(from)
}

// checkDue judges the changes that should have been reported by now, and forgets old entries.
func (hc *hintChecker) checkDue(now time.Duration) {
	hc.judgeUnrepeatedHints(now)
	if now <= hc.next {
		return
	}
	prompt := hc.s.promptBound()
	for n, any := hc.recent.first(); any && now-n.at > prompt; n, any = hc.recent.first() {
		hc.recent.drop()
		hc.judgeMissingHint(n)
		hc.kept.add(n)
	}
	for n, any := hc.kept.first(); any && now-n.at > longestHint; n, any = hc.kept.first() {
		hc.kept.drop()
		hc.forgetChange(n)
		hc.spared = append(hc.spared, n)
	}
	for h, any := hc.order.first(); any && now-h.at > longestHint; h, any = hc.order.first() {
		hc.order.drop()
		hc.sent.forgetHint(h)
		if hc.newest == h {
			hc.newest = nil
		}
		hc.unsent = append(hc.unsent, h)
	}
	hc.next = never
	if n, any := hc.recent.first(); any {
		hc.next = n.at + prompt
	}
	if n, any := hc.kept.first(); any {
		hc.next = min(hc.next, n.at+longestHint)
	}
	if h, any := hc.order.first(); any {
		hc.next = min(hc.next, h.at+longestHint)
	}
}

// judgeMissingHint judges whether the writer of a change has published its hints.
func (hc *hintChecker) judgeMissingHint(n *committedChange) {
	if !hc.hasContent || !hc.isClear(n) {
		return
	}
	hc.s.countOccasion(hc.i)
	if !n.changed || !n.through && oracle.Terminal(n.to) {
		hc.s.recordViolation(hc.i, n.id, "%s wrote at %v that execution %d, epoch %d, is %v, and has not published a hint about it within %v", n.process, n.at, n.id, n.epoch, n.to, hc.s.promptBound())
	}
}
