package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// ledViolations is the maximum number of violations for which the page draws the events that led to them.
const ledViolations = 5

// leadUp holds the events that led to one violation, for the page.
type leadUp struct {
	// Violation is the index among the violations of the timeline.
	Violation int `json:"violation"`
	// Events are indexes of the record's events.
	Events []int `json:"events"`
	// Arrows are pairs of an earlier event and a later event that it caused.
	Arrows [][2]int `json:"arrows"`
	// Past is the number of events in the violation's whole past.
	Past int `json:"past"`
	// Said are the indexes of the last log lines about the violation, up to it; see logLinesAbout. They are
	// for readers and are not evidence.
	Said []int `json:"said"`
}

// leadUpsTo finds the events that led to the first violations of a run.
func leadUpsTo(r *verdict.Record, violations []*verdict.Violation) []leadUp {
	all := []leadUp{}
	for i, v := range violations[:min(len(violations), ledViolations)] {
		s := r.FindCauses(v)
		if len(s.Events) > 0 {
			all = append(all, leadUp{i, s.Events, s.Edges, s.Past, logLinesAbout(r, v, r.Events[s.Events[0]].At)})
		}
	}
	return all
}

// Limits for the log lines about a violation: the maximum number in the lead-up, and the maximum age of a
// warning that is shown with the violation. A warning that does not name the execution must be from almost
// the same time, because most such warnings concern something else.
const (
	mostLogLines  = 6
	warningWindow = 2 * time.Second
	unnamedWindow = 5 * time.Millisecond
)

// logLinesAbout returns the indexes of the last log lines about a violation, not older than since: lines that
// name its execution, and warnings from a process that its message names. Of several lines with the same
// text, it returns only the last.
func logLinesAbout(r *verdict.Record, v *verdict.Violation, since time.Duration) []int {
	said, known := []int{}, make(map[string]bool)
	for i := len(r.Events) - 1; i >= 0 && len(said) < mostLogLines; i-- {
		e := &r.Events[i]
		if e.Kind != history.Logged || e.At < since || e.At > v.At || v.Step > 0 && e.Step > v.Step || known[e.Text] {
			continue
		}
		if namesExecution(e, v) || isWarning(e) && containsName(v.Message, e.Process) {
			known[e.Text] = true
			said = append(said, i)
		}
	}
	slices.Reverse(said)
	return said
}

// namesExecution reports whether a log line names the execution of a violation.
func namesExecution(e *history.Event, v *verdict.Violation) bool {
	return v.Execution != 0 && strings.Contains(e.Text+" ", fmt.Sprintf(" execution=%d ", v.Execution))
}

// isWarning reports whether a log line is a warning or an error.
func isWarning(e *history.Event) bool {
	return strings.HasPrefix(e.Text, "WARN ") || strings.HasPrefix(e.Text, "ERROR ")
}

// lastWarningAbout returns the last warning about a violation if the warning comes right before the
// violation; otherwise nil.
func lastWarningAbout(r *verdict.Record, v *verdict.Violation, t describer) *whySide {
	said := logLinesAbout(r, v, v.At-warningWindow)
	for _, i := range slices.Backward(said) {
		if e := &r.Events[i]; isWarning(e) && (namesExecution(e, v) || v.At-e.At <= unnamedWindow) {
			return t.newSide(e)
		}
	}
	return nil
}

// cutNote notes where the lead-up to a violation was cut off.
func cutNote(shown, past int) string {
	if past <= shown {
		return ""
	}
	return fmt.Sprintf("These are the %d events of its past that are nearest to it; the whole past has %d.", shown, past)
}

// deadlines collects from the events the deadlines that the judges and the core apply: for each execution,
// the latest end of the wait or run that has begun, and for each incarnation, the end of its lease.
type deadlines struct {
	t describer
	// Rows are [k, due, what, dispatches used] by execution.
	Rows map[execution.ID][]any
	// Leases are [k, due, incarnation, heartbeat] by worker.
	Leases map[string][]any
}

func (d *deadlines) init(t describer) {
	d.t, d.Rows, d.Leases = t, make(map[execution.ID][]any), make(map[string][]any)
}

func (d *deadlines) observeEvent(k int, e *history.Event) {
	switch e.Kind {
	case history.Transition:
		what := ""
		switch e.To { //nolint:exhaustive // other statuses have no deadline
		case execution.Requested:
			what = "not before"
		case execution.Scheduled:
			what = "to be claimed until"
		case execution.Running, execution.Canceling:
			what = "to end until"
		}
		d.Rows[e.Execution] = append(d.Rows[e.Execution], []any{k, pageMicros(e.Due), what, e.Count})
	case history.WorkerRegistered, history.HeartbeatRenewed:
		name := d.t.workerName(e.Worker)
		d.Leases[name] = append(d.Leases[name], []any{k, pageMicros(e.Due), e.Incarnation, e.Count})
	default:
	}
}

// latestLeases keeps the latest points of each list, which are around the violation in a failed run.
func (d *deadlines) latestLeases(most int) map[string][]any {
	for name, list := range d.Leases {
		d.Leases[name] = list[max(0, len(list)-most):]
	}
	return d.Leases
}

// deadlinesOf returns the deadlines of the drawn executions.
func (d *deadlines) deadlinesOf(shown []*rowLane) map[execution.ID][]any {
	all := make(map[execution.ID][]any, len(shown))
	for _, x := range shown {
		if list := d.Rows[x.ID]; len(list) > 0 {
			all[x.ID] = list
		}
	}
	return all
}
