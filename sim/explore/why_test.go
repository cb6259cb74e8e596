package explore

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/mutant"
	"handoff/reports"
	"handoff/scenarios"
)

// explained is how good the explanation of one mutant is, by the definition in docs/explaining.md.
type explained struct {
	mutant string
	run    string
	lines  int
	act    bool // a line tells the first act
	found  bool // the needed faults were found, and checked
	needed int
	faults int
	flat   bool
	// fromFirst and fromNear are how many events of the story lie between the jump and the first act,
	// and the act that is nearest to it.
	fromFirst, fromNear int
	jump                string
	runs                int
	steps               uint64
	missing             string // why there is nothing; empty if there is
}

// within is how many events may lie between the act and the jump.
const within = 5

func (e *explained) hitFirst() bool { return e.missing == "" && !e.flat && e.fromFirst <= within }
func (e *explained) hitNear() bool  { return e.missing == "" && !e.flat && e.fromNear <= within }

// explainMutant hunts a mutant, explains its first failing run, and measures the explanation.
func explainMutant(ctx context.Context, f *mutant.Mutant, o CurveOptions) *explained {
	e := &explained{mutant: f.Name}
	library, err := scenarios.Library()
	if err != nil {
		e.missing = err.Error()
		return e
	}
	w := newWatch(0, func(h *Hung) { panic(h.Error()) })
	defer w.dog.Close()
	k := hunt(ctx, f, library, MutantOptions{Seeds: 500}, w)
	if !k.Killed() {
		e.missing = k.Summary()
		return e
	}
	e.run = fmt.Sprintf("%s, seed %d", k.Target, k.Seed)
	c, err := NewCase(ctx, k.Target, k.Seed, f)
	if err != nil {
		e.missing = err.Error()
		return e
	}
	x := c.Compare()
	lines := reports.CounterpartLines(c.Record, &c.Violation, &x.Counterparts[0])
	e.lines = len(lines)
	first := firstAct(c.Record)
	if first != nil {
		at := reports.Describe(first, c.Record.Workers)[:20]
		e.act = slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "act     here   "+at) })
	}
	e.found = c.Ablate() && smallest(c)
	e.needed, e.faults = x.Needed(), len(x.Faults)
	curve := c.Curve(o)
	e.runs, e.steps = c.Runs, c.Steps
	jump, rises := curve.Steepest(explain.All)
	e.flat = !rises
	if !rises {
		e.jump = fmt.Sprintf("flat at %s", of(curve.Points[0].This[explain.All]))
		return e
	}
	e.jump = of(jump.From.This[explain.All]) + " → " + of(jump.To.This[explain.All])
	story := c.story()
	e.fromFirst, e.fromNear = 1<<30, 1<<30
	for i := range c.Record.Events {
		if act := &c.Record.Events[i]; act.Kind == history.MutantActed && act.Step <= c.Violation.Step {
			d := between(story, act, jump)
			e.fromNear = min(e.fromNear, d)
			if act.Step == first.Step {
				e.fromFirst = min(e.fromFirst, d)
			}
		}
	}
	return e
}

func of(s explain.Share) string { return fmt.Sprintf("%.0f %%", 100*s.Of()) }

// between is how many events of the story lie between an act and the nearer end of a jump.
func between(story []*history.Event, act *history.Event, jump explain.Jump) int {
	at := 1
	for at <= len(story) && story[at-1].Step < act.Step {
		at++
	}
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
	broken := c.brokenWithout()
	good := broken(out)
	for _, f := range needed {
		good = good && !broken(slices.Sorted(slices.Values(append(slices.Clone(out), f))))
	}
	return good
}

// explainedSample are the mutants whose explanations are measured in every run of the tests.
func explainedSample() []string {
	return []string{"unguarded-claim", "unguarded-monitor", "same-name-orphans", "refused-letter-dropped"}
}

// With HANDOFF_WHY=all the explanation of every mutant is measured, and the table of
// docs/explaining.md printed; with a number, every so manieth. Else it is a sample of four.
func TestExplanationsOfMutants(t *testing.T) {
	skipShort(t)
	o := DefaultCurve()
	o.Workers, o.Only = 1, true // the mutants run side by side
	chosen := explainedSample()
	if os.Getenv("HANDOFF_WHY") == "" {
		o.Runs = 40
	}
	o.Steps /= 3 // of which the two curves that are left out would take most
	var list []*mutant.Mutant
	every := 0
	if how := os.Getenv("HANDOFF_WHY"); how == "all" {
		every = 1
	} else if how != "" {
		if _, err := fmt.Sscan(how, &every); err != nil {
			t.Fatalf("HANDOFF_WHY=%s: all, or a number", how)
		}
	}
	for i, f := range mutant.All() {
		if every > 0 && i%every == 0 || every == 0 && slices.Contains(chosen, f.Name) {
			list = append(list, f)
		}
	}
	results := make([]*explained, len(list))
	var group sync.WaitGroup
	next := make(chan int)
	for range 2 {
		group.Go(func() {
			for i := range next {
				results[i] = explainMutant(t.Context(), list[i], o)
				t.Logf("%s", results[i].row()) // at once: it takes long
			}
		})
	}
	// In an order in which every part is a sample of the whole.
	for from := range 10 {
		for i := from * 7 % 10; i < len(list); i += 10 {
			next <- i
		}
	}
	close(next)
	group.Wait()
	said := judge(t, results, every > 0)
	if every == 1 {
		tabulate(t, said, results)
	}
}

// page has the table, between two marks.
const page = "../../docs/explaining.md"

// tabulate writes the table into the page.
func tabulate(t *testing.T, said string, results []*explained) {
	t.Helper()
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- measured: make bench-why -->\n", "<!-- /measured -->\n"
	before, rest, found := strings.Cut(string(old), from)
	_, after, ended := strings.Cut(rest, to)
	if !found || !ended {
		t.Fatalf("%s lacks the marks %s and %s", page, from, to)
	}
	var b strings.Builder
	b.WriteString(before + from + "\n" + said + "\n\n")
	b.WriteString("| mutant | run | lines | shows the act | needed faults | jump | events from the first act | from the nearest act | runs | million steps |\n")
	b.WriteString("|---|---|--:|---|---|---|--:|--:|--:|--:|\n")
	for _, e := range results {
		b.WriteString(e.row() + "\n")
	}
	b.WriteString("\n" + to + after)
	if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil { //nolint:gosec // a page of the repository
		t.Fatal(err)
	}
}

// row is a line of the table.
func (e *explained) row() string {
	if e.missing != "" {
		return fmt.Sprintf("| %s | %s | | | | | | | |", e.mutant, e.missing)
	}
	first, near := "flat", "flat"
	if !e.flat {
		first, near = fmt.Sprint(e.fromFirst), fmt.Sprint(e.fromNear)
	}
	needed := fmt.Sprintf("%d of %d", e.needed, e.faults)
	if !e.found {
		needed = "not found"
	}
	return fmt.Sprintf("| %s | %s | %d | %s | %s | %s | %s | %s | %d | %.0f |", e.mutant, e.run, e.lines, yes(e.act), needed, e.jump, first, near, e.runs, float64(e.steps)/1e6)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// judge sums the results up, in a few sentences for the page. Of all mutants, what falls short is
// only told: the page has the table.
func judge(t *testing.T, results []*explained, whole bool) string {
	t.Helper()
	var lines []int
	var acts, found, flats, first, near, missing int
	for _, e := range results {
		if e.missing != "" {
			missing++
			continue
		}
		lines = append(lines, e.lines)
		count := func(n *int, yes bool) {
			if yes {
				*n++
			}
		}
		count(&acts, e.act)
		count(&found, e.found)
		count(&flats, e.flat)
		count(&first, e.hitFirst())
		count(&near, e.hitNear())
	}
	n := len(results)
	share := func(k int) string { return fmt.Sprintf("%d of %d (%.0f %%)", k, n, 100*float64(k)/float64(n)) }
	said := fmt.Sprintf(`- Mutants that no run kills: %d of %d.
- Lines of the difference: a median of %d, %d at most. The act is shown for %s.
- The needed faults are found for %s.
- The jump is within %d events of the first act for %s; of the act nearest to it for %s.
- The curve is flat for %s: the mutant alone is enough, whatever is drawn.
- Of the curves that are not flat, the jump is within %d events of the first act for %d of %d.`,
		missing, n, median(lines), slices.Max(append(lines, 0)), share(acts), share(found), within, share(first), share(near), share(flats),
		within, first, n-missing-flats)
	t.Log(said)
	if !whole && (missing > 0 || median(lines) > 15 || acts < n || found < n) {
		t.Error("the explanations of the sample fall short")
	}
	return said
}
