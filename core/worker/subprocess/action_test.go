package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/worker"
)

func TestActionCommandStaysInActionsDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"run.sh", "run.py"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder.sh"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside.sh")
	if err := os.WriteFile(outside, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	relative, err := filepath.Rel(dir, outside)
	if err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		filepath.Join(dir, "inside.sh"): "run.sh", filepath.Join(dir, "relative.sh"): relative, filepath.Join(dir, "outside.sh"): outside, filepath.Join(dir, "up"): filepath.Dir(outside), linked: dir,
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Skipf("no symbolic links on this system: %v", err)
		}
	}
	for _, c := range []struct {
		dir, runtime, entrypoint string
		want                     []string
		refused                  execution.Reason
	}{
		{dir, config.RuntimeShell, "run.sh", []string{"/bin/sh", filepath.Join(dir, "run.sh")}, 0},
		{dir, config.RuntimeShell, "./run.sh", []string{"/bin/sh", filepath.Join(dir, "run.sh")}, 0},
		{dir, config.RuntimeShell, "echo run.sh", []string{"/bin/sh", "-c", "echo run.sh"}, 0},
		{dir, config.RuntimeShell, "true;run.sh", []string{"/bin/sh", "-c", "true;run.sh"}, 0},
		{"", config.RuntimeShell, "exit 0", []string{"/bin/sh", "-c", "exit 0"}, 0},
		{dir, config.RuntimeShell, "gone.sh", nil, execution.ActionNotFound},
		{"", config.RuntimeShell, "run.sh", nil, execution.ActionNotFound},
		{dir, config.RuntimeShell, "inside.sh", []string{"/bin/sh", filepath.Join(dir, "inside.sh")}, 0},
		{linked, config.RuntimeShell, "run.sh", []string{"/bin/sh", filepath.Join(linked, "run.sh")}, 0},
		{dir, config.RuntimeShell, "outside.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, "relative.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, outside, nil, execution.Validation},
		{dir, config.RuntimeShell, "up/outside.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, "folder.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, "../run.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, "/etc/run.sh", nil, execution.Validation},
		{dir, config.RuntimeShell, "", nil, execution.Validation},
		{dir, config.RuntimeShell, "echo \x00", nil, execution.Validation},
		{dir, "cobol", "run.sh", nil, execution.Validation},
	} {
		argv, err := actionCommand(c.dir, execution.Action{Ref: "a", Runtime: c.runtime, Entrypoint: c.entrypoint})
		var r *refusal
		if c.refused != execution.NoReason {
			if !errors.As(err, &r) || r.reason != c.refused {
				t.Errorf("%s %q: %v, %v, want a refusal for %v", c.runtime, c.entrypoint, argv, err, c.refused)
			}
			continue
		}
		if err != nil || !slices.Equal(argv, c.want) {
			t.Errorf("%s %q: %v, %v, want %v", c.runtime, c.entrypoint, argv, err, c.want)
		}
	}
}

func TestNoopAndRefusalsReturnEndedRuns(t *testing.T) {
	r := New(Options{})
	for _, c := range []struct {
		runtime string
		want    execution.Reason
	}{{config.RuntimeNoop, execution.NoReason}, {"cobol", execution.Validation}} {
		run, err := r.Start(context.Background(), worker.Spec{Action: execution.Action{Runtime: c.runtime, Entrypoint: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		run.Kill(0)
		run.Extend(time.Hour)
		if exit, err := run.Wait(context.Background()); err != nil || exit.Killed || exit.Reason != c.want {
			t.Errorf("%s: %+v, %v", c.runtime, exit, err)
		}
	}
	if rs := Runtimes(); !slices.Contains(rs, config.RuntimeNoop) {
		t.Errorf("runtimes %v", rs)
	}
}

func TestDelayedOrderLendsNoExtraTime(t *testing.T) {
	const now = 1000 * time.Second
	for _, c := range []struct{ at, left, want time.Duration }{
		{now, 20 * time.Second, 1020 * time.Second},
		{990 * time.Second, 20 * time.Second, 1010 * time.Second}, // sent 10 s ago
		{900 * time.Second, 20 * time.Second, 920 * time.Second},  // the sender stalled, so the time is over
		{0, 20 * time.Second, 1020 * time.Second},                 // the system has no shared clock
		{2000 * time.Second, 20 * time.Second, 1020 * time.Second},
		{now, -time.Second, 999 * time.Second},
		{now, math.MaxInt64 - 5, math.MaxInt64},
	} {
		if got := shimDeadline(now, c.at, c.left); got != c.want {
			t.Errorf("%v left at %v: %v, want %v", c.left, c.at, got, c.want)
		}
	}
}

func TestParseOrderInvertsString(t *testing.T) {
	o := order{verb: verbFence, left: 3 * time.Second, at: 7}
	if got, err := parseOrder(o.String()); err != nil || got != o {
		t.Errorf("%+v, %v", got, err)
	}
	for _, line := range []string{"", "fence", "fence soon 1", "fence 1"} {
		if o, err := parseOrder(line); err == nil {
			t.Errorf("%q is %+v", line, o)
		}
	}
}

func printed(limit int, text string) *tail {
	t := &tail{limit: limit}
	t.readFrom(strings.NewReader(text))
	return t
}

func TestOutputIsLastObjectOrText(t *testing.T) {
	for _, c := range []struct {
		limit        int
		stdout, want string
	}{
		{100, "", ``},
		{100, "hello\n", `"hello\n"`},
		{100, "log\n{\"a\": 1, \"b\": \"<x>\"}\n\n", `{"a":1,"b":"<x>"}`},
		{100, "{\"a\":1}\nmore\n", `"{\"a\":1}\nmore\n"`},
		{100, "{\"a\":1} trailing", `"{\"a\":1} trailing"`},
		{100, "[1]", `"[1]"`},
		{10, strings.Repeat("x", 95) + "\n{\"a\":1}", `{"a":1}`},
		{10, strings.Repeat("x", 95), `"[85 bytes before this were not kept]\nxxxxxxxxxx"`},
		{7, `{"a":1}{"a":1}`, `"[7 bytes before this were not kept]\n{\"a\":1}"`},
		// PostgreSQL would refuse these values unchanged.
		{100, `{"a\u0000":"b\u0000\ud800"}`, `{"a�":"b��"}`},
		{100, `{"n":[1e999999,12345678901234567890,0.1]}`, `{"n":["1e999999",12345678901234567890,0.1]}`},
		{100, "a\x00b\xff", `"a�b�"`},
	} {
		exit := actionExit(actionEnd{}, execution.ExitCodes{}, printed(c.limit, c.stdout), printed(c.limit, ""))
		if string(exit.Output) != c.want || exit.Reason != execution.NoReason || exit.Killed {
			t.Errorf("%q: %+v with output %s, want %s", c.stdout, exit, exit.Output, c.want)
		}
		if exit.Output != nil && !json.Valid(exit.Output) {
			t.Errorf("%q: no JSON: %s", c.stdout, exit.Output)
		}
	}
}

func TestFailureReasonFollowsErrorOrExitCode(t *testing.T) {
	for _, c := range []struct {
		end            actionEnd
		stdout, stderr string
		want           execution.Reason
		message        string
	}{
		{actionEnd{Code: 1}, "", "no luck\n", execution.Unknown, "exit status 1: no luck"},
		{actionEnd{Code: 64}, "", "", execution.InvalidParameters, "exit status 64"},
		{actionEnd{Code: 65}, "", "", execution.Validation, "exit status 65"},
		{actionEnd{Code: 75}, "", "", execution.Transient, "exit status 75"},
		{actionEnd{Code: 77}, "", "", execution.Permission, "exit status 77"},
		{actionEnd{Code: 1}, `{"error":{"type":"transient","message":"try later"}}`, "", execution.Transient, "try later"},
		{actionEnd{Code: 77}, `{"error":{"type":"connection","message":"refused"}}`, "", execution.Connection, "refused"},
		{actionEnd{Code: 1}, "", "trace\n" + `{"error":{"type":"rejected"}}`, execution.Rejected, ""},
		// A reason that actions must not report, an unknown reason, and a value that is not an error object.
		{actionEnd{Code: 75}, `{"error":{"type":"worker_lost","message":"m"}}`, "", execution.Unknown, "m"},
		{actionEnd{Code: 75}, `{"error":{"type":"odd","message":"m"}}`, "", execution.Unknown, "m"},
		{actionEnd{Code: 75}, `{"error":"text"}`, "", execution.Transient, "exit status 75"},
		{actionEnd{Signal: "segmentation fault"}, "", "", execution.Unknown, "ended by signal: segmentation fault"},
	} {
		exit := actionExit(c.end, execution.ExitCodes{}, printed(1000, c.stdout), printed(1000, c.stderr))
		if exit.Killed || exit.Reason != c.want || exit.Message != c.message {
			t.Errorf("%+v %q %q: %+v", c.end, c.stdout, c.stderr, exit)
		}
	}
	if exit := actionExit(actionEnd{Signal: "killed", Cause: causeFence}, execution.ExitCodes{}, printed(10, ""), printed(10, "")); !exit.Killed || exit.Reason != execution.NoReason {
		t.Errorf("killed: %+v", exit)
	}
	if m := failureText("exit status 1", printed(1<<20, strings.Repeat("é", 1<<19))); len(m) > messageLimit+100 {
		t.Errorf("a message of %d bytes", len(m))
	}
}

func TestActionEnvironmentIsShort(t *testing.T) {
	got := baseEnvironment([]string{"PATH=/bin", "HANDOFF_DATABASE_URL=secret", "LC_ALL=C", "PGPASSWORD=secret", "HOME=/root", "odd"})
	if want := []string{"PATH=/bin", "LC_ALL=C", "HOME=/root"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
