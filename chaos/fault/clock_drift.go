package fault

import (
	"fmt"
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "clock_drift", Ends: WithFor, Excuses: []Cause{ClockOfProcess, ClockOfDatabase},
		About:   "a clock runs too fast or too slow; of a process the monotonic one too",
		Example: "clock_drift: {of: any worker, by: -1%}, for: 5m",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("clock_drift: {of: %s, by: %s0.%d%%}", d.Process(), d.Of("", "-"), d.Number(1, 9))
		},
		Keys: clockKeys(yamlfile.Required("by", "how much too fast it runs; with a minus sign, too slow; at most 10%",
			yamlfile.Schema{"type": "string", "pattern": driftPattern})),
	}, (*clockDrift).inject)
}

type clockDrift struct {
	Target string
	// PerMillion is how much too fast the clock runs, in parts per million; it may be negative.
	PerMillion int64
}

// Read implements Fault.
func (c *clockDrift) Read(r *Reader) {
	c.Target = r.Clock(r.At("of"))
	if n := r.At("by"); n != nil {
		c.PerMillion = r.readDrift(n)
	}
}

// Strikes implements Fault.
func (c *clockDrift) Strikes() Strikes { return Strikes{Target: c.Target} }

// Describe implements Describer.
func (c *clockDrift) Describe() string { return spacedName("clock_drift") + " " + c.Target }

func (c *clockDrift) inject(x *Injection, w Clocks) (func(), error) {
	if c.Target == Database {
		c.driftDatabase(x, w)
		return nil, nil
	}
	var back []func()
	for _, process := range x.Targets {
		back = append(back, w.DriftClock(x, process, c.PerMillion))
	}
	return InOrder(back), nil
}

// driftTick is how often a drifting database clock is stepped. Drift is a series of small steps, so
// the history records the clock's error at any time.
const driftTick = time.Second

func (c *clockDrift) driftDatabase(x *Injection, w Clocks) {
	w.TouchDatabaseClock(x)
	step := driftTick / 1e6 * time.Duration(c.PerMillion)
	over := x.Now() + x.For
	var tick func()
	tick = func() {
		if x.Now() > over {
			x.endAfter(-step * (x.For / driftTick))
			return
		}
		w.ShiftDatabaseClock(step)
		x.After(driftTick, tick)
	}
	tick()
}
