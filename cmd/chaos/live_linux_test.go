package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/testenv"
)

// pausedForLong is a scenario that stays in the middle of a fault, with a running action, until a test ends
// the run.
const pausedForLong = `name: paused-for-long
about: A worker stands still for longer than anybody waits.
cluster:
  workers:
    shell-1: {runtimes: [shell]}
profile: hardened
actions:
  core.job: {runtime: shell, takes: 5m, timeout: 10m}
workload:
  - {action: core.job, count: 1}
faults:
  - {when: {after: action_started, of: shell-1}, pause: shell-1, for: 10m}
expect:
  invariants: all
`

// A live run that ends in the middle of a fault leaves no daemon, action, server or port behind. Its
// directory is gone immediately or, if it could not clean up, after the next start.
func TestLiveRunLeavesNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	t.Parallel()
	bin := buildAll(t)
	file := filepath.Join(t.TempDir(), "paused-for-long.yaml")
	if err := os.WriteFile(file, []byte(pausedForLong), 0o600); err != nil {
		t.Fatal(err)
	}
	left := ""
	type ending struct {
		how    string
		signal syscall.Signal
		cleans bool
	}
	ends := []ending{{"Ctrl-C", syscall.SIGINT, true}}
	if testenv.All() { // make test kills chaos up instead
		ends = []ending{{"kill -9", syscall.SIGKILL, false}, {"Ctrl-C", syscall.SIGINT, true}}
	}
	for _, end := range ends {
		r := startLive(t, bin, file)
		if left != "" {
			if _, err := os.Stat(left); !os.IsNotExist(err) {
				t.Errorf("%s: the directory of the run before is still there: %v", end.how, err)
			}
		}
		if err := r.cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = r.cmd.Wait() // the test asked for its end
		r.waitUntilGone(t, end.how)
		_, err := os.Stat(r.dir)
		if end.cleans && !os.IsNotExist(err) {
			t.Errorf("%s: %s is left behind: %v", end.how, r.dir, err)
		}
		left = r.dir
	}
}

var privateServer = regexp.MustCompile(`private .* on (127\.0\.0\.1:\d+)`)

// startLive starts a live run and returns when its worker is paused.
func startLive(t *testing.T, bin, file string) *runningSystem {
	t.Helper()
	r := &runningSystem{cmd: exec.Command(filepath.Join(bin, "chaos"), "run", file, "--world", "live", "--parallel", "1", "--out", t.TempDir())}
	said, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	lines := bufio.NewScanner(said)
	for len(r.addresses) < 2 {
		if !lines.Scan() {
			t.Fatal("it ended before its servers ran")
		}
		if m := privateServer.FindStringSubmatch(lines.Text()); m != nil {
			r.addresses = append(r.addresses, m[1])
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, said) // otherwise the run would block on its output
	}()
	for deadline := time.Now().Add(testenv.Patience()); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r.dir = pausedWorker(r.cmd.Process.Pid); r.dir != "" {
			return r
		}
	}
	t.Fatal("no worker was paused")
	return nil
}

// pausedWorker returns the servers' directory of a process with a paused child; empty if no child is paused.
func pausedWorker(parent int) string {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		status, _ := os.ReadFile(dir + "/status")
		if !strings.Contains(string(status), "State:\tT") || !strings.Contains(string(status), fmt.Sprintf("PPid:\t%d\n", parent)) {
			continue
		}
		environment, _ := os.ReadFile(dir + "/environ")
		for entry := range strings.SplitSeq(string(environment), "\x00") {
			if folder, ok := strings.CutPrefix(entry, "TMPDIR="); ok {
				return filepath.Dir(folder)
			}
		}
	}
	return ""
}
