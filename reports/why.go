package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
)

// whyPage is the part of a page that says why a run failed.
type whyPage struct {
	Title, Change, Same, More string
	Acts                      []*whySide
	Pairs                     []whyPair
	EndsHere                  string
	EndsThere                 string
	Others                    []string
	// Unneeded says that no fault was needed, so that a run without one of them tells nothing about
	// the cause, and is folded; otherwise it is empty.
	Unneeded string
	// Fold is what the folded comparison's title says of it.
	Fold       string
	FaultsText string
	Faults     []whyFault
	Curve      *whyCurve
}

type whySide struct{ Time, Who, What string }

type whyPair struct{ Here, There whySide }

type whyFault struct{ Fault, Word, Note, Class string }

// whyCurve is the drawing of a curve.
type whyCurve struct {
	Words, Label  string
	Failure       string
	Event         *whySide
	Width, Height float64
	Top, End      float64
	Lines         []whyLine
	Interval      string
	Curves        []whyPolyline
	Jump          float64
	Ticks         []whyTick
	Notes         []string
}

type whyLine struct {
	X1, X2, Y float64
	Text      string
}

type whyPolyline struct {
	Class, Points string
	Dots          []whyDot
}

type whyDot struct {
	Class string
	X, Y  float64
	Title string
}

type whyTick struct {
	X            float64
	Text, Anchor string
}

// newWhy is nil for a record of which nothing is explained.
func newWhy(r *verdict.Record) *whyPage {
	x := r.Explained
	if x == nil || len(x.Counterparts) == 0 || x.Counterparts[0].Difference == nil {
		return nil
	}
	c := &x.Counterparts[0]
	d, here, there := c.Difference, newTeller(r.Workers), newTeller(c.Workers)
	p := &whyPage{Title: besideTitle(x, c), Change: changeText(c), EndsThere: "It " + brief(c.Ends) + ".", Same: sameText(d)}
	if d.More+d.Moved > 0 {
		p.More = "Beside these, " + more(d) + "."
	}
	for _, act := range [...]*history.Event{d.Act, d.ActOn} {
		if act != nil {
			p.Acts = append(p.Acts, here.side(act))
		}
	}
	for i := range d.Pairs {
		pair := &d.Pairs[i]
		p.Pairs = append(p.Pairs, whyPair{here.sideOr(pair.Here, pair), there.sideOr(pair.There, pair)})
	}
	if vs := sortedViolations(r.Violations); len(vs) > 0 {
		p.EndsHere = fmt.Sprintf("It breaks %s: %s", vs[0].Rule(), brief(vs[0].Message))
	}
	for i := range x.Counterparts[1:] {
		p.Others = append(p.Others, "The "+OtherCounterpart(&x.Counterparts[1+i]))
	}
	p.needs(x)
	if len(x.Faults) > 0 && x.Needed() == 0 && r.Mutant == "" {
		p.Unneeded = unneeded(x)
		if len(x.Elsewhere) == 0 {
			p.Fold = ". The cause is not to be found there"
		}
	}
	p.Curve = newWhyCurve(r, x.Curve, here)
	return p
}

// unneeded says that no fault was needed, and where the cause is instead.
func unneeded(x *explain.Explanation) string {
	if x.Own > 0 {
		return "No fault is a cause: " + ownText(x) + "."
	}
	text := "No fault was needed for this failure"
	if x.Followed {
		text += fmt.Sprintf(" of execution %d", x.Execution)
	}
	text += ": its cause is in the workload, the actions, the limits, or the system itself."
	if len(x.Elsewhere) > 0 {
		text += " But " + misses(x.Elsewhere) + " only because of a fault."
	}
	return text
}

// besideTitle says how the run beside the failing one fares.
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

// changeText says what differs in the run beside the failing one, and what both draw.
func changeText(c *explain.Counterpart) string {
	if c.Anew {
		return "The same " + c.Change + ". It draws other random numbers, so much differs by chance."
	}
	return "The same run " + c.Change + ". Both draw the same random numbers for the same acts, so what differs follows from that change."
}

func sameText(d *explain.Difference) string {
	text := "They differ from the first event on."
	if d.Same > 0 {
		text = sentence(fmt.Sprintf("%sthe first %s are the same, until %s%s.", exceptActs(d), plural(d.Same, "event"), FormatTime(d.Until), onlyTimes(d)))
	}
	if slices.ContainsFunc(d.Pairs, func(p explain.Pair) bool {
		return p.Here != nil && p.There != nil && p.Here.Execution != p.There.Execution
	}) {
		text += " The same execution may have another number there."
	}
	return text
}

func (t teller) side(e *history.Event) *whySide {
	return &whySide{FormatTime(e.At), t.who(e), brief(t.what(e))}
}

func (t teller) sideOr(e *history.Event, p *explain.Pair) whySide {
	if e == nil {
		return whySide{Who: side(nil, nil, p)}
	}
	return *t.side(e)
}

func (p *whyPage) needs(x *explain.Explanation) {
	if len(x.Faults) == 0 {
		return
	}
	p.FaultsText = sentence(needText(x))
	if x.Own > 0 {
		p.FaultsText = shifts + "." // the head says the rest
	}
	for _, needed := range []bool{true, false} {
		for _, f := range x.Faults {
			switch {
			case f.Needed != needed:
			case needed:
				p.Faults = append(p.Faults, whyFault{f.Fault, "needed", unless(f), "needed"})
			default:
				p.Faults = append(p.Faults, whyFault{f.Fault, "not needed", idle(f), "idle"})
			}
		}
	}
}

// The drawing of a curve.
const (
	whyWidth, whyHeight = 900.0, 190.0
	whyLeft, whyRight   = 44.0, 886.0
	whyTop, whyEnd      = 12.0, 164.0
)

func newWhyCurve(r *verdict.Record, c *explain.Curve, t teller) *whyCurve {
	if c == nil || len(c.Points) == 0 {
		return nil
	}
	w := &whyCurve{Failure: brief(c.Failure), Width: whyWidth, Height: whyHeight, Top: whyTop, End: whyEnd, Label: "The share of runs with this failure, over the run"}
	last := max(c.Points[len(c.Points)-1].Event.At, time.Millisecond)
	x := func(p *explain.Point) float64 {
		return whyLeft + (whyRight-whyLeft)*float64(p.Event.At)/float64(last)
	}
	y := func(share float64) float64 { return whyEnd - (whyEnd-whyTop)*share }
	for _, percent := range []int{0, 50, 100} {
		w.Lines = append(w.Lines, whyLine{whyLeft, whyRight, y(float64(percent) / 100), fmt.Sprintf("%d %%", percent)})
	}
	low, high := "", ""
	for what, class := range []string{explain.All: "all", explain.Faults: "faults", explain.Schedule: "schedule"} {
		line := whyPolyline{Class: class}
		for i := range c.Points {
			p := &c.Points[i]
			s := p.This[what]
			if s.Runs == 0 {
				continue
			}
			line.Points += fmt.Sprintf("%.1f,%.1f ", x(p), y(s.Of()))
			line.Dots = append(line.Dots, whyDot{class, x(p), y(s.Of()), fmt.Sprintf("%s: %d of %d (%s)", FormatTime(p.Event.At), s.Failed, s.Runs, percents(s))})
			if least, most := s.Interval(); explain.Redrawn(what) == explain.All {
				high += fmt.Sprintf("%.1f,%.1f ", x(p), y(most))
				low = fmt.Sprintf("%.1f,%.1f ", x(p), y(least)) + low
			}
		}
		if line.Points = strings.TrimSpace(line.Points); line.Points != "" {
			w.Curves = append(w.Curves, line)
		}
	}
	w.Interval = strings.TrimSpace(high + low)
	w.Ticks = []whyTick{{whyLeft, "0s", "start"}, {whyRight, FormatTime(last), "end"}}
	lines := JumpLines(r, c)
	jump, rises := c.Steepest(explain.All)
	if rises {
		w.Event, w.Jump = t.side(&jump.To.Event), x(jump.To)
		w.Words, lines = sentence(lines[0]), lines[2:]
		if middle := x(jump.To); middle > whyLeft+90 && middle < whyRight-90 {
			w.Ticks = append(w.Ticks, whyTick{middle, FormatTime(jump.To.Event.At), "middle"})
		}
	} else {
		w.Words, lines = sentence(lines[0]), nil
	}
	for _, l := range lines {
		w.Notes = append(w.Notes, sentence(l))
	}
	return w
}

// sentence makes one of a line of the terminal: without the word in front, with a capital letter.
func sentence(line string) string {
	line = strings.TrimSpace(strings.TrimPrefix(line, "jump"))
	if line == "" {
		return ""
	}
	line = strings.ToUpper(line[:1]) + line[1:]
	if !strings.HasSuffix(line, ":") && !strings.HasSuffix(line, ".") {
		line += "."
	}
	return line
}

// needOf says how a fault is marked in the timeline: whether the failure needed it, if that is known.
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
