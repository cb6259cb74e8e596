package reports

import (
	"cmp"
	"slices"
	"strings"

	"handoff/chaos/verdict"
)

// coverage is what a sweep really tried; a gap in it is worth more to a reader than a row of
// passes, so gaps come first.
type coverage struct {
	Faults     []faultRow
	FaultGaps  int
	Sometimes  []sometimesRow
	Unreached  int
	Rules      []ruleRow
	RulesBroke int
}

type faultRow struct {
	Fault, Where            string
	Planned, Fired, Touched int
	Gap                     string
}

type sometimesRow struct {
	Name, Where string
	Hits        int
}

type ruleRow struct {
	Number     int
	Name       string
	Statement  string
	Violations int
	Where      string
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
				c.FaultGaps++
			}
			c.Faults = append(c.Faults, row)
		}
		for _, name := range sortedNames(sc.Sometimes) {
			c.Sometimes = append(c.Sometimes, sometimesRow{name, where, sc.Sometimes[name]})
			if sc.Sometimes[name] == 0 {
				c.Unreached++
			}
		}
	}
	slices.SortStableFunc(c.Faults, func(a, b faultRow) int { return gapsFirst(a.Gap != "", b.Gap != "") })
	slices.SortStableFunc(c.Sometimes, func(a, b sometimesRow) int { return gapsFirst(a.Hits == 0, b.Hits == 0) })
	c.Rules = ruleRows(list)
	for _, r := range c.Rules {
		if r.Violations > 0 {
			c.RulesBroke++
		}
	}
	return c
}

func gapsFirst(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// ruleRows counts violations by invariant, and unmet expectations in a last row.
func ruleRows(list []*verdict.Scenario) []ruleRow {
	byNumber := make(map[int]*ruleRow)
	for _, r := range rules() {
		byNumber[r.Number] = &ruleRow{Number: r.Number, Statement: r.Statement}
	}
	for _, sc := range list {
		where := sc.Name + ", " + caseName(sc)
		for _, v := range sortedViolations(sc.Violations) {
			row := byNumber[v.Invariant]
			if row == nil {
				row = &ruleRow{Number: v.Invariant}
				if v.Invariant == 0 {
					row.Statement = "What the scenario's own expectations say is met."
				}
				byNumber[v.Invariant] = row
			}
			if v.Invariant > 0 {
				row.Name = cmp.Or(v.Name, row.Name)
				row.Statement = cmp.Or(v.Statement, row.Statement)
			}
			row.Violations++
			if !strings.Contains(row.Where, where) {
				row.Where = strings.TrimPrefix(row.Where+"; "+where, "; ")
			}
		}
	}
	rows := make([]ruleRow, 0, len(byNumber))
	for _, r := range byNumber {
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b ruleRow) int { return cmp.Or(gapsFirst(a.Number != 0, b.Number != 0), a.Number-b.Number) })
	return rows
}
