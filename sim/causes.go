package sim

import (
	"slices"

	"handoff/chaos/history"
	"handoff/sim/kernel"
)

// mostParents is the largest number of parents that are kept of one event. A task that was woken very often
// before its next event keeps only the latest ones.
const mostParents = 48

// Causes records, for each event of a recorded run, the events that led to it: the last events of its task,
// of the tasks that woke this task, and of the sender of a message. It misses information that two tasks
// pass through shared memory.
//
// A strand of the kernel is the set of latest events that led to a point of the run. Events that led directly
// to another event of the set are left out.
type Causes struct {
	k       *kernel.Kernel
	to      history.Sink
	strands [][]int32
	parents [][]int32
}

// NewCauses returns the causes of a run, and passes its events on to a sink.
func NewCauses(to history.Sink) *Causes { return &Causes{to: to, strands: [][]int32{nil}} }

// Parents returns for each event, by its number in the record, the numbers of the events that led directly to
// it, latest first.
func (c *Causes) Parents() [][]int32 { return c.parents }

// Observe implements history.Sink.
func (c *Causes) Observe(e *history.Event) {
	c.to.Observe(e)
	n := int32(len(c.parents))
	c.parents = append(c.parents, c.strands[c.k.Strand()])
	c.strands = append(c.strands, []int32{n})
	c.k.SetStrand(kernel.Strand(len(c.strands) - 1))
}

// joinStrands implements kernel.Options.Meet.
func (c *Causes) joinStrands(a, b kernel.Strand) kernel.Strand {
	x, y := c.strands[a], c.strands[b]
	switch {
	case c.coversEvents(x, y):
		return a
	case c.coversEvents(y, x):
		return b
	}
	all := slices.Concat(x, y)
	slices.SortFunc(all, func(i, j int32) int { return int(j) - int(i) })
	all = slices.Compact(all)
	all = slices.DeleteFunc(all, func(i int32) bool { return c.ledDirectlyToAny(i, all) })
	c.strands = append(c.strands, all[:min(len(all), mostParents)])
	return kernel.Strand(len(c.strands) - 1)
}

// coversEvents reports whether strand x has every event of strand y, or an event to which that event led
// directly.
func (c *Causes) coversEvents(x, y []int32) bool {
	for _, i := range y {
		if !slices.Contains(x, i) && !c.ledDirectlyToAny(i, x) {
			return false
		}
	}
	return true
}

// ledDirectlyToAny reports whether event i led directly to any of the events in to.
func (c *Causes) ledDirectlyToAny(i int32, to []int32) bool {
	return slices.ContainsFunc(to, func(j int32) bool { return j > i && slices.Contains(c.parents[j], i) })
}
