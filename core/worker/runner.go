package worker

import (
	"context"
	"encoding/json"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// Runner runs actions on the worker's machine. In production an action is a subprocess under a
// shim; in simulation it is a duration and an outcome.
type Runner interface {
	// Start starts an action. An error means that nothing was started: the machine failed to start it, or the
	// fence or the limit had already passed.
	Start(ctx context.Context, s Spec) (Run, error)
}

// Spec describes which execution to run and until when. The shim enforces both limits by itself, even when
// its worker is stalled, and it ends the action when its worker is gone. So no action outlives its worker's
// right to run it.
type Spec struct {
	Key        execution.Key
	Worker     store.WorkerKey
	Action     execution.Action
	Parameters json.RawMessage
	// Fence is the time, on the worker's monotonic clock, at which the shim kills the action unless Extend
	// has set a later fence.
	Fence time.Duration
	// Limit is the time at which the shim kills the action in any case: when its run timeout and kill grace
	// are over.
	Limit time.Duration
}

// Run is a started action.
type Run interface {
	// Wait returns how the action ended, or ctx's error if ctx ends first.
	Wait(ctx context.Context) (Exit, error)
	// Kill asks the action's process group to end (SIGTERM) and kills it (SIGKILL) after grace. It
	// returns at once; Wait returns when the action has ended.
	Kill(grace time.Duration)
	// Extend gives the shim a later fence.
	Extend(fence time.Duration)
}

// Exit describes how an action ended.
type Exit struct {
	// Killed reports whether the action was ended from outside. Otherwise it ended by itself, with success or
	// with a Reason from its exit code or the error type in its output.
	Killed bool
	Reason execution.Reason
	// Code is the exit code if the reason depends on it alone, else 0.
	Code    int
	Message string
	Output  json.RawMessage
}
