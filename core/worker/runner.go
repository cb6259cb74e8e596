package worker

import (
	"context"
	"encoding/json"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// Runner runs actions on the worker's machine: a subprocess under a shim in production, a duration
// and an outcome in simulation.
type Runner interface {
	// Start starts an action. An error means that nothing was started: the machine could not, or it came to it only
	// after the fence or the limit, when it must not.
	Start(ctx context.Context, s Spec) (Run, error)
}

// Spec is what to run and until when. The shim enforces both limits by itself, also when its worker
// stands still, and it ends the action when its worker is gone: no action outlives its worker's
// right to run it.
type Spec struct {
	Key        execution.Key
	Worker     store.WorkerKey
	Action     execution.Action
	Parameters json.RawMessage
	// Fence is the moment, on the worker's monotonic clock, at which the shim kills the action
	// unless it was given a later one.
	Fence time.Duration
	// Limit is the moment at which the shim kills the action in any case: the end of its run
	// timeout and kill grace.
	Limit time.Duration
}

// Run is an action that was started.
type Run interface {
	// Wait returns how the action ended, or ctx's error if that comes first.
	Wait(ctx context.Context) (Exit, error)
	// Kill asks the action's process group to end (SIGTERM) and kills it (SIGKILL) after grace. It
	// returns at once; Wait tells when it has ended.
	Kill(grace time.Duration)
	// Extend gives the shim a later fence.
	Extend(fence time.Duration)
}

// Exit is how an action ended.
type Exit struct {
	// Killed says that it was ended from outside; otherwise it ended by itself, with success or
	// with a Reason that it classified itself, by exit code or by the error type in its output.
	Killed  bool
	Reason  execution.Reason
	Message string
	Output  json.RawMessage
}
