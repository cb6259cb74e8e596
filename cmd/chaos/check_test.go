package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"handoff/chaos/verdict"
	"handoff/core/config"
)

// Judging a report's history finds the same broken invariant as its run.
func TestCheckJudgesReportedHistory(t *testing.T) {
	skipInMakeCheck(t)
	dir := t.TempDir()
	runChaos(t, "run", "network-partition", "--profile", "hardened", "--mutant", "unguarded-finish", "--seeds", "40", "--quiet", "--out", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("the report wrote no history", err)
	}
	runChaos(t, "check", files[0]).expectOutput(t, 1, "network-partition (hardened)", "FAIL invariant 1", "BROKEN")

	// A rule without evidence in the history is reported as not judged; it does not pass.
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	partial := writeFile(t, "partial.jsonl", strings.Replace(string(data), `"workers"`, `"kinds":["created","transition"],"workers"`, 1))
	runChaos(t, "check", partial).expectOutput(t, 1, "FAIL invariant 1", "not judged   6 message conservation: the history has no enqueued, acked, dead_lettered and dropped events")

	cut := writeFile(t, "cut.jsonl", string(data[:len(data)-20]))
	runChaos(t, "check", cut).expectOutput(t, 2, "cut.jsonl:", "the line ends in the middle of its object")
	runChaos(t, "check", "nowhere.jsonl").expectOutput(t, 2, "no such history")
	runChaos(t, "check").expectOutput(t, 2, "nothing to judge")
	runChaos(t, "check", "--database-url", "nonsense").expectOutput(t, 2, "is not the URL of a database")
	other := writeFile(t, "other.jsonl", strings.Replace(string(data), `"scenario":"network-partition"`, `"scenario":"of-somebody-else"`, 1))
	runChaos(t, "check", other).expectOutput(t, 1, "name the file of the scenario: --scenario FILE.yaml", "FAIL invariant 1")
	runChaos(t, "check", other, "--scenario", "network-partition").expectOutput(t, 1, "FAIL invariant 1")
}

// An unknown word affects only its own subject: check reports its position, does not judge that execution or
// worker, and still finds other executions' mistakes.
func TestCheckContinuesAfterUnknownWords(t *testing.T) {
	const (
		waits    = `{"at_ns":%[2]d,"kind":"created","execution":%[1]d,"chain":%[1]d,"to":"requested","by":"api","action":"a","text":"shell"}` + "\n"
		skipped  = `{"at_ns":%[2]d,"kind":"transition","execution":%[1]d,"chain":%[1]d,"from":"requested","to":"running","by":"api"}` + "\n"
		finished = `{"at_ns":9000000000,"kind":"quiescent"}` + "\n"
	)
	sound := fmt.Sprintf(waits, 1, 0)
	for name, c := range map[string]struct{ line, want, not string }{
		"a status":        {`{"at_ns":1,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"snoozing","by":"api"}`, `:3:75: to: unknown name "snoozing"; allowed: requested, `, "1 execution not judged"},
		"a reason":        {`{"at_ns":1,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"failed","reason":"why","by":"api"}`, `:3:89: reason: unknown name "why"; allowed: `, "1 execution not judged"},
		"a part":          {`{"at_ns":1,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"failed","by":"judge"}`, `:3:89: by: unknown name "judge"; allowed: `, "1 execution not judged"},
		"a kind of event": {`{"at_ns":1,"kind":"snoozed","execution":1,"chain":1}`, `:3:12: kind: unknown name "snoozed"; allowed: `, "1 execution not judged"},
		"a worker's state": {
			`{"at_ns":1,"kind":"worker_lifecycle","worker":1,"incarnation":1,"lifecycle":"snoozing"}`, `:2:65: lifecycle: unknown name "snoozing"; allowed: starting, `, "not judged   2 ownership: it needs events that could not be read\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			// Execution 1's later event is wrong, but must not be judged, because its state is unknown.
			text := header + sound + c.line + "\n" + fmt.Sprintf(skipped, 1, 2)
			if strings.Contains(name, "worker") {
				text = header + c.line + "\n"
			}
			said := runChaos(t, "check", writeFile(t, "h.jsonl", text+fmt.Sprintf(waits, 7, 3)+fmt.Sprintf(skipped, 7, 4)+finished))
			said.expectOutput(t, 1, c.want, "not read", "not judged", c.not, "FAIL invariant 1, legal transitions\n  execution 7: ")
			if strings.Contains(said.out, "execution 1: ") {
				t.Errorf("execution 1 is judged:\n%s", said.out)
			}
		})
	}
	only := runChaos(t, "check", writeFile(t, "h.jsonl", header+`{"at_ns":1,"kind":"snoozed"}`+"\n"+sound+finished))
	only.expectOutput(t, 1, "not read    1 event with a word that this program does not know", "(0 executions not judged)", "FAIL invariant 5")
	kinds := strings.Replace(header, `"workers"`, `"kinds":["created","snoozed","transition"],"workers"`, 1)
	runChaos(t, "check", writeFile(t, "h.jsonl", kinds+sound+finished)).expectOutput(t, 1, `kinds: unknown kind of event "snoozed"`, "FAIL invariant 5")
}

// Expectations of alerts are judged again; without any, check reports that they are not judged.
func TestCheckJudgesAlerts(t *testing.T) {
	dir := t.TempDir()
	runChaos(t, "run", "alerts-fire-and-resolve", "--profile", "hardened", "--mutant", "gone-workers-count", "--seeds", "1", "--quiet", "--out", dir)
	files, err := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("the report wrote no history", err)
	}
	runChaos(t, "check", files[0]).expectOutput(t, 1, "FAIL invariant 15", "the alert no_active_workers never fired", "see docs/playbooks/no_active_workers.md")
	runChaos(t, "check", files[0], "--scenario", "two-executors").expectOutput(t, 0, "not judged  15 alerts: no expectation about alerts is known")
}

// check does not judge the figures that processes report, even if the run failed because of one: a history
// lacks what the processes knew when they reported them. A finding without an execution names none.
func TestCheckDoesNotJudgeFigures(t *testing.T) {
	dir := t.TempDir()
	runChaos(t, "run", "two-executors", "--profile", "hardened", "--mutant", "runs-told-shorter", "--seed", "1", "--quiet", "--out", dir).
		expectOutput(t, 1, "15 alerts", "reports that a run takes")
	files, err := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("the report wrote no history", err)
	}
	const figures = "the figures that processes report are not in a history: chaos run and chaos replay judge them"
	runChaos(t, "check", files[0]).expectOutput(t, 0, "not judged  15 alerts: no expectation about alerts is known, and "+figures)

	fired := writeFile(t, "fired.jsonl", strings.Replace(header, `"scenario":""`, `"scenario":"alerts-fire-and-resolve"`, 1)+
		`{"at_ns":1,"kind":"alert_fired","fault":"reaper_brake"}`+"\n")
	said := runChaos(t, "check", fired, "--scenario", "alerts-fire-and-resolve")
	said.expectOutput(t, 1, "in part     15 alerts: judged by the alerts that its scenario expects; "+figures, "\n  no execution in particular: the alert ")
	if strings.Contains(said.out, "execution 0") {
		t.Errorf("it names an execution 0:\n%s", said.out)
	}
}

// The judges' messages contain a worker's number. run and check add the worker's name, which scenarios use.
func TestMessagesNameWorkers(t *testing.T) {
	dir := t.TempDir()
	const named = "worker 2 (shell-1, incarnation 2) is charged with "
	runChaos(t, "run", "broken-action", "--profile", "hardened", "--mutant", "action-failures-blamed", "--seed", "1", "--quiet", "--out", dir).expectOutput(t, 1, named)
	files, err := filepath.Glob(filepath.Join(dir, "*", "history.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("the report wrote no history", err)
	}
	runChaos(t, "check", files[0]).expectOutput(t, 1, named)
}

// If a run had a time scale, its history is judged by bounds of that scale.
func TestCheckScalesBounds(t *testing.T) {
	h, err := recordedSettings(&verdict.Record{Run: verdict.Run{Scenario: "ttl-race", Profile: config.Hardened}, TimeScale: 0.2}, "", nil, "")
	if err != nil || h.Config.Worker.Lease() != 8*time.Second || h.Tolerance == 0 {
		t.Errorf("a lease of %v, a tolerance of %v: %v", h.Config.Worker.Lease(), h.Tolerance, err)
	}
	if _, err = recordedSettings(&verdict.Record{Run: verdict.Run{Scenario: "ttl-race", Profile: config.Hardened}, TimeScale: 7}, "", nil, ""); err == nil {
		t.Error("a time scale of 7 is accepted")
	}
}

func TestNewWritesScenarioThatRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	runChaos(t, "new", "my-incident").expectOutput(t, 0, "my-incident.yaml is written")
	runChaos(t, "lint", "my-incident.yaml").expectOutput(t, 0, "my-incident.yaml: ok", "live world: can run it")
	runChaos(t, "run", "my-incident.yaml", "--seeds", "50", "--quiet", "--out", t.TempDir()).expectOutput(t, 0, "pass")
	runChaos(t, "new", "my-incident").expectOutput(t, 2, "my-incident.yaml")
	runChaos(t, "new", "My Incident").expectOutput(t, 2, "is no name of a scenario")
	runChaos(t, "new", "ttl-race").expectOutput(t, 2, "the library has a scenario")
}

func TestShrinkWritesRegression(t *testing.T) {
	skipInMakeCheck(t)
	t.Chdir(t.TempDir())
	said := runChaos(t, "shrink", "queue-unbound", "--profile", "hardened", "--seed", "1", "--mutant", "returned-is-confirmed", "-o", "small.yaml")
	said.expectOutput(t, 0, "small.yaml: 1 fault, 1 execution, 1 worker, 1 executor left")
	_, command, _ := strings.Cut(strings.TrimSpace(said.out), "reproduce: bin/chaos ")
	runChaos(t, strings.Fields(command)...).expectOutput(t, 1, "detection in time")

	text, err := os.ReadFile("small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	key := regexp.MustCompile(`seed: (\d+)`).FindStringSubmatch(string(text))
	if key == nil {
		t.Fatalf("no seed in\n%s", text)
	}

	// The file is run with its own seed and mutant, unless a flag selects other runs.
	runChaos(t, "run", "small.yaml", "--out", "out").expectOutput(t, 1, "small.yaml reproduces a failure: it is run in seed "+key[1]+" with the mutant returned-is-confirmed",
		"detection in time", "fail: 1 run,")
	runChaos(t, "run", "small.yaml", "--seeds", "2", "--varied=never", "--out", "out").expectOutput(t, 0, "pass: 2 runs,")
	runChaos(t, "run", "small.yaml", "--seed", "1", "--out", "out").expectOutput(t, 0, "pass: 1 run,")
	runChaos(t, "replay", "small.yaml").expectOutput(t, 1, "small (hardened), seed "+key[1]+", with the mutant returned-is-confirmed planted", "VIOLATION of ")
	runChaos(t, "replay", "queue-unbound").expectOutput(t, 2, "replay needs --seed")
	mended := strings.Replace(string(text), "mutant: returned-is-confirmed, ", "", 1)
	runChaos(t, "run", writeFile(t, "mended.yaml", strings.Replace(mended, key[0], "seed: 5", 1)), "--out", "out").expectOutput(t, 0, "it is run in seed 5 with no mutant", "pass: 1 run,")
	runChaos(t, "run", writeFile(t, "other.yaml", strings.Replace(string(text), "mutant: returned-is-confirmed", "mutant: nobody", 1)), "--out", "out").expectOutput(t, 2, `no mutant is called "nobody"`)

	runChaos(t, "shrink", "queue-unbound", "--seed", "1", "-o", "small.yaml").expectOutput(t, 2, "nothing to shrink")
	runChaos(t, "shrink", "queue-unbound", "--seed", "1").expectOutput(t, 2, "-o FILE.yaml")
	runChaos(t, "shrink", "queue-unbound", "-o", "x.yaml").expectOutput(t, 2, "--seed")
}

func TestReportHasMutantMatrix(t *testing.T) {
	skipInMakeCheck(t)
	out := t.TempDir()
	runChaos(t, "run", writeFile(t, "calm.yaml", strings.Replace(calm, ", documented", "", 1)), "--seed", "1", "--mutants", "1", "--out", out).
		expectOutput(t, 0, "planting ", " mutants into 1 scenario")
	data, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil || !strings.Contains(string(data), "killed by none within 1 seeds") {
		t.Errorf("the report has no table of mutants: %v", err)
	}
}
