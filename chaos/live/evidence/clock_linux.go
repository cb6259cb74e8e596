package evidence

import (
	"time"

	"golang.org/x/sys/unix"
)

// wallOf turns a reading of the clock that shims go by into a moment of the wall clock: the offset between
// the two is read now, and so is right as long as nobody sets the wall clock.
func wallOf(mono time.Duration, written time.Time) time.Time {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return written
	}
	return time.Now().Round(0).Add(mono - time.Duration(ts.Nano()))
}
