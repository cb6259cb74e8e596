//go:build !simulator

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// frozen is a scenario that the live world can't run.
const frozen = calm + `worlds: [sim]
faults:
  - {when: {at: 2s}, freeze: shell-1, for: 5s}
`

// Before any server starts, lint and run report what the live world can't do for a named scenario.
func TestLiveWorldLimitsAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "frozen.yaml")
	if err := os.WriteFile(file, []byte(frozen), 0o600); err != nil {
		t.Fatal(err)
	}
	runChaos(t, "lint", file).expectOutput(t, 0, "live world: not expressible: it has no freeze")
	runChaos(t, "run", file, "--world", "live").expectOutput(t, 2, "not expressible in the live world: it has no freeze")
	runChaos(t, "run", "worker-frozen", "--world", "live").expectOutput(t, 2, "worker-frozen", "live")
	listed := strings.Join(strings.Fields(runChaos(t, "list", "--faults").out), " ")
	if why := "simulated world only: its processes and servers share one machine and its clocks"; !strings.Contains(listed, why) {
		t.Errorf("no %q in %s", why, listed)
	}
}

// onNode needs a program that the daemons' image lacks.
var onNode = strings.ReplaceAll(calm, "shell", "node") //nolint:gochecknoglobals // a constant text

// What containers can't do is reported before chaos searches for a container engine.
func TestContainerLimitsAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "on-node.yaml")
	if err := os.WriteFile(file, []byte(onNode), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HANDOFF_WITHOUT", "docker")
	inContainers := []string{"--world", "live", "--target", "compose", "--file", "../../docker-compose.chaos.yaml", "--out", t.TempDir()}
	with := func(args ...string) []string { return append(append([]string{"run"}, args...), inContainers...) }
	runChaos(t, "lint", file).expectOutput(t, 0, "in containers: not expressible: the image of the daemons has no node")
	runChaos(t, with(file)...).expectOutput(t, 2, "not expressible in containers: the image of the daemons has no node")
	runChaos(t, with("worker-frozen")...).expectOutput(t, 2, "worker-frozen")
	runChaos(t, with("ttl-race", "--mutant", "unguarded-monitor")...).expectOutput(t, 2, "built without mutants")
	runChaos(t, "run", "ttl-race", "--target", "compose").expectOutput(t, 2, "add --world live")
	runChaos(t, "run", "ttl-race", "--world", "live", "--target", "kubernetes").expectOutput(t, 2, "allowed: processes, compose")
}

// Without a container engine, the error lists the searched places and the next step.
func TestMissingContainersAreReported(t *testing.T) {
	args := []string{"run", "ttl-race", "--world", "live", "--target", "compose", "--out", t.TempDir(), "--file"}
	t.Setenv("HANDOFF_WITHOUT", "docker")
	runChaos(t, append(args, "../../docker-compose.chaos.yaml")...).expectOutput(t, 4, "HANDOFF_WITHOUT names docker", "leave --target compose out")
	t.Setenv("HANDOFF_WITHOUT", "")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
	runChaos(t, append(args, "../../docker-compose.chaos.yaml")...).expectOutput(t, 4,
		"neither `docker compose` nor `docker-compose` is installed", "a container engine at DOCKER_HOST", "docker info has to answer")
	runChaos(t, append(args, "nowhere.yaml")...).expectOutput(t, 2, "--file nowhere.yaml")
}

// A sweep counts the scenarios that it could not run and the repeated runs.
func TestLiveCountsReportSkippedRuns(t *testing.T) {
	got := liveCounts([]string{"left out: a", notExpressible + "b", notExpressible + "c"}, 1, targetProcesses)
	want := []string{
		"2 scenarios not expressible in the live world: each is named with the reason",
		"1 run repeated because the machine stood still for too long",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := liveCounts([]string{"left out: a"}, 0, targetProcesses); got != nil {
		t.Errorf("%q, want nothing", got)
	}
}
