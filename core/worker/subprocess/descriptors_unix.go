//go:build unix

package subprocess

import (
	"math"

	"golang.org/x/sys/unix"
)

// The numbers of file descriptors that a worker needs. On Linux, an idle worker had 22, and each run took
// five more. The rest is room for temporary connections to the database.
const (
	ownDescriptors    = 40
	descriptorsPerRun = 6
)

// FittingRuns returns how many concurrent runs this process's limit on open files allows, at least one, and
// the limit itself. Go raises the soft limit to the hard limit before main begins.
func FittingRuns() (runs int, limit uint64) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return math.MaxInt, math.MaxUint64 // the limit is unknown
	}
	return fittingRuns(files.Cur), files.Cur
}

func fittingRuns(limit uint64) int {
	if limit < ownDescriptors+descriptorsPerRun {
		return 1
	}
	return int(min((limit-ownDescriptors)/descriptorsPerRun, math.MaxInt32)) //nolint:gosec // at most MaxInt32
}
