//go:build unix

package sim

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time of this process. Other programs affect it far less than elapsed time.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
