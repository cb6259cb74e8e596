package reports_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/reports"
)

// A warning right before the violation often explains it, so the page shows it. It is shown with the
// violation, and the last log lines about it are part of the lead-up.
func TestViolationShowsRelatedLogLines(t *testing.T) {
	r := explainedRecord()
	v := &r.Violations[0]
	v.Message = "worker shell-1 did it"
	at, _ := slices.BinarySearchFunc(r.Events, v.Step, func(e history.Event, step uint64) int { return int(e.Step) - int(step) })
	line := func(process, text string, before time.Duration) history.Event {
		return history.Event{Kind: history.Logged, At: v.At - before, Step: v.Step, Process: process, Text: text}
	}
	shown := func(lines ...history.Event) (head string, said int) {
		t.Helper()
		was := r.Events
		defer func() { r.Events = was }()
		r.Events = slices.Insert(slices.Clone(was), at, lines...)
		page := pageOf(t, r)
		if _, rest, found := strings.Cut(page, "Right before, at"); found {
			head, _, _ = strings.Cut(rest, "</span>")
		}
		_, rest, _ := strings.Cut(page, `"said":[`)
		rest, _, _ = strings.Cut(rest, "]")
		return head, len(strings.FieldsFunc(rest, func(c rune) bool { return c == ',' }))
	}
	for _, c := range []struct {
		name string
		line history.Event
		head bool
		said int
	}{
		{"a warning about the execution", line("executor-1", "WARN claim not answered execution=7", time.Millisecond), true, 1},
		{"a warning of the named process", line("shell-1", "WARN claim not answered execution=25", time.Millisecond), true, 1},
		{"an earlier warning about the execution", line("executor-1", "WARN claim not answered execution=7", time.Second), true, 1},
		{"an earlier warning of the process", line("shell-1", "WARN claim not answered execution=25", 30*time.Millisecond), false, 1},
		{"information about the execution", line("executor-1", "INFO claimed execution=7 epoch=1", 0), false, 1},
		{"information of the process", line("shell-1", "INFO claimed execution=25", 0), false, 0},
		{"another execution", line("executor-1", "WARN claim not answered execution=71", 0), false, 0},
		{"an old warning", line("shell-1", "WARN claim not answered", 3*time.Second), false, 1},
	} {
		if head, said := shown(c.line); strings.Contains(head, c.line.Text) != c.head || said != c.said {
			t.Errorf("%s: in the head %q, %d among what led to it, want %v and %d", c.name, head, said, c.head, c.said)
		}
	}
	again := line("shell-1", "WARN claim not answered", time.Millisecond)
	if _, said := shown(again, again, again); said != 1 {
		t.Errorf("the same line is listed %d times", said)
	}
}

// recordWithLog returns a record with a log line about the violation, just before it.
func recordWithLog() *verdict.Record {
	_, records := syntheticSweep()
	r := records[0]
	v := &r.Violations[0]
	at, _ := slices.BinarySearchFunc(r.Events, v.Step, func(e history.Event, step uint64) int { return int(e.Step) - int(step) })
	r.Events = slices.Insert(r.Events, at, history.Event{Kind: history.Logged, At: v.At - time.Millisecond, Step: v.Step, Process: "executor-1", Text: "INFO looked at it execution=7"})
	return r
}

// A page that can't show every event keeps the log lines about the violation.
func TestLongPageKeepsRelatedLogLines(t *testing.T) {
	r := recordWithLog()
	v := &r.Violations[0]
	at := slices.IndexFunc(r.Events, func(e history.Event) bool { return e.Kind == history.Logged }) + 1
	for range 7000 {
		r.Events = slices.Insert(r.Events, at, history.Event{Kind: history.Logged, At: v.At, Step: v.Step, Process: "executor-2", Text: "INFO another"})
	}
	if page := pageOf(t, r); strings.Contains(page, `"eventsLeftOut":0`) || !strings.Contains(page, "INFO looked at it execution=7") {
		t.Error("the log line about the violation is left out, or nothing is")
	}
}

// The page of a whole sweep shows the same log lines for its first failure as the page of a run.
func TestHeadlineShowsRelatedLogLines(t *testing.T) {
	sweep, records := syntheticSweep()
	v, r := &sweep.Scenarios[0].Violations[0], records[0]
	r.Workers[3] = "shell-4"
	v.Message = "two consumers on worker.3.executions"
	r.Violations[0] = *v
	at, _ := slices.BinarySearchFunc(r.Events, v.Step, func(e history.Event, step uint64) int { return int(e.Step) - int(step) })
	r.Events = slices.Insert(r.Events, at, history.Event{Kind: history.Logged, At: v.At, Step: v.Step, Process: "executor-1", Text: "WARN not answered execution=7"})
	page := renderText(t, func(w io.Writer, s *verdict.Sweep) error { return reports.WriteHTML(w, s, records) }, sweep)
	_, got, _ := strings.Cut(page, `<p class="told">`)
	got, _, _ = strings.Cut(got, "</section>")
	for _, want := range []string{"two consumers on worker.3.executions (shell-4)", "Right before, at", "WARN not answered execution=7", "What led to it", "<dt>By whom</dt>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the headline\n%s", want, got)
		}
	}
}

// A queue's name contains its worker's number, to which the page adds the worker's name.
func TestQueuesAreDescribedWithTheirWorkers(t *testing.T) {
	workers := map[execution.WorkerID]string{3: "shell-4"}
	for _, c := range []struct {
		e    history.Event
		want string
	}{
		{history.Event{Kind: history.Enqueued, Queue: "worker.3.executions"}, "the queue of worker shell-4 "},
		{history.Event{Kind: history.Enqueued, Queue: "worker.3.cancels"}, "the queue of cancels of worker shell-4 "},
		{history.Event{Kind: history.Enqueued, Queue: "worker.5.cancels"}, "queue worker.5.cancels "},
		{history.Event{Kind: history.Logged, Process: "shell-4", Text: "consuming queue=worker.3.executions"}, "consuming queue=worker.3.executions (shell-4)"},
	} {
		if got := reports.Describe(&c.e, workers); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q in it", got, c.want)
		}
	}
	r := explainedRecord()
	r.Workers[3] = "shell-4"
	r.Violations[0].Message = "two consumers on worker.3.executions"
	r.Events = append(r.Events, history.Event{Kind: history.Enqueued, At: r.Virtual, Step: 1 << 30, Queue: "worker.3.cancels", Message: 9999})
	page := pageOf(t, r)
	for _, want := range []string{"two consumers on worker.3.executions (shell-4)</p>", `"message":"two consumers on worker.3.executions (shell-4)"`, `"label":"shell-4 cancels"`} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
}
