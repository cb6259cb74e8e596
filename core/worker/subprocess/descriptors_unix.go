//go:build unix

package subprocess

import (
	"math"

	"golang.org/x/sys/unix"
)

// The descriptors of a worker: idle it had 22, and each run took five more, measured on Linux. There
// is some room for connections to the database that come and go.
const (
	ownDescriptors    = 40
	descriptorsPerRun = 6
)

// FittingRuns returns how many runs at a time this process's limit of open files allows, at least
// one, and the limit. Go has raised the soft limit to the hard one by the time that main begins.
func FittingRuns() (runs int, limit uint64) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt, math.MaxUint64 // no limit that anybody can tell
	}
	return fittingRuns(files.Cur), files.Cur
}

func fittingRuns(limit uint64) int {
	if limit < ownDescriptors+descriptorsPerRun {
		return 1
	}
	return int(min((limit-ownDescriptors)/descriptorsPerRun, math.MaxInt32)) //nolint:gosec // bounded
}
