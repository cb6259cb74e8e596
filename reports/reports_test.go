package reports_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/selftest/conformance"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/reports"
)

var update = flag.Bool("update", false, "rewrite testdata/result.golden.json")

func renderText(t *testing.T, write func(io.Writer, *verdict.Sweep) error, s *verdict.Sweep) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestResultMatchesGoldenFile(t *testing.T) {
	sweep, _ := syntheticSweep()
	got := renderText(t, reports.WriteJSON, sweep)
	golden := filepath.Join("testdata", "result.golden.json")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("result.json changed. If that is intended, consider its schema number, and run go test ./reports -update.\n%s", got)
	}
}

func TestResultDependsOnNeitherOrderNorTime(t *testing.T) {
	sweep, _ := syntheticSweep()
	want := renderText(t, reports.WriteJSON, sweep)
	slices.Reverse(sweep.Scenarios)
	for _, sc := range sweep.Scenarios {
		sc.Wall *= 3
		slices.Reverse(sc.Faults)
	}
	sweep.Go, sweep.Commit = "other", "other"
	if got := renderText(t, reports.WriteJSON, sweep); got != want {
		t.Error("the same results in another order, on another machine, give other bytes")
	}
}

func TestEmptyResultHasLists(t *testing.T) {
	got := renderText(t, reports.WriteJSON, &verdict.Sweep{Scenarios: []*verdict.Scenario{{Name: "x"}}})
	if strings.Contains(got, "null") {
		t.Errorf("null where a list or an object is promised:\n%s", got)
	}
}

type junit struct {
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Suites   []struct {
		Name  string `xml:"name,attr"`
		Cases []struct {
			Name    string       `xml:"name,attr"`
			Failure *junitDetail `xml:"failure"`
			Error   *junitDetail `xml:"error"`
			Skipped *junitDetail `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

type junitDetail struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

func TestJUnitHasCaseForEachProfile(t *testing.T) {
	sweep, _ := syntheticSweep()
	twin := *sweep.Scenarios[2]
	twin.Profile = config.Documented
	sweep.Scenarios = append(sweep.Scenarios, &twin)
	sweep.Scenarios[0].Violations[0].Message += "\nsecond line: \x00\x1b[31mred\x1b[0m ]]> \uFFFE\xff <b>"
	sweep.Interrupted = true
	var got junit
	if err := xml.Unmarshal([]byte(renderText(t, reports.WriteJUnit, sweep)), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range got.Suites {
		for _, c := range s.Cases {
			names = append(names, s.Name+"/"+c.Name)
		}
	}
	want := []string{
		"crash-after-heartbeat/hardened", "crash-after-heartbeat/documented", "network-partition/hardened",
		"ttl-race/documented with mutant unguarded-monitor", "sweep/complete",
	}
	if !slices.Equal(names, want) {
		t.Errorf("testcases %q, want %q", names, want)
	}
	if got.Failures != 1 || got.Errors != 2 {
		t.Errorf("%d failures and %d errors, want 1 and 2", got.Failures, got.Errors)
	}
	if f := got.Suites[2].Cases[0].Failure; f == nil || !strings.Contains(f.Message, reproduceTTL) ||
		!strings.Contains(f.Text, "Reproduce: "+reproduceTTL) || !strings.Contains(f.Text, "[31mred[0m ]]>  <b>") {
		t.Errorf("the failure is %+v", f)
	}
	if e := got.Suites[1].Cases[0].Error; e == nil || e.Type != "inconclusive" {
		t.Errorf("an inconclusive result is %+v, want an error of that type", e)
	}
}

func TestSummary(t *testing.T) {
	sweep, _ := syntheticSweep()
	sweep.Scenarios[0].Violations[0].Message = "one\ntwo\nthree\nfour\nfive\n```\nsix"
	sweep.Scenarios[0].Why = []string{"a | b\nc"}
	sweep.Notes = []string{"1 scenario not expressible in the live world"}
	got := renderText(t, reports.WriteSummary, sweep)
	for _, want := range []string{
		"- 1 scenario not expressible in the live world\n",
		"## ✖ Chaos: fail", "1 passed, 1 failed, 1 inconclusive of 3 results, 150 runs.",
		`a \| b c |`, "four\n… 3 lines more", "```\n" + reproduceTTL + "\n```",
		"- Fault not touched: `partition shell-2 from broker` (network-partition, hardened): planned 50, fired 50, touched 0",
		"- Never reached: `unclaimed_rescheduled` (network-partition, hardened)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the summary has no %q:\n%s", want, got)
		}
	}
	if strings.Index(got, "| fail |") > strings.Index(got, "| pass |") {
		t.Error("the summary's table does not begin with what failed")
	}
}

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	sweep, records := syntheticSweep()
	odd := &verdict.Record{Run: verdict.Run{Scenario: "../odd name", Profile: config.Hardened, Seed: 2, Panic: "boom"}}
	fine := &verdict.Record{Run: verdict.Run{Scenario: "fine", Profile: config.Hardened, Seed: 1}}
	again := *records[0]
	if err := reports.Write(dir, sweep, append(records, odd, fine, &again)); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(dir, path)
			got = append(got, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		".._odd_name-hardened-2/history.jsonl", ".._odd_name-hardened-2/run.html", "index.html", "junit.xml", "result.json", "summary.md", "timing.json",
		"ttl-race-documented-41/run.html", "ttl-race-documented-41-unguarded-monitor/run.html",
		"ttl-race-documented-41/history.jsonl", "ttl-race-documented-41-unguarded-monitor/history.jsonl",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	var timing struct {
		Go   string  `json:"go"`
		Wall float64 `json:"wall_s"`
	}
	data, err := os.ReadFile(filepath.Join(dir, "timing.json"))
	if err := errors.Join(err, json.Unmarshal(data, &timing)); err != nil || timing.Go != "go1.26.8" || timing.Wall != 2.55 {
		t.Errorf("timing.json has %+v, %v", timing, err)
	}
}

func TestWriteErrorNamesFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "junit.xml", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	sweep, _ := syntheticSweep()
	err := reports.Write(dir, sweep, nil)
	if err == nil || !strings.Contains(err.Error(), "junit.xml") {
		t.Errorf("error %v, want one that names junit.xml", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".handoff-report-*")); len(left) > 0 {
		t.Errorf("temporary files are left: %q", left)
	}
}

func TestPageIsSelfContained(t *testing.T) {
	sweep, records := syntheticSweep()
	sweep.Scenarios[0].Violations[0].Message = `<script>alert("x")</script> <!-- </script>`
	records[0].Violations[0].Message = sweep.Scenarios[0].Violations[0].Message
	var b bytes.Buffer
	if err := reports.WriteHTML(&b, sweep, records); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if found := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9.-]+\.[a-z]{2,}|\bsrc=|<link|@import|url\(`).FindString(page); found != "" {
		t.Errorf("the page refers to something outside of it: %q", found)
	}
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d script elements, want the data and the script", n)
	}
	for _, want := range []string{"default-src 'none'", "the timeout monitor of executor-1", "this broke the rule", reproduceTTL} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
}

func TestPageIsReproducible(t *testing.T) {
	var pages [2]bytes.Buffer
	for i := range pages {
		sweep, records := syntheticSweep()
		if err := reports.WriteHTML(&pages[i], sweep, records); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(pages[0].Bytes(), pages[1].Bytes()) {
		t.Error("the same results give two different pages")
	}
}

// The page of a simulated verdict describes how far the models can be trusted.
func TestPageListsModelDifferences(t *testing.T) {
	sweep, _ := syntheticSweep()
	for world, want := range map[string]int{"sim": 1, "live": 0} {
		for _, sc := range sweep.Scenarios {
			sc.World = world
		}
		got := renderText(t, func(w io.Writer, s *verdict.Sweep) error { return reports.WriteHTML(w, s, nil) }, sweep)
		if n := strings.Count(got, `<section id="models"`); n != want {
			t.Errorf("world %s: %d sections about the models, want %d", world, n, want)
		}
		for _, d := range conformance.Differences() {
			if n := strings.Count(got, template.HTMLEscapeString(d.What)); n < want || want == 0 && n > 0 {
				t.Errorf("world %s: %d times %q", world, n, d.What)
			}
		}
	}
}

func TestPageExplainsEachVerdict(t *testing.T) {
	sweep, _ := syntheticSweep()
	for v, want := range map[verdict.Verdict]string{
		verdict.Pass: "Nothing broke</h1>", verdict.Inconclusive: "Nothing broke, but not everything was tested</h1>",
		verdict.Fail: "Something broke</h1>",
	} {
		for _, sc := range sweep.Scenarios {
			sc.Verdict, sc.Violations, sc.Why = v, nil, []string{"because of this"}
		}
		sweep.Verdict = v
		got := renderText(t, func(w io.Writer, s *verdict.Sweep) error { return reports.WriteHTML(w, s, nil) }, sweep)
		if !strings.Contains(got, want) {
			t.Errorf("%v: the page has no %q", v, want)
		}
		if v != verdict.Pass && !strings.Contains(got, "hardened: because of this") {
			t.Errorf("%v: the page lacks the reason", v)
		}
	}
}

// The page stays small even if the history is repeated until its full data would be too large for a browser.
func TestPageStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second: make test has it")
	}
	sweep, records := syntheticSweep()
	big := *records[0]
	big.Events = nil
	for i := range 250 {
		for _, e := range records[0].Events {
			e.At += time.Duration(i) * 400 * time.Second
			e.Step += uint64(i) * 100_000
			e.Message += uint64(i) * 1000
			if e.Execution != 0 && i != 0 {
				e.Execution += execution.ID(i * 100)
				e.Chain += execution.ID(i * 100)
			}
			big.Events = append(big.Events, e)
		}
	}
	var all []*verdict.Record
	for range 20 {
		all = append(all, &big)
	}
	var b bytes.Buffer
	if err := reports.WriteHTML(&b, sweep, all); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 5_000_000 {
		t.Errorf("the page has %d bytes for 20 records of %d events, want under 5 MB", b.Len(), len(big.Events))
	}
	if !strings.Contains(b.String(), "12 more recorded. Each recorded failure has its own page, linked above") {
		t.Error("the page does not report the number of omitted records")
	}
	if !strings.Contains(b.String(), "failed execution 7 at epoch 2") {
		t.Error("the event that broke the rule was left out")
	}
	t.Logf("%d bytes for 20 records of %d events", b.Len(), len(big.Events))
}

func TestDescribe(t *testing.T) {
	workers := map[execution.WorkerID]string{1: "shell-1"}
	for _, c := range []struct {
		event history.Event
		want  string
	}{
		{
			history.Event{At: 12402 * time.Millisecond, Kind: history.Transition, Execution: 7, Epoch: 2, From: execution.Scheduled, To: execution.Running, By: execution.Worker, Worker: 1, Incarnation: 3, Process: "shell-1"},
			"12.402s  worker shell-1 (incarnation 3) claimed execution 7 at epoch 2: scheduled → running",
		},
		{
			history.Event{At: time.Hour, Kind: history.Transition, Execution: 7, Epoch: 3, From: execution.Scheduled, To: execution.Requested, By: execution.DeadLetterHandler, Worker: 9, Process: "executor-1", Reason: execution.QueueTimeout},
			"1h00m00.000s  the dead letter handler of executor-1 took execution 7 back from worker #9 because of queue_timeout: scheduled → requested",
		},
		{
			history.Event{Kind: history.Transition, Execution: 7, Epoch: 1, From: execution.Running, To: execution.Completed, By: execution.Worker, Worker: 1, Process: "shell-2"},
			"0.000s  shell-2 completed execution 7 at epoch 1: running → completed, though it belongs to worker shell-1",
		},
		{
			history.Event{Kind: history.Created, Execution: 9, Chain: 7, Count: 1, Reason: execution.WorkerLost, Due: time.Second, To: execution.Requested, By: execution.RetryManager},
			"0.000s  the retry manager created execution 9 as retry 1 of execution 7 because of worker_lost, due at 1.000s: requested",
		},
		{
			history.Event{Kind: history.Transition, Execution: 7, Epoch: 3, OldEpoch: 2, Named: 1, From: execution.Running, To: execution.Failed, By: execution.Worker, Worker: 1, Incarnation: 4, Writer: 3, Process: "shell-1", Reason: execution.Transient, Text: "exit 1"},
			"0.000s  worker shell-1 (incarnation 3) failed execution 7 at epoch 3 because of transient: running → failed (“exit 1”), though it belongs to worker shell-1 (incarnation 4), in the name of epoch 1 when it was at 2",
		},
		{
			history.Event{At: 62345 * time.Millisecond, Kind: history.Expired, Message: 4, Type: 2, Execution: 7, Epoch: 1, Queue: "worker.1.executions"},
			"1m02.345s  execution.scheduled #4 for execution 7 at epoch 1 expired in the queue of worker shell-1",
		},
		{
			history.Event{Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 3, Lifecycle: execution.Lost},
			"0.000s  worker shell-1 (incarnation 3) was declared lost",
		},
		{
			history.Event{Kind: history.MutantActed, Process: "executor-1", Execution: 7, Text: "kept the slot of what has ended"},
			"0.000s  the mutant in executor-1 acted on execution 7: kept the slot of what has ended",
		},
		{
			history.Event{Kind: history.MutantActed, Process: "executor-1", Text: "reported that no dead letters wait"},
			"0.000s  the mutant in executor-1 acted: reported that no dead letters wait",
		},
	} {
		if got := reports.Describe(&c.event, workers); got != c.want {
			t.Errorf("Describe:\n got %s\nwant %s", got, c.want)
		}
	}
}

func TestDescribeKnowsEveryKind(t *testing.T) {
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		for _, e := range []history.Event{{Kind: k}, fullEvent(k)} {
			got := reports.Describe(&e, nil)
			if strings.Contains(got, "unknown") || strings.Contains(got, "template") || strings.Contains(got, "%!") || len(got) < 15 {
				t.Errorf("%s is described as %q", k, got)
			}
		}
	}
}
