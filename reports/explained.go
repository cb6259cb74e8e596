package reports

import (
	"fmt"
	"strings"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// This file explains in words why a run failed, for the terminal and for the run's page.

// CounterpartLines describes a counterpart of the failing run, in at most fifteen lines for four differences:
// both runs, their common beginning, their first differences, and their ends.
func CounterpartLines(r *verdict.Record, v *verdict.Violation, c *explain.Counterpart) []string {
	lines := []string{
		"here    " + runLabel(r) + ": fails",
		"there   the same " + c.Change + ": " + counterpartResult(v, c),
	}
	if c.Difference == nil {
		return append(lines, "        it "+briefLine(c.Ends))
	}
	lines = append(lines, DifferenceLines(c.Difference, r.Workers, c.Workers)...)
	return append(lines,
		"end     here   "+FormatTime(v.At)+"  "+v.Rule()+": "+briefLine(v.Message),
		"        there  "+briefLine(c.Ends))
}

// OtherCounterpart describes another counterpart and how it ended, in one line.
func OtherCounterpart(c *explain.Counterpart) string {
	return "same " + c.Change + ": it " + briefLine(c.Ends)
}

// counterpartResult describes whether a counterpart has the same failure.
func counterpartResult(v *verdict.Violation, c *explain.Counterpart) string {
	switch {
	case !c.Passes:
		return "the rule is broken too"
	case c.Elsewhere:
		return fmt.Sprintf("execution %d keeps the rule, and another execution breaks it", v.Execution)
	case c.Breaks != "":
		return "the rule is kept, and another one is broken"
	}
	return "the rule is kept"
}

// DifferenceLines describes where two runs diverge. here and there map the workers of each run to their names.
func DifferenceLines(d *explain.Difference, here, there map[execution.WorkerID]string) (lines []string) {
	switch {
	case d.Equal():
		return []string{fmt.Sprintf("same    all %s", plural(d.Same, "event"))}
	case d.Same == 0:
		lines = append(lines, "same    nothing: they differ from the first event on")
	default:
		lines = append(lines, fmt.Sprintf("same    %sthe first %s, until %s%s", exceptActs(d), plural(d.Same, "event"), FormatTime(d.Until), onlyTimes(d)))
	}
	if d.Act != nil {
		where := "here "
		if d.There {
			where, here, there = "there", there, here
		}
		lines = append(lines, "act     "+where+"  "+briefLine(Describe(d.Act, here)))
		if d.ActOn != nil {
			lines = append(lines, "        "+where+"  "+briefLine(Describe(d.ActOn, here)))
		}
		if d.There {
			here, there = there, here
		}
	}
	for i := range d.Pairs {
		p := &d.Pairs[i]
		word := "then    "
		if i == 0 {
			word = "differ  "
		}
		lines = append(lines, word+"here   "+sideText(p.Here, here, p), "        there  "+sideText(p.There, there, p))
	}
	if d.More+d.Moved > 0 {
		lines = append(lines, "more    "+unshownText(d))
	}
	return lines
}

// exceptActs returns words that exclude the mutant's act, which has no counterpart, from the common beginning.
func exceptActs(d *explain.Difference) string {
	if d.Act != nil && d.Act.At <= d.Until {
		return "apart from what the mutant did, "
	}
	return ""
}

// onlyTimes returns a note if the common beginning is followed by the same events at other times or in other
// processes.
func onlyTimes(d *explain.Difference) string {
	if len(d.Pairs) == 0 {
		return ""
	}
	if at := d.Pairs[0].At(); at-d.Until > time.Second {
		return "; then the same events at other times or in other processes, until " + FormatTime(at)
	}
	return ""
}

func sideText(e *history.Event, workers map[execution.WorkerID]string, p *explain.Pair) string {
	switch {
	case e != nil:
		return briefLine(Describe(e, workers))
	case p.About != 0 && p.Over:
		return fmt.Sprintf("nothing more happens to execution %d", p.About)
	}
	return "nothing like it happens"
}

func unshownText(d *explain.Difference) string {
	var parts []string
	if d.More > 0 {
		parts = append(parts, plural(d.More, "further difference")+" in other executions and parts")
	}
	if d.Moved > 0 {
		parts = append(parts, plural(d.Moved, "case")+" of the same events at other times, in another order or in other processes")
	}
	return strings.Join(parts, ", and ")
}

// mostBrief is the maximum number of characters in a brief line.
const mostBrief = 220

// briefLine returns the first line of a text, truncated to mostBrief.
func briefLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > mostBrief {
		return string(runes[:mostBrief-1]) + "…"
	}
	return text
}

// NeedLines lists the faults that a failure needed, and then the faults that it did not need.
func NeedLines(x *explain.Explanation) (lines []string) {
	if len(x.Faults) == 0 {
		return nil
	}
	lines = append(lines, "faults  "+needText(x))
	for _, f := range x.Faults {
		if f.Needed {
			lines = append(lines, "        needed      "+f.Fault+neededNote(f))
		}
	}
	for _, f := range x.Faults {
		if !f.Needed {
			lines = append(lines, "        not needed  "+f.Fault+unneededNote(f))
		}
	}
	return lines
}

// shifts explains how faults affect the random errors of attempts.
const shifts = "Faults only change which attempts there are, and so which of them draw an error"

// needText summarizes which faults were needed.
func needText(x *explain.Explanation) string {
	if x.Own > 0 {
		return "none is a cause: " + ownText(x) + ". " + shifts
	}
	breaks, fewer := "the same rule is broken", "it is kept"
	switch {
	case x.Same:
		breaks, fewer = "the expectation is missed", "it is met"
	case x.Followed && x.Missed:
		breaks, fewer = fmt.Sprintf("execution %d misses the expectation", x.Execution), "it does not"
	case x.Followed:
		breaks, fewer = fmt.Sprintf("execution %d breaks the rule", x.Execution), "it does not"
	}
	n, text := x.Needed(), ""
	switch n {
	case 0:
		text = "none was needed: " + breaks + " without any fault, too"
	case 1:
		text = fmt.Sprintf("one of %d was needed: with it alone %s, without any fault %s", len(x.Faults), breaks, fewer)
	default:
		text = fmt.Sprintf("%d of %d were needed: with them alone %s, with fewer of them %s", n, len(x.Faults), breaks, fewer)
	}
	if x.Same {
		text += fmt.Sprintf(". Execution %d ends in the same way without any fault", x.Execution)
		switch len(x.Others) {
		case 0:
		case 1:
			text += "; " + verdict.Named(x.Others) + " does not"
		default:
			text += "; " + verdict.Named(x.Others) + " do not"
		}
	}
	if x.Execution != 0 && !x.Followed {
		text += fmt.Sprintf(". It does not matter which execution breaks it: execution %d has no key, so it can't be found in another run", x.Execution)
	}
	switch n := len(x.Elsewhere); {
	case n == 1:
		text += ". Of the others that miss it, one needs a fault: " + verdict.Named(x.Elsewhere)
	case n > 1:
		text += fmt.Sprintf(". Of the others that miss it, %d need a fault: %s", n, verdict.Named(x.Elsewhere))
	}
	return text
}

// ownText states that an action failed by itself in every attempt.
func ownText(x *explain.Explanation) string {
	attempts := "its only attempt"
	if x.Own > 1 {
		attempts = fmt.Sprintf("each of its %d attempts", x.Own)
	}
	return fmt.Sprintf("the action of execution %d failed by an error of its own in %s", x.Execution, attempts)
}

// missText states that executions miss the expectation.
func missText(list []execution.ID) string {
	if len(list) == 1 {
		return verdict.Named(list) + " misses the expectation"
	}
	return verdict.Named(list) + " miss the expectation"
}

// neededNote notes if another fault does the same harm when only this one is left out.
func neededNote(f explain.Need) string {
	if f.Alone {
		return ""
	}
	return " (if only this one is left out, another fault does the same harm)"
}

// unneededNote notes the effect of a fault that was not needed.
func unneededNote(f explain.Need) string {
	switch {
	case !f.Struck:
		return " (it never began)"
	case len(f.Elsewhere) > 0:
		return " (but " + missText(f.Elsewhere) + " only with it)"
	}
	return ""
}

// RunLabel names a run for people.
func RunLabel(r *verdict.Record) string { return runLabel(r) }
