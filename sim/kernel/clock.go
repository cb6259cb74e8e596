package kernel

import (
	"fmt"
	"math/bits"
	"slices"
	"time"
)

const maxDrift = 500_000 // parts per million

// machine is the oscillator behind the clocks of all processes with one name. Its reading follows
// true virtual time, except for drift and freezes.
type machine struct {
	k         *Kernel
	base      time.Duration // reading at since
	since     time.Duration // true time
	drift     int64         // parts per million
	offset    time.Duration // of the wall clock, besides its drift
	frozen    bool
	onWall    func()
	processes []*Process
	held      []*timer // timers of its processes, held back while it is frozen
}

func (m *machine) clockReading() time.Duration {
	if m.frozen {
		return m.base
	}
	return m.base + m.readingAdvance(m.k.now-m.since)
}

// readingAdvance returns how far the reading moves in d of true time. It rounds down, so that the reading
// never goes backwards and never runs ahead. It multiplies the parts separately to avoid an overflow.
func (m *machine) readingAdvance(d time.Duration) time.Duration {
	if m.drift == 0 {
		return d
	}
	n, rate := int64(d), 1e6+m.drift
	return time.Duration(n/1e6*rate + n%1e6*rate/1e6)
}

// dueTime returns the earliest true time, not before now, at which the reading has reached target.
func (m *machine) dueTime(target time.Duration) time.Duration {
	now := m.k.now
	left := target - m.clockReading()
	if left <= 0 {
		return now
	}
	if m.drift == 0 {
		return addSaturated(now, left)
	}
	need := target - m.base
	hi, lo := bits.Mul64(uint64(need), 1e6)
	rate := uint64(1e6 + m.drift)
	if hi >= rate {
		return maxDuration
	}
	quotient, _ := bits.Div64(hi, lo, rate)
	if quotient >= uint64(maxDuration)/4 { // centuries away; avoid an overflow in readingAdvance
		return maxDuration
	}
	d := time.Duration(quotient)
	for m.readingAdvance(d) < need {
		d++
	}
	for d > 0 && m.readingAdvance(d-1) >= need {
		d--
	}
	return addSaturated(m.since, d)
}

// rebaseReading makes now the base of the reading, so that a change of the rate does not make it jump.
func (m *machine) rebaseReading() {
	m.base = m.clockReading()
	m.since = m.k.now
}

// rearmTimers moves the timers to the times at which they are due at the current rate.
func (m *machine) rearmTimers() {
	if len(m.processes) == 0 {
		return
	}
	m.k.timers.filterTimers(func(t *timer) bool {
		if t.process != nil && t.process.machine == m {
			t.at = m.dueTime(t.target)
		}
		return true
	})
}

func (m *machine) freeze() {
	m.rebaseReading()
	m.frozen = true
	m.k.timers.filterTimers(func(t *timer) bool {
		if t.process == nil || t.process.machine != m {
			return true
		}
		t.pos = timerHeld
		m.held = append(m.held, t)
		return false
	})
	slices.SortFunc(m.held, func(a, b *timer) int {
		if a.seq < b.seq {
			return -1
		}
		return 1
	})
}

func (m *machine) unfreeze() {
	m.since = m.k.now
	m.frozen = false
	held := m.held
	m.held = nil
	for _, t := range held {
		t.at = m.dueTime(t.target)
		m.k.timers.addTimer(t)
	}
	for _, p := range m.processes {
		p.unstallTasks()
	}
}

// Clock is a wall clock and a monotonic clock over one oscillator. Only faults set them; the program reads
// them.
type Clock struct {
	m      *machine
	origin time.Duration
}

// NewClock returns clocks for something that is not a process, such as a database server. They
// belong to no machine that could be frozen. Clocks of the same name share their faults with each
// other, but never with a process of that name.
func (k *Kernel) NewClock(name string) *Clock {
	key := "clock\x00" + name
	m := k.machines[key]
	if m == nil {
		m = &machine{k: k}
		k.machines[key] = m
	}
	return &Clock{m: m, origin: monotonicOrigin(key, 0)}
}

// Monotonic returns the time since an arbitrary origin. The origin differs from process to process and from
// start to start, so that code that compares readings of two processes fails visibly. The reading never
// goes backwards. It drifts, and it stops while the machine is frozen.
func (c *Clock) Monotonic() time.Duration { return c.origin + c.m.clockReading() }

// Wall returns the reading of the wall clock, in UTC: true time, plus drift, offset and steps,
// minus the time for which the machine was frozen.
func (c *Clock) Wall() time.Time { return c.m.k.start.Add(c.wallReading()) }

// wallReading returns Wall as a duration since the kernel's start.
func (c *Clock) wallReading() time.Duration {
	if c.m.onWall != nil {
		c.m.onWall()
	}
	return c.m.clockReading() + c.m.offset
}

// OnWall sets a function that is called at each reading of the wall clock; nil for none. It shows whether a
// wrong wall clock mattered: if no code reads the clock, its fault has no effect. A context with a timeout
// also reads the clock, for its deadline.
func (c *Clock) OnWall(fn func()) { c.m.onWall = fn }

// SetOffset sets the error of the wall clock, in addition to its drift. It does not touch the monotonic
// clock.
func (c *Clock) SetOffset(d time.Duration) { c.m.offset = d }

// Offset returns the sum of what SetOffset and Step have set.
func (c *Clock) Offset() time.Duration { return c.m.offset }

// Step moves the wall clock by d, backwards when d is negative. The monotonic clock is not touched.
func (c *Clock) Step(d time.Duration) { c.m.offset += d }

// SetDrift sets how much faster than true time both clocks run, in parts per million; negative is
// slower. Readings stay continuous, and timers on this clock move to their new times. It panics
// beyond 500,000 in either direction: no clock drifts that much.
func (c *Clock) SetDrift(ppm int64) {
	if ppm < -maxDrift || ppm > maxDrift {
		panic(fmt.Sprintf("kernel: a drift of %d ppm is out of range (±%d)", ppm, maxDrift))
	}
	c.m.rebaseReading()
	c.m.drift = ppm
	if !c.m.frozen {
		c.m.rearmTimers()
	}
}

// Drift returns the drift in parts per million.
func (c *Clock) Drift() int64 { return c.m.drift }

// monotonicOrigin lies between one hour and about 50 days.
func monotonicOrigin(name string, start uint64) time.Duration {
	return time.Hour + time.Duration(hashLabel(start, name)>>12)
}
