package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// handedOn is invariant 25 (defects D7, D8): an execution that an executor has claimed must not
// wait until another executor finds it.
func handedOn() *Invariant {
	i := &Invariant{
		Number: 25, Name: "handed on within the pass",
		Statement: "A running executor whose database and broker answer publishes or gives back its scheduling claims within one pass. It marks in time each dispatch that the broker has confirmed and no worker has claimed. A claim marks its dispatch.",
		Needs:     []history.Kind{history.Transition, history.Published, history.ProcessStarted},
		Whole:     []history.Kind{history.PublishedMarked},
		Part:      "only that everything is published or given back; an audit does not record marks",
	}
	i.make = func(s *Suite) checker {
		return &handedOnChecker{i: i, s: s, hung: make(map[string][]time.Duration), unheard: make(map[wayTo]time.Duration)}
	}
	return i
}

type handedOnChecker struct {
	i      *Invariant
	s      *Suite
	agenda agenda
	// unmarked are the dispatches that must be marked, or claimed, by a certain time.
	unmarked agenda
	// hung says for each executor when it committed dispatches that it then sent to a queue that
	// hangs. The moments are in order; those older than hungFor are forgotten.
	hung map[string][]time.Duration
	// unheard is when each executor last sent a dispatch to a worker's queue while it hung.
	unheard map[wayTo]time.Duration
}

// wayTo is the way of an executor's dispatches to a worker.
type wayTo struct {
	executor string
	worker   execution.WorkerID
}

// hears implements timed.
func (c *handedOnChecker) hears() []history.Kind {
	return []history.Kind{history.Transition, history.Published, history.PublishedMarked}
}

func (*handedOnChecker) timed() {}

func (c *handedOnChecker) observe(e *history.Event, l *life) {
	for l, due := c.agenda.next(c.s, e.At); due; l, due = c.agenda.next(c.s, e.At) {
		c.check(l, e.At)
	}
	for l, due := c.unmarked.next(c.s, e.At); due; l, due = c.unmarked.next(c.s, e.At) {
		c.mark(l, e.At)
	}
	if l != nil {
		c.marked(e, l)
		if e.Kind == history.Published && l.status == execution.Scheduled && l.epoch == e.Epoch && c.s.queueStuck(l) {
			c.unheard[wayTo{e.Process, l.worker}] = e.At
			if l.by == e.Process {
				c.hangs(e.Process, l.entered)
			}
		}
	}
	if e.Kind == history.Transition && (e.To == execution.Scheduling || e.To == execution.Scheduled) && c.clear(e.Process, e.To, c.s.recovered(e.At)) {
		c.s.judged(c.i)
		c.agenda.look(c.s, e.At+c.s.prompt(), e.Execution, e.Epoch, e.To)
		if e.To == execution.Scheduled && c.s.records(history.PublishedMarked) {
			c.unmarked.look(c.s, e.At+c.s.prompt()+oracle.MarkedWithin(&c.s.config), e.Execution, e.Epoch, e.To)
		}
	}
}

// clear says that nothing has been wrong since a moment for an executor that has claimed or
// dispatched an execution.
func (c *handedOnChecker) clear(executor string, in execution.Status, from time.Duration) bool {
	r := &c.s.roads
	x := r.byName[executor]
	return x.clear(from) && !x.worker && r.clear(from) && (in != execution.Scheduled || !r.dispatches.since(from))
}

// hungFor is longer than any dispatch waits for a judgement here.
const hungFor = time.Minute

// hangs notes that a dispatch of that moment was sent to a queue that hangs.
func (c *handedOnChecker) hangs(executor string, at time.Duration) {
	all := slices.DeleteFunc(c.hung[executor], func(of time.Duration) bool { return of < at-hungFor })
	if i, known := slices.BinarySearch(all, at); !known {
		all = slices.Insert(all, i, at)
	}
	c.hung[executor] = all
}

// waits is until when an executor may keep a claim because the pass that made it waits for a queue
// that hangs. A pass publishes what it has placed, and then gives back what had no place.
func (c *handedOnChecker) waits(l *life) time.Duration {
	if all := c.hung[l.by]; len(all) > 0 && all[len(all)-1] >= l.entered {
		return l.entered + c.s.prompt() + stuckWait
	}
	return 0
}

// oldestConfirm is how long a session waits for the confirm of one publish before it ends
// (docs/queues.md, "A broker that is half well").
const oldestConfirm = 30 * time.Second

// shut says that the executor of a dispatch could not yet know that the worker's queue answers again.
// It sends nothing there from when a publish is stuck until that publish is confirmed
// (docs/queues.md, "A broker that is half well"). The broker first stores what waited in the queue,
// and the confirm is then on its way for no longer than the calls of one reaction take. What was not
// sent meanwhile is published by the reconciler, for which invariant 12 has the bound.
func (c *handedOnChecker) shut(l *life) bool {
	sent, any := c.unheard[wayTo{l.by, l.worker}]
	return any && sent >= l.entered-oldestConfirm-c.s.prompt() && c.s.queueStuckSince(l, l.entered-c.s.prompt())
}

// check judges an execution that was claimed or dispatched a while ago and still has that status.
func (c *handedOnChecker) check(l *life, now time.Duration) {
	switch {
	case !c.clear(l.by, l.status, c.s.recovered(l.entered)):
	case l.status == execution.Scheduling && now <= c.waits(l):
		c.agenda.look(c.s, c.waits(l), l.id, l.epoch, l.status)
	case l.status == execution.Scheduling:
		c.s.violate(c.i, l.id, "execution %d, epoch %d, was claimed for scheduling by %s at %v, which neither dispatched it nor gave it back within %v", l.id, l.epoch, l.by, l.entered, c.s.prompt())
	case !l.published && !l.returned && !c.s.queueStuck(l) && !c.shut(l) && !c.s.roads.gaveUp(l.by, l.entered-c.s.prompt()):
		c.s.violate(c.i, l.id, "execution %d, epoch %d, was scheduled by %s at %v, which did not publish it within %v", l.id, l.epoch, l.by, l.entered, c.s.prompt())
	}
}

// marked judges that a claim marks its dispatch as published, and that only scheduled executions
// are marked otherwise: a mark that outlives its dispatch prevents the next dispatch from being
// published again.
func (c *handedOnChecker) marked(e *history.Event, l *life) {
	switch {
	case e.Kind == history.PublishedMarked:
		c.s.judged(c.i)
		if l.status != execution.Scheduled || l.epoch != e.Epoch {
			c.s.violate(c.i, l.id, "execution %d is marked by %s as published at epoch %d, and is %v at epoch %d: the next dispatch counts as sent before it is", l.id, e.Process, e.Epoch, l.status, l.epoch)
		}
	case e.Kind == history.Transition && e.To == execution.Running && c.s.records(history.PublishedMarked):
		c.s.judged(c.i)
		if !l.marked {
			c.s.violate(c.i, l.id, "execution %d, epoch %d, was claimed by %s, and is not marked as published: who reads the row can't tell that its dispatch was received", l.id, l.epoch, e.Process)
		}
	}
}

// mark judges a dispatch that has been unclaimed for longer than its executor may take to mark it.
// The confirms of one step arrive together, after the executor has waited for those of a queue that
// hangs; if it gives up its session, they don't arrive.
func (c *handedOnChecker) mark(l *life, now time.Duration) {
	// A row that a stranger has locked since can't be marked.
	if !l.published || l.returned || l.marked || l.hidden || l.shown > l.entered || c.s.queueStuck(l) || !c.clear(l.by, l.status, c.s.recovered(l.entered)) || c.s.roads.gaveUp(l.by, l.entered) {
		return
	}
	within := c.s.prompt() + oracle.MarkedWithin(&c.s.config)
	if slices.ContainsFunc(c.hung[l.by], func(at time.Duration) bool { return (at - l.entered).Abs() <= c.s.prompt()-callTime }) {
		within += stuckWait
	}
	if now <= l.entered+within {
		c.unmarked.look(c.s, l.entered+within, l.id, l.epoch, l.status)
		return
	}
	c.s.violate(c.i, l.id, "execution %d, epoch %d, was scheduled by %s at %v, and its message was published; nobody has claimed it, and %s has not marked it within %v", l.id, l.epoch, l.by, l.entered, l.by, within)
}

func (c *handedOnChecker) end(bool) {}
