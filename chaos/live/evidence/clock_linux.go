package evidence

import (
	"time"

	"golang.org/x/sys/unix"
)

// wallOf converts a reading of the shims' clock to wall-clock time. It uses the current offset of the two
// clocks, so the result is right unless the wall clock has been set since.
func wallOf(mono time.Duration, written time.Time) time.Time {
	boot, wall, ok := bothClocks()
	if !ok {
		return written
	}
	return wall.Add(mono - boot)
}

// bothClocks reads two clocks almost simultaneously: it reads the first clock before and after the second. It
// uses the closest of several readings, because a delay in between would make an action seem to end after its
// result was stored.
func bothClocks() (boot time.Duration, wall time.Time, ok bool) {
	narrowest := time.Duration(-1)
	for range clockReadings {
		var before, after unix.Timespec
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &before) != nil {
			return 0, time.Time{}, false
		}
		now := time.Now().Round(0)
		if unix.ClockGettime(unix.CLOCK_BOOTTIME, &after) != nil {
			return 0, time.Time{}, false
		}
		if width := time.Duration(after.Nano() - before.Nano()); narrowest < 0 || width < narrowest {
			narrowest, boot, wall = width, time.Duration(before.Nano())+width/2, now
		}
	}
	return boot, wall, true
}

// clockReadings exceeds the number of consecutive readings that a delay of the process can disturb.
const clockReadings = 5
