package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/sim/explore"
)

// printedFates returns the output for a list of results, and the exit code.
func printedFates(list []fate, every bool) (string, int) {
	var out bytes.Buffer
	a := &app{out: newTerminal(&out), err: newTerminal(&bytes.Buffer{})}
	a.printFates(list, every)
	return out.String(), a.code
}

// manyFates returns the results of so many mutants that not each gets a row.
func manyFates() (list []fate) {
	for i := range 20 {
		list = append(list, fate{
			Mutant: fmt.Sprintf("mutant-%02d", i), Source: "D1", Expected: 3 + i%2, Result: fateKilled, Scenario: "calm", Profile: "hardened",
			Seed: uint64(i), Rule: fmt.Sprintf("invariant %d, x", 3+i%2), Runs: 1,
		})
	}
	return list
}

func TestManyMutantsAreSummarizedByInvariant(t *testing.T) {
	list := manyFates()
	list[4] = fate{Mutant: "survivor", Source: "D2", Expected: 3, Result: fateMissed, Runs: 99}
	list[5].Mutant, list[5].Rule, list[5].Result, list[5].Reproduce = "other", "invariant 9, placement", fateMissed, "bin/chaos replay calm"
	text, code := printedFates(list, false)
	for _, want := range []string{
		"INVARIANT            MUTANTS  KILLED BY IT  MEDIAN SEED\n3 fencing            10       9             10\n4 one run at a time  10       9             11\n",
		"survivor  D2", "none, should be 3", "9, placement, should be 4", "18 of 20 mutants killed by the invariant that is named for them", "to see other: bin/chaos replay calm",
		"--all shows every mutant",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "mutant-07") {
		t.Errorf("a mutant killed by its own invariant has a row:\n%s", text)
	}
	if code != verdict.ExitFail {
		t.Errorf("code %d, want %d", code, verdict.ExitFail)
	}
}

func TestAllFlagShowsEveryMutant(t *testing.T) {
	list := manyFates()
	text, _ := printedFates(list, true)
	for _, f := range list {
		if !strings.Contains(text, "\n"+f.Mutant+" ") {
			t.Errorf("%s has no row in\n%s", f.Mutant, text)
		}
	}
	if strings.Contains(text, "--all") {
		t.Errorf("it names the flag that was given:\n%s", text)
	}
	if few, _ := printedFates(list[:3], false); !strings.Contains(few, "mutant-02") || strings.Contains(few, "MEDIAN") {
		t.Errorf("of three mutants, each has a row, and no summary is needed:\n%s", few)
	}
}

// For a single scenario, only the mutants that it finds are shown. Most others belong to other scenarios.
func TestSingleScenarioShowsItsFindings(t *testing.T) {
	list := manyFates()
	for i := range list[2:] {
		list[2+i] = fate{Mutant: fmt.Sprintf("elsewhere-%02d", i), Source: "D1", Expected: 4, Result: fateSurvived, Runs: 20}
	}
	text, code := printedFates(list, false)
	if !strings.Contains(text, "mutant-00") || !strings.Contains(text, "mutant-01") || strings.Contains(text, "elsewhere-03") || code != verdict.ExitPass {
		t.Errorf("code %d\n%s", code, text)
	}
	if want := "18 survived that other scenarios have to find"; !strings.Contains(text, want) {
		t.Errorf("%q is not in\n%s", want, text)
	}
}

// A mutant that another rule finds has not survived. Only the mutant's own scenario, or the whole library,
// counts it as missed.
func TestMutantFoundByAnotherRuleIsFound(t *testing.T) {
	m := mutant.Find("unguarded-monitor")
	found := &explore.Kill{
		Mutant: m, Target: explore.Target{Scenario: &scenario.Scenario{Name: "elsewhere"}}, Runs: 1,
		Violations: []verdict.Violation{{Invariant: m.Expected + 1, Name: "another"}},
	}
	survives := &explore.Kill{Mutant: m, Runs: 9}
	for home, want := range map[string][2]string{"": {fateMissed, fateMissed}, m.Scenario: {fateMissed, fateMissed}, "elsewhere": {fateFound, fateSurvived}} {
		list := fatesOf([]*explore.Kill{found, survives}, home)
		if got := [2]string{list[0].Result, list[1].Result}; got != want {
			t.Errorf("in %q: %v, want %v", home, got, want)
		}
	}
	list := manyFates()
	for i := range list[2:] {
		list[2+i] = fate{Mutant: fmt.Sprintf("elsewhere-%02d", i), Source: "D1", Expected: 4, Result: fateSurvived, Runs: 20}
	}
	list[0].Result = fateFound
	list[0].Rule = "invariant 9, placement"
	text, code := printedFates(list, false)
	for _, want := range []string{"9, placement, should be 3  found", "1 of 20 mutants killed", "18 survived that other scenarios have to find"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if code != verdict.ExitPass {
		t.Errorf("code %d", code)
	}
}
