//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime is the processor time that this process has had. Other programs on the machine disturb it
// far less than elapsed time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
