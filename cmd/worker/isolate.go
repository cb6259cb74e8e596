package main

import (
	"context"

	"handoff/core/config"
	"handoff/core/worker/subprocess"
)

// isolate makes the runner of actions, and says what keeps them apart on this machine.
func (d *daemon) isolate(ctx context.Context) (*subprocess.Runner, error) {
	i := d.deployment.Worker.Isolation
	runner := subprocess.New(subprocess.Options{
		Host: d.host, Actions: d.deployment.Worker.ActionsDir, Name: d.deployment.Worker.Name, Log: d.log,
		Isolation: subprocess.Isolation{
			User: i.User, KeepPrivileges: i.Privileges == config.KeepPrivileges, Cgroup: i.Cgroup,
			SharedTmp:   i.PrivateTmp == config.PrivateTmpOff,
			MemoryBytes: i.MemoryBytes, CPUs: i.CPUs, Processes: i.Processes, DiskBytes: i.DiskBytes, OutputBytes: i.OutputBytes,
			RunDir: i.RunDir, Runs: d.config.Worker.Concurrency, SecretFile: d.secretFile,
		},
	})
	state, err := runner.Prepare(ctx)
	if err != nil {
		return nil, err
	}
	d.isolation = state
	state.Log(ctx, d.log)
	return runner, nil
}
