package kernel

import (
	"slices"
	"time"
)

// Event is the action of a timer. It runs in kernel context, so it must not block. A model that pools its
// events arms timers without allocating.
type Event interface{ Fire() }

type funcEvent func()

func (f funcEvent) Fire() { f() }

const (
	timerFree = -1 // in the pool
	timerHeld = -2 // held back by a frozen machine
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
	process *Process      // nil if it is measured on true time
	target  time.Duration // reading of the process's machine at which it is due
	event   Event
	wait    Wait // used when event is nil
	strand  Strand
}

// Timer is a handle of a timer. It is a value and may be copied; the zero Timer stands for a timer that has
// fired or was stopped.
type Timer struct {
	t   *timer
	gen uint64
}

// Stop disarms the timer and reports whether it was armed: false if it has fired, was stopped before, or its
// process has ended.
func (ti Timer) Stop() bool {
	if ti.t == nil || ti.t.gen != ti.gen {
		return false
	}
	k := ti.t.k
	k.CheckAlive()
	k.disarmTimer(ti.t)
	return true
}

// After runs fn in kernel context after d of true virtual time, or as soon as possible if d is zero or less.
func (k *Kernel) After(d time.Duration, fn func()) Timer {
	k.CheckAlive()
	return k.armTimer(nil, d, funcEvent(fn), Wait{})
}

// AfterEvent is like After, but needs no closure.
func (k *Kernel) AfterEvent(d time.Duration, e Event) Timer {
	k.CheckAlive()
	return k.armTimer(nil, d, e, Wait{})
}

// WakeAfter calls w.Done after d of true virtual time.
func (k *Kernel) WakeAfter(d time.Duration, w Wait) Timer {
	k.CheckAlive()
	return k.armTimer(nil, d, nil, w)
}

func (k *Kernel) armTimer(p *Process, d time.Duration, e Event, w Wait) Timer {
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
		t.target = addSaturated(m.clockReading(), d)
		if m.frozen {
			t.pos = timerHeld
			m.held = append(m.held, t)
			return Timer{t: t, gen: t.gen}
		}
		t.at = m.dueTime(t.target)
	}
	k.timers.addTimer(t)
	return Timer{t: t, gen: t.gen}
}

func (k *Kernel) disarmTimer(t *timer) {
	if t.pos == timerHeld {
		m := t.process.machine
		for i, h := range m.held {
			if h == t {
				m.held = append(m.held[:i], m.held[i+1:]...)
				break
			}
		}
	} else {
		k.timers.removeTimer(t)
	}
	k.freeTimer(t)
}

func (k *Kernel) freeTimer(t *timer) {
	t.gen++
	t.pos = timerFree
	t.process, t.event, t.wait = nil, nil, Wait{}
	k.timerPool = append(k.timerPool, t)
}

// fireTimer moves time to the earliest timer and fires it. It frees the timer first, so that the event may
// reuse it.
func (k *Kernel) fireTimer() {
	t := k.timers.takeFirst()
	if t.at > k.now {
		k.now = t.at
	}
	event, w, timeout := t.event, t.wait, t.process != nil
	k.strand = t.strand
	k.freeTimer(t)
	switch {
	case event != nil:
		event.Fire()
	case timeout:
		w.resolveAs(waitTimeout)
	default:
		w.resolveAs(waitDone)
	}
}

// dropTimers frees the timers of a process that has ended.
func (k *Kernel) dropTimers(p *Process) {
	k.timers.filterTimers(func(t *timer) bool {
		if t.process != p {
			return true
		}
		k.freeTimer(t)
		return false
	})
	held := p.machine.held[:0]
	for _, t := range p.machine.held {
		if t.process == p {
			k.freeTimer(t)
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

// timers are the armed timers, ordered by (at, seq). Most are timeouts of calls, which are stopped long
// before they are due. So only the near timers, due before `until`, are ordered. The far ones stay
// unordered until the near ones have run out, which makes arming and stopping them cheap.
//
// A new near timer is usually due before nearly all others. So the next few are in a list sorted in
// reverse: adding a timer there moves few others, and firing one moves none.
type timers struct {
	soon  []timerSlot // all due before the near timers
	near  timerHeap
	far   []timerSlot
	until time.Duration // near timers are due before it, far ones are not
	reach time.Duration // distance from the first far timer to the next until
}

// The sorted list holds at most soonMost timers; when it is empty, it is refilled with soonFew timers.
const (
	soonMost = 48
	soonFew  = 16
)

func (ti *timers) len() int { return len(ti.soon) + len(ti.near) + len(ti.far) }

// firstSlot returns the timer that fires next. At least one must be armed.
func (ti *timers) firstSlot() *timerSlot {
	if len(ti.soon) == 0 {
		ti.refillSoon()
	}
	return &ti.soon[len(ti.soon)-1]
}

// takeFirst removes the timer that fires next, and returns it. At least one must be armed.
func (ti *timers) takeFirst() *timer {
	t := ti.firstSlot().t
	ti.soon = ti.soon[:len(ti.soon)-1]
	return t
}

// refillSoon moves the first near timers to the empty sorted list.
func (ti *timers) refillSoon() {
	if len(ti.near) == 0 {
		ti.moveFarToNear()
	}
	if ti.soon == nil {
		ti.soon = make([]timerSlot, 0, soonMost)
	}
	ti.soon = ti.soon[:min(soonFew, len(ti.near))]
	for i := len(ti.soon) - 1; i >= 0; i-- {
		ti.soon[i] = ti.near[0]
		ti.near.removeAt(0)
		ti.soon[i].t.pos = timerSoon
	}
}

// moveFarToNear moves the far timers that are due next to the empty near heap. It moves many at once, so
// that the scan costs little for each.
func (ti *timers) moveFarToNear() {
	all, least := len(ti.far), ti.far[0].at
	for _, slot := range ti.far[1:] {
		least = min(least, slot.at)
	}
	// Add one, so that the first timer itself is before it.
	ti.until = addSaturated(addSaturated(least, ti.reach), 1)
	for i := 0; i < len(ti.far); {
		if t := ti.far[i].t; ti.far[i].at < ti.until || ti.until == maxDuration {
			ti.dropFar(i)
			ti.near.pushSlot(timerSlot{at: t.at, seq: t.seq, t: t})
			continue
		}
		i++
	}
	switch n := len(ti.near); {
	case n < all/16+4:
		ti.reach = min(2*ti.reach+1, time.Hour)
	case n > all/4+32:
		ti.reach /= 2
	}
}

func (ti *timers) addTimer(t *timer) {
	slot := timerSlot{at: t.at, seq: t.seq, t: t}
	switch {
	case len(ti.soon) > 0 && slot.isBefore(ti.soon[0]):
		ti.insertSoon(slot)
	case t.at < ti.until:
		ti.near.pushSlot(slot)
	default:
		t.pos = timerFar - len(ti.far)
		ti.far = append(ti.far, slot)
	}
}

// insertSoon adds a timer to the sorted list. If the list is full, its latest timer moves to the near ones.
func (ti *timers) insertSoon(slot timerSlot) {
	if len(ti.soon) == soonMost {
		ti.near.pushSlot(ti.soon[0])
		ti.soon = ti.soon[:copy(ti.soon, ti.soon[1:])]
	}
	slot.t.pos = timerSoon
	ti.soon = append(ti.soon, slot)
	i := len(ti.soon) - 1
	for ; i > 0 && ti.soon[i-1].isBefore(slot); i-- {
		ti.soon[i] = ti.soon[i-1]
	}
	ti.soon[i] = slot
}

func (ti *timers) removeTimer(t *timer) {
	switch {
	case t.pos >= 0:
		ti.near.removeAt(t.pos)
	case t.pos == timerSoon:
		i := slices.IndexFunc(ti.soon, func(s timerSlot) bool { return s.t == t })
		ti.soon = slices.Delete(ti.soon, i, i+1)
	default:
		ti.dropFar(timerFar - t.pos)
	}
}

// dropFar removes a far timer.
func (ti *timers) dropFar(i int) {
	last := len(ti.far) - 1
	if i != last {
		ti.far[i] = ti.far[last]
		ti.far[i].t.pos = timerFar - i
	}
	ti.far[last] = timerSlot{}
	ti.far = ti.far[:last]
}

// filterTimers drops the timers for which keep returns false, and reorders the rest, because keep may have
// changed their times.
func (ti *timers) filterTimers(keep func(t *timer) bool) {
	ti.far = append(append(ti.far, ti.near...), ti.soon...)
	all, kept := ti.far, ti.far[:0]
	for _, slot := range all {
		if keep(slot.t) {
			slot.at, slot.t.pos = slot.t.at, timerFar-len(kept)
			kept = append(kept, slot)
		}
	}
	clear(all[len(kept):])
	clear(ti.near)
	clear(ti.soon)
	ti.soon, ti.near, ti.far, ti.until = ti.soon[:0], ti.near[:0], kept, 0
}

// timerHeap is a heap with four children a node, ordered by (at, seq). The keys are in the slots, so that
// comparisons follow no pointers.
type timerHeap []timerSlot

type timerSlot struct {
	at  time.Duration
	seq uint64
	t   *timer
}

func (t timerSlot) isBefore(b timerSlot) bool { return t.at < b.at || t.at == b.at && t.seq < b.seq }

func (th *timerHeap) pushSlot(slot timerSlot) {
	*th = append(*th, slot)
	th.siftUp(len(*th) - 1)
}

func (th *timerHeap) removeAt(i int) {
	s := *th
	last := len(s) - 1
	moved := s[last]
	s[last] = timerSlot{}
	*th = s[:last]
	if i == last {
		return
	}
	s[i] = moved
	moved.t.pos = i
	th.siftDown(i)
	th.siftUp(moved.t.pos)
}

func (th timerHeap) siftUp(i int) {
	slot := th[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !slot.isBefore(th[parent]) {
			break
		}
		th[i] = th[parent]
		th[i].t.pos = i
		i = parent
	}
	th[i] = slot
	slot.t.pos = i
}

func (th timerHeap) siftDown(i int) {
	slot := th[i]
	for {
		first := 4*i + 1
		if first >= len(th) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(th)); c++ {
			if th[c].isBefore(th[least]) {
				least = c
			}
		}
		if !th[least].isBefore(slot) {
			break
		}
		th[i] = th[least]
		th[i].t.pos = i
		i = least
	}
	th[i] = slot
	slot.t.pos = i
}
