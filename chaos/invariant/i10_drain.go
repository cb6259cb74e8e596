package invariant

import (
	"maps"
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// heardOf is the number of the renewal whose reply must have told the worker that an operator
// drains it. The first renewal after the request may fail, and the second may already have been
// under way.
const heardOf = 3

// wishes notes that an operator begins to drain workers or stops trying.
func (c *gracefulChecker) wishes(e *history.Event, begins bool) {
	for name := range strings.SplitSeq(e.Process, ",") {
		if delete(c.wished, name); begins {
			c.wished[name] = true
		}
	}
}

// drained notes that the database has stored an operator's drain, which also cordons the worker. It
// applies to the registered process; without one it applies to none.
func (c *gracefulChecker) drained(e *history.Event) {
	if process := c.present[e.Worker]; e.Count == 1 && c.wished[process] {
		delete(c.wished, process)
		c.asked[process] = 0
		delete(c.told, process)
	}
}

// tells notes that a process could learn that an operator drains it.
func (c *gracefulChecker) tells(e *history.Event) {
	if _, asked := c.asked[e.Process]; asked && c.told[e.Process] == 0 {
		c.told[e.Process] = e.At
	}
}

// ended forgets a process that has ended; its supervisor starts another one of that name.
func (c *gracefulChecker) ended(process string) {
	delete(c.stopping, process)
	delete(c.asked, process)
	delete(c.told, process)
	maps.DeleteFunc(c.present, func(_ execution.WorkerID, p string) bool { return p == process })
}

// heard judges that a worker begins its drain when it learns of it.
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

// leaves notes that a worker begins to stop. From then on its process must end within the bound,
// whoever asked for the stop.
func (c *gracefulChecker) leaves(e *history.Event) {
	t := c.s.workers.Get(e.Incarnation)
	if e.Lifecycle != execution.Draining || t == nil || t.superseded || t.joined < c.s.started[t.process] {
		// Draining can also be a late write of an ended process that the network held back.
		return
	}
	delete(c.asked, t.process)
	if _, known := c.stopping[t.process]; !known {
		c.stopping[t.process] = e.At
		c.stops(t.process, e.At)
	}
}
