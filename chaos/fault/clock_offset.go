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
		// The database's clock is shifted in one direction only. An execution claimed while the clock is
		// behind gets a deadline that has passed once the clock is corrected; the timeout monitor then ends
		// it although its action runs.
		Draw: func(d *Dice) string {
			of, by := d.Process(), d.Shift(10*time.Minute)
			if d.Choose(4) == 0 {
				of, by = Database, d.Lasting(time.Second, 100*time.Second)
			}
			return fmt.Sprintf("clock_offset: {of: %s, by: %s}", of, by)
		},
		Keys: clockKeys(shiftKey()),
	}, (*clockOffset).inject)
}

type clockOffset struct{ clockShift }

// Describe implements Describer.
func (c *clockOffset) Describe() string { return c.describeShift("clock_offset") }

func (c *clockOffset) inject(x *Injection, w Clocks) (func(), error) {
	if c.Target != Database {
		return c.moveClocks(x, w), nil
	}
	w.TouchDatabaseClock(x)
	w.ShiftDatabaseClock(c.By)
	x.After(x.For, func() {
		w.ShiftDatabaseClock(-c.By)
		x.endAfter(c.By)
	})
	return nil, nil
}
