//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime is the time that this process has had on all processors, which other programs on the machine
// disturb far less than what the clock says.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
