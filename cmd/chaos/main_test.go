package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/scenarios"
)

// calm is a scenario that passes.
const calm = `name: calm
about: Nothing goes wrong.
profile: [hardened, documented]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell]}
actions:
  core.echo: {runtime: shell, takes: {uniform: [50ms, 2s]}}
workload:
  - {action: core.echo, count: 5, every: 1s}
`

// idle is a scenario whose fault never begins.
const idle = calm + `faults:
  - {when: {after: expired, nth: 99}, crash: shell-1}
`

// hopeless is a scenario whose expectation no run meets.
const hopeless = calm + `expect:
  executions: {failed: ">= 1"}
`

// said is the output of a command.
type said struct {
	code     int
	out, err string
}

func chaos(t *testing.T, args ...string) said {
	t.Helper()
	return chaosContext(t.Context(), args...)
}

func chaosContext(ctx context.Context, args ...string) said {
	var out, err bytes.Buffer
	code := run(ctx, args, &out, &err)
	return said{code, out.String(), err.String()}
}

// wants checks an exit code and parts of the output.
func (s said) wants(t *testing.T, code int, parts ...string) {
	t.Helper()
	if s.code != code {
		t.Errorf("exit %d, want %d\n%s%s", s.code, code, s.out, s.err)
	}
	for _, part := range parts {
		if !strings.Contains(s.out+s.err, part) {
			t.Errorf("no %q in\n%s%s", part, s.out, s.err)
		}
	}
}

// write writes a scenario file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunPasses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report")
	s := chaos(t, "run", write(t, "calm.yaml", calm), "--seeds", "60", "--out", out)
	s.wants(t, 0, "calm      hardened    60", "pass: 128 runs", "varied: 8 runs around 2 of these, 0 failing", "HISTORY HASH", filepath.Join(out, "index.html"))
	for _, file := range []string{"index.html", "result.json", "junit.xml", "summary.md"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
}

// After the first failure no run begins. Those in progress end, at most one for each processor.
func TestRunFailsFast(t *testing.T) {
	path := write(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	s := chaos(t, "run", path, "--profile", "hardened", "--varied=never", "--seeds", "500", "--fail-fast", "--out", t.TempDir())
	s.wants(t, 1, "FAIL hopeless (hardened)", "Stopped at the first failure, after ", " of 500 runs: this is what was done until then", "fail: ")
	var runs int
	if _, after, found := strings.Cut(s.out, "Stopped at the first failure, after "); !found {
		t.Error(s.out)
	} else if _, err := fmt.Sscan(after, &runs); err != nil || runs < 1 || runs > runtime.GOMAXPROCS(0) {
		t.Errorf("%d runs, %v:\n%s", runs, err, s.out)
	}
	calmly := chaos(t, "run", write(t, "calm.yaml", calm), "--seeds", "3", "--fail-fast", "--out", t.TempDir())
	calmly.wants(t, 0, "pass: ")
	chaos(t, "run", path, "--fail-fast", "--shard", "1/2").wants(t, 2, "a share that stops early can't be merged")
	chaos(t, "run", path, "--fail-fast", "--world", "live").wants(t, 2, "--fail-fast is for the simulated world")
}

// With - standard output holds the result and nothing else, so that it can be piped.
func TestRunWritesTheResultToStandardOutput(t *testing.T) {
	path := write(t, "calm.yaml", calm)
	for flag, begins := range map[string]string{"--json": "{", "--junit": "<?xml"} {
		s := chaos(t, "run", path, "--seed", "1", "--out", t.TempDir(), flag, "-")
		if !strings.HasPrefix(s.out, begins) || strings.Contains(s.out, "report:") || !strings.Contains(s.err, "report:") || s.code != 0 {
			t.Errorf("%s - exits with %d and prints\n%.300s\nand beside it\n%s", flag, s.code, s.out, s.err)
		}
	}
	chaos(t, "run", path, "--json", "-", "--junit", "-").wants(t, 2, "--json and --junit are both -")
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file is called -")
	}
}

func TestRunFails(t *testing.T) {
	dir := t.TempDir()
	path := write(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	s := chaos(t, "run", path, "--profile", "hardened", "--seeds", "3", "--out", filepath.Join(dir, "report"),
		"--json", filepath.Join(dir, "a", "r.json"), "--junit", filepath.Join(dir, "b", "j.xml"))
	s.wants(t, 1, "FAIL hopeless (hardened)\n  broken     An expectation of the scenario is not met.", "\n  execution ", "\n  seed       1 (3 of 3 seeds fail)",
		"\n  reproduce  bin/chaos replay "+path+" --profile hardened --seed 1\n", "\n  report     ")
	data, err := os.ReadFile(filepath.Join(dir, "a", "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Verdict string }
	if err := json.Unmarshal(data, &result); err != nil || result.Verdict != "fail" {
		t.Errorf("%v, verdict %q", err, result.Verdict)
	}
	if _, err := os.Stat(filepath.Join(dir, "b", "j.xml")); err != nil {
		t.Error(err)
	}
}

// A varied result has one name on the terminal.
func TestAVariedResultIsNamedInOneWay(t *testing.T) {
	s := chaos(t, "run", write(t, "calm.yaml", calm), "--varied", "--seeds", "2", "--profile", "hardened", "--out", t.TempDir())
	s.wants(t, 0, "calm      hardened, varied  2 ")
}

func TestRunIsInconclusive(t *testing.T) {
	s := chaos(t, "run", write(t, "idle.yaml", idle), "--seed", "4", "--out", t.TempDir())
	s.wants(t, 3, "INCONCLUSIVE calm (hardened)", "the fault “crash shell-1” did not fire in this run", "calm      documented  1 ")
}

// A fault has to make a difference in one run of a sweep. A run alone that it misses proves nothing,
// and docs/judging.md says both, and from how many seeds on situations are demanded.
func TestASweepMayMissAFaultInSingleRuns(t *testing.T) {
	path := write(t, "calm.yaml", calm+"faults:\n  - {when: {between: [1s, 20s]}, stuck_queue: shell-1, for: 1s}\n")
	run := func(args ...string) said {
		return chaos(t, append([]string{"run", path, "--profile", "hardened", "--varied=never", "--quiet", "--out", t.TempDir()}, args...)...)
	}
	run("--seeds", "8").wants(t, 0, "pass: 8 runs")
	alone := run("--seed", "1")
	alone.wants(t, 3, "fired, but made no difference to anything in this run")
	text, err := os.ReadFile("../../docs/judging.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, rule := range []string{
		"a fault made no difference to anything in any run", "A single run is judged by itself", fmt.Sprintf("From %d seeds on", verdict.SweepSeeds),
	} {
		if !strings.Contains(page, rule) {
			t.Errorf("docs/judging.md does not say %q", rule)
		}
	}
}

// Every command of a reproduction line works when pasted, with mutant and profile.
func TestAFailureIsReproducedByItsLine(t *testing.T) {
	leaveToMakeTest(t)
	s := chaos(t, "run", "ttl-race", "--mutant", "unguarded-monitor", "--out", t.TempDir(), "--quiet")
	s.wants(t, 1, "FAIL ttl-race")
	lines := regexp.MustCompile(`(?m)^ +reproduce +bin/chaos (.*)$`).FindAllStringSubmatch(s.out, -1)
	if len(lines) == 0 {
		t.Fatalf("no line to reproduce in\n%s", s.out)
	}
	for _, line := range lines {
		r := chaos(t, strings.Fields(line[1])...)
		r.wants(t, 1, "VIOLATION of invariant ", "rule: ", "history hash ", "verdict: fail")
	}
	if s.err != "" {
		t.Errorf("--quiet, and yet: %s", s.err)
	}
}

func TestReplayKeepsToAnExecution(t *testing.T) {
	path := write(t, "calm.yaml", calm)
	all := chaos(t, "replay", path, "--seed", "2")
	all.wants(t, 0, "created execution 2", "created execution 3", "renewed its lease", "Seed 2 violates nothing.", "verdict: pass")
	one := chaos(t, "replay", path, "--seed", "2", "--execution", "3")
	one.wants(t, 0, "created execution 3", "claimed execution 3", "State at the end of the run:\n  execution 3: completed, epoch 1")
	if strings.Contains(one.out, "execution 2") || strings.Contains(one.out, "renewed its lease") {
		t.Errorf("more than was asked for:\n%s", one.out)
	}
	step := regexp.MustCompile(`(?m)^ *(\d+) .*dispatched execution 3 `).FindStringSubmatch(one.out)
	if step == nil {
		t.Fatalf("no dispatch in\n%s", one.out)
	}
	part := chaos(t, "replay", path, "--seed", "2", "--execution", "3", "--from", step[1], "--to", step[1])
	part.wants(t, 0, "dispatched execution 3", "State after step "+step[1]+":\n  execution 3: scheduled, epoch 1")
	if strings.Contains(part.out, "created execution 3") || strings.Contains(part.out, "claimed execution 3") {
		t.Errorf("other steps than asked for:\n%s", part.out)
	}
}

func TestReplayShowsTheRunThatWasSwept(t *testing.T) {
	path := write(t, "calm.yaml", calm)
	hash := regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	swept := chaos(t, "run", path, "--seed", "9", "--profile", "documented", "--out", t.TempDir())
	shown := chaos(t, "replay", path, "--seed", "9", "--profile", "documented")
	if a, b := hash.FindString(swept.out), hash.FindString(shown.out); a == "" || a != b {
		t.Errorf("hash %q of the run, %q of its replay", a, b)
	}
}

func TestReplaySaysThatAMutantDoesNotShow(t *testing.T) {
	chaos(t, "replay", write(t, "calm.yaml", calm), "--seed", "1", "--mutant", "unguarded-monitor").
		wants(t, 0, "Seed 1 violates nothing, though the mutant unguarded-monitor is planted.", "To look for a seed that does: bin/chaos run ")
}

func TestMistakes(t *testing.T) {
	calmFile := write(t, "calm.yaml", calm)
	twice := filepath.Join(t.TempDir(), "calm.yaml")
	if err := os.WriteFile(twice, []byte(idle), 0o600); err != nil {
		t.Fatal(err)
	}
	live := write(t, "live.yaml", calm+"worlds: [live]\n")
	one := write(t, "one.yaml", strings.Replace(calm, "[hardened, documented]", "hardened", 1))
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"rnu"}, `did you mean "run"?`},
		{[]string{"help", "rnu"}, `did you mean "run"?`},
		{[]string{"rnu", "--help"}, `no command is called "rnu"; did you mean "run"?`},
		{[]string{"rnu", "ttl-race", "-h"}, `no command is called "rnu"; did you mean "run"?`},
		{[]string{"rnu", "ttl-race", "--seed", "3"}, `no command is called "rnu"; did you mean "run"?`},
		{[]string{"run", strings.TrimSuffix(one, ".yaml")}, "did you mean the file " + one + "?"},
		{[]string{"run", "--sed", "3"}, `did you mean "--seed"?`},
		{[]string{"run", "-z"}, `no flag is called "-z"`},
		{[]string{"run", "--seeds", "x"}, "a whole number is needed"},
		{[]string{"soak", "--for", "60"}, "--for 60: a time with its unit, as in 90s, 30m or 2h, is needed"},
		{[]string{"soak", "--rate", "fast"}, "--rate fast: a number is needed"},
		{[]string{"run", "--seeds", "0"}, "at least 1 seed"},
		{[]string{"run", "--seed", "1", "--seeds", "2"}, "only one of them"},
		{[]string{"run", "ttl-rcae"}, `did you mean "ttl-race"?`},
		{[]string{"run", "ttl"}, `did you mean "ttl-race"?`},
		{[]string{"run", "nothing.yaml"}, "nothing.yaml: no such file"},
		{[]string{"run", t.TempDir()}, "no scenario in "},
		{[]string{"run", calmFile, twice}, `are both called "calm"`},
		{[]string{"run", live}, "does not run in the simulated world"},
		{[]string{"run", one, "--profile", "documented"}, "does not run under the profile documented"},
		{[]string{"run", "--profile", "hardend"}, `did you mean "hardened"?`},
		{[]string{"run", "--mutant", "unguarded-montior"}, `did you mean "unguarded-monitor"?`},
		{[]string{"run", "ttl-race", "--parallel", "2"}, "--parallel is for the live world"},
		{[]string{"run", "--file", "x.yaml"}, "a scenario's file is given without a flag"},
		{[]string{"run", "--world", "liv", "--parallel", "2"}, "liv"},
		{[]string{"mutants", "--parallel", "2"}, "--parallel is for the live world"},
		{[]string{"mutants", "--world", "live", "--scenario", "ttl-race"}, "--scenario is for the simulated world"},
		{[]string{"mutants", "--source", "--scenario", "ttl-race"}, "--scenario is for planted mutants"},
		{[]string{"replay", "ttl-race", "--varied=yes"}, "--varied yes: true, false or nothing is needed"},
		{[]string{"run", "--world", "live", "--time-scale", "2"}, "a factor above 0 and up to 1"},
		{[]string{"run", "worker-frozen", "--world", "live"}, "it has no freeze: its processes"},
		{[]string{"run", "ttl-race", "--world", "live", "--time-scale", "0.1"}, "under the floor"},
		{[]string{"run", "ttl-race", "--varied", "never"}, `the value of --varied follows an equals sign: --varied=never`},
		{[]string{"run", "--varied", "beside", "ttl-race"}, `the value of --varied follows an equals sign: --varied=beside`},
		{[]string{"run", "--world", "sun"}, "allowed: sim, live"},
		{[]string{"run", "--check-determinism", "-1"}, "a number of seeds"},
		{[]string{"run", calmFile, "--out", filepath.Join(calmFile, "x")}, "--out: making the folder"},
		{[]string{"run", calmFile, "--json", t.TempDir()}, "this is a folder"},
		{[]string{"replay", "--seed", "1"}, "needs one scenario"},
		{[]string{"replay", calmFile}, "needs --seed"},
		{[]string{"replay", calmFile, "--seed", "1", "--execution", "77"}, "no execution 77 in this run; it has 1 to 5"},
		{[]string{"replay", calmFile, "--seed", "1", "--from", "9", "--to", "2"}, "--from 9 is after --to 2"},
		{[]string{"mutants", "--only", "x"}, `no mutant is called "x"`},
		{[]string{"mutants", "--scenario", "ttl-rac"}, `did you mean "ttl-race"?`},
		{[]string{"mutants", "--seeds", "0"}, "at least 1 seed"},
		{[]string{"mutants", "x"}, "takes no argument"},
		{[]string{"list", "--fault"}, `did you mean "--faults"?`},
		{[]string{"list", "--faults", "--mutants"}, "one list at a time"},
		{[]string{"lint"}, "needs a scenario file"},
		{[]string{"version", "x"}, "takes no argument"},
	} {
		s := chaos(t, tt.args...)
		s.wants(t, 2, tt.want)
		if s.out != "" || strings.Contains(s.err, "Usage:") || !strings.HasPrefix(s.err, "chaos: ") {
			t.Errorf("%q: not an error alone\n%s%s", tt.args, s.out, s.err)
		}
	}
}

func TestBrokenFilesAreRefusedWithTheirPosition(t *testing.T) {
	files, err := filepath.Glob("../../chaos/scenario/testdata/broken/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	report := filepath.Join(t.TempDir(), "report")
	for _, file := range files {
		at := regexp.MustCompile(regexp.QuoteMeta(file) + `:\d+:\d+: `)
		for _, args := range [][]string{{"lint", file}, {"run", file, "--out", report}} {
			s := chaos(t, args...)
			if s.code != 2 || !at.MatchString(s.out+s.err) {
				t.Errorf("chaos %s: exit %d\n%s%s", strings.Join(args, " "), s.code, s.out, s.err)
			}
		}
	}
	s := chaos(t, "run", filepath.Dir(files[0]), "ttl-race", "--out", report)
	s.wants(t, 2, files[0], files[len(files)-1])
	if _, err := os.Stat(report); err == nil {
		t.Error("a broken file was run: there is a report")
	}
}

func TestLint(t *testing.T) {
	good, bad := write(t, "calm.yaml", calm), write(t, "bad.yaml", calm+"fault: []\n")
	chaos(t, "lint", good).wants(t, 0, good+": ok (calm, ")
	chaos(t, "lint", "../../scenarios").wants(t, 0, "scenarios/order/ttl-race.yaml: ok")
	exact := write(t, "exact.yaml", calm+"expect:\n  executions: {completed: 80%, failed: \"= 20%\", stuck: 0%}\n")
	said := chaos(t, "lint", exact)
	said.wants(t, 0, exact+": ok", exact+`:13:27: completed: 80% means exactly that share, and more is a failure; write ">= 80%" for at least, or "= 80%" for exactly`)
	if n := strings.Count(said.out, "means exactly"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, said.out)
	}
	chaos(t, "lint", good, bad).wants(t, 2, good+": ok", bad+":12:1: ", `did you mean "faults"?`, "1 mistake in 1 of 2 files")
	folder := t.TempDir()
	for name, text := range map[string]string{"a": calm, "b": calm + "fault: []\nsettl: 1\n", "c": calm + "fault: []\n"} {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chaos(t, "lint", folder).wants(t, 2, "a.yaml: ok", "4 mistakes in 2 of 3 files")
	chaos(t, "lint", t.TempDir(), good).wants(t, 2, good+": ok", "no scenario in ", "1 mistake in 1 of 2 files")
	cancels := write(t, "cancels.yaml", calm+"  - cancel: {action: core.echo, count: 2, after: 1s}\n")
	chaos(t, "lint", cancels).wants(t, 0, "2 steps, 0 faults)")
}

func TestLists(t *testing.T) {
	chaos(t, "list").wants(t, 0, scenarios.Names()...)
	for _, f := range fault.Kinds() {
		if said := chaos(t, "list", "--faults"); !strings.Contains(strings.Join(strings.Fields(said.out), " "), f.Example+" "+f.Name+": "+f.About) {
			t.Errorf("%s does not stand in its list as a scenario writes it:\n%s", f.Name, said.out)
		}
	}
	for _, x := range scenario.Triggers() {
		chaos(t, "list", "--triggers").wants(t, 0, x.Name, x.About)
	}
	for _, x := range scenario.Sometimes() {
		chaos(t, "list", "--sometimes").wants(t, 0, x.Name, x.About)
	}
	for _, i := range invariant.All() {
		chaos(t, "list", "--invariants").wants(t, 0, i.Name, i.Statement)
	}
	for _, f := range mutant.All() {
		chaos(t, "list", "--mutants").wants(t, 0, f.Name, f.About)
	}
}

// The list of faults fits a terminal.
func TestTheListOfFaultsIsNarrow(t *testing.T) {
	for line := range strings.Lines(chaos(t, "list", "--faults").out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestMutants(t *testing.T) {
	chaos(t, "mutants", "--only", "unguarded-monitor").wants(t, 0, "killed by invariant ", "1 of 1 mutants killed")
	// A scenario without faults finds nothing, and need not: it is no mutant's own scenario.
	chaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", write(t, "calm.yaml", calm), "--seeds", "2").
		wants(t, 0, "survived 4 runs", "0 of 1 mutants killed")
	// The mutant's own scenario must find it, but in two seconds nothing happens in it.
	own := write(t, "own.yaml", strings.Replace(calm, "name: calm", "name: "+mutant.Find("unguarded-monitor").Scenario, 1))
	chaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", own, "--seeds", "2").wants(t, 1, "MISSED", "0 of 1 mutants killed")
	// A scenario that fails by itself says so, and finds nothing by what it breaks anyway.
	broken := write(t, "hopeless.yaml", strings.Replace(hopeless, "name: calm", "name: hopeless", 1))
	said := chaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", broken, "--seeds", "2")
	said.wants(t, 0, "hopeless (hardened) fails without a mutant, in 2 of 2 seeds: expectation: 0 of 5 executions ended as failed",
		"hopeless (documented) fails without a mutant", "bin/chaos replay "+broken+" --profile hardened --seed 1", "Mend the scenario first",
		"none, should be 2", "survived", "0 of 1 mutants killed")
}

func TestDeterminismIsChecked(t *testing.T) {
	chaos(t, "run", write(t, "calm.yaml", calm), "--seeds", "4", "--check-determinism", "2", "--out", t.TempDir()).wants(t, 0, "pass")
}

func TestCtrlCStillWritesTheReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	chaosContext(ctx, "run", "ttl-race", "--out", out).wants(t, 3, "Interrupted", ": 0 runs")
	if _, err := os.Stat(filepath.Join(out, "index.html")); err != nil {
		t.Error(err)
	}
}

func TestVersionAndHelp(t *testing.T) {
	chaos(t, "version").wants(t, 0, "chaos, commit ", "go1.")
	chaos(t).wants(t, 0, "Exit codes:")
	chaos(t, "help", "run").wants(t, 0, "--check-determinism")
}

// Whoever asks for help sees what to type. One seed is not what run does by default.
func TestHelpHasExamples(t *testing.T) {
	for _, name := range []string{"run", "replay", "diff", "why", "export", "mutants", "list", "lint", "check", "new", "shrink", "merge"} {
		chaos(t, name, "--help").wants(t, 0, "Examples:\n  bin/chaos "+name)
	}
	if help := chaos(t, "run", "--help"); strings.Contains(help.out, "this seed only (default 1)") {
		t.Error("one seed looks like the default")
	}
}
