package subprocess

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/testenv"
	"handoff/core/worker"
)

// workerMain runs this process as a worker of one action, if it was started as one.
func workerMain() {
	if os.Getenv("HANDOFF_TEST_WORKER") == "" {
		return
	}
	h := daemon.New(daemon.Options{})
	fence, err := time.ParseDuration(os.Getenv("HANDOFF_TEST_FENCE"))
	if err != nil {
		panic(err)
	}
	run, err := New(Options{Host: h, Actions: os.Getenv("HANDOFF_TEST_DIR")}).Start(context.Background(), worker.Spec{
		Action: execution.Action{Runtime: config.RuntimeShell, Entrypoint: os.Getenv("HANDOFF_TEST_WORKER")},
		Fence:  h.Monotonic() + fence, Limit: h.Monotonic() + time.Hour,
	})
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("started\n")
	exit, _ := run.Wait(context.Background())
	_, _ = os.Stdout.WriteString(exit.Message + "\n")
	os.Exit(0)
}

// process is an entry of /proc.
type process struct {
	state       string
	parent, pid int
}

func look(pid int) (p process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, err := strconv.Atoi(f[1])
	return process{f[0], parent, pid}, err == nil
}

// gone reports whether a process has ended, even if its new parent is slow to reap it.
func gone(pid int) bool {
	p, ok := look(pid)
	return !ok || p.state == "Z" || p.state == "X"
}

// leftovers prints the processes that the tests started and that still exist: children of this process, and
// all shims of this binary. It reports whether there are any.
func leftovers() bool {
	found := false
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		p, ok := look(pid)
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		argv := strings.Split(string(line), "\x00")
		shim := len(argv) > 1 && argv[0] == os.Args[0] && argv[1] == shimArgument
		if ok && (p.parent == os.Getpid() || shim) {
			fmt.Printf("left over: %d %s %q\n", pid, p.state, argv)
			found = true
		}
	}
	return found
}

// startWorker starts another process as the worker of one action, and waits until the action has started.
// When the action has ended, the worker prints the reason.
func (f *fixture) startWorker(line string, fence time.Duration) (*exec.Cmd, *bufio.Reader) {
	f.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HANDOFF_TEST_WORKER="+line, "HANDOFF_TEST_DIR="+f.dir, "HANDOFF_TEST_FENCE="+fence.String())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "started\n" {
		f.t.Fatalf("%q, %v", line, err)
	}
	return cmd, lines
}

const family3 = `trap '' TERM; sh -c 'trap "" TERM; echo $$ > child.new; mv child.new child; while :; do sleep 9999; done' & `

func TestActionsEndWithAKilledWorker(t *testing.T) {
	b := newLoneFixture(t, 0)
	w, _ := b.startWorker(family3+`setsid sh -c 'echo $$ > away.new; mv away.new away; sleep 9999' & `+put("$$", "pid")+`wait`, time.Hour)
	pids := []int{b.pid("pid"), b.pid("child"), b.pid("away")}
	if err := w.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the death of the killed worker's action", patience, func() bool {
		return gone(pids[0]) && gone(pids[1]) && gone(pids[2])
	})
	// Dead processes remain in the group until they are reaped.
	eventually(t, "the end of its group", patience, func() bool { return !alive(-pids[0]) })
}

func TestActionsEndAtFenceOfStoppedWorker(t *testing.T) {
	b := newFixture(t, 0)
	tryFences(t, func(fence time.Duration) error {
		began := time.Now()
		w, lines := b.startWorker(put("$$", "pid-"+fence.String())+family3+`wait`, fence)
		// The action stops its whole group, as a terminal would.
		if err := syscall.Kill(-w.Process.Pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the worker stands still, or has ended", patience, func() bool {
			p, ok := look(w.Process.Pid)
			return !ok || p.state == "T" || p.state == "Z"
		})
		if time.Since(began) >= fence {
			return errors.New("it is over before the worker stands still")
		}
		pid := 0
		eventually(t, "the action has started, or its fence is over", patience, func() bool {
			text, err := os.ReadFile(filepath.Join(b.dir, "pid-"+fence.String()))
			if err == nil {
				pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
			}
			return err == nil || time.Since(began) > 2*fence
		})
		if pid == 0 {
			return errors.New("it is over before the action has started")
		}
		if gone(pid) && time.Since(began) < fence {
			t.Error("the action ended before its fence")
		}
		eventually(t, "the death of the action", patience, func() bool { return gone(pid) && !alive(-pid) })
		if took := time.Since(began); testenv.All() && took > 2*fence {
			t.Errorf("it lived for %v under a fence of %v", took, fence)
		}
		if p, ok := look(w.Process.Pid); !ok || p.state != "T" {
			t.Errorf("the worker took part in it: %+v", p)
		}
		if err := syscall.Kill(-w.Process.Pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); err != nil || !strings.Contains(line, string(causeFence)) {
			t.Errorf("the worker, when it goes on, hears %q, %v", line, err)
		}
		return nil
	})
}

// shimOf returns the parent process of an action.
func shimOf(t *testing.T, pid int) int {
	t.Helper()
	p, ok := look(pid)
	if !ok {
		t.Fatal("the action is gone")
	}
	return p.parent
}

func TestShimSurvivesSignalsToWorker(t *testing.T) {
	b := newFixture(t, 0)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := b.shell(put("$$", "pid") + `read -r x < go; echo "{\"x\":\"$x\"}"`)
	pid := b.pid("pid")
	shim := shimOf(t, pid)
	if session, err := sessionOf(shim); err != nil || session != shim {
		t.Errorf("the shim is of session %d, %v", session, err)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := syscall.Kill(shim, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "go"), []byte("on\n"), 0); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(run); exit.Killed || string(exit.Output) != `{"x":"on"}` {
		t.Errorf("%+v with output %s", exit, exit.Output)
	}
	if !gone(shim) {
		t.Error("the shim is still there")
	}
}

// Systemd stops a service by signalling its whole control group, a machine by signalling all processes, an
// operator by signalling all processes of a user. Then an action ends because its worker stops, whichever
// process gets the signal first. If only the action is signalled, the action has failed.
func TestActionStoppedWithShimReportsWorkerShutdown(t *testing.T) {
	b := newFixture(t, 0)
	for name, c := range map[string]struct {
		line   string
		order  func(pid, shim int) []int
		reason execution.Reason
	}{
		"the shim first":                {`exec sleep 9999`, func(pid, shim int) []int { return []int{shim, pid} }, execution.WorkerShutdown},
		"the action first":              {`exec sleep 9999`, func(pid, shim int) []int { return []int{pid, shim} }, execution.WorkerShutdown},
		"an action that obeys":          {`trap 'exit 3' TERM; while :; do sleep 0.01; done`, func(pid, shim int) []int { return []int{shim, pid} }, execution.WorkerShutdown},
		"an action that ends its work":  {`trap 'exit 0' TERM; while :; do sleep 0.01; done`, func(pid, shim int) []int { return []int{shim, pid} }, execution.NoReason},
		"the action alone":              {`exec sleep 9999`, func(pid, _ int) []int { return []int{pid} }, execution.Unknown},
		"the action alone, which obeys": {`trap 'exit 3' TERM; while :; do sleep 0.01; done`, func(pid, _ int) []int { return []int{pid} }, execution.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			file := strings.ReplaceAll(name, " ", "-")
			trap, rest, _ := strings.Cut(c.line, ";")
			line := put("$$", file) + c.line
			if rest != "" {
				line = trap + "; " + put("$$", file) + rest
			}
			run := b.shell(line)
			pid := b.pid(file)
			for _, to := range c.order(pid, shimOf(t, pid)) {
				if err := syscall.Kill(to, syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			if exit := b.wait(run); exit.Reason != c.reason || exit.Killed {
				t.Errorf("%+v, want the reason %q", exit, c.reason)
			}
		})
	}
}

// The shim is signalled together with its worker before it can catch the signal. Then nothing has run.
func TestShimStoppedEarlyFailsToStart(t *testing.T) {
	b := newFixture(t, 0)
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		for try := 0; ; try++ {
			a, err := b.spawnShim(launch{})
			if err != nil {
				t.Fatal(err)
			}
			a.tidy = func() {}
			if err := a.shim.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			go a.superviseShim()
			a.abandonShim() // ends the shim if it has caught the signal
			<-a.done
			if a.shim.ProcessState.Exited() && try < 100 {
				continue
			}
			// On a busy machine the shim may catch each of the signals. It has started nothing either way.
			caught := a.shim.ProcessState.Exited()
			if a.failure == nil || !caught && !strings.Contains(a.failure.Error(), "asked to stop") {
				t.Errorf("%v: %+v, %v", s, a.exit, a.failure)
			}
			break
		}
	}
}

func sessionOf(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))[3])
}

// Descendants that left the group, or whose parents are gone, are killed with the action.
func TestDescendantsOutsideGroupDie(t *testing.T) {
	b := newFixture(t, 0)
	away := `setsid sh -c 'setsid sh -c "echo \$\$ > inner.new; mv inner.new inner; sleep 9999" & ` + put("$$", "outer") + `wait' & `
	run := b.shell(away + put("$$", "pid") + `wait`)
	pids := []int{b.pid("pid"), b.pid("outer"), b.pid("inner")}
	run.Kill(0)
	if exit := b.wait(run); !exit.Killed {
		t.Errorf("%+v", exit)
	}
	for _, pid := range pids {
		if !gone(pid) {
			t.Errorf("%d of %v is alive", pid, pids)
		}
	}
	// They are also killed if the action ends by itself while the descendant that left holds the output open.
	run = b.shell(`setsid sh -c 'echo $$ > daemon.new; mv daemon.new daemon; sleep 9999' & while ! test -e daemon; do sleep 0.01; done; echo '{"ok":true}'`)
	if exit := b.wait(run); exit.Killed || string(exit.Output) != `{"ok":true}` || !gone(b.pid("daemon")) {
		t.Errorf("%+v with output %s", exit, exit.Output)
	}
}

func TestOrphansAreReapedWhileTheActionRuns(t *testing.T) {
	b := newFixture(t, 0)
	b.shell(`i=0; while test $i -lt 20; do (sleep 0.01 &); i=$((i+1)); done; ` + put("$$", "pid") + `sleep 9999`)
	shim := shimOf(t, b.pid("pid"))
	eventually(t, "twenty orphans are reaped", patience, func() bool {
		children, err := childrenOf(shim)
		return err == nil && len(children) == 1
	})
}

func TestActionEndsWithItsShim(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(family3 + put("$$", "pid") + `wait`)
	pid, child := b.pid("pid"), b.pid("child")
	if err := syscall.Kill(shimOf(t, pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if exit := b.wait(run); exit.Killed || exit.Reason != execution.Transient {
		t.Errorf("%+v", exit)
	}
	if !gone(pid) || !gone(child) {
		t.Error("the action outlived its shim")
	}
}

func TestUnresponsiveShimIsKilled(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(put("$$", "pid") + "sleep 9999")
	pid := b.pid("pid")
	shim := shimOf(t, pid)
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	run.Kill(0)
	if exit := b.wait(run); !exit.Killed || !gone(pid) || !gone(shim) {
		t.Errorf("%+v", exit)
	}
}

func TestRunsLeaveNothingInTheWorker(t *testing.T) {
	b := newLoneFixture(t, 0)
	count := func() (files, goroutines int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds), runtime.NumGoroutine()
	}
	b.wait(b.shell("exit 0"))
	files, goroutines := count()
	for i := range 10 {
		run := b.shell("sleep 9999")
		run.Kill(time.Duration(i%2) * time.Hour)
		b.wait(run)
	}
	eventually(t, "files and goroutines are released", patience, func() bool {
		f, g := count()
		return f <= files && g <= goroutines
	})
}

func TestWitnessRecordsStartAndEnd(t *testing.T) {
	b := newFixture(t, 0)
	file := filepath.Join(b.dir, "witness")
	w := exec.Command(os.Args[0])
	w.Env = append(os.Environ(), "HANDOFF_TEST_WORKER="+put("$$", "pid")+"exit 0", "HANDOFF_TEST_DIR="+b.dir, "HANDOFF_TEST_FENCE=1h", "HANDOFF_WITNESS="+file)
	if out, err := w.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	type note struct {
		Event                 string
		Execution, Epoch, PID int64
		Mono                  int64 `json:"mono_ns"`
		Wall                  int64 `json:"wall_ns"`
	}
	var notes []note
	for line := range strings.Lines(b.read("witness")) {
		var n note
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatal(err)
		}
		notes = append(notes, n)
	}
	events := []string{"start", "end"}
	if len(notes) != 2 || !slices.Equal(events, []string{notes[0].Event, notes[1].Event}) {
		t.Fatalf("%+v", notes)
	}
	start, end := notes[0], notes[1]
	if start.PID != int64(b.pid("pid")) || end.PID != start.PID || end.Mono <= start.Mono || end.Wall <= start.Wall {
		t.Errorf("%+v", notes)
	}
}
