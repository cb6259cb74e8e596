package reports

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"

	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/conformance"
	"handoff/chaos/verdict"
)

//go:embed page
var assets embed.FS

// pageTemplates returns the parsed templates of all pages.
var pageTemplates = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // as constant as the files
	return template.Must(template.ParseFS(assets, "page/*.html"))
})

// readAssets concatenates embedded files of the pages.
func readAssets(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := assets.ReadFile("page/" + name)
		if err != nil {
			panic(err) // the names are constants of this package
		}
		all.Write(text)
		all.WriteByte('\n')
	}
	return all.String()
}

// Limits of the page. Browsers open five megabytes quickly, and a page that is mailed or attached to a ticket
// should not be much larger. Timelines take the rest.
const (
	pageRecords  = 8
	pageEvents   = 16_000
	pageTotal    = 5_000_000
	pageBytes    = 4_000_000
	pageNotes    = 50
	pageCoverage = 300
)

// page is the template's data. The timelines' data is embedded separately, as JSON for the scripts.
type page struct {
	Verdict, Sign string
	Title         string
	Overall       string
	Interrupted   bool
	Notes         []string
	Headline      *headline
	Why           []string

	Failures *failures
	Table    table
	Grid     *grid
	Coverage coverage
	// Sure describes how far the verdict can be trusted; nil for a single run.
	Sure *sureSection

	// Agreement compares the results of the two worlds; empty if only one was run.
	Agreement []verdict.Agreement

	// Matrix shows which scenario kills which mutant; nil unless requested.
	Matrix *matrix

	// Simulated reports whether models took part. Then the page lists their differences from real servers.
	Simulated   bool
	Differences []conformance.Difference
	Agreed      []conformance.Result

	Replay     string
	Go, Commit string

	shownRuns
}

// shownRuns is the part of a page with timelines.
type shownRuns struct {
	Records        []string
	RecordsLeftOut int

	Style  template.CSS
	Script template.JS
	Data   template.JS
}

func (s *shownRuns) embedRuns(data []byte, labels []string, script string) {
	s.Records = labels
	s.Style, s.Data = template.CSS(readAssets("style.css")), template.JS(data) //nolint:gosec // ours, and escaped by json.Marshal
	s.Script = template.JS("(() => {\n\"use strict\";\n" + script + "})();")   //nolint:gosec // ours
}

// headline describes the first failure.
type headline struct {
	Scenario  string
	Seed      uint64
	Execution string
	When      string
	Who       string
	Rule      string
	Title     string
	Message   string
	// Said is the last logged warning about the failure, right before it; nil for none.
	Said      *whySide
	Reproduce string
	Explained *whyPage
	Causes    []causeLine
	// Cut notes how much of the past the causes omit; empty if nothing is omitted.
	Cut string
	// More is the number of other failed runs.
	More int
}

type causeLine struct {
	Time, Who, What, Class string
	Last                   bool
}

// WriteHTML writes the report's page: one file that needs neither network nor server. Of many records it
// shows the failed ones, and of long records the part around the failure. It links to the pages of other
// recorded failures (see WriteRun), and notes omissions.
func WriteHTML(w io.Writer, s *verdict.Sweep, records []*verdict.Record) error {
	first := firstFailure(s, records)
	keys := runKeys(records)
	shown := chooseRecords(first, records)
	p := newPage(s, first, newRunLinker(records, keys, shown))
	// The size of the results is known only after they have been written.
	var rest counter
	p.embedRuns(nil, nil, "")
	if err := pageTemplates().ExecuteTemplate(&rest, "page.html", p); err != nil {
		return fmt.Errorf("measuring the page: %w", err)
	}
	script := readAssets("core.js", "draw.js", "led.js", "panel.js", "results.js")
	rest += counter(len(script))
	data, labels, err := pageData(shown, keys, max(0, min(pageBytes, pageTotal-int(rest))))
	if err != nil {
		return err
	}
	if len(labels) < len(shown) { // link to the pages of records that did not fit
		p = newPage(s, first, newRunLinker(records, keys, shown[:len(labels)]))
	}
	p.RecordsLeftOut = len(records) - len(labels)
	p.embedRuns(data, labels, script)
	if err := pageTemplates().ExecuteTemplate(w, "page.html", p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// counter counts bytes.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

// newRunLinker returns a function that links a result to the recorded run of its smallest failing seed, in
// this page or on a separate page. The link is empty for a result without one.
func newRunLinker(records []*verdict.Record, keys map[*verdict.Record]string, shown []*verdict.Record) func(*verdict.Scenario) string {
	type target struct {
		name, profile, mutant string
		varied                bool
		seed                  uint64
	}
	links := make(map[target]string, len(records))
	for _, r := range records {
		link := keys[r] + "/" + runPage
		if slices.Contains(shown, r) {
			link = "#run=" + keys[r]
		} else if len(r.Violations) == 0 && r.Panic == "" {
			continue // the record has no folder
		}
		at := target{r.Scenario, string(r.Profile), r.Mutant, r.Varied != nil, r.Seed}
		if links[at] == "" {
			links[at] = link
		}
	}
	return func(sc *verdict.Scenario) string {
		if sc.Failing == 0 {
			return ""
		}
		return links[target{sc.Name, string(sc.Profile), sc.Mutant, sc.Strategy == verdict.Varied, sc.FirstFailing}]
	}
}

// chooseRecords orders the records for the selector: first the headline's record, then other failures, then
// the rest, each group in the given order.
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

// pageData builds the timelines, and makes them smaller and smaller until they fit into `most` bytes.
// json.Marshal escapes everything that could end a script element.
func pageData(records []*verdict.Record, keys map[*verdict.Record]string, most int) (data []byte, labels []string, err error) {
	lim := limits{events: min(6000, pageEvents/max(1, len(records))), executions: 24, queues: 16, points: 1200, beats: 600}
	for {
		lines := make([]*timeline, len(records))
		for i, r := range records {
			lines[i] = buildTimeline(r, lim)
			lines[i].Key = keys[r]
		}
		data, err = json.Marshal(lines)
		if err != nil {
			return nil, nil, fmt.Errorf("writing the timelines: %w", err)
		}
		if len(data) <= most || len(records) == 0 {
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

func newPage(s *verdict.Sweep, first *failure, link func(*verdict.Scenario) string) *page {
	list := sortedScenarios(s)
	p := &page{
		Verdict: s.Verdict.String(), Sign: verdictSign(s.Verdict), Overall: overallText(s), Interrupted: s.Interrupted, Notes: s.Notes,
		Go: s.Go, Commit: CommitText(s.Commit), Coverage: newCoverage(list), Sure: newSureSection(list), Agreement: s.Agreement, Matrix: newMatrix(s.Matrix),
		Failures: groupFailures(list, link), Table: newTable(list, link), Grid: newGrid(list, link),
	}
	if more := len(p.Notes) - pageNotes; more > 0 {
		p.Notes = append(slices.Clone(p.Notes[:pageNotes]), fmt.Sprintf("Not shown: %d more.", more))
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

func newHeadline(f *failure, list []*verdict.Scenario) *headline {
	v := f.violation
	h := &headline{
		Scenario: f.scenario.Name + " (" + caseName(f.scenario) + ")", Seed: v.Seed, When: fmt.Sprintf("%s into the run, step %d", FormatTime(v.At), v.Step),
		Rule: v.Statement, Title: violationTitle(v), Message: v.Message, Reproduce: v.Reproduce,
	}
	if v.Execution != 0 {
		h.Execution = fmt.Sprintf("execution %d", v.Execution)
	}
	if i := invariant.ByNumber(v.Invariant); h.Rule == "" && i != nil {
		h.Rule = i.Statement
	}
	if f.record != nil {
		h.Explained = newWhy(f.record)
	}
	act, t := f.causingEvent()
	if act != nil {
		h.Who = t.subject(act)
	}
	if f.record != nil {
		h.Message, h.Said = t.nameQueueOwners(h.Message), lastWarningAbout(f.record, v, t)
	}
	h.Cut = cutNote(len(v.Causes), v.Past)
	for i := range v.Causes {
		e := &v.Causes[i]
		h.Causes = append(h.Causes, causeLine{
			Time: FormatTime(e.At), Who: t.subject(e), What: t.predicate(e), Class: eventClass(e.Kind),
			Last: act != nil && e.Step == act.Step && e.Kind == act.Kind && i == len(v.Causes)-1,
		})
	}
	for _, sc := range list {
		h.More += sc.Failing
	}
	h.More = max(0, h.More-1)
	return h
}
