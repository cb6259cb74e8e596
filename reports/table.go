package reports

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"unicode/utf8"

	"handoff/chaos/verdict"
)

// Limits of the table. Every shown part of a result has a limit, so that the size of the page is limited too.
const (
	pageResults = 3000
	cellReasons = 4
	aboutText   = 300
	reasonText  = 400
	// tableText limits all descriptions and reasons, in bytes of HTML. Beyond it, a result has one short
	// reason.
	tableText = 1_000_000
	shortText = 60
)

// table has a row for each scenario and a column for each profile, so that the profiles of a scenario are
// side by side.
type table struct {
	Columns []string
	Rows    []tableRow
	// LeftOut counts the hidden results, which belong to the last rows and passed.
	LeftOut int
	// Pass, Inconclusive and Fail count the scenarios by their worst verdict.
	Pass, Inconclusive, Fail int
}

// tableRow is one scenario.
type tableRow struct {
	Name, About string
	// Verdict is the worst verdict of the scenario's results. For sorting, Rank is that verdict's number,
	// Share the largest share of failed seeds in thousandths, and Executions the sum.
	Verdict    string
	Rank       verdict.Verdict
	Share      int
	Executions int64
	// Cells has one cell for each column. A cell is empty without a result, and has several results if they
	// differ only in mutants.
	Cells []tableCell
}

type tableCell struct {
	Column  string
	Results []cellResult
}

type cellResult struct {
	Sign, Verdict string
	// Label distinguishes several results in a cell; empty for a single result.
	Label string
	// Seeds describes the numbers of runs and of failed runs.
	Seeds string
	// Link leads to the run of the smallest failing seed; empty if there is none.
	Link     string
	First    uint64
	Why      []string
	MoreWhys int
	// Executions and Outcomes describe how executions ended.
	Executions int64
	Outcomes   string
	World      string
}

// newTable builds the table of sorted results, the worst scenarios first.
func newTable(list []*verdict.Scenario, link func(*verdict.Scenario) string) table {
	t := table{}
	several := severalWorlds(list)
	byName := make(map[string]*tableRow)
	column := make(map[string]bool)
	var rows []*tableRow
	results := make(map[*tableRow][]*verdict.Scenario)
	for _, sc := range list {
		row := byName[sc.Name]
		if row == nil {
			row = &tableRow{Name: sc.Name, About: shortenText(sc.About, aboutText)}
			byName[sc.Name] = row
			rows = append(rows, row)
		}
		results[row] = append(results[row], sc)
		row.Rank = max(row.Rank, sc.Verdict)
		row.Executions += executionCount(sc)
		if sc.Seeds > 0 {
			row.Share = max(row.Share, 1000*sc.Failing/sc.Seeds)
		}
		column[columnOf(sc, several)] = true
	}
	for name := range column {
		t.Columns = append(t.Columns, name)
	}
	slices.SortFunc(t.Columns, func(a, b string) int {
		return cmp.Or(verdict.CompareProfiles(profileOf(a), profileOf(b)), cmp.Compare(a, b))
	})
	slices.SortStableFunc(rows, func(a, b *tableRow) int { return cmp.Compare(b.Rank, a.Rank) })
	shown, text := 0, 0
	for _, row := range rows {
		if shown > 0 && shown+len(results[row]) > pageResults {
			t.LeftOut += len(results[row])
			continue
		}
		shown += len(results[row])
		row.Verdict = row.Rank.String()
		row.Cells = make([]tableCell, len(t.Columns))
		for i, name := range t.Columns {
			row.Cells[i].Column = name
		}
		if text > tableText {
			row.About = shortenText(row.About, shortText)
		}
		text += htmlLength(row.About)
		for _, sc := range results[row] {
			cell := &row.Cells[slices.Index(t.Columns, columnOf(sc, several))]
			r := newCellResult(sc, link(sc))
			if text > tableText {
				r.shortenReasons()
			}
			for _, why := range r.Why {
				text += htmlLength(why)
			}
			cell.Results = append(cell.Results, r)
		}
		*[]*int{&t.Pass, &t.Inconclusive, &t.Fail}[row.Rank]++
		t.Rows = append(t.Rows, *row)
	}
	return t
}

func severalWorlds(list []*verdict.Scenario) bool {
	return slices.ContainsFunc(list, func(sc *verdict.Scenario) bool { return sc.World != list[0].World })
}

// columnOf names the column of a result: its profile, and everything except the mutant that may distinguish
// two results of a scenario.
func columnOf(sc *verdict.Scenario, worlds bool) string {
	name := verdict.ProfileName(sc.Profile, sc.Strategy == verdict.Varied)
	if worlds {
		name += ", " + sc.World
	}
	return name
}

// profileOf returns the profile of a column.
func profileOf(column string) string {
	name, _, _ := strings.Cut(column, " ")
	return strings.TrimSuffix(name, ",")
}

func newCellResult(sc *verdict.Scenario, link string) cellResult {
	r := cellResult{
		Sign: verdictSign(sc.Verdict), Verdict: sc.Verdict.String(), Link: link, First: sc.FirstFailing,
		Seeds: plural(sc.Seeds, "seed"), Executions: executionCount(sc), Outcomes: outcomeText(sc),
		World: strings.Trim(sc.World+", "+sc.Strategy, ", "),
	}
	if sc.Mutant != "" {
		r.Label = "with mutant " + sc.Mutant
	}
	if sc.Failing > 0 {
		r.Seeds = fmt.Sprintf("%d of %s failed", sc.Failing, plural(sc.Seeds, "seed"))
	}
	for _, why := range sc.Why[:min(len(sc.Why), cellReasons)] {
		r.Why = append(r.Why, shortenText(why, reasonText))
	}
	r.MoreWhys = len(sc.Why) - len(r.Why)
	return r
}

// shortenReasons keeps only one short reason.
func (c *cellResult) shortenReasons() {
	if len(c.Why) > 0 {
		c.MoreWhys += len(c.Why) - 1
		c.Why = []string{shortenText(c.Why[0], shortText)}
	}
}

func htmlLength(s string) int { return len(template.HTMLEscapeString(s)) }

// shortenText truncates a text to the given number of characters.
func shortenText(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
