package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/worker"
)

// DefaultOutputLimit is the number of bytes kept from each output stream if Options set no limit.
const DefaultOutputLimit = 256 << 10

// Options configure a Runner.
type Options struct {
	// Host is the worker's machine: fences and limits are times on its monotonic clock.
	Host host.Host
	// Actions is the directory that holds scripts, and in which actions start. If it is empty, there are no
	// scripts, and actions start in the worker's own directory.
	Actions string
	// OutputLimit is the number of bytes kept from the end of each output stream; 0 for the default.
	OutputLimit int
	// Name is the worker's name, from which control groups get their names.
	Name string
	// Isolation configures how actions are isolated. Runs get directories and control groups only after
	// Prepare was called.
	Isolation config.Isolation
	// Runs is the maximum number of concurrent runs, for limits that apply to all of them together.
	Runs int
	// SecretFile is a file that actions must not be able to read; empty for none.
	SecretFile string
	// Log gets the errors when a run's leftovers are removed; nil for no log.
	Log *slog.Logger
	// Environment holds variables, each as NAME=value, that actions get in addition to the harmless ones of
	// the worker.
	Environment []string
}

// Runner implements worker.Runner with processes. Main must call ShimMain before anything else, because the
// runner starts its own binary as the shim.
type Runner struct {
	options     Options
	environment []string
	// isolation is the result of Prepare.
	isolation isolation
}

var _ worker.Runner = (*Runner)(nil)

// New returns a runner.
func New(o Options) *Runner {
	if o.OutputLimit <= 0 {
		o.OutputLimit = DefaultOutputLimit
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner{options: o, environment: append(baseEnvironment(os.Environ()), o.Environment...)}
}

// Start implements worker.Runner. If no worker could run the action, Start returns a run that has ended and
// no error, because errors are retried.
func (r *Runner) Start(ctx context.Context, s worker.Spec) (worker.Run, error) {
	if s.Action.Runtime == config.RuntimeNoop {
		return newEndedRun(worker.Exit{}), nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	argv, err := actionCommand(r.options.Actions, s.Action)
	var refused *refusal
	if errors.As(err, &refused) {
		return newEndedRun(worker.Exit{Reason: refused.reason, Message: refused.Error()}), nil
	}
	if err != nil {
		return nil, err
	}
	parameters := []byte(s.Parameters)
	if len(parameters) == 0 {
		parameters = []byte("{}")
	}
	// The machine's clock is read first, so that any time between the two readings shortens the lent time.
	at, now := machineClock(), r.options.Host.Monotonic()
	l := launch{
		Execution: int64(s.Key.ID), Epoch: int64(s.Key.Epoch), Argv: argv, Dir: r.options.Actions,
		Environment: r.runEnvironment(s.Key, parameters), Parameters: parameters,
		retried: s.Action.RetriedExitCodes,
		At:      at, Fence: s.Fence - now, Limit: s.Limit - now,
	}
	if l.Fence <= 0 || l.Limit <= 0 {
		return nil, errors.New("the right to run the action ended before the action began")
	}
	return r.launchAction(ctx, l)
}

func (r *Runner) runEnvironment(key execution.Key, parameters []byte) []string {
	env := append([]string(nil), r.environment...)
	env = append(env,
		"HANDOFF_EXECUTION_ID="+strconv.FormatInt(int64(key.ID), 10),
		"HANDOFF_EPOCH="+strconv.FormatInt(int64(key.Epoch), 10))
	if len(parameters) <= maxVariable {
		env = append(env, "HANDOFF_PARAMETERS="+string(parameters))
	}
	return env
}

// newEndedRun returns a run that has ended.
func newEndedRun(exit worker.Exit) worker.Run { return endedRun{exit} }

type endedRun struct{ exit worker.Exit }

func (e endedRun) Wait(context.Context) (worker.Exit, error) { return e.exit, nil }
func (endedRun) Kill(time.Duration)                          {}
func (endedRun) Extend(time.Duration)                        {}

// refusal is a fault in an action that would occur on any worker.
type refusal struct {
	reason execution.Reason
	why    string
}

func (r *refusal) Error() string { return r.why }

func newRefusal(reason execution.Reason, why string, args ...any) error {
	return &refusal{reason, fmt.Sprintf(why, args...)}
}

// quoteJSON returns text as a JSON value.
func quoteJSON(text string) json.RawMessage {
	b, _ := json.Marshal(text) // marshalling a string can't fail
	return b
}
