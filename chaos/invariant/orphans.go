package invariant

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// orphans holds the waiting workflow children, by the first row of their parent's chain. They are settled in
// batches after the end of that chain was handled.
type orphans struct {
	// waiting holds the children of chains whose end was not handled yet. Children that end
	// meanwhile stay in the list.
	waiting map[execution.ID][]execution.ID
	// settling counts, per handled chain, the children that must still be started or skipped. all is the sum.
	settling map[execution.ID]int
	all      int
}

// addChild adds a new child. If the end of its parent's chain was already handled, the child must be settled
// now.
func (s *Suite) addChild(l *life, at time.Duration) {
	o := &s.orphans
	if s.ended.finalStatus(l.parent) == execution.None {
		o.waiting[l.parent] = append(o.waiting[l.parent], l.id)
		return
	}
	o.settling[l.parent]++
	o.all++
	l.orphan, l.parentEnded, l.ahead = true, at, s.settlingBatches()
}

// orphanChildren records that a chain's end was handled. Its waiting children must be settled now.
func (s *Suite) orphanChildren(e *history.Event) {
	o := &s.orphans
	var left []*life
	for _, id := range o.waiting[e.Chain] {
		if l := s.lives.Get(id); l != nil && l.parent == e.Chain && l.status == execution.Requested {
			left = append(left, l)
		}
	}
	delete(o.waiting, e.Chain)
	if len(left) == 0 {
		return
	}
	o.settling[e.Chain] += len(left)
	o.all += len(left)
	for _, l := range left {
		l.orphan, l.parentEnded, l.ahead = true, e.At, s.settlingBatches()
	}
}

// settlingBatches returns an upper bound on the number of batches that settle all children that must be
// settled now. Each batch settles at least half of its maximum, or is a chain's last batch.
func (s *Suite) settlingBatches() int32 {
	return int32(2*s.orphans.all/max(1, s.config.Executor.BatchSize) + len(s.orphans.settling)) //nolint:gosec // few
}

// noteSettled notes that a child was started or has ended. It is called before the life is updated.
func (s *Suite) noteSettled(l *life) {
	if !l.orphan {
		return
	}
	o := &s.orphans
	l.orphan = false
	o.all--
	if o.settling[l.parent]--; o.settling[l.parent] <= 0 {
		delete(o.settling, l.parent)
	}
}
