package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// moment is the time and the step of an event.
type moment struct {
	at   time.Duration
	step uint64
}

// shortfall explains an unmet bound: the executions that missed it, in groups.
type shortfall struct {
	// lines has a sentence for each group, largest group first; groups of skipped executions come last.
	lines []string
	// first is the execution that ended first in the first group. Its story explains most.
	first execution.ID
	// ended is the time and step of its end, or zero if it has not ended.
	ended moment
	// missed lists all executions that missed the bound.
	missed []execution.ID
}

// explainShortfall explains an unmet bound by the executions responsible for it: if too few ended as
// demanded, those that ended otherwise; if too many did, those that ended so. rows are the counted
// executions.
func (t *tally) explainShortfall(b scenario.Bound, of execution.Status, found, total int64, rows []*execution.Execution) (s shortfall) {
	few := tooFew(b, found, total)
	groups, lasts := make(map[string][]*execution.Execution), make(map[execution.ID]*execution.Execution)
	var order []string
	unserved := false
	for _, row := range rows {
		if last := lasts[row.Chain()]; last == nil || row.RetryCount > last.RetryCount {
			lasts[row.Chain()] = row
		}
		if (terminalStatus(row.Status) == of) == few {
			continue
		}
		s.missed = append(s.missed, row.ID)
		unserved = unserved || row.FailureReason == execution.NoWorkers || row.Status == execution.Requested
		how := t.describeFate(row)
		if groups[how] == nil {
			order = append(order, how)
		}
		groups[how] = append(groups[how], row)
	}
	slices.SortStableFunc(order, func(a, b string) int {
		return cmp.Or(causedRank(groups[a])-causedRank(groups[b]), cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b))
	})
	for n, how := range order {
		rows := groups[how]
		slices.SortFunc(rows, func(a, b *execution.Execution) int {
			return cmp.Or(cmp.Compare(t.last.Get(a.ID).step, t.last.Get(b.ID).step), cmp.Compare(a.ID, b.ID))
		})
		if n == 0 {
			s.first = rows[0].ID
			if terminalStatus(rows[0].Status) != execution.None {
				s.ended = t.last.Get(rows[0].ID)
			}
		}
		if causedRank(rows) > 0 {
			how += parentsOf(rows, lasts)
		}
		var ids []execution.ID
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		s.lines = append(s.lines, fmt.Sprintf("%d %s: %s", len(rows), how, verdict.Named(ids)))
	}
	if unserved {
		s.lines = append(s.lines, t.whyUnserved()...)
	}
	return s
}

// causedRank returns 1 for a group of executions that were skipped because of others, otherwise 0.
func causedRank(group []*execution.Execution) int {
	if group[0].FailureReason == execution.ParentFailed {
		return 1
	}
	return 0
}

// parentsOf describes why executions were skipped: how their parents ended, with one parent as an example.
// lasts are the last rows of chains.
func parentsOf(skipped []*execution.Execution, lasts map[execution.ID]*execution.Execution) string {
	counts := make(map[string]int)
	for _, row := range skipped {
		if parent := lasts[row.Parent]; parent != nil {
			counts[parent.Status.String()]++
		}
	}
	var how []string
	for _, status := range slices.Sorted(maps.Keys(counts)) {
		how = append(how, fmt.Sprintf("%d %s", counts[status], status))
	}
	text := " because their parents had not completed ("
	if len(skipped) == 1 {
		text = " because its parent had not completed ("
	}
	if len(how) > 0 {
		text += strings.Join(how, ", ") + "; "
	}
	return text + fmt.Sprintf("%d is a child of %d)", skipped[0].ID, skipped[0].Parent)
}

// whyUnserved explains why the registered workers got no work.
func (t *tally) whyUnserved() (lines []string) {
	for _, id := range slices.Sorted(maps.Keys(t.idle)) {
		lines = append(lines, t.idle[id]+" registered and never became active, so it got no work")
	}
	if p := &t.poisoned; len(lines) > 0 && p.Kind != history.NoKind {
		lines = append(lines, fmt.Sprintf("from %v on the broker created no queue, and a worker without its queue does not become active: a message with a header that breaks dead lettering had died in %s",
			p.At.Round(time.Millisecond), p.Queue))
	}
	return lines
}

// tooFew reports whether a bound is unmet because too few executions count towards it.
func tooFew(b scenario.Bound, found, total int64) bool {
	switch b.Op {
	case ">=", ">":
		return true
	case "<=", "<":
		return false
	default:
		if b.Percent {
			return found*100 < b.Value*total
		}
		return found < b.Value
	}
}

// describeFate describes an execution: its action, and how and why it ended or what it waits for.
func (t *tally) describeFate(e *execution.Execution) string {
	of := ""
	if e.Action.Ref != "" {
		of = "of " + e.Action.Ref + " "
	}
	if terminalStatus(e.Status) == execution.None {
		return of + t.describeWait(e)
	}
	how := of + "ended as " + e.Status.String()
	// It does not matter which part executed a client's request.
	if e.Status == execution.Cancelled && t.asked[e.Chain()] {
		return how + ", as a client had asked"
	}
	if e.FailureReason == execution.ParentFailed {
		return how + ", skipped"
	}
	if e.FailureReason != execution.NoReason {
		how += ", " + e.FailureReason.String()
	}
	if e.Result.Error != "" && e.Result.Error != e.FailureReason.String() {
		how += fmt.Sprintf(" (%q)", e.Result.Error)
	}
	if e.FailureReason == execution.RunTimeout {
		how += t.describeRunTimes(e)
	}
	switch by := e.Result.FailedBy; {
	case e.Status == execution.Completed:
	case by == execution.Worker && oracle.OfAction(e.FailureReason):
		how += ", the run's own error"
	case by != execution.NoPart:
		how += ", decided by the " + by.String()
	}
	if e.RetryCount > 0 {
		how += fmt.Sprintf(", after %s", countNoun(e.RetryCount, "retry", "retries"))
	}
	return how
}

// describeRunTimes describes how long the runs of an action take, and how long they may take.
func (t *tally) describeRunTimes(e *execution.Execution) string {
	a := t.actions[e.Action.Ref]
	if a == nil {
		return ""
	}
	takes := a.TakesMin.String()
	if a.TakesMax > a.TakesMin {
		takes += " to " + a.TakesMax.String()
	}
	return fmt.Sprintf(" (a run takes %s and may take %v)", takes, oracle.RunTimeout(&e.Action))
}

// describeWait describes the status in which an execution is stuck, and what it waits for.
func (t *tally) describeWait(e *execution.Execution) string {
	how := "stuck in " + e.Status.String() + ": "
	switch e.Status {
	case execution.Requested:
		switch {
		case e.AwaitsParent:
			return how + fmt.Sprintf("waits for its parent, execution %d", e.Parent)
		case e.Pinned != 0:
			return how + "waits for " + t.workerName(e.Pinned) + ", to which it is pinned"
		case e.Action.Concurrency > 0:
			return how + fmt.Sprintf("waits for a worker with the runtime %s, or for one of the %s of %s",
				e.Action.Runtime, countNoun(e.Action.Concurrency, "slot", "slots"), e.Action.Ref)
		}
		return how + "waits for a worker with the runtime " + e.Action.Runtime
	case execution.Scheduling:
		return how + e.SchedulingBy + " has claimed it and chosen no worker"
	case execution.Scheduled:
		if e.PublishedAt.IsZero() {
			return how + "sent to " + t.workerName(e.Worker) + ", whether it reached the broker is unknown"
		}
		return how + "waits in the queue of " + t.workerName(e.Worker) + " to be claimed"
	case execution.Canceling:
		return how + t.workerName(e.Worker) + " was asked to end it"
	default:
		return how + t.workerName(e.Worker) + " has claimed it and stored no result"
	}
}

// workerName returns the name of a worker, or its number if it never registered.
func (t *tally) workerName(id execution.WorkerID) string {
	if name := t.names[id]; name != "" {
		return name
	}
	return fmt.Sprintf("worker %d", id)
}

func countNoun(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// addUnmetBound adds the violation of an unmet bound to a run.
func (t *tally) addUnmetBound(r *verdict.Run, what string, b scenario.Bound, of execution.Status, found, total int64, rows []*execution.Execution) {
	s := t.explainShortfall(b, of, found, total, rows)
	lines := append([]string{fmt.Sprintf("%d of %d %s", found, total, b.Quote(what))}, s.lines...)
	if b.Op == "=" && b.Percent && !tooFew(b, found, total) {
		lines = append(lines, fmt.Sprintf("a bound without an operator is exact; at least as many is `%s: \">= %d%%\"`", b.Of, b.Value))
	}
	if what == "executions" && slices.ContainsFunc(rows, func(row *execution.Execution) bool { return row.RetryCount > 0 }) {
		lines = append(lines, "(an execution and its retries count as one)")
	}
	v := verdict.Violation{
		Name: verdict.Expectation, Statement: "An expectation of the scenario is not met.", Seed: r.Seed, Step: r.Steps, At: r.Virtual,
		Execution: s.first, Missed: s.missed, Message: strings.Join(lines, "\n"),
	}
	if s.ended.step > 0 {
		v.Step, v.At = s.ended.step, s.ended.at
	}
	r.Violations = append(r.Violations, v)
}
