package reports_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"handoff/chaos/soak"
	"handoff/chaos/verdict"
	"handoff/reports"
)

// soakResult returns the result of a soak of an hour, in which the number of one worker's goroutines grows.
func soakResult() *soak.Result {
	plan := soak.Draw(7, time.Hour, soak.Default())
	r := &soak.Result{
		Verdict: verdict.Fail, Seed: 7, For: time.Hour, Ran: time.Hour, Rate: 18.2, Held: 30.4, Sent: 65_000, Accepted: 65_000, Rows: 66_300, Retries: 1300,
		Ends: map[string]int{"completed": 64_990, "failed": 10}, Processes: 66_400, Events: 620_000, Behind: 7 * time.Second, Drain: 9 * time.Second,
		Rounds: plan.Rounds, Audit: "chaos check: 66300 executions, 470000 events, 7 rules hold",
		Answers: []soak.Answer{
			{Question: soak.NothingLost, Text: "judged: 65000 accepted, 65000 ended"},
			{Question: soak.NothingTwice, Text: "judged: one run at a time (130000 times)"},
			{Question: soak.NothingUnearned, Text: "judged: earned (312 times)"},
			{Question: soak.AllFlat, Verdict: verdict.Fail, Text: "goroutines of shell-2 <grows>"},
		},
		Judged: []soak.Judged{
			{Number: 4, Name: "one run at a time", Statement: "No two runs.", Occasions: 130_000}, {Number: 6, Name: "message conservation", Not: "a soak records no enqueued events"},
		},
		Violations: []verdict.Violation{{Invariant: 4, Name: "one run at a time", Execution: 12, At: time.Minute, Message: "two <b>processes</b>"}},
	}
	for _, s := range plan.Strikes {
		r.Strikes = append(r.Strikes, soak.Struck{Strike: s, Began: true, Touched: true, From: s.At, To: s.At + s.For, Ended: 300})
	}
	executions := &soak.Series{}
	add := func(name, of, unit string, rule soak.Rule, slack float64, f func(second float64) float64) {
		s := &soak.Series{Name: name, Of: of, Unit: unit, Rule: rule, Slack: slack}
		for n := range 3600 {
			s.Add(time.Duration(n)*time.Second, f(float64(n)))
		}
		r.Curves = append(r.Curves, soak.Curve{Series: s})
	}
	for n := range 3600 {
		executions.Add(time.Duration(n)*time.Second, 18*float64(n))
	}
	for i, of := range []string{"executor-1", "executor-2", "shell-1", "shell-2", "shell-3"} {
		leak := 0.0
		if of == "shell-2" {
			leak = 0.2
		}
		add("goroutines", of, "", soak.Flat, 20, func(n float64) float64 { return 60 + 5*float64(i) + leak*n + 4*math.Sin(n/30) })
		add("memory (RSS)", of, "bytes", soak.Flat, 16<<20, func(n float64) float64 { return float64(30<<20) + float64(i<<21) + math.Sin(n/200)*(1<<20) })
	}
	add("table size", "execution", "bytes", soak.PerExecution, 0, func(n float64) float64 { return 18 * 700 * n })
	add("creation to end, median", "the load", "seconds", soak.Flat, 1, func(n float64) float64 { return 0.4 + 0.1*math.Sin(n/10) })
	for i := range r.Curves {
		r.Curves[i].Judgement = r.Curves[i].Judge(0, time.Hour, executions)
	}
	return r
}

// A soak's page needs no other files, escapes quoted texts, stays small, and shows growing figures and
// unjudged rules.
func TestSoakPageIsSelfContainedAndSmall(t *testing.T) {
	var page bytes.Buffer
	if err := reports.WriteSoak(&page, soakResult()); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("HANDOFF_SOAK_PAGE"); path != "" {
		_ = os.WriteFile(path, page.Bytes(), 0o600)
	}
	text := page.String()
	if n := page.Len(); n > 600_000 {
		t.Errorf("the page has %d bytes", n)
	}
	for _, foreign := range []string{"http://", "https://", "<script", "src=", "<b>processes", "NaN", "ZgotmplZ"} {
		if strings.Contains(text, foreign) {
			t.Errorf("the page holds %q", foreign)
		}
	}
	for _, wanted := range []string{
		"not judged: a soak records no enqueued events", "grows: median", "two &lt;b&gt;processes", "60 % of the 30.4", "700 B for each", "shell-2 – broker", "130000 times",
	} {
		if !strings.Contains(text, wanted) {
			t.Errorf("the page lacks %q", wanted)
		}
	}
}

func TestSoakResultIsJSON(t *testing.T) {
	var file bytes.Buffer
	if err := reports.WriteSoakJSON(&file, soakResult()); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Verdict string
		Answers []struct{ Question, Verdict string }
		Strikes []struct{ What, Part string }
	}
	if err := json.Unmarshal(file.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if read.Verdict != "fail" || len(read.Answers) != 4 || len(read.Strikes) == 0 || read.Strikes[0].Part == "" {
		t.Errorf("%+v", read)
	}
}
