package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/testenv"
)

// endlessly is a scenario whose run takes many minutes.
const endlessly = `name: endlessly
about: As long as the limits allow.
worlds: [sim]
profile: hardened
cluster: {executors: 9, workers: {w: {runtimes: [shell]}, v: {runtimes: [shell]}}}
actions: {a: {runtime: shell, takes: 1s}}
workload:
  - {action: a, count: 100, every: 7h}
`

// A command that runs scenarios obeys a signal even in the middle of a run.
func TestRunsObeySignals(t *testing.T) {
	file := writeFile(t, "endlessly.yaml", endlessly)
	skipInMakeCheck(t)
	all := [][]string{
		{"run", file, "--seeds", "2", "--out", filepath.Join(t.TempDir(), "out")},
		{"run", file, "--seed", "1", "--mutants", "2", "--out", filepath.Join(t.TempDir(), "out")},
		{"replay", file, "--seed", "1"},
		{"shrink", file, "--seed", "1", "-o", filepath.Join(t.TempDir(), "s.yaml")},
		{"mutants", "--scenario", file, "--only", "unguarded-monitor"},
	}
	if !testenv.All() {
		all = [][]string{all[0], all[4]} // sweeps of scenarios and of mutants
	}
	for _, args := range all {
		t.Run(strings.Join(args[:1], " ")+" "+args[2], func(t *testing.T) {
			tryInTime(t, func() (time.Duration, string) {
				var said bytes.Buffer
				cmd := chaosProcess(t, args...)
				cmd.Stdout, cmd.Stderr = &said, &said
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				waitUntilBusy(t, cmd.Process.Pid)
				took := interruptProcess(t, cmd, syscall.SIGTERM)
				if code := cmd.ProcessState.ExitCode(); code != 3 && code != 4 {
					t.Errorf("it ended with exit %d\n%s", code, &said)
				}
				return took, said.String()
			})
		})
	}
}

// waitUntilBusy waits until a process has used half a second of processor time, and so is in the middle of a
// run.
func waitUntilBusy(t *testing.T, pid int) {
	t.Helper()
	const enough = 50 // hundredths of a second
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		var user, system int
		if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil || fields[0] == "Z" {
			t.Fatalf("it has ended before it was interrupted: %v", err)
		}
		if user+system >= enough {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}
