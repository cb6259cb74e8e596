package reports

import (
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
)

// whyPage is the part of a page that explains why a run failed.
type whyPage struct {
	Title, Change, Same, More string
	Acts                      []*whySide
	Pairs                     []whyPair
	EndsHere                  string
	EndsThere                 string
	Others                    []string
	// Unneeded states that no fault was needed. A comparison with a run without a fault then reveals nothing
	// about the cause, so it is folded. It is empty if a fault was needed.
	Unneeded string
	// Fold is the note in the title of the folded comparison.
	Fold       string
	FaultsText string
	Faults     []whyFault
}

type whySide struct{ Time, Who, What string }

type whyPair struct{ Here, There whySide }

type whyFault struct{ Fault, Word, Note, Class string }

// newWhy returns nil for a record without an explanation.
func newWhy(r *verdict.Record) *whyPage {
	x := r.Explained
	if x == nil || len(x.Counterparts) == 0 || x.Counterparts[0].Difference == nil {
		return nil
	}
	c := &x.Counterparts[0]
	d, here, there := c.Difference, newDescriber(r.Workers), newDescriber(c.Workers)
	p := &whyPage{Title: besideTitle(x, c), Change: changeText(c), EndsThere: "It " + briefLine(c.Ends) + ".", Same: sameText(d)}
	if d.More+d.Moved > 0 {
		p.More = "Beside these, " + unshownText(d) + "."
	}
	for _, act := range [...]*history.Event{d.Act, d.ActOn} {
		if act != nil {
			p.Acts = append(p.Acts, here.newSide(act))
		}
	}
	for i := range d.Pairs {
		pair := &d.Pairs[i]
		p.Pairs = append(p.Pairs, whyPair{here.newSideOr(pair.Here, pair), there.newSideOr(pair.There, pair)})
	}
	if vs := sortedViolations(r.Violations); len(vs) > 0 {
		p.EndsHere = fmt.Sprintf("It breaks %s: %s", vs[0].Rule(), briefLine(vs[0].Message))
	}
	for i := range x.Counterparts[1:] {
		p.Others = append(p.Others, "The "+OtherCounterpart(&x.Counterparts[1+i]))
	}
	p.addNeeds(x)
	if len(x.Faults) > 0 && x.Needed() == 0 && r.Mutant == "" {
		p.Unneeded = unneededText(x)
		if len(x.Elsewhere) == 0 {
			p.Fold = ". The cause is not to be found there"
		}
	}
	return p
}

// unneededText states that no fault was needed, and where to look for the cause instead.
func unneededText(x *explain.Explanation) string {
	if x.Own > 0 {
		return "No fault is a cause: " + ownText(x) + "."
	}
	text := "No fault was needed for this failure"
	if x.Followed {
		text += fmt.Sprintf(" of execution %d", x.Execution)
	}
	text += ": its cause is in the workload, the actions, the limits, or the system itself."
	if len(x.Elsewhere) > 0 {
		text += " But " + missText(x.Elsewhere) + " only because of a fault."
	}
	return text
}

// besideTitle describes the result of the run with which the failing one is compared.
func besideTitle(x *explain.Explanation, c *explain.Counterpart) string {
	switch {
	case !c.Passes:
		return "Beside a run with the same failure"
	case c.Elsewhere && x.Missed:
		return fmt.Sprintf("Beside a run in which execution %d meets the expectation, and others miss it", x.Execution)
	case c.Elsewhere:
		return fmt.Sprintf("Beside a run in which execution %d keeps the rule, and another execution breaks it", x.Execution)
	case c.Breaks != "":
		return "Beside a run without this failure, which breaks another rule"
	}
	return "Beside a run without this failure"
}

// changeText describes what was changed in the compared run, and whether both draw the same random numbers.
func changeText(c *explain.Counterpart) string {
	if c.Anew {
		return "The same " + c.Change + ". It draws other random numbers, so much differs by chance."
	}
	return "The same run " + c.Change + ". Both draw the same random numbers for the same acts, so what differs follows from that change."
}

func sameText(d *explain.Difference) string {
	text := "They differ from the first event on."
	if d.Same > 0 {
		text = asSentence(fmt.Sprintf("%sthe first %s are the same, until %s%s.", exceptActs(d), plural(d.Same, "event"), FormatTime(d.Until), onlyTimes(d)))
	}
	if slices.ContainsFunc(d.Pairs, func(p explain.Pair) bool {
		return p.Here != nil && p.There != nil && p.Here.Execution != p.There.Execution
	}) {
		text += " The same execution may have another number there."
	}
	return text
}

func (d describer) newSide(e *history.Event) *whySide {
	return &whySide{FormatTime(e.At), d.subject(e), briefLine(d.predicate(e))}
}

func (d describer) newSideOr(e *history.Event, p *explain.Pair) whySide {
	if e == nil {
		return whySide{Who: sideText(nil, nil, p)}
	}
	return *d.newSide(e)
}

func (w *whyPage) addNeeds(x *explain.Explanation) {
	if len(x.Faults) == 0 {
		return
	}
	w.FaultsText = asSentence(needText(x))
	if x.Own > 0 {
		w.FaultsText = shifts + "." // the heading has the rest
	}
	for _, needed := range []bool{true, false} {
		for _, f := range x.Faults {
			switch {
			case f.Needed != needed:
			case needed:
				w.Faults = append(w.Faults, whyFault{f.Fault, "needed", neededNote(f), "needed"})
			default:
				w.Faults = append(w.Faults, whyFault{f.Fault, "not needed", unneededNote(f), "idle"})
			}
		}
	}
}

// asSentence turns a terminal line into a sentence, with a capital letter and a full stop.
func asSentence(line string) string {
	if line == "" {
		return ""
	}
	line = strings.ToUpper(line[:1]) + line[1:]
	if !strings.HasSuffix(line, ".") {
		line += "."
	}
	return line
}

// needOf returns a fault's mark in the timeline, which shows whether the failure needed the fault, if known.
func needOf(x *explain.Explanation, fault string) (words string, idle bool) {
	if x == nil {
		return "", false
	}
	for _, f := range x.Faults {
		if f.Fault == fault {
			switch {
			case f.Needed:
				return " (needed)", false
			case len(f.Elsewhere) > 0:
				return " (needed by " + verdict.Named(f.Elsewhere) + ")", false
			}
			return " (not needed)", true
		}
	}
	return "", false
}
