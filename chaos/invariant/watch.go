package invariant

import (
	"slices"
	"time"

	"handoff/core/execution"
)

// watched is an execution to look at again. It is kept small: there may be two for every one that is alive. Of the epoch the last 16 bits tell two of one execution apart.
type watched struct {
	at    time.Duration
	id    execution.ID
	seq   uint32
	epoch uint16
	in    execution.Status
}

// before orders by time, then execution, then age.
func (w *watched) before(o *watched) bool {
	if w.at != o.at {
		return w.at < o.at
	}
	if w.id != o.id {
		return w.id < o.id
	}
	return w.seq < o.seq
}

// watch gives out what is to be looked at, the earliest first. What has just changed is looked at before the
// next event; it stands apart from the many that are looked at in minutes, so that it need not pass through
// all of them.
type watch struct {
	soon, later watchHeap
}

// at is the moment of the earliest.
func (w *watch) at() time.Duration {
	at := never
	if len(w.soon) > 0 {
		at = w.soon[0].at
	}
	if len(w.later) > 0 {
		at = min(at, w.later[0].at)
	}
	return at
}

// next takes the earliest out if it is due.
func (w *watch) next(now time.Duration) (watched, bool) {
	from := &w.later
	if len(w.later) == 0 || len(w.soon) > 0 && w.soon[0].before(&w.later[0]) {
		from = &w.soon
	}
	if len(*from) == 0 || (*from)[0].at > now {
		return watched{}, false
	}
	return from.pop(), true
}

// watchHeap is a binary heap, typed because one of interfaces allocates at every push and pop.
type watchHeap []watched

func (h *watchHeap) push(w watched) {
	*h = append(*h, w)
	all := *h
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

// prune forgets what is stale, before the heap grows for it: it stays as large as what is alive. If little can
// go the heap may double, so that the next look comes late enough to be worth its time.
func (h *watchHeap) prune(stale func(watched) bool) {
	if len(*h) < cap(*h) {
		return
	}
	alive := slices.DeleteFunc(*h, stale)
	*h = make(watchHeap, 0, max(64, 2*len(alive)))
	for _, w := range alive {
		h.push(w)
	}
}

func (h *watchHeap) pop() watched {
	all := *h
	first, last := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	*h = all
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
