// Command worker runs actions: it registers, keeps its lease, claims the executions dispatched to it, and
// writes how they ended.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"handoff/core/config"
	hostdaemon "handoff/core/host/daemon"
	"handoff/core/worker"
	"handoff/core/worker/subprocess"
)

// The exit codes.
const (
	exitStopped   = 0
	exitFailed    = 1
	exitBadConfig = 2
)

func main() {
	// The runner also starts this binary as a shim between the worker and an action.
	subprocess.ShimMain()
	// This comes early, because until then, actions of this user's other workers could read the environment.
	subprocess.ProtectWorker()

	hostdaemon.CollectRarely()
	// The first signal stops the process gracefully, whatever it is doing; a second one ends it at once.
	os.Exit(run(hostdaemon.Signals(context.Background()), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run executes the command line; it returns the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	args, planted := takeMutant(args)
	parsed := commandSpec().Parse(args, environ)
	if parsed.Help == "" {
		completeConfig(&parsed)
	}
	if code, done := parsed.Answer("worker", stdout, stderr); done {
		return code
	}
	d := &daemon{plant: planted, config: parsed.Config, deployment: parsed.Deployment, log: parsed.Deployment.Logger(stderr), secretFile: parsed.SecretFile()}
	hostdaemon.LogSignals(ctx, d.log)
	switch err := d.runWorker(ctx); {
	case errors.Is(err, worker.ErrSuperseded):
		d.log.LogAttrs(ctx, slog.LevelError, "superseded: another process has registered this name; this one ends and does not come back",
			slog.String("worker", d.deployment.Worker.Name))
		return exitFailed
	case err != nil:
		d.log.LogAttrs(ctx, slog.LevelError, "worker failed", slog.Any("error", err))
		return exitFailed
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "worker stopped")
	return exitStopped
}

func commandSpec() config.Command {
	return config.Command{
		Name:  "worker",
		About: "runs the actions that executors hand to it.",
		Flags: []config.FlagSpec{
			{Name: "name", Path: "worker.name", Value: "NAME", Usage: "the worker's name, which no other live process may have; the host's if left out"},
			{Name: "runtimes", Path: "worker.runtimes", Value: "LIST", Usage: "what it runs, with commas: shell, python, node, noop; what the machine has if left out"},
			{Name: "concurrency", Path: "worker.concurrency", Value: "NUMBER", Usage: "how many actions run at a time"},
			{Name: "actions-dir", Path: "worker.actions_dir", Value: "DIR", Usage: "where the scripts of actions are"},
			{Name: "health-listen", Path: "worker.health_listen", Value: "ADDRESS", Usage: "where /healthz, /readyz and /metrics are served; a free port of 127.0.0.1 if left out, nowhere if empty"},
			{Name: "health-url", Path: "worker.health_url", Value: "URL", Usage: "where executors find /readyz, if not at that address"},
		},
	}
}

// completeConfig adds values found on the machine, and refuses settings that the machine can't support. A
// worker without a runtime that it offers would fail every execution that needs it.
func completeConfig(p *config.Parsed) {
	name, err := os.Hostname()
	if err == nil {
		p.Found("worker.name", name, "the machine's name")
	}
	if p.Deployment.Worker.Name == "" {
		p.Problems = append(p.Problems, p.Locate(config.Problem{Key: "worker.name", Why: "is not set, and the machine has no name; set it by --name"}))
	}
	have := subprocess.Runtimes()
	p.Found("worker.runtimes", have, "found on this machine")
	for _, r := range p.Deployment.Worker.Runtimes {
		if !slices.Contains(have, r) {
			why := fmt.Sprintf("offers %s, which is not installed on this machine; installed: %s", r, strings.Join(have, ", "))
			p.Problems = append(p.Problems, p.Locate(config.Problem{Key: "worker.runtimes", Why: why}))
		}
	}
	if dir := p.Deployment.Worker.ActionsDir; dir != "" {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			p.Problems = append(p.Problems, p.Locate(config.Problem{Key: "worker.actions_dir", Why: fmt.Sprintf("%q is not a directory", dir)}))
		}
	}
}
