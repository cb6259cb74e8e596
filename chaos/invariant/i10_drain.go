package invariant

import (
	"maps"
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// heardOf is the renewal with whose reply a worker must have heard that an operator drains it: the first that begins after
// the request may fail, and the second may have been under way.
const heardOf = 3

// wishes notes that an operator begins, or does not try any longer, to drain workers.
func (c *gracefulChecker) wishes(e *history.Event, begins bool) {
	for name := range strings.SplitSeq(e.Process, ",") {
		if delete(c.wished, name); begins {
			c.wished[name] = true
		}
	}
}

// drained notes that the database has taken the word of an operator who drains a worker: it cordons the worker, too. The
// word is for the process that has registered; without one there is nobody to hear of it.
func (c *gracefulChecker) drained(e *history.Event) {
	if process := c.present[e.Worker]; e.Count == 1 && c.wished[process] {
		delete(c.wished, process)
		c.asked[process] = 0
	}
}

// ended forgets a process that has ended: what supervises it starts another one of that name.
func (c *gracefulChecker) ended(process string) {
	delete(c.stopping, process)
	delete(c.asked, process)
	maps.DeleteFunc(c.present, func(_ execution.WorkerID, p string) bool { return p == process })
}

// heard judges that a worker which hears of its drain begins with it.
func (c *gracefulChecker) heard(e *history.Event) {
	_, asked := c.asked[e.Process]
	t := c.s.workers.Get(e.Incarnation)
	if !asked || t == nil || t.lifecycle != execution.Active || t.superseded || c.disturbing > 0 {
		return
	}
	if c.asked[e.Process]++; c.asked[e.Process] < heardOf {
		return
	}
	c.s.judged(c.i)
	if c.asked[e.Process] > heardOf {
		c.s.violate(c.i, 0, "an operator drains %s (incarnation %d), it has renewed its lease %d times since, and it is still %v at %v",
			e.Process, e.Incarnation, c.asked[e.Process], t.lifecycle, e.At)
	}
}

// leaves notes that a worker begins to stop: from now on its process has to end within the bound, whoever asked for it.
func (c *gracefulChecker) leaves(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if e.Lifecycle != execution.Draining || t == nil || t.superseded || t.joined < c.s.started[t.process] {
		// The last is what a process that has ended wrote, and the network held back.
		return
	}
	delete(c.asked, t.process)
	if _, known := c.stopping[t.process]; !known {
		c.stopping[t.process] = e.At
		c.stops(t.process, e.At)
	}
}
