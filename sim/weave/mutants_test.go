package weave

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"handoff/sim/woven"
)

// killers lists what kills each mutant: scenarios of the library, run with preemption under forty seeds, with
// the expected message; or the stress run under the race detector, with its maximum duration, because the
// first race ends it.
var killers = map[string]struct {
	scenarios []string
	says      string
	stress    string
}{
	"client-looks-and-waits-in-two-steps": {[]string{"all-workers-down", "broker-outage", "consumers-cancelled"}, "invariant  14 drained", ""},
	"hints-are-taken-without-their-lock":  {[]string{"message-expires-in-queue", "worker-stops-gracefully"}, "invariant  14 drained", "4s"},
	"registry-removes-without-its-lock":   {[]string{"crash-in-the-handoff"}, "index out of range", "4s"},
	"session-admits-in-two-steps":         {[]string{"duplicate-submissions", "slow-executor", "overload"}, "slice bounds out of range", ""},
	// This needs a long run: few actions end while they begin, and the next heartbeat repairs the defect's
	// effect, an action that is not ended.
	"registry-connects-a-run-without-its-lock": {stress: "90s"},
}

// TestLockMutantsAreKilledByPreemption builds a woven program and a
// woven stress test, which takes a minute; .ci/preempt runs it.
func TestLockMutantsAreKilledByPreemption(t *testing.T) {
	dir := forPreempt(t)
	o, err := Write(root, "", filepath.Join(dir, "woven"), Preempt, Mutants()...)
	if err != nil {
		t.Fatal(err)
	}
	chaos, stress := filepath.Join(dir, "chaos"), filepath.Join(dir, "stress")
	with := []string{"-tags", Tag, "-overlay", o.File}
	build(t, append(append([]string{"build"}, with...), "-o", chaos, "./cmd/chaos")...)
	build(t, append(append([]string{"test", "-c", "-race", "-vet=off"}, with...), "-o", stress, "./sim/stress")...)
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			by, known := killers[m.Name]
			if !known {
				t.Fatal("killers has no entry for it")
			}
			planted := woven.MutantVariable + "=" + m.Name
			if by.scenarios != nil {
				args := append([]string{"run", "--quiet", "--seeds", "40", "--out", filepath.Join(dir, "out")}, by.scenarios...)
				if code, said := runs(t, chaos, args, planted); code != 1 || !strings.Contains(said, by.says) {
					t.Errorf("under preemption: exit %d, want 1 and %q:\n%.2000s", code, by.says, said)
				}
				if code, said := runs(t, chaos, args, planted, "HANDOFF_PREEMPT_STILL=yes"); code != 0 && code != 3 {
					t.Errorf("an ordinary run sees it: exit %d\n%.2000s", code, said)
				}
			}
			if by.stress != "" {
				code, said := runs(t, stress, []string{"-test.timeout=5m"}, planted, "HANDOFF_STRESS="+by.stress, "GORACE=halt_on_error=1")
				if code == 0 || !strings.Contains(said, "WARNING: DATA RACE") {
					t.Errorf("under the race detector: exit %d\n%.2000s", code, said)
				}
			}
		})
	}
}

// lockless lists functions of the core whose lock the test removes, each with a scenario that reaches it.
var lockless = []struct{ name, file, lock, function, scenario string }{
	{"a session is published", client, "c.mu", "func (c *Client) publishSession(", "broker-outage"},
	{"a prober is asked", "core/executor/prober.go", "p.mu", "func (p *probes) unreachable(", "unreachable-health-endpoint"},
	{"a heartbeat asks for the consumer", "core/worker/heartbeat.go", "t.mu", "func (t *session) consuming(", "two-executors"},
	{"an entry is removed", registry, "r.mu", "func (r *registry) remove(", "two-executors"},
}

// TestMissingLocksAreKilledByGuard builds the program with and without guards, which takes
// a minute; .ci/preempt runs it.
func TestMissingLocksAreKilledByGuard(t *testing.T) {
	dir := forPreempt(t)
	var mutants []Mutant
	for _, m := range lockless {
		_, from, found := strings.Cut(readFile(t, filepath.Join(root, filepath.FromSlash(m.file))), m.function)
		body, _, ended := strings.Cut(from, "\n}\n")
		if !found || !ended {
			t.Fatalf("%s has no %s", m.file, m.function)
		}
		mutants = append(mutants, withoutLock(m.name, m.file, m.lock, m.function+body))
	}
	programs := map[Kind]string{}
	for _, kind := range []Kind{Guard, Neither} {
		programs[kind] = filepath.Join(dir, "chaos"+string(kind))
		o, err := Write(root, "", filepath.Join(dir, "woven"+string(kind)), kind, mutants...)
		if err != nil {
			t.Fatal(err)
		}
		build(t, "build", "-overlay", o.File, "-o", programs[kind], "./cmd/chaos")
	}
	for _, m := range lockless {
		t.Run(m.name, func(t *testing.T) {
			run := func(kind Kind, mutant string) (code int, said string) {
				return runs(t, programs[kind], []string{"run", m.scenario, "--seeds", "2", "--quiet", "--out", t.TempDir()}, woven.MutantVariable+"="+mutant)
			}
			if code, said := run(Guard, m.name); code != 1 || !strings.Contains(said, "without its lock") {
				t.Errorf("guarded: exit %d, want 1\n%.2000s", code, said)
			}
			if code, said := run(Guard, ""); code == 1 {
				t.Errorf("guarded, with all locks: exit %d\n%.2000s", code, said)
			}
			if code, said := run(Neither, m.name); code == 1 {
				t.Errorf("not guarded: exit %d, so this says nothing about guards\n%.2000s", code, said)
			}
		})
	}
}

func forPreempt(t *testing.T) (dir string) {
	t.Helper()
	if os.Getenv("HANDOFF_PREEMPT") == "" {
		t.Skip("builds the core anew: .ci/preempt, or HANDOFF_PREEMPT=yes")
	}
	return t.TempDir()
}

func build(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
}

func runs(t *testing.T, program string, args []string, env ...string) (code int, said string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
