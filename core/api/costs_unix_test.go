//go:build unix

package api

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that this process has used.
func processorTime() (used time.Duration, known bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
