package live

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/execution"
)

// The shell computes a log-uniform duration from a single draw. This test tries every hundredth draw.
func TestShellActionDurationsAreLogUniform(t *testing.T) {
	a := &scenario.Action{TakesMin: 10 * time.Millisecond, TakesMax: 100 * time.Second, TakesLog: true}
	script := "i=0; while [ $i -le 100 ]; do r=$((i*10000-i/100)); " + takesInShell(a) + "echo $us; i=$((i+1)); done"
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var takes []time.Duration
	for _, field := range strings.Fields(string(out)) {
		us, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		takes = append(takes, time.Duration(us)*time.Microsecond)
	}
	if len(takes) != 101 || !slices.IsSorted(takes) || takes[0] != a.TakesMin {
		t.Fatalf("a greater draw must take longer, from %v on: %v", a.TakesMin, takes)
	}
	// The last draw is just before the end of the last piece, which is a third longer than its beginning.
	if last := takes[100]; last > a.TakesMax || last < a.TakesMax*999/1000 {
		t.Errorf("the last draw takes %v, want just under %v", last, a.TakesMax)
	}
	for decade, want := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		if got := takes[decade*25]; got < want*99/100 || got > want*101/100 {
			t.Errorf("%d%% of the draws take less than %v, want %v", decade*25, got, want)
		}
	}
}

// In every installed runtime, an action fails with each exit code of the scenario or, without any, with the
// code that states its reason.
func TestActionsFailWithTheirExitCodes(t *testing.T) {
	named := &scenario.Action{FailPerMillion: 1_000_000, FailCodes: []int{1, 63, 255}}
	reasoned := &scenario.Action{FailPerMillion: 1_000_000, FailReason: execution.Validation}
	worded := &scenario.Action{FailPerMillion: 1_000_000, FailReason: execution.Rejected}
	for runtime, command := range map[string]func(*scenario.Action) []string{
		"sh":      func(a *scenario.Action) []string { return []string{"-c", shellAction(a, 1)} },
		"python3": func(a *scenario.Action) []string { return []string{"-c", pythonAction(a, 1)} },
		"node":    func(a *scenario.Action) []string { return []string{"-e", nodeAction(a, 1)} },
	} {
		if _, err := exec.LookPath(runtime); err != nil {
			continue
		}
		codes := func(a *scenario.Action, runs int) (seen []int) {
			for id := range runs {
				c := exec.Command(runtime, command(a)...)
				c.Env = []string{"HANDOFF_EXECUTION_ID=" + strconv.Itoa(id+1), "HANDOFF_EPOCH=1", "PATH=" + os.Getenv("PATH")}
				_ = c.Run()
				if code := c.ProcessState.ExitCode(); !slices.Contains(seen, code) {
					seen = append(seen, code)
				}
			}
			slices.Sort(seen)
			return seen
		}
		if got := codes(named, 12); !slices.Equal(got, named.FailCodes) {
			t.Errorf("%s: exit codes %v, want %v", runtime, got, named.FailCodes)
		}
		if got := codes(reasoned, 1); !slices.Equal(got, []int{65}) {
			t.Errorf("%s: exit codes %v for a reason, want 65", runtime, got)
		}
		if got := codes(worded, 1); !slices.Equal(got, []int{1}) {
			t.Errorf("%s: exit codes %v for a printed reason, want 1", runtime, got)
		}
	}
}

func TestFailureReasonFollowsExitCode(t *testing.T) {
	for _, c := range []struct {
		a      scenario.Action
		code   int
		reason execution.Reason
		said   int
	}{
		{scenario.Action{FailCodes: []int{1, 65}, Retried: []int{1}}, 1, execution.Transient, 1},
		{scenario.Action{FailCodes: []int{1, 65}, Retried: []int{1}}, 65, execution.Validation, 65},
		{scenario.Action{FailReason: execution.Permission, Retried: []int{77}}, 77, execution.Transient, 77},
		{scenario.Action{FailReason: execution.Rejected, Retried: []int{1}}, 1, execution.Rejected, 0},
	} {
		if reason, said := failureOf(&c.a, c.code); reason != c.reason || said != c.said {
			t.Errorf("%+v with exit code %d: %v, %d", c.a, c.code, reason, said)
		}
	}
}

func TestStreamsDrawLogUniformly(t *testing.T) {
	s := newStream(1, "x")
	under := 0
	for range 2000 {
		d := s.LogDuration(time.Second, 100*time.Second)
		if d < time.Second || d > 100*time.Second {
			t.Fatalf("%v is not from 1s to 100s", d)
		}
		if d < 10*time.Second {
			under++
		}
	}
	if under < 900 || under > 1100 {
		t.Errorf("%d of 2000 draws are under 10s, want half", under)
	}
}
