package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
)

// coverage shows what a sweep has tested, and the gaps. Gaps come first, because a reader learns more from
// them than from passes. Each kind of row has two lists: the gaps, which are shown, and the other rows, which
// are folded.
type coverage struct {
	FaultGaps, Faults      rowList[faultRow]
	Unreached, Sometimes   rowList[sometimesRow]
	RulesBroken, RulesKept []ruleRow
}

// rowList is a list of which the page shows only the first rows.
type rowList[T any] struct {
	Rows []T
	// All counts all rows, and Left the hidden rows.
	All, Left int
}

func (r *rowList[T]) addRow(row T) {
	if r.All++; r.All > pageCoverage {
		r.Left++
		return
	}
	r.Rows = append(r.Rows, row)
}

type faultRow struct {
	Fault, Where            string
	Planned, Fired, Touched int
	Gap                     string
}

type sometimesRow struct {
	Name, Where string
	Hits        int
	// Near describes how close runs came to the situation without reaching it.
	Near string
}

type ruleRow struct {
	Number    int
	Name      string
	Statement string
	// Runs counts the runs that broke the rule.
	Runs  int
	Where string
}

func newCoverage(list []*verdict.Scenario) coverage {
	var c coverage
	for _, sc := range list {
		where := sc.Name + ", " + caseName(sc)
		for _, f := range sortedFaults(sc.Faults) {
			row := faultRow{Fault: f.Fault, Where: where, Planned: f.Planned, Fired: f.Fired, Touched: f.Touched}
			switch {
			case f.Touched > 0:
			case f.Fired > 0:
				row.Gap = "touched nothing"
			default:
				row.Gap = "never fired"
			}
			if row.Gap != "" {
				c.FaultGaps.addRow(row)
			} else {
				c.Faults.addRow(row)
			}
		}
		for _, name := range sortedNames(sc.Sometimes) {
			if hits := sc.Sometimes[name]; hits > 0 {
				c.Sometimes.addRow(sometimesRow{Name: name, Where: where, Hits: hits})
			}
		}
		for _, name := range unreachedSituations(sc) {
			c.Unreached.addRow(sometimesRow{Name: name, Where: where, Near: sc.Nearness(name)})
		}
	}
	for _, r := range ruleRows(list) {
		if r.Runs > 0 {
			c.RulesBroken = append(c.RulesBroken, r)
		} else {
			c.RulesKept = append(c.RulesKept, r)
		}
	}
	return c
}

// unreachedSituations lists the situations that no run of a result reached, including those that an older
// share counts with 0. Varied runs don't have to reach any.
func unreachedSituations(sc *verdict.Scenario) (names []string) {
	if sc.Strategy != verdict.Varied {
		names = sc.Unreached()
	}
	for _, name := range sortedNames(sc.Sometimes) {
		if sc.Sometimes[name] == 0 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ruleResults is the maximum number of results that a broken rule names.
const ruleResults = 10

// ruleRows counts the runs that broke each rule. It includes unbroken invariants, because a reader wants to
// know what was judged. Rules without a number come last.
func ruleRows(list []*verdict.Scenario) []ruleRow {
	type rule struct {
		number int
		name   string // of a rule without a number, such as an expectation
	}
	byRule, wheres := make(map[rule]*ruleRow), make(map[*ruleRow][]string)
	for _, i := range invariant.All() {
		byRule[rule{number: i.Number}] = &ruleRow{Number: i.Number, Name: i.Name, Statement: i.Statement}
	}
	for _, sc := range list {
		where := sc.Name + ", " + caseName(sc)
		counted := make(map[string]bool)
		for _, v := range sortedViolations(sc.Violations) {
			key := rule{number: v.Invariant}
			if v.Invariant == 0 {
				key.name = v.Name
			}
			row := byRule[key]
			if row == nil {
				row = &ruleRow{Number: v.Invariant}
				byRule[key] = row
			}
			row.Name = cmp.Or(v.Name, row.Name)
			row.Statement = cmp.Or(v.Statement, row.Statement)
			if !counted[v.Rule()] {
				counted[v.Rule()] = true
				row.Runs += sc.RunsThatBroke(v.Rule())
			}
			if list := wheres[row]; len(list) == 0 || list[len(list)-1] != where {
				wheres[row] = append(list, where)
			}
		}
	}
	rows := make([]ruleRow, 0, len(byRule))
	for _, r := range byRule {
		list := wheres[r]
		r.Where = strings.Join(list[:min(len(list), ruleResults)], "; ")
		if more := len(list) - ruleResults; more > 0 {
			r.Where += fmt.Sprintf("; and %d more", more)
		}
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b ruleRow) int {
		if (a.Number == 0) != (b.Number == 0) {
			return b.Number - a.Number // number 0 comes last
		}
		return cmp.Or(a.Number-b.Number, cmp.Compare(a.Name, b.Name))
	})
	return rows
}
