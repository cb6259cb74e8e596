//go:build unix

package subprocess

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/host/without"
	"handoff/core/testenv"
	"handoff/core/worker"
)

// patience bounds every wait for an expected event. Every action that sleeps does so for longer than that.
var patience = testenv.Patience()

// tryFences tries longer and longer fences, because on a busy machine a short fence can pass before the test
// is ready.
func tryFences(t *testing.T, try func(fence time.Duration) error) {
	t.Helper()
	var err error
	for _, fence := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		if err = try(fence); err == nil {
			return
		}
		t.Logf("under a fence of %v: %v", fence, err)
	}
	t.Fatal(err)
}

// fixture is a runner with its own directory, in which its actions start.
type fixture struct {
	t    *testing.T
	dir  string
	host *daemon.Host
	*Runner
}

func newFixture(t *testing.T, limit int) *fixture {
	t.Parallel()
	return newLoneFixture(t, limit)
}

// newLoneFixture is for tests that must not run in parallel, because they count this process's resources.
func newLoneFixture(t *testing.T, limit int) *fixture {
	b := &fixture{t: t, dir: t.TempDir(), host: daemon.New(daemon.Options{})}
	b.Runner = New(Options{Host: b.host, Actions: b.dir, OutputLimit: limit})
	return b
}

// start starts an action. fence holds its fence and its limit; those that are missing are far away.
func (f *fixture) start(a execution.Action, parameters string, fence ...time.Duration) worker.Run {
	f.t.Helper()
	now := f.host.Monotonic()
	s := worker.Spec{
		Key: execution.Key{ID: 41, Epoch: 3}, Action: a, Parameters: json.RawMessage(parameters), Fence: now + time.Hour, Limit: now + time.Hour,
	}
	if len(fence) > 0 {
		s.Fence = now + fence[0]
	}
	if len(fence) > 1 {
		s.Limit = now + fence[1]
	}
	run, err := f.Start(context.Background(), s)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { run.Kill(0); f.wait(run) })
	return run
}

func (f *fixture) shell(line string, fence ...time.Duration) worker.Run {
	f.t.Helper()
	return f.start(execution.Action{Ref: "test", Runtime: config.RuntimeShell, Entrypoint: line}, "", fence...)
}

func (f *fixture) wait(run worker.Run) worker.Exit {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exit, err := run.Wait(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return exit
}

func (f *fixture) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

// pid waits until an action has written a number to the named file, and returns the number.
func (f *fixture) pid(name string) int {
	f.t.Helper()
	pid := 0
	eventually(f.t, "a number in "+name, patience, func() bool {
		text, err := os.ReadFile(filepath.Join(f.dir, name))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	})
	return pid
}

// eventually polls until ok returns true, because the processes that it waits for can't report.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// alive reports whether a process or, for a negative number, a process group exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }

// put is shell text that writes a word to a file in one step.
func put(word, name string) string {
	return fmt.Sprintf("echo %s > %s.new; mv %s.new %s; ", word, name, name, name)
}

func TestRunsFitTheLimitOfOpenFiles(t *testing.T) {
	for limit, want := range map[uint64]int{0: 1, 40: 1, 52: 2, 1024: 164, 1 << 62: math.MaxInt32} {
		if got := fittingRuns(limit); got != want {
			t.Errorf("%d open files allow %d runs, want %d", limit, got, want)
		}
	}
}

func TestSuccessfulActionReturnsItsOutput(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(`echo working; echo "{\"id\":\"$HANDOFF_EXECUTION_ID\",\"epoch\":\"$HANDOFF_EPOCH\"}"`)
	exit := b.wait(run)
	if exit.Killed || exit.Reason != execution.NoReason || string(exit.Output) != `{"epoch":"3","id":"41"}` {
		t.Errorf("%+v with output %s", exit, exit.Output)
	}
	run.Kill(0)
	run.Extend(0)
	if again := b.wait(run); again.Killed {
		t.Error("a kill after the end changed it")
	}
}

func TestScriptsRunInTheirRuntime(t *testing.T) {
	b := newFixture(t, 0)
	for runtime, script := range map[string]string{
		config.RuntimeShell:  "read -r line\necho \"$line\"\n",
		config.RuntimePython: "import sys\nprint(sys.stdin.read())\n",
		config.RuntimeNode:   "process.stdin.pipe(process.stdout)\n",
	} {
		name := "echo." + map[string]string{config.RuntimeShell: "sh", config.RuntimePython: "py", config.RuntimeNode: "js"}[runtime]
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Run(runtime, func(t *testing.T) {
			if runtime != config.RuntimeShell {
				var lack error
				if !slices.Contains(Runtimes(), runtime) {
					lack = fmt.Errorf("no %s on this machine, so no script of that runtime is run", runtime)
				}
				without.Need(t, runtime, lack)
			}
			exit := b.wait(b.start(execution.Action{Runtime: runtime, Entrypoint: name}, `{"say":"hi"}`))
			if exit.Killed || exit.Reason != execution.NoReason || string(exit.Output) != `{"say":"hi"}` {
				t.Errorf("%+v with output %s", exit, exit.Output)
			}
		})
	}
}

func TestParametersAreNotInterpreted(t *testing.T) {
	b := newFixture(t, 0)
	parameters := `{ "a": "$(touch pwned) ` + "`touch pwned`" + ` \"x\" 'y' ; touch pwned \\ \n", "b" :"é😀%s" }` + "\n"
	run := b.start(execution.Action{Runtime: config.RuntimeShell, Entrypoint: `cat > input; printf %s "$HANDOFF_PARAMETERS" > variable`}, parameters)
	if exit := b.wait(run); exit.Reason != execution.NoReason {
		t.Fatalf("%+v", exit)
	}
	if b.read("input") != parameters || b.read("variable") != parameters {
		t.Errorf("input %q\nvariable %q\nwant %q", b.read("input"), b.read("variable"), parameters)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "pwned")); err == nil {
		t.Error("the parameters were run")
	}
}

func TestLongParametersComeOnlyOnStandardInput(t *testing.T) {
	b := newFixture(t, 0)
	long := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	run := b.start(execution.Action{Runtime: config.RuntimeShell, Entrypoint: `cat > input; echo "${HANDOFF_PARAMETERS-unset}"`}, long)
	if exit := b.wait(run); string(exit.Output) != `"unset\n"` || b.read("input") != long {
		t.Errorf("%+v with output %s, input of %d bytes", exit, exit.Output, len(b.read("input")))
	}
	// An action that does not read its parameters ends normally.
	if exit := b.wait(b.start(execution.Action{Runtime: config.RuntimeShell, Entrypoint: "exit 0"}, long)); exit.Reason != execution.NoReason {
		t.Errorf("%+v", exit)
	}
	if exit := b.wait(b.shell("cat")); string(exit.Output) != `{}` {
		t.Errorf("no parameters: %s", exit.Output)
	}
}

func TestWorkerSecretsStayInWorker(t *testing.T) {
	b := newFixture(t, 0)
	exit := b.wait(b.shell("env"))
	if s := string(exit.Output); strings.Contains(s, "secret") || !strings.Contains(s, "PATH=") {
		t.Errorf("environment %s", s)
	}
}

func TestFailedActionGivesItsReason(t *testing.T) {
	b := newFixture(t, 0)
	for _, c := range []struct {
		line, message string
		want          execution.Reason
	}{
		{"echo oops >&2; exit 75", "exit status 75: oops", execution.Transient},
		{"exit 3", "exit status 3", execution.Unknown},
		{`echo '{"error":{"type":"permission","message":"not you"}}'; exit 1`, "not you", execution.Permission},
		{"kill -SEGV $$", "ended by signal: segmentation fault", execution.Unknown},
	} {
		if exit := b.wait(b.shell(c.line)); exit.Killed || exit.Reason != c.want || exit.Message != c.message {
			t.Errorf("%s: %+v", c.line, exit)
		}
	}
}

func TestImpossibleStartReturnsError(t *testing.T) {
	b := newFixture(t, 0)
	now := b.host.Monotonic()
	spec := worker.Spec{Action: execution.Action{Runtime: config.RuntimeShell, Entrypoint: "true"}, Fence: now + time.Hour, Limit: now + time.Hour}
	late := spec
	late.Fence = now
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	nowhere := New(Options{Host: b.host, Actions: filepath.Join(b.dir, "missing")})
	for name, start := range map[string]func() (worker.Run, error){
		"past the fence": func() (worker.Run, error) { return b.Start(context.Background(), late) },
		"ended context":  func() (worker.Run, error) { return b.Start(ended, spec) },
		"no directory":   func() (worker.Run, error) { return nowhere.Start(context.Background(), spec) },
	} {
		if run, err := start(); err == nil {
			t.Errorf("%s: %+v started", name, b.wait(run))
		}
	}
}

func TestOutputIsLimited(t *testing.T) {
	b := newFixture(t, 1000)
	exit := b.wait(b.shell(`head -c 20000000 /dev/zero | tr '\0' x; echo; echo '{"n":1}'`))
	if string(exit.Output) != `{"n":1}` {
		t.Errorf("output %.100s", exit.Output)
	}
	exit = b.wait(b.shell(`head -c 20000000 /dev/zero | tr '\0' x; head -c 9999 /dev/zero >&2; exit 1`))
	if len(exit.Output) > 1100 || len(exit.Message) > 4000 {
		t.Errorf("output of %d bytes, message of %d", len(exit.Output), len(exit.Message))
	}
}

func TestKillObedientAction(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(`trap 'echo bye > obeyed; exit 0' TERM; ` + put("$$", "pid") + `sleep 9999 & wait`)
	pid := b.pid("pid")
	run.Kill(time.Hour)
	if exit := b.wait(run); !exit.Killed {
		t.Errorf("%+v", exit)
	}
	if b.read("obeyed") != "bye\n" || alive(pid) || alive(-pid) {
		t.Error("it did not end as it was asked to")
	}
}

func TestKillStubbornAction(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(`trap '' TERM; ` + put("$$", "pid") + `while :; do sleep 9999; done`)
	pid := b.pid("pid")
	began := time.Now()
	run.Kill(500 * time.Millisecond)
	exit := b.wait(run)
	if took := time.Since(began); !exit.Killed || took < 500*time.Millisecond || alive(pid) || alive(-pid) {
		t.Errorf("%+v after %v", exit, took)
	}
	// A second kill without grace does not wait for the first one's grace.
	run = b.shell(`trap '' TERM; ` + put("$$", "again") + `while :; do sleep 9999; done`)
	b.pid("again")
	run.Kill(time.Hour)
	run.Kill(0)
	if exit := b.wait(run); !exit.Killed {
		t.Errorf("%+v", exit)
	}
}

func TestGrandchildrenDieWithTheirAction(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell(`sh -c '` + put("$$", "child") + `sleep 9999 & wait' & ` + put("$$", "pid") + `wait`)
	pid, child := b.pid("pid"), b.pid("child")
	run.Kill(0)
	if exit := b.wait(run); !exit.Killed || alive(-pid) || alive(child) {
		t.Errorf("%+v, group alive: %v", exit, alive(-pid))
	}
	// An action that ends by itself does not leave a process behind, either.
	run = b.shell(`sleep 9999 & ` + put("$!", "left"))
	if exit := b.wait(run); exit.Killed || exit.Reason != execution.NoReason || alive(b.pid("left")) {
		t.Errorf("%+v", exit)
	}
}

func TestActionIsKilledAtItsFence(t *testing.T) {
	b := newFixture(t, 0)
	tryFences(t, func(fence time.Duration) error {
		began := time.Now()
		file := "pid-" + fence.String()
		exit := b.wait(b.shell(put("$$", file)+"sleep 9999", fence))
		if took := time.Since(began); !exit.Killed || took < fence || !strings.Contains(exit.Message, "fence") {
			t.Errorf("%+v after %v", exit, took)
		}
		if _, err := os.Stat(filepath.Join(b.dir, file)); err != nil {
			return fmt.Errorf("the action had not begun: %w", err)
		}
		if alive(-b.pid(file)) {
			t.Error("the group lives")
		}
		return nil
	})
}

func TestExtendMovesFenceLater(t *testing.T) {
	b := newFixture(t, 0)
	tryFences(t, func(fence time.Duration) error {
		began := time.Now()
		run := b.shell("sleep 9999", fence)
		run.Extend(b.host.Monotonic() + fence*3/2)
		run.Extend(b.host.Monotonic() + time.Millisecond) // an earlier fence has no effect
		exit := b.wait(run)
		if took := time.Since(began); !exit.Killed || took < fence*3/2 {
			return fmt.Errorf("%+v after %v", exit, took)
		}
		return nil
	})
}

func TestLimitAppliesDespiteLaterFence(t *testing.T) {
	b := newFixture(t, 0)
	for _, script := range []string{"sleep 9999", "kill -STOP $$; sleep 9999"} {
		tryFences(t, func(limit time.Duration) error {
			run := b.shell(script, limit, limit)
			run.Extend(b.host.Monotonic() + time.Hour)
			if exit := b.wait(run); !exit.Killed || !strings.Contains(exit.Message, "run timeout") {
				return fmt.Errorf("%s: %+v", script, exit)
			}
			return nil
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	b := newFixture(t, 0)
	run := b.shell("sleep 9999")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if exit, err := run.Wait(ctx); err == nil {
		t.Errorf("%+v", exit)
	}
}

func TestManyConcurrentActionsKeepOutputsApart(t *testing.T) {
	b := newLoneFixture(t, 0)
	var all sync.WaitGroup
	var mu sync.Mutex
	var wrong bytes.Buffer
	for i := range 200 {
		all.Go(func() {
			now := b.host.Monotonic()
			run, err := b.Start(context.Background(), worker.Spec{
				Key: execution.Key{ID: execution.ID(i)}, Action: execution.Action{Runtime: config.RuntimeShell, Entrypoint: `echo "{\"n\":$HANDOFF_EXECUTION_ID}"`},
				Fence: now + time.Hour, Limit: now + time.Hour,
			})
			var exit worker.Exit
			if err == nil {
				exit, err = run.Wait(context.Background())
			}
			if want := fmt.Sprintf(`{"n":%d}`, i); err != nil || string(exit.Output) != want {
				mu.Lock()
				fmt.Fprintf(&wrong, "%d: %v, %+v with output %s\n", i, err, exit, exit.Output)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if wrong.Len() > 0 {
		t.Error(wrong.String())
	}
}

// On a busy machine, a reader may not have read anything before its deadline. Nothing is lost.
func TestOutputSurvivesReadDeadline(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close() // the write end stays open, so that the reader gets no end of file
	if _, err := write.WriteString("what was printed"); err != nil {
		t.Fatal(err)
	}
	if err := read.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	kept := tail{limit: 100}
	kept.readFrom(read)
	if got := kept.keptText(); got != "" {
		t.Fatalf("a read past its deadline gave %q", got)
	}
	readRest(read, &kept)
	if got := kept.keptText(); got != "what was printed" {
		t.Errorf("got %q", got)
	}
	readRest(read, &kept) // there is nothing to read, and the call must not block
}

// The benchmarks measure an action without isolation, and with this machine's isolation. The relevant value
// is the processor time of the process.
func BenchmarkAction(b *testing.B) {
	benchmarkAction(b, New(Options{Host: daemon.New(daemon.Options{})}))
}

func BenchmarkIsolatedAction(b *testing.B) {
	r := New(Options{Host: daemon.New(daemon.Options{}), Name: "bench", Isolation: config.Isolation{DiskBytes: 1 << 30, OutputBytes: 1 << 30, RunDir: b.TempDir() + "/runs"}})
	if _, err := r.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	benchmarkAction(b, r)
}

func benchmarkAction(b *testing.B, r *Runner) {
	b.Helper()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &before)
	spec := worker.Spec{Action: execution.Action{Runtime: config.RuntimeShell, Entrypoint: "exit 0"}, Fence: 1 << 60, Limit: 1 << 60}
	for b.Loop() {
		run, err := r.Start(context.Background(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := run.Wait(context.Background()); err != nil || exit.Reason != execution.NoReason {
			b.Fatal(exit, err)
		}
	}
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &after)
	spent := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "shim-cpu-µs/op")
}
