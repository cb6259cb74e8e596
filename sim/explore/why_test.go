package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/reports"
	"handoff/scenarios"
)

// explained measures the explanation of one mutant's first failing run. It is a line of a file of
// rows, so that several processes can share the work. What is wanted of all of them:
//
//   - Lines counts what chaos diff prints: a median of at most 15, and one of them tells the first
//     act of the mutant.
//   - Found reports whether the search ended with a checked set of needed faults: with these alone
//     the same rule breaks, and without any one of them it does not. The empty set counts.
//   - Near: at most five events of the failure's story lie between the steepest rise of the curve
//     and the act. The act that mattered is the last one among the events that led to the violation.
//     Mutants whose curve starts above 90 % are inevitable and counted apart; a curve that is flat
//     anywhere else is a miss. 70 % of the others are wanted.
//
// The search was tuned on one half of the mutants; see tuned.
type explained struct {
	Mutant string
	Run    string
	Lines  int
	Act    bool // a line tells the first act
	Found  bool // the needed faults were found, and checked
	Needed int
	Faults int
	Flat   bool
	// Inevitable says that the curve is flat because nearly every run fails, whatever is drawn.
	Inevitable bool
	// FromFirst, FromMattered and FromNear are how many events of the story lie between the jump and
	// the first act, the act that mattered, and the act that is nearest to it.
	FromFirst, FromMattered, FromNear int
	Jump                              string
	Runs                              int
	Steps                             uint64
	Missing                           string // why there is nothing; empty if there is
	// Story is the number of its events, and Acts are the numbers of those after which the mutant
	// acted. Curve has the points: after how many events, failed, of how many runs.
	Story int
	Acts  []int
	Curve [][3]int
	// Seconds is how long it took, on whatever else the machine did.
	Seconds float64
}

// within is how many events may lie between the act and the jump.
const within = 5

// hit says that the jump is that near to an act.
func (e *explained) hit(from int) bool { return e.Missing == "" && !e.Flat && from <= within }

// explainMutant hunts a mutant, explains its first failing run, and measures the explanation.
func explainMutant(ctx context.Context, f *mutant.Mutant, o CurveOptions) *explained {
	e, began := &explained{Mutant: f.Name}, time.Now()
	defer func() { e.Seconds = time.Since(began).Seconds() }()
	library, err := scenarios.Library()
	if err != nil {
		e.Missing = err.Error()
		return e
	}
	w := newWatch(0, func(h *Hung) { panic(h.Error()) })
	defer w.dog.Close()
	k := hunt(ctx, f, library, MutantOptions{Seeds: 500}, w)
	if !k.Killed() {
		e.Missing = k.Summary()
		return e
	}
	e.Run = fmt.Sprintf("%s, seed %d", k.Target, k.Seed)
	c, err := NewCase(ctx, k.Target, k.Seed, f)
	if err != nil {
		e.Missing = err.Error()
		return e
	}
	x := c.Compare()
	lines := reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[0])
	e.Lines = len(lines)
	first := firstAct(c.Record)
	if first != nil {
		at := reports.Describe(first, c.Record.Workers)[:20]
		e.Act = slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "act     here   "+at) })
	}
	e.Found = c.Ablate() && smallest(c)
	e.Needed, e.Faults = x.Needed(), len(x.Faults)
	curve, story := c.Curve(o), c.story()
	e.Story = len(story)
	for i := range curve.Points {
		p := &curve.Points[i]
		e.Curve = append(e.Curve, [3]int{p.At, p.This[explain.All].Failed, p.This[explain.All].Runs})
	}
	acts := actsOf(c)
	for _, act := range acts {
		e.Acts = append(e.Acts, numberOf(story, act))
	}
	e.Runs, e.Steps = c.Runs, c.Steps
	jump, rises := curve.Steepest(explain.All)
	e.Flat = !rises
	least, _ := curve.Points[0].This[explain.All].Interval()
	e.Inevitable = !rises && least > explain.Inevitable
	if !rises {
		e.Jump = fmt.Sprintf("flat at %s", of(curve.Points[0].This[explain.All]))
		return e
	}
	e.Jump = of(jump.From.This[explain.All]) + " → " + of(jump.To.This[explain.All])
	e.FromFirst, e.FromMattered, e.FromNear = 1<<30, 1<<30, 1<<30
	mattered := actThatMattered(c, acts)
	for i, act := range acts {
		d := between(e.Acts[i], jump)
		e.FromNear = min(e.FromNear, d)
		if act.Step == first.Step {
			e.FromFirst = min(e.FromFirst, d)
		}
		if act == mattered {
			e.FromMattered = d
		}
	}
	return e
}

func of(s explain.Share) string { return fmt.Sprintf("%.0f %%", 100*s.Of()) }

// actsOf are the acts of the mutant up to the violation.
func actsOf(c *Case) (acts []*history.Event) {
	for i := range c.Record.Events {
		if e := &c.Record.Events[i]; e.Kind == history.MutantActed && e.Step <= c.Violation.Step {
			acts = append(acts, e)
		}
	}
	return acts
}

// actThatMattered is the last act among the events that led to the violation, or the last one at all
// if none is; nil if there was none.
func actThatMattered(c *Case, acts []*history.Event) *history.Event {
	led, _ := Causes(c.Record, &c.Violation)
	for _, act := range slices.Backward(acts) {
		if slices.Contains(led, *act) {
			return act
		}
	}
	if len(acts) == 0 {
		return nil
	}
	return acts[len(acts)-1]
}

// numberOf is the number of the first event of the story that is not before an act, from 1.
func numberOf(story []*history.Event, act *history.Event) int {
	at := 1
	for at <= len(story) && story[at-1].Step < act.Step {
		at++
	}
	return at
}

// between is how many events of the story lie between one of them and the nearer end of a jump.
func between(at int, jump explain.Jump) int {
	apart := func(a, b int) int { return max(a-b, b-a) }
	return max(0, min(apart(at, jump.From.At), apart(at, jump.To.At))-1)
}

// smallest checks the set of needed faults once more, by itself.
func smallest(c *Case) bool {
	var out, needed []int
	for i, f := range c.Record.Explained.Faults {
		if f.Needed {
			needed = append(needed, i)
		} else {
			out = append(out, i)
		}
	}
	c.tried = nil // anew
	broken := c.brokenWithout
	good := broken(out)
	for _, f := range needed {
		good = good && !broken(slices.Sorted(slices.Values(append(slices.Clone(out), f))))
	}
	return good
}
