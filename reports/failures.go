package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/verdict"
)

// Limits of the list of causes.
const (
	pageGroups   = 60
	groupResults = 4
)

// failures holds the failed runs of all results, grouped by rule, part and cause.
type failures struct {
	// Runs counts failed runs, and Causes counts the groups, both including unlisted groups.
	Runs, Causes int
	Groups       []failureGroup
	LeftOut      int
}

// failureGroup is one cause, with the results in which it was seen.
type failureGroup struct {
	verdict.Cause
	Results []causeIn
	// More counts the unlisted results.
	More int
}

// causeIn is a result in which a cause was seen.
type causeIn struct {
	Name, Case string
	Seeds      int
	First      uint64
	// Link leads to the run of the smallest failing seed; empty if that run had another cause or was not
	// recorded.
	Link string
}

// Title returns a headline such as "11 failed runs, 2 causes".
func (f *failures) Title() string {
	return fmt.Sprintf("%s, %s", plural(f.Runs, "failed run"), plural(f.Causes, "cause"))
}

// groupFailures groups the failures of sorted results, the most frequent cause first. It returns nil if
// nothing failed.
func groupFailures(list []*verdict.Scenario, link func(*verdict.Scenario) string) *failures {
	f := &failures{}
	type key struct{ rule, where, text string }
	byKey := make(map[key]*failureGroup)
	var order []*failureGroup
	for _, sc := range list {
		f.Runs += sc.Failing
		for _, c := range causesOf(sc) {
			k := key{c.Rule, c.Where, c.Text}
			g := byKey[k]
			if g == nil {
				g = &failureGroup{Cause: verdict.Cause{Rule: c.Rule, Where: c.Where, Text: c.Text, First: c.First}}
				byKey[k] = g
				order = append(order, g)
			}
			g.Seeds += c.Seeds
			g.First = min(g.First, c.First)
			in := causeIn{Name: sc.Name, Case: caseName(sc), Seeds: c.Seeds, First: c.First}
			if c.First == sc.FirstFailing {
				in.Link = link(sc)
			}
			g.Results = append(g.Results, in)
		}
	}
	if len(order) == 0 {
		return nil
	}
	slices.SortStableFunc(order, func(a, b *failureGroup) int {
		return cmp.Or(cmp.Compare(b.Seeds, a.Seeds), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Text, b.Text))
	})
	f.Causes, f.LeftOut = len(order), max(0, len(order)-pageGroups)
	for _, g := range order[:min(len(order), pageGroups)] {
		// List results with a recorded run first.
		slices.SortStableFunc(g.Results, func(a, b causeIn) int {
			return cmp.Or(cmp.Compare(strings.Compare(b.Link, ""), strings.Compare(a.Link, "")), cmp.Compare(b.Seeds, a.Seeds))
		})
		if g.More = max(0, len(g.Results)-groupResults); g.More > 0 {
			g.Results = g.Results[:groupResults]
		}
		f.Groups = append(f.Groups, *g)
	}
	return f
}

// causesOf returns the causes of a result. Results that another program wrote may have only violations.
func causesOf(sc *verdict.Scenario) []verdict.Cause {
	if len(sc.Causes) > 0 {
		return sc.Causes
	}
	return verdict.Causes(sc.Violations)
}
