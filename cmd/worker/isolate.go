package main

import (
	"context"
	"log/slog"

	"handoff/core/worker/subprocess"
)

// prepareRunner creates the runner for actions, and logs which isolation works on this machine.
func (d *daemon) prepareRunner(ctx context.Context) (*subprocess.Runner, error) {
	d.fitDescriptors(ctx)
	runner := subprocess.New(subprocess.Options{
		Host: d.host, Actions: d.deployment.Worker.ActionsDir, Name: d.deployment.Worker.Name, Log: d.log,
		Isolation: d.deployment.Worker.Isolation, Runs: d.config.Worker.Concurrency, SecretFile: d.secretFile,
	})
	state, err := runner.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	d.isolation = state
	state.Log(ctx, d.log)
	return runner, nil
}

// fitDescriptors reduces the concurrency to what the limit on open files allows. Otherwise the worker would
// claim executions that it can't start for lack of descriptors.
func (d *daemon) fitDescriptors(ctx context.Context) {
	wanted := d.config.Worker.Concurrency
	if fit, limit := subprocess.FittingRuns(); fit < wanted {
		d.config.Worker.Concurrency = fit
		d.log.LogAttrs(ctx, slog.LevelWarn, "worker.concurrency is more than the limit of open files allows: raise it (ulimit -n, LimitNOFILE), or the worker runs fewer",
			slog.Int("concurrency", wanted), slog.Int("runs", fit), slog.Uint64("open_files", limit))
	}
}
