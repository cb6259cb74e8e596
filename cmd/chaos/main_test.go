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

// idle is a scenario with a fault that never begins.
const idle = calm + `faults:
  - {when: {after: expired, nth: 99}, crash: shell-1}
`

// hopeless is a scenario whose expectation no run meets.
const hopeless = calm + `expect:
  executions: {failed: ">= 1"}
`

// commandOutput is the output of a command.
type commandOutput struct {
	code     int
	out, err string
}

func runChaos(t *testing.T, args ...string) commandOutput {
	t.Helper()
	return runChaosContext(t.Context(), args...)
}

func runChaosContext(ctx context.Context, args ...string) commandOutput {
	var out, err bytes.Buffer
	code := runArgs(ctx, args, &out, &err)
	return commandOutput{code, out.String(), err.String()}
}

// expectOutput checks an exit code and parts of the output.
func (c commandOutput) expectOutput(t *testing.T, code int, parts ...string) {
	t.Helper()
	if c.code != code {
		t.Errorf("exit %d, want %d\n%s%s", c.code, code, c.out, c.err)
	}
	for _, part := range parts {
		if !strings.Contains(c.out+c.err, part) {
			t.Errorf("no %q in\n%s%s", part, c.out, c.err)
		}
	}
}

// writeFile writes a scenario file and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunPasses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report")
	s := runChaos(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "60", "--out", out)
	s.expectOutput(t, 0, "calm      hardened    60", "pass: 128 runs", "varied: 8 runs around 2 of these, 0 failing", "HISTORY HASH", filepath.Join(out, "index.html"))
	for _, file := range []string{"index.html", "result.json", "junit.xml", "summary.md"} {
		if _, err := os.Stat(filepath.Join(out, file)); err != nil {
			t.Error(err)
		}
	}
}

// With --fail-fast, no run begins after the first failure. Runs in progress end, at most one for each
// processor.
func TestRunFailsFast(t *testing.T) {
	path := writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	s := runChaos(t, "run", path, "--profile", "hardened", "--varied=never", "--seeds", "500", "--fail-fast", "--out", t.TempDir())
	s.expectOutput(t, 1, "FAIL hopeless (hardened)", "Stopped at the first failure, after ", " of 500 runs: this is what was done until then", "fail: ")
	var runs int
	if _, after, found := strings.Cut(s.out, "Stopped at the first failure, after "); !found {
		t.Error(s.out)
	} else if _, err := fmt.Sscan(after, &runs); err != nil || runs < 1 || runs > runtime.GOMAXPROCS(0) {
		t.Errorf("%d runs, %v:\n%s", runs, err, s.out)
	}
	calmly := runChaos(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "3", "--fail-fast", "--out", t.TempDir())
	calmly.expectOutput(t, 0, "pass: ")
	runChaos(t, "run", path, "--fail-fast", "--shard", "1/2").expectOutput(t, 2, "a share that stops early can't be merged")
	runChaos(t, "run", path, "--fail-fast", "--world", "live").expectOutput(t, 2, "--fail-fast is for the simulated world")
}

// With --json - standard output contains only the JSON result, so that it can be piped.
func TestRunWritesResultToStandardOutput(t *testing.T) {
	path := writeFile(t, "calm.yaml", calm)
	for flag, begins := range map[string]string{"--json": "{", "--junit": "<?xml"} {
		s := runChaos(t, "run", path, "--seed", "1", "--out", t.TempDir(), flag, "-")
		if !strings.HasPrefix(s.out, begins) || strings.Contains(s.out, "report:") || !strings.Contains(s.err, "report:") || s.code != 0 {
			t.Errorf("%s - exits with %d and prints\n%.300s\nand to standard error\n%s", flag, s.code, s.out, s.err)
		}
	}
	runChaos(t, "run", path, "--json", "-", "--junit", "-").expectOutput(t, 2, "--json and --junit are both -")
	if _, err := os.Stat("-"); err == nil {
		t.Error("a file is called -")
	}
}

func TestRunFails(t *testing.T) {
	dir := t.TempDir()
	path := writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "calm", "hopeless", 1))
	s := runChaos(t, "run", path, "--profile", "hardened", "--seeds", "3", "--out", filepath.Join(dir, "report"),
		"--json", filepath.Join(dir, "a", "r.json"), "--junit", filepath.Join(dir, "b", "j.xml"))
	s.expectOutput(t, 1, "FAIL hopeless (hardened)\n  broken     An expectation of the scenario is not met.", "\n  execution ", "\n  seed       1 (3 of 3 seeds fail)",
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

// The terminal names a varied result by its profile and the word varied.
func TestVariedResultHasOneName(t *testing.T) {
	s := runChaos(t, "run", writeFile(t, "calm.yaml", calm), "--varied", "--seeds", "2", "--profile", "hardened", "--out", t.TempDir())
	s.expectOutput(t, 0, "calm      hardened, varied  2 ")
}

func TestRunIsInconclusive(t *testing.T) {
	s := runChaos(t, "run", writeFile(t, "idle.yaml", idle), "--seed", "4", "--out", t.TempDir())
	s.expectOutput(t, 3, "INCONCLUSIVE calm (hardened)", "the fault “crash shell-1” did not fire in this run", "calm      documented  1 ")
}

// A fault has to affect at least one run of a sweep. That it misses a single run proves nothing.
// docs/judging.md describes both, and the number of seeds from which situations are demanded.
func TestFaultMayMissSingleRunsOfSweep(t *testing.T) {
	path := writeFile(t, "calm.yaml", calm+"faults:\n  - {when: {between: [1s, 20s]}, stuck_queue: shell-1, for: 1s}\n")
	run := func(args ...string) commandOutput {
		return runChaos(t, append([]string{"run", path, "--profile", "hardened", "--varied=never", "--quiet", "--out", t.TempDir()}, args...)...)
	}
	run("--seeds", "8").expectOutput(t, 0, "pass: 8 runs")
	alone := run("--seed", "1")
	alone.expectOutput(t, 3, "fired, but made no difference to anything in this run")
	text, err := os.ReadFile("../../docs/judging.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.Join(strings.Fields(string(text)), " ")
	for _, rule := range []string{
		"a fault made no difference to anything in any run", "A single run is judged by itself", fmt.Sprintf("From %d seeds on", verdict.SweepSeeds),
	} {
		if !strings.Contains(page, rule) {
			t.Errorf("docs/judging.md lacks %q", rule)
		}
	}
}

// Every printed command that reproduces a failure works when pasted, with its mutant and profile.
func TestReproduceLineReproducesFailure(t *testing.T) {
	skipInMakeCheck(t)
	s := runChaos(t, "run", "ttl-race", "--mutant", "unguarded-monitor", "--out", t.TempDir(), "--quiet")
	s.expectOutput(t, 1, "FAIL ttl-race")
	lines := regexp.MustCompile(`(?m)^ +reproduce +bin/chaos (.*)$`).FindAllStringSubmatch(s.out, -1)
	if len(lines) == 0 {
		t.Fatalf("no line to reproduce in\n%s", s.out)
	}
	for _, line := range lines {
		r := runChaos(t, strings.Fields(line[1])...)
		r.expectOutput(t, 1, "VIOLATION of invariant ", "rule: ", "history hash ", "verdict: fail")
	}
	if s.err != "" {
		t.Errorf("--quiet, and yet: %s", s.err)
	}
}

func TestReplayFiltersByExecution(t *testing.T) {
	path := writeFile(t, "calm.yaml", calm)
	all := runChaos(t, "replay", path, "--seed", "2")
	all.expectOutput(t, 0, "created execution 2", "created execution 3", "renewed its lease", "Seed 2 violates nothing.", "verdict: pass")
	one := runChaos(t, "replay", path, "--seed", "2", "--execution", "3")
	one.expectOutput(t, 0, "created execution 3", "claimed execution 3", "State at the end of the run:\n  execution 3: completed, epoch 1")
	if strings.Contains(one.out, "execution 2") || strings.Contains(one.out, "renewed its lease") {
		t.Errorf("more than was asked for:\n%s", one.out)
	}
	step := regexp.MustCompile(`(?m)^ *(\d+) .*dispatched execution 3 `).FindStringSubmatch(one.out)
	if step == nil {
		t.Fatalf("no dispatch in\n%s", one.out)
	}
	part := runChaos(t, "replay", path, "--seed", "2", "--execution", "3", "--from", step[1], "--to", step[1])
	part.expectOutput(t, 0, "dispatched execution 3", "State after step "+step[1]+":\n  execution 3: scheduled, epoch 1")
	if strings.Contains(part.out, "created execution 3") || strings.Contains(part.out, "claimed execution 3") {
		t.Errorf("other steps than asked for:\n%s", part.out)
	}
}

func TestReplayMatchesSweptRun(t *testing.T) {
	path := writeFile(t, "calm.yaml", calm)
	hash := regexp.MustCompile(`\b[0-9a-f]{16}\b`)
	swept := runChaos(t, "run", path, "--seed", "9", "--profile", "documented", "--out", t.TempDir())
	shown := runChaos(t, "replay", path, "--seed", "9", "--profile", "documented")
	if a, b := hash.FindString(swept.out), hash.FindString(shown.out); a == "" || a != b {
		t.Errorf("hash %q of the run, %q of its replay", a, b)
	}
}

func TestReplayReportsMutantWithoutViolation(t *testing.T) {
	runChaos(t, "replay", writeFile(t, "calm.yaml", calm), "--seed", "1", "--mutant", "unguarded-monitor").
		expectOutput(t, 0, "Seed 1 violates nothing, though the mutant unguarded-monitor is planted.", "To look for a seed that does: bin/chaos run ")
}

func TestUserMistakesAreExplained(t *testing.T) {
	calmFile := writeFile(t, "calm.yaml", calm)
	twice := filepath.Join(t.TempDir(), "calm.yaml")
	if err := os.WriteFile(twice, []byte(idle), 0o600); err != nil {
		t.Fatal(err)
	}
	live := writeFile(t, "live.yaml", calm+"worlds: [live]\n")
	one := writeFile(t, "one.yaml", strings.Replace(calm, "[hardened, documented]", "hardened", 1))
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
		s := runChaos(t, tt.args...)
		s.expectOutput(t, 2, tt.want)
		if s.out != "" || strings.Contains(s.err, "Usage:") || !strings.HasPrefix(s.err, "chaos: ") {
			t.Errorf("%q: not an error alone\n%s%s", tt.args, s.out, s.err)
		}
	}
}

func TestBrokenFilesAreRefusedWithPosition(t *testing.T) {
	files, err := filepath.Glob("../../chaos/scenario/testdata/broken/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	report := filepath.Join(t.TempDir(), "report")
	for _, file := range files {
		at := regexp.MustCompile(regexp.QuoteMeta(file) + `:\d+:\d+: `)
		for _, args := range [][]string{{"lint", file}, {"run", file, "--out", report}} {
			s := runChaos(t, args...)
			if s.code != 2 || !at.MatchString(s.out+s.err) {
				t.Errorf("chaos %s: exit %d\n%s%s", strings.Join(args, " "), s.code, s.out, s.err)
			}
		}
	}
	s := runChaos(t, "run", filepath.Dir(files[0]), "ttl-race", "--out", report)
	s.expectOutput(t, 2, files[0], files[len(files)-1])
	if _, err := os.Stat(report); err == nil {
		t.Error("a broken file was run: there is a report")
	}
}

func TestLint(t *testing.T) {
	good, bad := writeFile(t, "calm.yaml", calm), writeFile(t, "bad.yaml", calm+"fault: []\n")
	runChaos(t, "lint", good).expectOutput(t, 0, good+": ok (calm, ")
	runChaos(t, "lint", "../../scenarios").expectOutput(t, 0, "scenarios/order/ttl-race.yaml: ok")
	exact := writeFile(t, "exact.yaml", calm+"expect:\n  executions: {completed: 80%, failed: \"= 20%\", stuck: 0%}\n")
	said := runChaos(t, "lint", exact)
	said.expectOutput(t, 0, exact+": ok", exact+`:13:27: completed: 80% means exactly that share, and more is a failure; write ">= 80%" for at least, or "= 80%" for exactly`)
	if n := strings.Count(said.out, "means exactly"); n != 1 {
		t.Errorf("%d warnings, want one:\n%s", n, said.out)
	}
	runChaos(t, "lint", good, bad).expectOutput(t, 2, good+": ok", bad+":12:1: ", `did you mean "faults"?`, "1 mistake in 1 of 2 files")
	folder := t.TempDir()
	for name, text := range map[string]string{"a": calm, "b": calm + "fault: []\nsettl: 1\n", "c": calm + "fault: []\n"} {
		if err := os.WriteFile(filepath.Join(folder, name+".yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runChaos(t, "lint", folder).expectOutput(t, 2, "a.yaml: ok", "4 mistakes in 2 of 3 files")
	runChaos(t, "lint", t.TempDir(), good).expectOutput(t, 2, good+": ok", "no scenario in ", "1 mistake in 1 of 2 files")
	cancels := writeFile(t, "cancels.yaml", calm+"  - cancel: {action: core.echo, count: 2, after: 1s}\n")
	runChaos(t, "lint", cancels).expectOutput(t, 0, "2 steps, 0 faults)")
}

func TestLists(t *testing.T) {
	runChaos(t, "list").expectOutput(t, 0, scenarios.Names()...)
	for _, f := range fault.Kinds() {
		if said := runChaos(t, "list", "--faults"); !strings.Contains(strings.Join(strings.Fields(said.out), " "), f.Example+" "+f.Name+": "+f.About) {
			t.Errorf("%s is not listed in the syntax of a scenario:\n%s", f.Name, said.out)
		}
	}
	for _, x := range scenario.Triggers() {
		runChaos(t, "list", "--triggers").expectOutput(t, 0, x.Name, x.About)
	}
	for _, x := range scenario.Sometimes() {
		runChaos(t, "list", "--sometimes").expectOutput(t, 0, x.Name, x.About)
	}
	for _, i := range invariant.All() {
		runChaos(t, "list", "--invariants").expectOutput(t, 0, i.Name, i.Statement)
	}
	for _, f := range mutant.All() {
		runChaos(t, "list", "--mutants").expectOutput(t, 0, f.Name, f.About)
	}
}

func TestFaultListFitsTerminal(t *testing.T) {
	for line := range strings.Lines(runChaos(t, "list", "--faults").out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestMutants(t *testing.T) {
	runChaos(t, "mutants", "--only", "unguarded-monitor").expectOutput(t, 0, "killed by invariant ", "1 of 1 mutants killed")
	// A scenario without faults finds no mutant, and does not have to, because no mutant belongs to it.
	runChaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", writeFile(t, "calm.yaml", calm), "--seeds", "2").
		expectOutput(t, 0, "survived 4 runs", "0 of 1 mutants killed")
	// The mutant's own scenario must find it, but in this copy of two seconds nothing happens.
	own := writeFile(t, "own.yaml", strings.Replace(calm, "name: calm", "name: "+mutant.Find("unguarded-monitor").Scenario, 1))
	runChaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", own, "--seeds", "2").expectOutput(t, 1, "MISSED", "0 of 1 mutants killed")
	// If a scenario fails without a mutant, that is reported, and its broken rules aren't findings.
	broken := writeFile(t, "hopeless.yaml", strings.Replace(hopeless, "name: calm", "name: hopeless", 1))
	said := runChaos(t, "mutants", "--only", "unguarded-monitor", "--scenario", broken, "--seeds", "2")
	said.expectOutput(t, 0, "hopeless (hardened) fails without a mutant, in 2 of 2 seeds: expectation: 0 of 5 executions ended as failed",
		"hopeless (documented) fails without a mutant", "bin/chaos replay "+broken+" --profile hardened --seed 1", "Mend the scenario first",
		"none, should be 2", "survived", "0 of 1 mutants killed")
}

func TestDeterminismIsChecked(t *testing.T) {
	runChaos(t, "run", writeFile(t, "calm.yaml", calm), "--seeds", "4", "--check-determinism", "2", "--out", t.TempDir()).expectOutput(t, 0, "pass")
}

func TestInterruptedRunWritesReport(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := t.TempDir()
	runChaosContext(ctx, "run", "ttl-race", "--out", out).expectOutput(t, 3, "Interrupted", ": 0 runs")
	if _, err := os.Stat(filepath.Join(out, "index.html")); err != nil {
		t.Error(err)
	}
}

func TestVersionAndHelp(t *testing.T) {
	runChaos(t, "version").expectOutput(t, 0, "chaos, commit ", "go1.")
	runChaos(t).expectOutput(t, 0, "Exit codes:")
	runChaos(t, "help", "run").expectOutput(t, 0, "--check-determinism")
}

// Help shows examples. One seed is not what run does by default.
func TestHelpHasExamples(t *testing.T) {
	for _, name := range []string{"run", "replay", "diff", "why", "export", "mutants", "list", "lint", "check", "new", "shrink", "merge"} {
		runChaos(t, name, "--help").expectOutput(t, 0, "Examples:\n  bin/chaos "+name)
	}
	if help := runChaos(t, "run", "--help"); strings.Contains(help.out, "this seed only (default 1)") {
		t.Error("one seed looks like the default")
	}
}
