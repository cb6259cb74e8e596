package fault

import (
	"fmt"
	"time"
)

func init() {
	Register(Kind{
		Name: "clock_offset", Ends: WithFor, Excuses: []Cause{ClockOfProcess, ClockOfDatabase},
		About:   "a wall clock is off, and right again at the end",
		Example: "clock_offset: {of: any worker, by: -45s}, for: 60s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("clock_offset: {of: %s, by: %s}", d.Of(d.Process(), Database), d.Shift(10*time.Minute))
		},
		Keys: clockKeys(shiftKey()),
	}, (*clockOffset).inject)
}

type clockOffset struct{ shifted }

// Describe implements Describer.
func (f *clockOffset) Describe() string { return f.describe("clock_offset") }

func (f *clockOffset) inject(x *Injection, w Clocks) (func(), error) {
	if f.Target != Database {
		return f.move(x, w), nil
	}
	w.TouchDatabaseClock(x)
	w.ShiftDatabaseClock(f.By)
	x.After(x.For, func() {
		w.ShiftDatabaseClock(-f.By)
		x.endAfter(f.By)
	})
	return nil, nil
}
