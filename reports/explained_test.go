package reports_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/reports"
)

// explainedRecord returns a record with a complete explanation.
func explainedRecord() *verdict.Record {
	_, records := syntheticSweep()
	r := records[0]
	act := history.Event{Kind: history.MutantActed, At: 3 * time.Second, Step: 30, Execution: 7, Process: "shell-1", Text: "did <b>harm</b>"}
	here := history.Event{Kind: history.Transition, At: 4 * time.Second, Step: 40, Execution: 7, Epoch: 1, From: execution.Scheduled, To: execution.Failed, By: execution.TimeoutMonitor, Process: "executor-1"}
	there := here
	there.To = execution.Requested
	r.Explained = &explain.Explanation{
		Counterparts: []explain.Counterpart{
			{Change: "without the mutant x", Passes: true, Ends: "breaks no rule", Difference: &explain.Difference{
				Same: 29, Until: 2 * time.Second, Act: &act, Pairs: []explain.Pair{{Here: &here, There: &there, About: 7}, {Here: &here, About: 7, Over: true}}, More: 3, Moved: 2,
			}},
			{Change: "in seed 3", Ends: "breaks no rule", Passes: true},
		},
		Faults: []explain.Need{{Fault: r.FaultIntervals[0].Fault, Needed: true, Alone: true, Struck: true}, {Fault: "crash shell-9"}},
	}
	return r
}

func TestCounterpartIsShownSideBySide(t *testing.T) {
	r := explainedRecord()
	lines := reports.CounterpartLines(r, &r.Violations[0], &r.Explained.Counterparts[0])
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"there   the same without the mutant x: the rule is kept",
		"same    the first 29 events, until 2.000s; then the same events at other times or in other processes, until 4.000s",
		"act     here   3.000s  the mutant in worker shell-1 acted on execution 7: did <b>harm</b>",
		"differ  here   4.000s  the timeout monitor of executor-1 failed execution 7",
		"        there  4.000s  the timeout monitor of executor-1 took execution 7 back",
		"        there  nothing more happens to execution 7",
		"more    3 further differences in other executions and parts, and 2 cases of the same events at other times, in another order or in other processes",
		"        there  breaks no rule",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(lines) > 15 {
		t.Errorf("%d lines, want at most 15", len(lines))
	}
}

func TestEveryFaultIsMarked(t *testing.T) {
	text := strings.Join(reports.NeedLines(explainedRecord().Explained), "\n")
	for _, want := range []string{"one of 2 was needed", "        needed      ", "        not needed  crash shell-9 (it never began)"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func pageOf(t *testing.T, r *verdict.Record) string {
	t.Helper()
	return renderText(t, func(w io.Writer, _ *verdict.Sweep) error { return reports.WriteRun(w, r, "x") }, nil)
}

// The page of a run shows the whole explanation, escapes the texts of histories, and marks faults.
func TestRunPageExplainsFailure(t *testing.T) {
	page := pageOf(t, explainedRecord())
	for _, want := range []string{
		`<h2 id="h-why" class="small">Beside a run without this failure</h2>`, "did &lt;b&gt;harm&lt;/b&gt;", `<h2 class="small">The faults that it needed</h2>`,
		"<summary>One more run beside it</summary>", "Both draw the same random numbers for the same acts",
		"(needed)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if strings.Contains(page, "<b>harm") {
		t.Error("a text of the history is not escaped")
	}
	plain := explainedRecord()
	plain.Explained = nil
	if page := pageOf(t, plain); strings.Contains(page, "Beside a run") {
		t.Error("a run without an explanation is explained")
	}
}

// If a mutant acts before the runs differ, the page names that as an exception to the common beginning.
func TestMutantActBeforeDifferenceIsNamed(t *testing.T) {
	d := *explainedRecord().Explained.Counterparts[0].Difference
	act := *d.Act
	act.At = d.Until - 1
	d.Act = &act
	if line := reports.DifferenceLines(&d, nil, nil)[0]; !strings.Contains(line, "apart from what the mutant did, the first 29 events") {
		t.Errorf("the first line is %q", line)
	}
}

// If no fault was needed, a comparison with a run without some fault is misleading, so the page states that
// and folds the comparison.
func TestPageReportsThatNoFaultWasNeeded(t *testing.T) {
	const unneeded, folded = "No fault was needed for this failure", "<details><summary>Beside a run without this failure. The cause is not to be found there</summary>"
	r := explainedRecord()
	if page := pageOf(t, r); strings.Contains(page, unneeded) || strings.Contains(page, folded) {
		t.Error("a fault was needed, but the page denies it")
	}
	r.Explained.Faults[0].Needed = false
	r.Mutant = "x"
	if page := pageOf(t, r); strings.Contains(page, unneeded) || strings.Contains(page, folded) {
		t.Error("the counterpart lacks the mutant, and the page warns about faults")
	}
	r.Mutant = ""
	page := pageOf(t, r)
	if at := strings.Index(page, unneeded); at < 0 || strings.Index(page, folded) < at {
		t.Error("the page does not report that no fault was needed, or still shows the comparison")
	}
	if strings.Count(page, `id="h-why"`) != 1 || !strings.Contains(page, `<h2 class="small" id="h-why">The faults</h2>`) {
		t.Error("the faults lack the heading that names the section")
	}
	if !strings.Contains(page, "None was needed: the same rule is broken without any fault, too.") {
		t.Error("the page does not report how the faults were judged")
	}
	x := r.Explained
	x.Execution, x.Followed, x.Missed, x.Own = 7, true, true, 3
	page = pageOf(t, r)
	if !strings.Contains(page, "No fault is a cause: the action of execution 7 failed by an error of its own in each of its 3 attempts.") || !strings.Contains(page, "Faults only change which attempts there are") {
		t.Error("the page does not report that the action failed by itself, or the effect of faults")
	}
	if strings.Contains(page, "None is a cause") {
		t.Error("the page repeats that no fault is a cause")
	}
	x.Own, x.Elsewhere, x.Faults[0].Elsewhere = 0, []execution.ID{8}, []execution.ID{8}
	page = pageOf(t, r)
	if strings.Contains(page, "The cause is not to be found there") {
		t.Error("another execution needs a fault, and the page still rules out the comparison")
	}
	for _, want := range []string{
		"No fault was needed for this failure of execution 7:", "But execution 8 misses the expectation only because of a fault.",
		"None was needed: execution 7 misses the expectation without any fault, too. Of the others that miss it, one needs a fault: execution 8.",
		"(but execution 8 misses the expectation only with it)", "(needed by execution 8)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}

// Whether a fault was needed is judged by the shown execution, which the text names.
func TestNeedLinesNameJudgedExecution(t *testing.T) {
	x := explainedRecord().Explained
	x.Execution = 25
	first := func() string { return reports.NeedLines(x)[0] }
	if got := first(); !strings.Contains(got, "with it alone the same rule is broken, without any fault it is kept. It does not matter which execution breaks it: execution 25 has no key") {
		t.Errorf("judged by the rule: %s", got)
	}
	x.Followed = true
	if got := first(); got != "faults  one of 2 was needed: with it alone execution 25 breaks the rule, without any fault it does not" {
		t.Errorf("judged by the execution: %s", got)
	}
	x.Missed, x.Same, x.Others = true, true, []execution.ID{7, 9}
	if got := first(); got != "faults  one of 2 was needed: with it alone the expectation is missed, without any fault it is met. Execution 25 ends in the same way without any fault; executions 7, 9 do not" {
		t.Errorf("needed for others: %s", got)
	}
}

// The terminal also names the action's own errors, and faults that other executions needed.
func TestNeedLinesNameOwnErrorsAndOthers(t *testing.T) {
	x := explainedRecord().Explained
	x.Execution, x.Followed, x.Missed, x.Faults[0].Needed, x.Own = 7, true, true, false, 1
	text := func() string { return strings.Join(reports.NeedLines(x), "\n") }
	if got := text(); !strings.Contains(got, "none is a cause: the action of execution 7 failed by an error of its own in its only attempt. Faults only change which attempts there are") {
		t.Errorf("an own error: %s", got)
	}
	x.Own, x.Elsewhere, x.Faults[0].Elsewhere = 0, []execution.ID{8, 9}, []execution.ID{8, 9}
	for _, want := range []string{
		"Of the others that miss it, 2 need a fault: executions 8, 9\n", "(but executions 8, 9 miss the expectation only with it)",
	} {
		if got := text(); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

// If a counterpart has another failure, its line describes that failure.
func TestCounterpartLineDescribesItsResult(t *testing.T) {
	r := explainedRecord()
	c := &r.Explained.Counterparts[0]
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() { c.Breaks = "invariant 7, x" }, "the rule is kept, and another one is broken"},
		{func() { c.Elsewhere = true }, "execution 7 keeps the rule, and another execution breaks it"},
		{func() { c.Passes = false }, "the rule is broken too"},
	} {
		step.change()
		if got, want := reports.CounterpartLines(r, &r.Violations[0], c)[1], "there   the same without the mutant x: "+step.want; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A run of another seed differs in nearly everything by chance, and the page warns of that. The page warns
// about that instead of attributing the differences to one change.
func TestPageWarnsAboutDifferentSeed(t *testing.T) {
	r := explainedRecord()
	r.Explained.Counterparts[0].Anew = true
	page := pageOf(t, r)
	if !strings.Contains(page, "It draws other random numbers, so much differs by chance.") || strings.Contains(page, "what differs follows from that change") {
		t.Error("the page does not report that the other seed draws other numbers")
	}
}

func TestHeadingDescribesCounterpartResult(t *testing.T) {
	r := explainedRecord()
	x, c := r.Explained, &r.Explained.Counterparts[0]
	x.Execution, c.Breaks = 25, "invariant 7, x"
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "Beside a run without this failure, which breaks another rule<"},
		{func() { c.Elsewhere = true }, "Beside a run in which execution 25 keeps the rule, and another execution breaks it<"},
		{func() { x.Missed = true }, "Beside a run in which execution 25 meets the expectation, and others miss it<"},
		{func() { c.Passes = false }, "Beside a run with the same failure<"},
	} {
		step.change()
		if page := pageOf(t, r); !strings.Contains(page, step.want) {
			t.Errorf("%q is not in the page", step.want)
		}
	}
}

// Two runs number their executions separately. If a pair shows different numbers, the page notes that.
func TestPageNotesDifferentExecutionNumbers(t *testing.T) {
	const numbers = "The same execution may have another number there."
	r := explainedRecord()
	if page := pageOf(t, r); strings.Contains(page, numbers) {
		t.Error("the numbers are the same")
	}
	there := *r.Explained.Counterparts[0].Difference.Pairs[0].There
	there.Execution++
	r.Explained.Counterparts[0].Difference.Pairs[0].There = &there
	if page := pageOf(t, r); !strings.Contains(page, numbers) {
		t.Error("a pair has two numbers, but the page does not note that they may be the same execution")
	}
}
