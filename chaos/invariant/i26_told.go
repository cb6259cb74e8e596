package invariant

import (
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/execution"
)

// This file is the part of invariant 26 that judges hints themselves (docs/queues.md, "Messages"): whoever writes a change
// that earns one tells of it at once, once, truly, and those whom it concerns. A hint that is missing costs time, and one too
// many work; both are seldom seen otherwise, because somebody looks anyway. Only the simulated world tells what hints say.

// docs/contract.md, "Numbers that no key changes".
const (
	hintSize     = 100
	hintAttempts = 4
)

// longestHint is for how long the ids of hints are remembered: every attempt of a hint is made within it.
const longestHint = time.Minute

// change is one change of an execution, as a hint tells of it.
type change struct {
	id    execution.ID
	epoch execution.Epoch
	to    execution.Status
}

// committed is a change that was committed: by whom and when, and of which of its hints the broker knows.
type committed struct {
	change
	from             execution.Status
	process          string
	at               time.Duration
	changed, through bool
	// told are the types of hints that its writer has sent of it.
	told uint8
	// before is the one before of the same execution.
	before *committed
}

// sent is a hint that has come to the broker: from whom, when first, in which message, and how often.
type sent struct {
	id       string
	process  string
	at       time.Duration
	message  uint64
	attempts int
	routed   bool
}

// hintChecker follows the changes that were committed in the last second, and the hints of the last minute.
type hintChecker struct {
	i *Invariant
	s *Suite
	// recent are the changes, the oldest first, kept those of the last minute that were judged; byChange has those of each
	// execution, the last one of which leads to the others.
	recent, kept queue[*committed]
	byChange     dense.Table[execution.ID, *committed]
	// sent are the hints by their ids, and order the same, the oldest first.
	sent  map[string]*sent
	order queue[*sent]
	// newest is the hint of the last event about one.
	newest *sent
	// next is the moment after which there is something to look at.
	next time.Duration
	// spared and unsent are what was forgotten, for the next ones.
	spared []*committed
	unsent []*sent
	// again are the processes that have started anew, and when:
	// what they number may have been numbered before.
	again map[string]time.Duration
	// tells says that the history tells what hints say. Without that nobody can be found to have told nothing.
	tells bool
	// published is what processes have sent; see Conduct.
	published
}

func newHintChecker(i *Invariant, s *Suite) *hintChecker {
	return &hintChecker{i: i, s: s, sent: make(map[string]*sent), again: make(map[string]time.Duration)}
}

func (c *hintChecker) observe(e *history.Event, l *life) {
	if e.At > c.next || len(c.untaken) > 0 {
		c.look(e.At)
	}
	switch e.Kind {
	case history.ProcessStarted:
		if _, known := c.s.started[e.Process]; known {
			c.again[e.Process] = e.At
		}
	case history.Transition:
		if earnsHint(e) {
			n := spare(&c.spared)
			*n = committed{change: change{e.Execution, e.Epoch, e.To}, from: e.From, process: e.Process, at: e.At}
			c.recent.add(n)
			c.next = min(c.next, n.at+c.s.prompt())
			last := c.byChange.Make(e.Execution)
			n.before, *last = *last, n
		}
	case history.Hinted:
		c.hinted(e, l)
	default:
	}
}

// committed is the last commit of a change in the last minute, nil if there was none.
func (c *hintChecker) committed(of change) *committed {
	n := c.byChange.Get(of.id)
	for n != nil && n.change != of {
		n = n.before
	}
	return n
}

// forget forgets the oldest change of its execution.
func (c *hintChecker) forget(oldest *committed) {
	at := c.byChange.At(oldest.id)
	for *at != oldest {
		at = &(*at).before
	}
	if *at = nil; c.byChange.Get(oldest.id) == nil {
		c.byChange.Delete(oldest.id)
	}
}

// waitsFor is the moment from which on there is something to look at.
func (c *hintChecker) waitsFor() time.Duration {
	at := never
	if c.next != never {
		at = c.next + time.Nanosecond
	}
	for i := range c.untaken {
		if u := &c.untaken[i]; u.waits {
			at = min(at, u.at+c.s.untriedWithin()+time.Nanosecond)
		}
	}
	return at
}

// earnsHint says that whoever writes a change tells of it: a claim, an end, and the word that a run is to end.
func earnsHint(e *history.Event) bool {
	return e.To == execution.Running || e.To == execution.Canceling || oracle.Terminal(e.To)
}

// hinted judges one change in a hint.
func (c *hintChecker) hinted(e *history.Event, l *life) {
	c.tells = true
	c.s.judged(c.i)
	if e.Limit > hintSize {
		c.s.violate(c.i, e.Execution, "%s told of %d changes in one message, %s; %d are the most", e.Process, e.Limit, e.Key, hintSize)
	}
	c.once(e)
	t := broker.Type(e.Type)
	if n := c.committed(change{e.Execution, e.Epoch, e.To}); n != nil {
		n.changed = n.changed || t == broker.ExecutionStatusChanged
		n.through = n.through || t == broker.ExecutionCompleted
		// After an answer that was lost its writer can't know it.
		if t != broker.ExecutionCancel && e.From != n.from && c.clear(n) {
			c.s.violate(c.i, e.Execution, "%s told in %s that execution %d, epoch %d, went from %v to %v; it went from %v", e.Process, e.Key, e.Execution, e.Epoch, e.From, e.To, n.from)
		}
	}
	switch {
	case l == nil:
	case t == broker.ExecutionCancel && l.epoch == e.Epoch && l.worker != e.Worker:
		c.s.violate(c.i, e.Execution, "%s told worker %d in %s to end execution %d, epoch %d, which is worker %d's", e.Process, e.Worker, e.Key, e.Execution, e.Epoch, l.worker)
	case l.epoch < e.Epoch || l.epoch == e.Epoch && e.To > l.status && e.To != execution.Requested:
		c.s.violate(c.i, e.Execution, "%s told in %s that execution %d, epoch %d, is %v; it is %v at epoch %d", e.Process, e.Key, e.Execution, e.Epoch, e.To, l.status, l.epoch)
	}
}

// once judges that a hint which may have arrived is not sent again, and that no two have one id. A process that starts anew,
// and one of two of one name, numbers its hints from the start.
func (c *hintChecker) once(e *history.Event) {
	h := c.newest
	if h == nil || h.id != e.Key {
		h = c.sent[e.Key]
	}
	if h == nil {
		h = spare(&c.unsent)
		*h = sent{id: e.Key, process: e.Process, at: e.At, message: e.Message, attempts: 1, routed: e.Count > 0}
		c.sent[e.Key] = h
		c.order.add(h)
		c.next = min(c.next, h.at+longestHint)
		c.newest = h
		return
	}
	c.newest = h
	if h.message == e.Message && e.Message != 0 && h.process == e.Process {
		return // another change of the same message
	}
	for _, process := range [...]string{h.process, e.Process} {
		if _, again := c.again[process]; again || c.s.ledger.struck(hasTwin, process, 0, 0) {
			*h = sent{id: h.id, process: e.Process, at: h.at, message: e.Message, attempts: 1, routed: e.Count > 0}
			return
		}
	}
	switch {
	case h.process != e.Process:
		c.s.violate(c.i, e.Execution, "%s and %s have both published a hint with the id %q", h.process, e.Process, e.Key)
	case h.routed:
		c.s.violate(c.i, e.Execution, "%s has published its hint %s again, %v after the broker had taken it", e.Process, e.Key, e.At-h.at)
	case e.Message != 0 && h.attempts >= hintAttempts:
		c.s.violate(c.i, e.Execution, "%s has published its hint %s %d times", e.Process, e.Key, h.attempts+1)
	}
	h.message, h.attempts, h.routed = e.Message, h.attempts+1, e.Count > 0
}

// clear says that nothing has been wrong with who wrote a change, and the servers, since long enough before it.
func (c *hintChecker) clear(n *committed) bool {
	from := c.s.recovered(n.at)
	return c.s.roads.byName[n.process].clear(from) && c.s.roads.clear(from)
}

// look judges the changes of which somebody should have heard by now, and forgets what is old.
func (c *hintChecker) look(now time.Duration) {
	c.untried(now)
	if now <= c.next {
		return
	}
	prompt := c.s.prompt()
	for n, any := c.recent.first(); any && now-n.at > prompt; n, any = c.recent.first() {
		c.recent.drop()
		c.heard(n)
		c.kept.add(n)
	}
	for n, any := c.kept.first(); any && now-n.at > longestHint; n, any = c.kept.first() {
		c.kept.drop()
		c.forget(n)
		c.spared = append(c.spared, n)
	}
	for h, any := c.order.first(); any && now-h.at > longestHint; h, any = c.order.first() {
		c.order.drop()
		delete(c.sent, h.id)
		if c.newest == h {
			c.newest = nil
		}
		c.unsent = append(c.unsent, h)
	}
	c.next = never
	if n, any := c.recent.first(); any {
		c.next = n.at + prompt
	}
	if n, any := c.kept.first(); any {
		c.next = min(c.next, n.at+longestHint)
	}
	if h, any := c.order.first(); any {
		c.next = min(c.next, h.at+longestHint)
	}
}

// heard judges whether somebody has told of a change.
func (c *hintChecker) heard(n *committed) {
	if !c.tells || !c.clear(n) {
		return
	}
	c.s.judged(c.i)
	if !n.changed || !n.through && oracle.Terminal(n.to) {
		c.s.violate(c.i, n.id, "%s wrote at %v that execution %d, epoch %d, is %v, and has not told of it within %v", n.process, n.at, n.id, n.epoch, n.to, c.s.prompt())
	}
}
