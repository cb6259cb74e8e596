package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff/core/testenv"
)

// asProgram is the variable that makes the test binary run chaos, not the tests, and print its peak memory
// use.
const asProgram = "HANDOFF_TEST_RUNS_CHAOS"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		code := m.Run()
		if built.dir != "" {
			_ = os.RemoveAll(built.dir)
		}
		os.Exit(code)
	}
	code := runProgram()
	// The memory figures that the parent process gets are useless: they include the memory before the exec.
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		fmt.Fprintf(os.Stderr, "%s\n", regexp.MustCompile(`VmHWM:.*`).Find(status))
	}
	os.Exit(code)
}

// built holds the binaries that tests of the whole system share.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// skipInMakeCheck skips, in make check, a test that takes more than about a second.
func skipInMakeCheck(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes more than a second: make test has it")
	}
}

// chaosProcess returns a command that runs the program in a separate process.
func chaosProcess(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), asProgram+"=yes")
	return cmd
}

const (
	second = int64(time.Second)
	header = `{"schema":1,"scenario":"two-executors","profile":"hardened","seed":1,"mutant":"","workers":{"1":"w"}}` + "\n"
)

// numberedLines returns a line for each number from first to last. In each it replaces %d by the number, and
// %s by the number times every.
func numberedLines(first, last int, every time.Duration, line string) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		b.WriteString(strings.NewReplacer("%d", strconv.Itoa(i), "%s", strconv.FormatInt(int64(i)*int64(every), 10)).Replace(line) + "\n")
	}
	return b.String()
}

const (
	registered = `{"at_ns":0,"kind":"worker_registered","worker":%d,"incarnation":%d,"due_ns":40000000000,"limit":4,"text":"shell","process":"w%d"}`
	created    = `{"at_ns":0,"kind":"created","execution":%d,"chain":%d,"to":"requested","by":"api","action":"a","text":"shell"}`
	scheduled  = `{"at_ns":0,"kind":"transition","execution":%d,"chain":%d,"epoch":1,"from":"scheduling","to":"scheduled","by":"scheduler","worker":1,"incarnation":1,"due_ns":1000000000}`
	tick       = `{"at_ns":%s,"kind":"process_started","process":"a"}`
)

// Any history is judged or refused, with little output. make test-all also limits the cost: 64 MB more than
// the file's size, and a few seconds of one processor.
func TestCheckOfHostileHistories(t *testing.T) {
	skipInMakeCheck(t)
	for _, c := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"the last possible time", header + numberedLines(1, 1, 9223372036854775807, tick), 2, ":2:2: at_ns: 9223372036854775807; must be from"},
		{
			"a scenario that is a path", strings.Replace(header, "two-executors", "../../../../etc/passwd", 1), 3,
			`is of the scenario "../../../../etc/passwd", and there is neither a scenario.yaml beside it nor such a scenario in the library`,
		},
		{"the last time, then the first", header + strings.ReplaceAll(tick, "%s", "9007199254740991") + "\n" + strings.ReplaceAll(tick, "%s", "-9223372036854775808"), 2, "at_ns"},
		{"an execution created before the last time", header + numberedLines(1, 1, 0, created) + strings.ReplaceAll(tick, "%s", "9007199254740991"), 1, "FAIL invariant 5"},
		{"a line of 60 MB", header + strings.Replace(tick, `"a"`, `"`+strings.Repeat("p", 60<<20)+`"`, 1), 2, "the line has more than 1048576 bytes"},
		{"nested 900,000 deep", header + `{"at_ns":1,"kind":"x","process":` + strings.Repeat("[", 900_000), 2, ":2:"},
		{"a header of 20 MB", strings.Replace(header, "two-executors", strings.Repeat("s", 20<<20), 1), 2, "the line has more than 1048576 bytes"},
		{"numbers out of every range", header + `{"at_ns":1e999,"step":-1,"kind":"created","execution":-9223372036854775808,"count":99999999999999999999}`, 2, ":2:"},
		{"a time scale without end", strings.Replace(header, `"seed"`, `"time_scale":1e308,"seed"`, 1), 2, ""},
		{"a scenario that is an absolute path", strings.Replace(header, "two-executors", "/etc/passwd", 1), 3, `nor such a scenario in the library`},
		{"a time scale near zero", strings.Replace(header, `"seed"`, `"time_scale":1e-300,"seed"`, 1), 2, "under the floor"},
		{"hours between events", header + numberedLines(1, 10, 0, registered) + numberedLines(1, 5000, time.Hour, tick), 3, "there was nothing to judge"},
		{"ten years between two events", header + numberedLines(1, 10, 0, registered) + numberedLines(0, 1, 316224000*time.Second, tick), 3, "there was nothing to judge"},
		{"steps of the clock", header + strings.Repeat(`{"at_ns":5,"kind":"clock_stepped","due_ns":316224000000000000}`+"\n"+`{"at_ns":5,"kind":"clock_stepped","due_ns":-316224000000000000}`+"\n", 100), 3, ""},
		{"a chain with the largest number", header + `{"at_ns":0,"kind":"orchestrated","execution":9007199254740991,"chain":9007199254740991,"from":"completed"}`, 1, "FAIL invariant 7"},
		{"a slot with the largest number", header + `{"at_ns":0,"kind":"action_defined","action":"a","count":2147483647}` + "\n" + `{"at_ns":0,"kind":"slot_taken","execution":1,"action":"a","count":2147483647}`, 1, "FAIL invariant 14"},
		{"chains far apart", header + numberedLines(1, 60_000, 0, `{"at_ns":0,"kind":"orchestrated","execution":%d000,"chain":%d000,"from":"completed"}`), 1, "FAIL invariant 7"},
		{"executions waiting forever", header + numberedLines(1, 2000, 0, created) + numberedLines(1, 2000, 6*time.Second, tick), 1, "FAIL invariant 5"},
		{"too much at once", header + numberedLines(1, 150_000, 0, `{"at_ns":0,"kind":"created","execution":%d}`), 4, "judging it needs too much memory"},
		{"many workers", header + numberedLines(1, 2000, 0, registered) + numberedLines(1, 2000, time.Second, tick), 3, ""},
		{"many losses of one worker", header + numberedLines(1, 1, 0, registered) + numberedLines(1, 2000, 0, created) + numberedLines(1, 2000, 0, scheduled) +
			strings.Repeat(`{"at_ns":0,"kind":"worker_lifecycle","worker":1,"incarnation":1,"lifecycle":"lost"}`+"\n"+`{"at_ns":0,"kind":"worker_lifecycle","worker":1,"incarnation":1,"lifecycle":"active"}`+"\n", 200), 1, "FAIL invariant"},
		{"long names of queues", header + numberedLines(1, 4000, 0, `{"at_ns":0,"kind":"enqueued","message":%d,"queue":"q%d`+strings.Repeat("x", 900)+`"}`), 1, "and 3980 more"},
		{"terminal controls", header + `{"at_ns":0,"kind":"enqueued","message":1,"queue":"\u001b]0;owned\u0007\nFAIL nothing\u009b2J\u202e"}`, 1, `queue \x1b]0;owned\a\nFAIL nothing\u009b2J\u202e still holds`},
		{"terminal controls in the header", strings.Replace(header, "two-executors", `\u001b[2J`, 1), 3, `of the scenario "\x1b[2J", and`},
		{"terminal controls in an unknown name", header + `{"at_ns":0,"kind":"\u001b[2J"}`, 3, `unknown name "\x1b[2J"; allowed: `},
		{"terminal controls in the profile", strings.Replace(header, "hardened", `\u001b[2J`, 1), 2, `\x1b[2J`},
		{
			"terminal controls in an execution", header + `{"at_ns":1,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"\u001b[2J","key":"\u001b[2J","text":"\u001b[2J"}` + "\n" +
				`{"at_ns":2,"kind":"transition","execution":1,"chain":1,"from":"running","to":"completed","by":"worker","process":"\u001b[2J","text":"\u001b[2J"}`, 1, "FAIL invariant",
		},
		{"a single kind in the header", strings.Replace(header, `"workers"`, `"kinds":["logged"],"workers"`, 1) + `{"at_ns":0,"kind":"orchestrated","chain":1,"from":"completed"}`, 3, "not judged   1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "h.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, err bytes.Buffer
			cmd := chaosProcess(t, "check", path)
			cmd.Stdout, cmd.Stderr = &out, &err
			_ = cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out.String()+err.String(), c.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", code, c.code, c.want, &out, &err)
			}
			if said := out.String() + err.String(); len(said) > 64_000 || strings.ContainsAny(said, "\x1b\a\u009b\u202e") {
				t.Errorf("it printed %d bytes: %q", len(said), said[:min(len(said), 4000)])
			}
			cpu, peak := cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), peakMemory(err.String())
			t.Logf("%.1f MB of history: %.2f s of processor time, %d MB", float64(len(c.text))/(1<<20), cpu.Seconds(), peak>>20)
			if testenv.All() && (cpu > 20*time.Second || peak > 64<<20+len(c.text)) {
				t.Errorf("%d bytes of history cost %v of processor time and %d MB", len(c.text), cpu, peak>>20)
			}
		})
	}
}

// peakMemory returns the peak memory use that a process printed, in bytes; 0 if the system doesn't report it.
func peakMemory(said string) int {
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindStringSubmatch(said)
	if m == nil {
		return 0
	}
	kb, _ := strconv.Atoi(m[1])
	return kb << 10
}

// An interrupted command ends with an error.
func TestCheckEndsWhenInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := writeFile(t, "h.jsonl", header)
	runChaosContext(ctx, "check", path).expectOutput(t, 4, "interrupted")
	runChaosContext(ctx, "replay", "ttl-race", "--seed", "1").expectOutput(t, 4, "interrupted")
	runChaosContext(ctx, "shrink", "ttl-race", "--profile", "hardened", "--seed", "158", "--mutant", "unguarded-monitor", "-o", filepath.Join(t.TempDir(), "s.yaml")).expectOutput(t, 4, "interrupted")
}
