package weave

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// killers say what kills each mutant. For some it is scenarios of the library under preemption, at
// forty seeds, with the expected message. For others it is the stress run under the race detector,
// with its duration; the first race ends it.
var killers = map[string]struct {
	scenarios []string
	says      string
	stress    string
}{
	"client-looks-and-waits-in-two-steps": {[]string{"all-workers-down", "broker-outage", "consumers-cancelled"}, "invariant  14 drained", ""},
	"hints-are-taken-without-their-lock":  {[]string{"message-expires-in-queue", "worker-stops-gracefully"}, "invariant  14 drained", "4s"},
	"registry-removes-without-its-lock":   {[]string{"crash-in-the-handoff"}, "index out of range", "4s"},
	"session-admits-in-two-steps":         {[]string{"duplicate-submissions", "slow-executor", "overload"}, "slice bounds out of range", ""},
	// The loss, an action that is not ended, is repaired by the next heartbeat, and few actions end
	// while they begin.
	"registry-connects-a-run-without-its-lock": {stress: "90s"},
}

// TestMutantsOfLocksAreKilledUnderPreemptionAndAnOrdinaryRunSeesNone builds a woven program and a
// woven stress test, which takes a minute; make preempt runs it.
func TestMutantsOfLocksAreKilledUnderPreemptionAndAnOrdinaryRunSeesNone(t *testing.T) {
	if os.Getenv("HANDOFF_PREEMPT") == "" {
		t.Skip("builds the core anew: make preempt, or HANDOFF_PREEMPT=yes")
	}
	dir := t.TempDir()
	o, err := Write(root, filepath.Join(dir, "woven"), Mutants()...)
	if err != nil {
		t.Fatal(err)
	}
	chaos, stress := filepath.Join(dir, "chaos"), filepath.Join(dir, "stress")
	with := []string{"-tags", Tag, "-overlay", o.File}
	must(t, "go", append(append([]string{"build"}, with...), "-o", chaos, "./cmd/chaos")...)
	must(t, "go", append(append([]string{"test", "-c", "-race", "-vet=off"}, with...), "-o", stress, "./sim/stress")...)
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			by, known := killers[m.Name]
			if !known {
				t.Fatal("nobody says what kills it")
			}
			planted := "HANDOFF_PREEMPT_MUTANT=" + m.Name
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

func must(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, said)
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
