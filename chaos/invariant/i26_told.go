package invariant

import (
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 26 about the hints themselves (docs/queues.md, "Messages").
// The writer of a change that earns a hint must report it at once, once, correctly and to the right
// receivers. A missing hint costs time, and a superfluous one costs work; other rules seldom notice
// either, because periodic looks find the change anyway. Only the simulated world reports the
// content of hints.

// docs/contract.md, "Numbers that no key changes".
const (
	hintSize     = 100
	hintAttempts = 4
)

// longestHint is how long the ids of hints are remembered: every attempt of a hint falls within
// this time.
const longestHint = time.Minute

// change is one change of an execution, as a hint reports it.
type change struct {
	id    execution.ID
	epoch execution.Epoch
	to    execution.Status
}

// committed is a committed change: its writer and time, and which of its hints have reached the
// broker.
type committed struct {
	change
	from             execution.Status
	process          string
	at               time.Duration
	changed, through bool
	// told are the types of hints that its writer has sent about it.
	told uint8
	// before is the previous change of the same execution.
	before *committed
}

// sent is a hint that has reached the broker: its sender, its first time, its message, and its
// number of attempts.
type sent struct {
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
	// recent holds the changes, the oldest first; kept holds those of the last minute that were
	// judged. byChange holds the latest change of each execution, which links to the earlier ones.
	recent, kept queue[*committed]
	byChange     dense.Table[execution.ID, *committed]
	// sent holds the hints by their ids, order the same hints, the oldest first.
	sent  sentHints
	order queue[*sent]
	// newest is the hint of the last event about a hint.
	newest *sent
	// next is the time after which something must be checked.
	next time.Duration
	// spared and unsent hold forgotten entries to use again.
	spared []*committed
	unsent []*sent
	// again holds the processes that have restarted, and when. They number their hints from the
	// start, so numbers repeat.
	again map[string]time.Duration
	// tells says that the history reports the content of hints. Without that, a missing hint can't
	// be found.
	tells bool
	// published is what processes have sent; see Conduct.
	published
}

func newHintChecker(i *Invariant, s *Suite) *hintChecker {
	return &hintChecker{i: i, s: s, sent: newSentHints(), again: make(map[string]time.Duration)}
}

func (hc *hintChecker) observe(e *history.Event, l *life) {
	if e.At > hc.next || len(hc.untaken) > 0 {
		hc.look(e.At)
	}
	switch e.Kind {
	case history.ProcessStarted:
		if _, known := hc.s.started[e.Process]; known {
			hc.again[e.Process] = e.At
		}
	case history.Transition:
		if earnsHint(e) {
			n := spare(&hc.spared)
			*n = committed{change: change{e.Execution, e.Epoch, e.To}, from: e.From, process: e.Process, at: e.At}
			hc.recent.add(n)
			hc.next = min(hc.next, n.at+hc.s.prompt())
			last := hc.byChange.Make(e.Execution)
			n.before, *last = *last, n
		}
	case history.Hinted:
		hc.hinted(e, l)
	default:
	}
}

// committed is the last commit of a change in the last minute, nil if there was none.
func (hc *hintChecker) committed(of change) *committed {
	n := hc.byChange.Get(of.id)
	for n != nil && n.change != of {
		n = n.before
	}
	return n
}

// forget removes the oldest change of its execution.
func (hc *hintChecker) forget(oldest *committed) {
	at := hc.byChange.At(oldest.id)
	for *at != oldest {
		at = &(*at).before
	}
	if *at = nil; hc.byChange.Get(oldest.id) == nil {
		hc.byChange.Delete(oldest.id)
	}
}

// waitsFor is the time at which something must next be checked.
func (hc *hintChecker) waitsFor() time.Duration {
	at := never
	if hc.next != never {
		at = hc.next + time.Nanosecond
	}
	for i := range hc.untaken {
		if u := &hc.untaken[i]; u.waits {
			at = min(at, u.at+hc.s.untriedWithin()+time.Nanosecond)
		}
	}
	return at
}

// earnsHint says that the writer of a change must report it: a claim, an end, or a request to end a
// run.
func earnsHint(e *history.Event) bool {
	return e.To == execution.Running || e.To == execution.Canceling || oracle.Terminal(e.To)
}

// hinted judges one change in a hint.
func (hc *hintChecker) hinted(e *history.Event, l *life) {
	hc.tells = true
	hc.s.judged(hc.i)
	if e.Limit > hintSize {
		hc.s.violate(hc.i, e.Execution, "%s reported %d changes in one message, %s; at most %d are allowed", e.Process, e.Limit, e.Key, hintSize)
	}
	hc.once(e)
	t := broker.Type(e.Type)
	if n := hc.committed(change{e.Execution, e.Epoch, e.To}); n != nil {
		n.changed = n.changed || t == broker.ExecutionStatusChanged
		n.through = n.through || t == broker.ExecutionCompleted
		// If the answer was lost, the writer can't know the previous status.
		if t != broker.ExecutionCancel && e.From != n.from && hc.clear(n) {
			hc.s.violate(hc.i, e.Execution, "%s reported in %s that execution %d, epoch %d, went from %v to %v, but it went from %v", e.Process, e.Key, e.Execution, e.Epoch, e.From, e.To, n.from)
		}
	}
	switch {
	case l == nil:
	case t == broker.ExecutionCancel && l.epoch == e.Epoch && l.worker != e.Worker:
		hc.s.violate(hc.i, e.Execution, "%s told worker %d in %s to end execution %d, epoch %d, which is worker %d's", e.Process, e.Worker, e.Key, e.Execution, e.Epoch, l.worker)
	case l.epoch < e.Epoch || l.epoch == e.Epoch && e.To > l.status && e.To != execution.Requested:
		hc.s.violate(hc.i, e.Execution, "%s reported in %s that execution %d, epoch %d, is %v, but it is %v at epoch %d", e.Process, e.Key, e.Execution, e.Epoch, e.To, l.status, l.epoch)
	}
}

// once judges that a hint which may have arrived is not sent again, and that no two hints have the
// same id. A restarted process numbers its hints from the start, and so does each of two processes
// of one name.
func (hc *hintChecker) once(e *history.Event) {
	h := hc.newest
	if h == nil || h.id != e.Key {
		position := hc.sent.position(e.Key)
		if h = position.table.Get(position.number); h == nil {
			h = spare(&hc.unsent)
			*h = sent{id: e.Key, position: position, process: e.Process, at: e.At, message: e.Message, attempts: 1, routed: e.Count > 0}
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
		if _, again := hc.again[process]; again || hc.s.ledger.struck(hasTwin, process, 0, 0) {
			*h = sent{id: h.id, position: h.position, process: e.Process, at: h.at, message: e.Message, attempts: 1, routed: e.Count > 0}
			return
		}
	}
	switch {
	case h.process != e.Process:
		hc.s.violate(hc.i, e.Execution, "%s and %s have both published a hint with the id %q", h.process, e.Process, e.Key)
	case h.routed:
		hc.s.violate(hc.i, e.Execution, "%s has published its hint %s again, %v after the broker had taken it", e.Process, e.Key, e.At-h.at)
	case e.Message != 0 && h.attempts >= hintAttempts:
		hc.s.violate(hc.i, e.Execution, "%s has published its hint %s %d times", e.Process, e.Key, h.attempts+1)
	}
	h.message, h.attempts, h.routed = e.Message, h.attempts+1, e.Count > 0
}

// clear says that nothing has been wrong with a change's writer and the servers since long enough
// before the change.
func (hc *hintChecker) clear(n *committed) bool {
	from := hc.s.recovered(n.at)
	return hc.s.roads.byName[n.process].clear(from) && hc.s.roads.clear(from)
}

// look judges the changes that should have been reported by now, and forgets old entries.
func (hc *hintChecker) look(now time.Duration) {
	hc.untried(now)
	if now <= hc.next {
		return
	}
	prompt := hc.s.prompt()
	for n, any := hc.recent.first(); any && now-n.at > prompt; n, any = hc.recent.first() {
		hc.recent.drop()
		hc.heard(n)
		hc.kept.add(n)
	}
	for n, any := hc.kept.first(); any && now-n.at > longestHint; n, any = hc.kept.first() {
		hc.kept.drop()
		hc.forget(n)
		hc.spared = append(hc.spared, n)
	}
	for h, any := hc.order.first(); any && now-h.at > longestHint; h, any = hc.order.first() {
		hc.order.drop()
		hc.sent.forget(h)
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

// heard judges whether a change was reported.
func (hc *hintChecker) heard(n *committed) {
	if !hc.tells || !hc.clear(n) {
		return
	}
	hc.s.judged(hc.i)
	if !n.changed || !n.through && oracle.Terminal(n.to) {
		hc.s.violate(hc.i, n.id, "%s wrote at %v that execution %d, epoch %d, is %v, and has not published a hint about it within %v", n.process, n.at, n.id, n.epoch, n.to, hc.s.prompt())
	}
}
