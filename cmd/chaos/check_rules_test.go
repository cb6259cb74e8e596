package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/invariant"
)

// checkOutput is the output of chaos check --json.
type checkOutput struct {
	Holds     int    `json:"holds"`
	Broken    int    `json:"broken"`
	NotJudged int    `json:"not_judged"`
	Rules     []rule `json:"rules"`
}

type rule struct {
	Number    int    `json:"number"`
	Outcome   string `json:"outcome"`
	Occasions uint64 `json:"occasions"`
	Why       string `json:"why"`
}

// ruleOutcome returns the outcome of a rule, and why it was not judged.
func (c *checkOutput) ruleOutcome(n int) (outcome, why string) {
	for _, r := range c.Rules {
		if r.Number == n {
			return r.Outcome, r.Why
		}
	}
	return "", ""
}

func checkJSON(t *testing.T, path string) (c checkOutput, out commandOutput) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "check.json")
	out = runChaos(t, "check", path, "--json", file)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err, out)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c, out
}

// A rule is reported as holding only if the history had occasions on which it could break. Otherwise check
// reports that, with the kinds of events that never occurred.
func TestCheckReportsUnjudgedRules(t *testing.T) {
	waits := `{"at_ns":0,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"a","text":"shell"}` + "\n"
	ends := `{"at_ns":1000000000,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"cancelled","by":"api","reason":"cancelled"}` + "\n"
	asked := `{"at_ns":900000000,"kind":"cancel_requested","execution":1,"chain":1,"from":"requested","action":"a"}` + "\n"
	handled := `{"at_ns":1100000000,"kind":"orchestrated","execution":1,"chain":1,"from":"cancelled","process":"executor-1"}` + "\n"
	const rest = `{"at_ns":9000000000,"kind":"quiescent"}` + "\n"

	c, out := checkJSON(t, writeFile(t, "h.jsonl", header+waits+asked+ends+handled+rest))
	out.expectOutput(t, 0, "  holds        1 legal transitions (2 occasions): An execution", "  holds        5 nothing lost (1 occasion): ",
		"not judged   6 message conservation: nothing happened that it judges; of the kinds of events that it needs, enqueued, acked, dead_lettered and dropped never occurred",
		" hold, 0 broken, ", " not judged\n")
	for n, want := range map[int]string{1: "holds", 5: "holds", 7: "holds", 4: "not judged", 6: "not judged", 11: "not judged", 14: "not judged", 29: "not judged", 30: "not judged"} {
		if is, why := c.ruleOutcome(n); is != want || (is == "holds") != (why == "") {
			t.Errorf("invariant %d: %s %q, want %s", n, is, why, want)
		}
	}
	counts := map[string]int{}
	for _, r := range c.Rules {
		counts[r.Outcome]++
		if r.Outcome == "holds" && r.Occasions == 0 {
			t.Errorf("invariant %d holds without occasions", r.Number)
		}
	}
	if len(c.Rules) != invariant.Count || c.Holds != counts["holds"] || c.Broken != 0 || c.NotJudged != counts["not judged"] || c.Holds == 0 {
		t.Errorf("%d rules, %d hold, %d are not judged: %v", len(c.Rules), c.Holds, c.NotJudged, counts)
	}

	// A broken rule is reported as broken. For the other rules, the kinds in the header matter more than the
	// absence of events.
	limited := strings.Replace(header, `"workers"`, `"kinds":["created","transition"],"workers"`, 1)
	c, out = checkJSON(t, writeFile(t, "h.jsonl", limited+waits+strings.Replace(ends, "cancelled", "running", 1)+rest))
	out.expectOutput(t, 1, "BROKEN       1 legal transitions", "not judged   7 orchestration once: the history has no orchestrated events", ", 2 broken, ")
	if is, _ := c.ruleOutcome(1); is != "broken" || c.Broken != 2 {
		t.Errorf("invariant 1 is %s, %d are broken", is, c.Broken)
	}

	// Standard output contains only the JSON.
	alone := runChaos(t, "check", writeFile(t, "h.jsonl", header+waits+asked+ends+handled+rest), "--json", "-")
	if err := json.Unmarshal([]byte(alone.out), &c); err != nil || alone.code != 0 || !strings.Contains(alone.err, "not judged") {
		t.Errorf("exit %d, %v\n%s%s", alone.code, err, alone.out, alone.err)
	}
}

// No rule holds for a history without events, or if all of its executions are unreadable.
func TestNoRuleHoldsForEmptyHistory(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             "",
		"only the end":        `{"at_ns":0,"kind":"quiescent"}` + "\n",
		"a program's log":     `{"at_ns":0,"kind":"logged","text":"hello"}` + "\n",
		"an unreadable event": `{"at_ns":0,"kind":"snoozed","execution":1}` + "\n",
	} {
		c, out := checkJSON(t, writeFile(t, "h.jsonl", header+text))
		if out.code != 3 || c.Holds != 0 || c.NotJudged != invariant.Count {
			t.Errorf("%s: exit %d, %d rules hold, %d are not judged\n%s", name, out.code, c.Holds, c.NotJudged, out.out)
		}
		if slices.ContainsFunc(c.Rules, func(r rule) bool { return r.Why == "" }) {
			t.Errorf("%s: a rule is not judged, without a reason", name)
		}
	}
}
