package invariant

import (
	"slices"

	"handoff/chaos/history"
)

// drained is invariant 14 (flaws D25, D28).
func drained() *Invariant {
	i := &Invariant{
		Number: 14, Name: "drained",
		Statement: "At the end every queue is empty and no message is unacknowledged.",
		Needs:     []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped},
	}
	i.make = func(s *Suite) checker { return &drainedChecker{i: i, s: s, depth: make(map[string]int)} }
	return i
}

type drainedChecker struct {
	i     *Invariant
	s     *Suite
	depth map[string]int
}

func (c *drainedChecker) observe(e *history.Event, _ *life) {
	switch e.Kind {
	case history.Enqueued:
		c.depth[e.Queue]++
	case history.Acked, history.DeadLettered, history.Dropped:
		c.depth[e.Queue]--
	default:
	}
}

func (c *drainedChecker) end(bool) {
	var left []string
	for queue, n := range c.depth { //detlint:ok sorted below
		if n > 0 {
			left = append(left, queue)
		}
	}
	if len(left) == 0 {
		return
	}
	slices.Sort(left)
	c.s.violate(c.i, 0, "queue %s still holds %d messages (queues that are not empty: %v)", left[0], c.depth[left[0]], left)
}
