package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// demoArgs returns the arguments of the demo's run.
func demoArgs(command string, more ...string) []string {
	return append([]string{command, "network-partition", "--profile", "hardened", "--seed", "4", "--mutant", "unguarded-claim"}, more...)
}

func TestDiffShowsTheCounterpart(t *testing.T) {
	s := runChaos(t, demoArgs("diff")...)
	if s.code != 0 {
		t.Fatalf("code %d: %s", s.code, s.err)
	}
	for _, want := range []string{"the same without the mutant unguarded-claim: the rule is kept", "acted on execution 11: ", "differ  here"} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is not in\n%s", want, s.out)
		}
	}
	if n := strings.Count(s.out, "\n"); n > 15 {
		t.Errorf("%d lines, want at most 15", n)
	}
	if again := runChaos(t, demoArgs("diff")...); again.out != s.out {
		t.Error("the comparison is not reproducible")
	}
}

func TestDiffAndWhyRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"diff", "network-partition"}, "diff needs --seed"},
		{[]string{"why", "network-partition"}, "why needs --seed"},
		{[]string{"why", "network-partition", "--seed", "4"}, "does not fail in seed 4"},
		{[]string{"diff", "network-partition", "--seed", "4", "--mutant", "nonsense"}, "no mutant is called"},
		{[]string{"diff", "no-such-file", "no-other"}, "a history.jsonl is needed"},
		{[]string{"diff", "a", "b", "--seed", "3"}, "--seed is for one scenario"},
		{[]string{"diff"}, "needs a scenario, or two recordings"},
	} {
		if s := runChaos(t, c.args...); s.code != 2 || !strings.Contains(s.err, c.want) {
			t.Errorf("%q: code %d, %q, want code 2 and %q", c.args, s.code, s.err, c.want)
		}
	}
}

// Only the first line of a counterpart's message is shown.
func TestDiffShowsFirstMessageLineOnly(t *testing.T) {
	file := writeFile(t, "hopeless.yaml", calm+`faults:
  - {when: {at: 4500ms}, crash: shell-1, restart_after: 2m}
  - {when: {at: 20s}, database: restart, for: 2s}
expect:
  executions: {completed: 0}
`)
	s := runChaos(t, "diff", file, "--profile", "hardened", "--seed", "1")
	s.expectOutput(t, 0, "\nalso    the same without the fault “", ": it breaks expectation: ")
	if strings.Contains(s.out, `\n`) {
		t.Errorf("a line has an escaped end of line:\n%s", s.out)
	}
}

// A run without a mutant is compared with the same run without one of its faults. why also writes a page.
func TestWhyExplainsRunWithoutMutant(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "strict.yaml")
	text := calm + `faults:
  - {when: {at: 4500ms}, crash: shell-1, restart_after: 2m}
  - {when: {at: 20s}, database: restart, for: 2s}
expect:
  executions: {completed: "100%"}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := runChaos(t, "why", file, "--profile", "hardened", "--seed", "1", "--out", filepath.Join(dir, "out"))
	if s.code != 0 {
		t.Fatalf("code %d: %s%s", s.code, s.out, s.err)
	}
	for _, want := range []string{"without the fault “crash shell-1”: the rule is kept", "one of 2 was needed: with it alone execution ", "needed      crash shell-1", "not needed  "} {
		if !strings.Contains(s.out, want) {
			t.Errorf("%q is not in\n%s", want, s.out)
		}
	}
	folder := filepath.Join(dir, "out", "calm-hardened-1")
	for _, name := range []string{"run.html", "history.jsonl", "scenario.yaml"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	if same := runChaos(t, "diff", folder, filepath.Join(folder, "history.jsonl")); same.code != 0 || !strings.Contains(same.out, "same    all") {
		t.Errorf("a recording compared with itself: code %d, %s%s", same.code, same.out, same.err)
	}
}
