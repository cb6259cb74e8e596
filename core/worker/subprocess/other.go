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

// unsupported is the reason why actions can't run on this system.
func unsupported() error {
	return errors.New("running actions needs process groups, which this system does not have; only the runtime noop works here")
}

func machineClock() time.Duration { return 0 }

func (r *Runner) launch(context.Context, launch) (worker.Run, error) { return nil, unsupported() }

// ProtectWorker does nothing on this system.
func ProtectWorker() {}

// ground is empty: no action runs here.
type ground struct{}

// Prepare reports that no isolation works here, because only noop runs.
func (*Runner) Prepare(context.Context) (*State, error) {
	s := newState()
	s.lacks("actions", unsupported().Error())
	return s, nil
}

// FittingRuns knows no limit here.
func FittingRuns() (runs int, limit uint64) { return math.MaxInt, math.MaxUint64 }

// Close does nothing.
func (*Runner) Close() {}
