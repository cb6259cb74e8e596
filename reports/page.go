package reports

import (
	_ "embed" // the page's template, style and scripts
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"handoff/chaos/conformance"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
)

//go:embed page/page.html
var pageTemplate string

//go:embed page/style.css
var pageStyle string

//go:embed page/core.js
var scriptCore string

//go:embed page/draw.js
var scriptDraw string

//go:embed page/panel.js
var scriptPanel string

// Limits of the page. Browsers open five megabytes at once, and a page that is mailed or attached
// to a ticket should not be much larger.
const (
	pageRecords = 8
	pageEvents  = 16_000
	pageBytes   = 4_000_000
)

// page is the template's data; the timelines' data is embedded separately as JSON, for the scripts.
type page struct {
	Verdict, Sign string
	Title         string
	Overall       string
	Interrupted   bool
	Notes         []string
	Headline      *headline
	Why           []string

	Results  []resultRow
	Coverage coverage
	// Sure says what the verdict is worth; nil for a single run.
	Sure *sure

	// Agreement compares the two worlds; empty if only one has run.
	Agreement []verdict.Agreement

	// Matrix says which scenario kills which mutant; nil unless requested.
	Matrix *matrix

	// Simulated says that models took part; the page then lists their differences from the real
	// servers.
	Simulated   bool
	Differences []conformance.Difference
	Agreed      []conformance.Result

	Records        []string
	RecordsLeftOut int
	Replay         string
	Go, Commit     string

	Style  template.CSS
	Script template.JS
	Data   template.JS
}

// headline describes the first failure.
type headline struct {
	Scenario  string
	Seed      uint64
	Execution string
	When      string
	Step      uint64
	Who       string
	Rule      string
	Title     string
	Message   string
	Reproduce string
	Causes    []causeLine
	More      int
}

type causeLine struct {
	Time, Who, What, Class string
	Last                   bool
}

type resultRow struct {
	Sign, Verdict string
	Name, Case    string
	About         string
	World         string
	Seeds         int
	Executions    int64
	Outcomes      string
	Failing       string
	Why           []string
}

// WriteHTML writes the report's page: one file that needs neither network nor server. Of many
// records it shows the failed ones, and of long records the part around the failure. It says where
// something was omitted.
func WriteHTML(w io.Writer, s *verdict.Sweep, records []*verdict.Record) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("parsing the page's template: %w", err)
	}
	first := firstFailure(s, records)
	shown := chooseRecords(first, records)
	data, labels, err := pageData(shown)
	if err != nil {
		return err
	}
	p := newPage(s, first)
	p.Agreement, p.Matrix = s.Agreement, newMatrix(s.Matrix)
	p.Records, p.RecordsLeftOut = labels, len(records)-len(labels)
	p.Style, p.Data = template.CSS(pageStyle), template.JS(data)              //nolint:gosec // ours, and escaped by json.Marshal
	p.Script = template.JS(strings.Join([]string{"(() => {\n\"use strict\";", //nolint:gosec // ours
		scriptCore, scriptDraw, scriptPanel, "})();"}, "\n"))
	if err := t.Execute(w, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// chooseRecords orders the records for the selector: first the record of the headline, then other
// failures, then the rest, each in their given order.
func chooseRecords(first *failure, records []*verdict.Record) []*verdict.Record {
	rank := func(r *verdict.Record) int {
		switch {
		case first != nil && r == first.record:
			return 0
		case len(r.Violations) > 0 || r.Panic != "":
			return 1
		}
		return 2
	}
	list := slices.Clone(records)
	slices.SortStableFunc(list, func(a, b *verdict.Record) int { return rank(a) - rank(b) })
	return list[:min(len(list), pageRecords)]
}

// pageData builds the timelines, smaller and smaller until they fit. json.Marshal escapes
// everything that could end a script element.
func pageData(records []*verdict.Record) (data []byte, labels []string, err error) {
	lim := limits{events: min(6000, pageEvents/max(1, len(records))), executions: 24, queues: 16, points: 1200, beats: 600}
	for {
		lines := make([]*timeline, len(records))
		for i, r := range records {
			lines[i] = buildTimeline(r, lim)
		}
		data, err = json.Marshal(lines)
		if err != nil {
			return nil, nil, fmt.Errorf("writing the timelines: %w", err)
		}
		if len(data) <= pageBytes || len(records) == 0 {
			for _, l := range lines {
				labels = append(labels, l.Label)
			}
			return data, labels, nil
		}
		if lim.events > 500 {
			lim.events, lim.points, lim.beats = lim.events/2, max(100, lim.points/2), max(100, lim.beats/2)
			continue
		}
		records = records[:len(records)-1]
	}
}

func newPage(s *verdict.Sweep, first *failure) *page {
	list := sortedScenarios(s)
	p := &page{
		Verdict: s.Verdict.String(), Sign: sign(s.Verdict), Overall: overall(s), Interrupted: s.Interrupted, Notes: s.Notes,
		Go: s.Go, Commit: s.Commit, Coverage: newCoverage(list), Sure: newSure(list),
	}
	if slices.ContainsFunc(list, func(sc *verdict.Scenario) bool { return sc.World == string(scenario.Sim) }) {
		p.Simulated, p.Differences, p.Agreed = true, conformance.Differences(), conformance.Results()
	}
	switch s.Verdict {
	case verdict.Pass:
		p.Title = "Nothing broke"
	case verdict.Inconclusive:
		p.Title = "Nothing broke, but not everything was tested"
	case verdict.Fail:
		p.Title = "Something broke"
	}
	for _, sc := range worstFirst(list) {
		p.Results = append(p.Results, resultRow{
			Sign: sign(sc.Verdict), Verdict: sc.Verdict.String(), Name: sc.Name, Case: caseName(sc), About: sc.About,
			World: strings.Trim(sc.World+", "+sc.Strategy, ", "), Seeds: sc.Seeds, Executions: executions(sc),
			Outcomes: outcomeText(sc), Failing: failingText(sc), Why: sc.Why,
		})
		if sc.Verdict == s.Verdict && sc.Verdict != verdict.Pass && p.Why == nil {
			for _, why := range sc.Why {
				p.Why = append(p.Why, fmt.Sprintf("%s, %s: %s", sc.Name, caseName(sc), why))
			}
		}
	}
	if first != nil {
		p.Headline = newHeadline(first, list)
		p.Title = p.Headline.Scenario + " breaks " + p.Headline.Title
		if first.violation.Name == "expectation" {
			p.Title = p.Headline.Scenario + " misses what its scenario expects"
		}
		p.Replay = first.violation.Reproduce
	}
	return p
}

// pageCauses limits the number of causes above the table; the timeline has the rest.
const pageCauses = 16

func newHeadline(f *failure, list []*verdict.Scenario) *headline {
	v := f.violation
	h := &headline{
		Scenario: f.scenario.Name + " (" + caseName(f.scenario) + ")", Seed: v.Seed, When: FormatTime(v.At), Step: v.Step,
		Rule: v.Statement, Title: violationTitle(v), Message: v.Message, Reproduce: v.Reproduce,
	}
	if v.Execution != 0 {
		h.Execution = fmt.Sprintf("execution %d", v.Execution)
	}
	if i := invariant.ByNumber(v.Invariant); h.Rule == "" && i != nil {
		h.Rule = i.Statement
	}
	act, t := f.culprit()
	if act != nil {
		h.Who = t.who(act)
	}
	causes := v.Causes[max(0, len(v.Causes)-pageCauses):]
	for i := range causes {
		e := &causes[i]
		h.Causes = append(h.Causes, causeLine{
			Time: FormatTime(e.At), Who: t.who(e), What: t.what(e), Class: class(e.Kind),
			Last: act != nil && e.Step == act.Step && e.Kind == act.Kind && i == len(causes)-1,
		})
	}
	for _, sc := range list {
		h.More += len(sc.Violations)
	}
	h.More--
	return h
}
