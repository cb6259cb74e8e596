package invariant

import (
	"slices"
	"time"

	"handoff/core/execution"
)

// watchEntry is a scheduled check of an execution. It is small, because there may be two for every live
// execution. The low 16 bits of the epoch distinguish two entries of one execution.
type watchEntry struct {
	at    time.Duration
	id    execution.ID
	seq   uint32
	epoch uint16
	in    execution.Status
}

// before orders entries by time, then execution, then age.
func (w *watchEntry) before(o *watchEntry) bool {
	if w.at != o.at {
		return w.at < o.at
	}
	if w.id != o.id {
		return w.id < o.id
	}
	return w.seq < o.seq
}

// watchQueue holds the executions to check, the earliest first. Executions that have just changed are checked
// before the next event. They have a separate heap, so that they need not pass through the many that are
// checked in minutes.
type watchQueue struct {
	soon, later watchHeap
}

// earliestTime returns the time of the earliest entry.
func (w *watchQueue) earliestTime() time.Duration {
	at := never
	if len(w.soon) > 0 {
		at = w.soon[0].at
	}
	if len(w.later) > 0 {
		at = min(at, w.later[0].at)
	}
	return at
}

// popDue removes and returns the earliest entry if it is due.
func (w *watchQueue) popDue(now time.Duration) (watchEntry, bool) {
	from := &w.later
	if len(w.later) == 0 || len(w.soon) > 0 && w.soon[0].before(&w.later[0]) {
		from = &w.soon
	}
	if len(*from) == 0 || (*from)[0].at > now {
		return watchEntry{}, false
	}
	return from.pop(), true
}

// watchHeap is a binary heap. It is typed, because a heap of interfaces allocates at every push and pop.
type watchHeap []watchEntry

func (wh *watchHeap) push(w watchEntry) {
	*wh = append(*wh, w)
	all := *wh
	i := len(all) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !w.before(&all[up]) {
			break
		}
		all[i] = all[up]
		i = up
	}
	all[i] = w
}

// pruneStale removes stale entries before the heap grows, so that its size is proportional to the number of
// live entries. If few are stale, the heap may double, so that the next pruning is worth its time.
func (wh *watchHeap) pruneStale(stale func(watchEntry) bool) {
	if len(*wh) < cap(*wh) {
		return
	}
	alive := slices.DeleteFunc(*wh, stale)
	*wh = make(watchHeap, 0, max(64, 2*len(alive)))
	for _, w := range alive {
		wh.push(w)
	}
}

func (wh *watchHeap) pop() watchEntry {
	all := *wh
	first, last := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	*wh = all
	i := 0
	for {
		c := 2*i + 1
		if c >= len(all) {
			break
		}
		if c+1 < len(all) && all[c+1].before(&all[c]) {
			c++
		}
		if !all[c].before(&last) {
			break
		}
		all[i] = all[c]
		i = c
	}
	if len(all) > 0 {
		all[i] = last
	}
	return first
}
