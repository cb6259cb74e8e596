package fault

import (
	"fmt"
	"time"
)

func init() {
	Register(Kind{
		Name: "clock_step", Ends: ByItself, Excuses: []Cause{ClockOfProcess, ClockOfDatabase},
		About:   "a wall clock is set, and stays so",
		Example: "clock_step: {of: database, by: 40s}",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("clock_step: {of: %s, by: %s}", d.Of(d.Process(), Database), d.Shift(10*time.Minute))
		},
		Keys: clockKeys(shiftKey()),
	}, (*clockStep).inject)
}

type clockStep struct{ clockShift }

// Describe implements Describer.
func (c *clockStep) Describe() string { return c.describeShift("clock_step") }

func (c *clockStep) inject(x *Injection, w Clocks) (func(), error) {
	if c.Target == Database {
		w.TouchDatabaseClock(x)
		w.ShiftDatabaseClock(c.By)
		x.endAfter(-c.By)
		return nil, nil
	}
	c.moveClocks(x, w)
	x.End()
	return nil, nil
}
