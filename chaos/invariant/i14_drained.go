package invariant

import (
	"fmt"
	"maps"
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// drainedQueues returns invariant 14 (defects D25, D28).
func drainedQueues() *Invariant {
	i := &Invariant{
		Number: 14, Name: "drained", Conduct: true, Unconfigured: true, Across: true,
		Statement: "At the end every queue is empty, no message is unacknowledged and no concurrency slot is held.",
		Needs:     []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped},
	}
	i.make = func(s *Suite) checker {
		return &drainedChecker{i: i, s: s, depth: make(map[string]*int), slots: make(map[concurrencySlot]execution.ID)}
	}
	return i
}

type drainedChecker struct {
	i *Invariant
	s *Suite
	// depth is the number of messages in each queue. queue is the queue of the latest event, and of caches
	// its entry, because consecutive events are often about the same queue.
	depth map[string]*int
	queue string
	of    *int
	slots map[concurrencySlot]execution.ID
	// limited reports whether any concurrency slot was ever taken.
	limited bool
}

// concurrencySlot identifies a held concurrency slot.
type concurrencySlot struct {
	action string
	number int64
}

// observedKinds implements selective.
func (d *drainedChecker) observedKinds() []history.Kind {
	return []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped, history.SlotTaken, history.SlotFreed}
}

func (d *drainedChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.Enqueued:
		*d.depthOf(e.Queue)++
	case history.Acked, history.DeadLettered, history.Dropped:
		*d.depthOf(e.Queue)--
	case history.SlotTaken:
		d.slots[concurrencySlot{e.Action, e.Count}] = e.Execution
		d.limited = true
	case history.SlotFreed:
		delete(d.slots, concurrencySlot{e.Action, e.Count})
	default:
	}
}

// depthOf returns a pointer to the number of messages in a queue.
func (d *drainedChecker) depthOf(queue string) *int {
	if d.of != nil && d.queue == queue {
		return d.of
	}
	of := d.depth[queue]
	if of == nil {
		of = new(int)
		d.depth[queue] = of
	}
	d.queue, d.of = queue, of
	return of
}

// mostListed is the maximum number of queues that a violation names.
const mostListed = 20

func (d *drainedChecker) endRun(bool) {
	if d.limited {
		d.s.countOccasion(d.i)
	}
	held := slices.Sorted(maps.Values(d.slots))
	if len(held) > 0 {
		d.s.recordViolation(d.i, held[0], "execution %d still holds a concurrency slot (%d are held in all)", held[0], len(held))
	}
	var left []string
	for queue, n := range d.depth { //detlint:ok sorted below
		d.s.countOccasion(d.i)
		if *n > 0 {
			left = append(left, queue)
		}
	}
	if len(left) == 0 {
		return
	}
	slices.Sort(left)
	more := ""
	if len(left) > mostListed {
		more = fmt.Sprintf(" and %d more", len(left)-mostListed)
	}
	d.s.recordViolation(d.i, 0, "queue %s still holds %d messages (queues that are not empty: %v%s)", left[0], *d.depth[left[0]], left[:min(len(left), mostListed)], more)
}
