package kernel

import (
	"slices"
	"time"
)

// Event is the action of a timer, in kernel context: it must not block. A model that pools its own
// events arms timers without garbage.
type Event interface{ Fire() }

type funcEvent func()

func (f funcEvent) Fire() { f() }

const (
	timerFree = -1 // in the pool
	timerHeld = -2 // of a frozen machine
	timerSoon = -3 // in timers.soon
	timerFar  = -4 // and below: in timers.far, the first at -4, the second at -5
)

// timer is pooled. Its generation increases whenever it is freed, which makes old handles inert.
type timer struct {
	k       *Kernel
	gen     uint64
	at      time.Duration // true virtual time
	seq     uint64
	pos     int
	process *Process      // nil: measured on true time
	target  time.Duration // reading of the process's machine at which it is due
	event   Event
	wait    Wait // used when event is nil
	strand  Strand
}

// Timer is a handle of a timer. It is a value and may be copied; the zero Timer stands for a timer
// that is over.
type Timer struct {
	t   *timer
	gen uint64
}

// Stop disarms the timer and reports whether it did: false when it has fired, was stopped before,
// or its process has ended.
func (h Timer) Stop() bool {
	if h.t == nil || h.t.gen != h.gen {
		return false
	}
	k := h.t.k
	k.CheckAlive()
	k.disarm(h.t)
	return true
}

// After runs fn in kernel context after d of true virtual time; at the earliest opportunity if d is
// zero or less.
func (k *Kernel) After(d time.Duration, fn func()) Timer {
	k.CheckAlive()
	return k.arm(nil, d, funcEvent(fn), Wait{})
}

// AfterEvent is After without a closure.
func (k *Kernel) AfterEvent(d time.Duration, e Event) Timer {
	k.CheckAlive()
	return k.arm(nil, d, e, Wait{})
}

// WakeAfter calls w.Done after d of true virtual time.
func (k *Kernel) WakeAfter(d time.Duration, w Wait) Timer {
	k.CheckAlive()
	return k.arm(nil, d, nil, w)
}

func (k *Kernel) arm(p *Process, d time.Duration, e Event, w Wait) Timer {
	if p != nil && p.state != processAlive || k.closed {
		return Timer{}
	}
	var t *timer
	if n := len(k.timerPool); n > 0 {
		t = k.timerPool[n-1]
		k.timerPool = k.timerPool[:n-1]
	} else {
		t = &timer{k: k}
	}
	k.timerSeq++
	t.seq = k.timerSeq
	t.process, t.event, t.wait, t.strand = p, e, w, k.strand
	d = max(d, 0)
	switch {
	case p == nil:
		t.at = addSaturated(k.now, d)
	default:
		m := p.machine
		t.target = addSaturated(m.reading(), d)
		if m.frozen {
			t.pos = timerHeld
			m.held = append(m.held, t)
			return Timer{t: t, gen: t.gen}
		}
		t.at = m.due(t.target)
	}
	k.timers.push(t)
	return Timer{t: t, gen: t.gen}
}

func (k *Kernel) disarm(t *timer) {
	if t.pos == timerHeld {
		m := t.process.machine
		for i, h := range m.held {
			if h == t {
				m.held = append(m.held[:i], m.held[i+1:]...)
				break
			}
		}
	} else {
		k.timers.remove(t)
	}
	k.free(t)
}

func (k *Kernel) free(t *timer) {
	t.gen++
	t.pos = timerFree
	t.process, t.event, t.wait = nil, nil, Wait{}
	k.timerPool = append(k.timerPool, t)
}

// fireTimer moves time to the earliest timer and fires it. It frees the timer first, so that the
// event may arm the next one in its place.
func (k *Kernel) fireTimer() {
	t := k.timers.takeFirst()
	if t.at > k.now {
		k.now = t.at
	}
	event, w, timeout := t.event, t.wait, t.process != nil
	k.strand = t.strand
	k.free(t)
	switch {
	case event != nil:
		event.Fire()
	case timeout:
		w.resolve(waitTimeout)
	default:
		w.resolve(waitDone)
	}
}

// dropTimers frees the timers of a process that has ended.
func (k *Kernel) dropTimers(p *Process) {
	k.timers.filter(func(t *timer) bool {
		if t.process != p {
			return true
		}
		k.free(t)
		return false
	})
	held := p.machine.held[:0]
	for _, t := range p.machine.held {
		if t.process == p {
			k.free(t)
		} else {
			held = append(held, t)
		}
	}
	p.machine.held = held
}

func addSaturated(a, b time.Duration) time.Duration {
	if c := a + b; c >= a {
		return c
	}
	return maxDuration
}

// timers are the armed timers, ordered by (at, seq). Most are the limits of calls, which are
// stopped long before they are due. So only the near ones, due before a certain moment, are kept in
// order. The others are unordered until the near ones have run out, which makes arming and stopping
// them cheap.
//
// A new near timer is usually due before nearly all others. So the next few are in a sorted list,
// the first one last: adding one there moves few, and firing one moves none.
type timers struct {
	soon  []timerSlot // all before all near ones
	near  timerHeap
	far   []timerSlot
	until time.Duration // near timers are due before it, far ones are not
	reach time.Duration // how far beyond the first far timer approach sets until
}

// At most soonMost timers are in the sorted list; when it is empty, it gets soonFew.
const (
	soonMost = 48
	soonFew  = 16
)

func (ts *timers) len() int { return len(ts.soon) + len(ts.near) + len(ts.far) }

// first is the timer that fires next. At least one must be armed.
func (ts *timers) first() *timerSlot {
	if len(ts.soon) == 0 {
		ts.refill()
	}
	return &ts.soon[len(ts.soon)-1]
}

// takeFirst removes the timer that fires next, and returns it. At least one must be armed.
func (ts *timers) takeFirst() *timer {
	t := ts.first().t
	ts.soon = ts.soon[:len(ts.soon)-1]
	return t
}

// refill moves the first near timers to the empty sorted list.
func (ts *timers) refill() {
	if len(ts.near) == 0 {
		ts.approach()
	}
	if ts.soon == nil {
		ts.soon = make([]timerSlot, 0, soonMost)
	}
	ts.soon = ts.soon[:min(soonFew, len(ts.near))]
	for i := len(ts.soon) - 1; i >= 0; i-- {
		ts.soon[i] = ts.near[0]
		ts.near.remove(0)
		ts.soon[i].t.pos = timerSoon
	}
}

// approach makes the far timers that are due next near ones, when no near one is left. It moves
// many at once, so that the scan of all of them costs little for each.
func (ts *timers) approach() {
	all, least := len(ts.far), ts.far[0].at
	for _, slot := range ts.far[1:] {
		least = min(least, slot.at)
	}
	// One more, so that it is after the first timer itself.
	ts.until = addSaturated(addSaturated(least, ts.reach), 1)
	for i := 0; i < len(ts.far); {
		if t := ts.far[i].t; ts.far[i].at < ts.until || ts.until == maxDuration {
			ts.drop(i)
			ts.near.push(timerSlot{at: t.at, seq: t.seq, t: t})
			continue
		}
		i++
	}
	switch n := len(ts.near); {
	case n < all/16+4:
		ts.reach = min(2*ts.reach+1, time.Hour)
	case n > all/4+32:
		ts.reach /= 2
	}
}

func (ts *timers) push(t *timer) {
	slot := timerSlot{at: t.at, seq: t.seq, t: t}
	switch {
	case len(ts.soon) > 0 && slot.before(ts.soon[0]):
		ts.insert(slot)
	case t.at < ts.until:
		ts.near.push(slot)
	default:
		t.pos = timerFar - len(ts.far)
		ts.far = append(ts.far, slot)
	}
}

// insert adds a timer to the sorted list. If that is full, its last timer goes to the near ones.
func (ts *timers) insert(slot timerSlot) {
	if len(ts.soon) == soonMost {
		ts.near.push(ts.soon[0])
		ts.soon = ts.soon[:copy(ts.soon, ts.soon[1:])]
	}
	slot.t.pos = timerSoon
	ts.soon = append(ts.soon, slot)
	i := len(ts.soon) - 1
	for ; i > 0 && ts.soon[i-1].before(slot); i-- {
		ts.soon[i] = ts.soon[i-1]
	}
	ts.soon[i] = slot
}

func (ts *timers) remove(t *timer) {
	switch {
	case t.pos >= 0:
		ts.near.remove(t.pos)
	case t.pos == timerSoon:
		i := slices.IndexFunc(ts.soon, func(s timerSlot) bool { return s.t == t })
		ts.soon = slices.Delete(ts.soon, i, i+1)
	default:
		ts.drop(timerFar - t.pos)
	}
}

// drop removes a far timer.
func (ts *timers) drop(i int) {
	last := len(ts.far) - 1
	if i != last {
		ts.far[i] = ts.far[last]
		ts.far[i].t.pos = timerFar - i
	}
	ts.far[last] = timerSlot{}
	ts.far = ts.far[:last]
}

// filter drops the timers for which keep returns false, and orders the rest anew, because keep may
// have changed their times.
func (ts *timers) filter(keep func(t *timer) bool) {
	ts.far = append(append(ts.far, ts.near...), ts.soon...)
	all, kept := ts.far, ts.far[:0]
	for _, slot := range all {
		if keep(slot.t) {
			slot.at, slot.t.pos = slot.t.at, timerFar-len(kept)
			kept = append(kept, slot)
		}
	}
	clear(all[len(kept):])
	clear(ts.near)
	clear(ts.soon)
	ts.soon, ts.near, ts.far, ts.until = ts.soon[:0], ts.near[:0], kept, 0
}

// timerHeap is a heap with four children a node, ordered by (at, seq). The keys are in the slots,
// so that comparing does not follow pointers.
type timerHeap []timerSlot

type timerSlot struct {
	at  time.Duration
	seq uint64
	t   *timer
}

func (a timerSlot) before(b timerSlot) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }

func (h *timerHeap) push(slot timerSlot) {
	*h = append(*h, slot)
	h.up(len(*h) - 1)
}

func (h *timerHeap) remove(i int) {
	s := *h
	last := len(s) - 1
	moved := s[last]
	s[last] = timerSlot{}
	*h = s[:last]
	if i == last {
		return
	}
	s[i] = moved
	moved.t.pos = i
	h.down(i)
	h.up(moved.t.pos)
}

func (h timerHeap) up(i int) {
	slot := h[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !slot.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].t.pos = i
		i = parent
	}
	h[i] = slot
	slot.t.pos = i
}

func (h timerHeap) down(i int) {
	slot := h[i]
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(slot) {
			break
		}
		h[i] = h[least]
		h[i].t.pos = i
		i = least
	}
	h[i] = slot
	slot.t.pos = i
}
