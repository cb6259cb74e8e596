//go:build !unix

package subprocess

import (
	"context"
	"errors"
	"math"
	"time"

	"handoff/core/worker"
)

// ShimMain does nothing: no shim is started on this system.
func ShimMain() {}

// unsupportedError returns the reason why actions can't run on this system.
func unsupportedError() error {
	return errors.New("running actions needs process groups, which this system does not have; only the runtime noop works here")
}

func machineClock() time.Duration { return 0 }

func (r *Runner) launchAction(context.Context, launch) (worker.Run, error) {
	return nil, unsupportedError()
}

// ProtectWorker does nothing on this system.
func ProtectWorker() {}

// isolation is empty: no action runs here.
type isolation struct{}

// Prepare reports that no isolation works here, because only noop runs.
func (*Runner) Prepare(context.Context) (*State, error) {
	s := newState()
	s.addMissing("actions", unsupportedError().Error())
	return s, nil
}

// FittingRuns returns no limit here.
func FittingRuns() (runs int, limit uint64) { return math.MaxInt, math.MaxUint64 }

// Close does nothing.
func (*Runner) Close() {}
