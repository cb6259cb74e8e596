package live

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"handoff/chaos/live/compose"
	"handoff/chaos/scenario"
	"handoff/chaos/servers/containers"
	"handoff/core/config"
	"handoff/core/host/without"
)

const composeFile = "../../docker-compose.chaos.yaml"

// brokenInContainers is a scenario with faults of a process, a link, messages and both servers.
const brokenInContainers = `name: broken-in-containers
about: A worker is killed, another one cut off, messages are lost, and the servers restart.
cluster:
  executors: 2
  workers:
    shell-1: {runtimes: [shell]}
    shell-2: {runtimes: [shell]}
profile: hardened
actions:
  core.job: {runtime: shell, takes: {uniform: [1s, 10s]}, max_retries: 3}
workload:
  - {action: core.job, count: 20, every: 1s}
faults:
  - {when: {after: action_started, of: shell-1, nth: 2}, crash: shell-1, restart_after: 10s}
  - {when: {at: 5s}, messages: {drop: execution.scheduled, rate: 20%}, for: 20s}
  - {when: {at: 15s}, partition: {cut: shell-2, from: [broker, database]}, for: 20s}
  - {when: {at: 40s}, broker: restart, for: 5s}
  - {when: {at: 50s}, database: restart, for: 5s}
expect:
  invariants: all
  executions: {completed: ">= 50%", stuck: 0}
`

// In containers, faults, evidence and judges work as they do for processes of this machine, and no container
// is left behind.
func TestContainersRunScenario(t *testing.T) {
	engine := preparedEngine(t)
	sandbox := openedSandbox(t)
	s, err := scenario.Parse("broken-in-containers.yaml", []byte(brokenInContainers))
	if err != nil {
		t.Fatal(err)
	}
	r, err := sandbox.Run(t.Context(), s, config.Hardened, Options{Seed: 1, Scale: 0.2})
	if err != nil {
		t.Fatal(err)
	}
	if failures := r.Failures(); r.Noise == "" && (len(failures) > 0 || r.GaveUp != "") {
		t.Errorf("%v; gave up: %q", failures, r.GaveUp)
	}
	for _, f := range r.Faults {
		if f.Touched == 0 {
			t.Errorf("%s touched nothing", f.Fault)
		}
	}
	if err := sandbox.Close(); err != nil {
		t.Error(err)
	}
	checkNothingLeft(t, engine, sandbox)
}

// An interrupted run leaves no container behind, and the next run can start at once.
func TestInterruptedRunRemovesContainers(t *testing.T) {
	engine := preparedEngine(t)
	s, err := scenario.Parse("broken-in-containers.yaml", []byte(brokenInContainers))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sandbox := openedSandbox(t)
		ctx, interrupt := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := sandbox.Run(ctx, s, config.Hardened, Options{Seed: 1, Scale: 0.2})
		interrupt()
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if err := sandbox.Close(); err != nil {
			t.Error(err)
		}
		checkNothingLeft(t, engine, sandbox)
	}
}

// preparedEngine returns the machine's engine and builds the daemons' image. Without an engine, it skips or
// fails the test.
func preparedEngine(t *testing.T) *containers.Engine {
	t.Helper()
	if testing.Short() {
		t.Skip("starts the whole system in containers")
	}
	err := compose.Prepare(t.Context(), composeFile, os.Stderr)
	var lack *compose.UnavailableError
	if err != nil && !errors.As(err, &lack) {
		t.Fatal(err)
	}
	without.Need(t, without.Docker, err)
	engine, err := containers.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

func openedSandbox(t *testing.T) *Sandbox {
	t.Helper()
	sandbox, err := OpenCompose(t.Context(), composeFile, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sandbox.Close() })
	return sandbox
}

func checkNothingLeft(t *testing.T, engine *containers.Engine, sandbox *Sandbox) {
	t.Helper()
	left, err := engine.Project(t.Context(), sandbox.servers.Project())
	if err != nil || len(left) > 0 {
		t.Errorf("%d containers are left, %v", len(left), err)
	}
	if gateway, err := engine.Gateway(t.Context(), sandbox.servers.Network()); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("the network is left, with the gateway %s: %v", gateway, err)
	}
	if _, err := os.Stat(sandbox.folder); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", sandbox.folder, err)
	}
}
