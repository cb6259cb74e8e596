package reports

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

var keep = flag.String("keep", "", "write the pages with many results into this folder, to look at them")

// Many returns a sweep of the given number of results, four for each scenario: under two profiles, varied and
// unvaried. Every seventh scenario fails, in several seeds and in one of a few ways, and every fifth is
// inconclusive. The smallest failing seed of every failed result is recorded.
func Many(results int) (*verdict.Sweep, []*verdict.Record) {
	s := &verdict.Sweep{Go: "go1.26.8", Commit: "78845b2"}
	var records []*verdict.Record
	for i := range results {
		about := verdict.Scenario{
			Name: fmt.Sprintf("scenario-about-something-%04d", i/4), About: "A worker dies while it runs an action, and its machine comes back a moment later with another address.",
			World: "sim", Strategy: verdict.Random, Profile: []config.Profile{config.Documented, config.Hardened}[i%2],
		}
		if i%4 > 1 {
			about.Strategy = verdict.Varied
		}
		sc := verdict.NewScenario(about, verdict.Want{Seeds: 60, Faults: true, Sometimes: []string{"lost_worker_detected", "retry_scheduled"}})
		var record *verdict.Record
		for seed := uint64(1); seed <= 60; seed++ {
			r := &verdict.Run{
				Scenario: sc.Name, Profile: sc.Profile, Seed: seed, CompletedBefore: 3, CompletedAfter: 3, Steps: 900, Virtual: time.Minute,
				Faults:     []verdict.FaultCount{{Fault: "kill one worker", Planned: 1, Fired: 1, Touched: (i/4 + 1) % 5}, {Fault: "database: stopped", Planned: 1, Fired: 1, Touched: 1}},
				Sometimes:  map[string]int{"lost_worker_detected": 1, "retry_scheduled": (i/4 + 2) % 5},
				Situations: []uint64{1, 2, 3 + seed%7, 100 + seed/4},
			}
			r.Chains[execution.Completed] = 40
			if sc.Strategy == verdict.Varied {
				r.Varied = []string{"the worker is killed twice"}
			}
			if (i/4)%7 == 3 && (seed*uint64(i+3))%11 < uint64(i%4)+1 { //nolint:gosec // not negative
				v := verdict.Violation{
					Invariant: 2 + i%3, Name: []string{"ownership", "fencing", "exactly once"}[i%3], Statement: "Every status is written by the owner of that stage.",
					Seed: seed, Execution: 7, Step: 600, At: 40 * time.Second,
					Message:   fmt.Sprintf("the %s (executor-%d) ended execution %d while its action still ran", []string{"timeout monitor", "scheduler"}[seed%2], seed%3+1, seed),
					Reproduce: fmt.Sprintf("chaos run %s --profile %s --seed %d", sc.Name, sc.Profile, seed),
				}
				r.Violations = []verdict.Violation{v}
				if record == nil {
					record = &verdict.Record{Run: *r, Workers: map[execution.WorkerID]string{1: "shell-1"}}
					for k := range 200 {
						record.Events = append(record.Events, history.Event{
							At: time.Duration(k) * 250 * time.Millisecond, Step: uint64(k) * 5, Kind: history.Transition, Execution: execution.ID(k%20 + 1), //nolint:gosec // not negative
							From: execution.Requested, To: execution.Scheduling, By: execution.Scheduler, Process: fmt.Sprintf("executor-%d", k%3+1),
						})
					}
					records = append(records, record)
				}
			}
			sc.Add(r)
		}
		s.Scenarios = append(s.Scenarios, sc)
	}
	s.Judge()
	return s, records
}

func pageOf(t *testing.T, s *verdict.Sweep, records []*verdict.Record) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteHTML(&b, s, records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page of a large sweep grows only up to its limits, and never beyond the size that a browser opens
// quickly.
func TestPageOfManyResultsStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second: make test has it")
	}
	const n = 2000
	bytes := make(map[int]int)
	for _, results := range []int{1, 164, n, 2 * n} {
		s, records := Many(results)
		text := pageOf(t, s, records)
		bytes[results] = len(text)
		t.Logf("%5d results, %3d recorded: %d bytes", results, len(records), len(text))
		if len(text) > pageTotal {
			t.Errorf("the page of %d results has %d bytes, want at most %d", results, len(text), pageTotal)
		}
		if *keep != "" {
			if err := Write(filepath.Join(*keep, fmt.Sprint(results)), s, records); err != nil {
				t.Fatal(err)
			}
		}
		if left := results > pageResults; strings.Contains(text, " more results. result.json has them all") != left {
			t.Errorf("%d results: the page reports omissions: %v, want %v", results, !left, left)
		}
	}
	if bytes[2*n] > bytes[n]*8/5 {
		t.Errorf("%d bytes for %d results and %d for twice as many: the page is not bounded", bytes[n], n, bytes[2*n])
	}
}

// Long names and texts in results of other programs don't make the page exceed its size limit.
func TestPageOfManyFailuresStaysSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second: make test has it")
	}
	s, records := Many(28)
	long := strings.Repeat("long <words> & 7 ", 400)
	for i := range 4000 {
		sc := *s.Scenarios[12]
		sc.Name, sc.About, sc.Why = fmt.Sprintf("failing-%d", i), long, []string{long, long, long, long, long, long}
		sc.Causes = nil
		for c := range 40 {
			sc.Causes = append(sc.Causes, verdict.Cause{Rule: "invariant 2", Text: fmt.Sprint(i*40+c, long[:270]), Seeds: 1, First: sc.FirstFailing})
		}
		s.Scenarios = append(s.Scenarios, &sc)
		s.Notes = append(s.Notes, "a note")
	}
	if text := pageOf(t, s, records); len(text) > pageTotal {
		t.Errorf("%d bytes, want at most %d", len(text), pageTotal)
	}
}

func TestFailuresAreGroupedByCause(t *testing.T) {
	violation := func(seed uint64, text string) verdict.Violation {
		return verdict.Violation{Invariant: 2, Name: "ownership", Seed: seed, Message: fmt.Sprintf(text, seed)}
	}
	var list []*verdict.Scenario
	for i, name := range []string{"a", "b", "c"} {
		sc := verdict.NewScenario(verdict.Scenario{Name: name, Profile: config.Hardened}, verdict.Want{})
		for seed := uint64(1); seed <= 9; seed++ {
			r := &verdict.Run{Seed: seed}
			switch {
			case i == 0 && seed > 1: // eight
				r.Violations = []verdict.Violation{violation(seed, "the scheduler of executor-%d dispatched it twice")}
			case i == 1 && seed > 6: // three, two of them twice with the same cause
				r.Violations = []verdict.Violation{violation(seed, "shell-%d began it twice"), violation(seed, "shell-1%d began it twice")}
			}
			sc.Add(r)
		}
		list = append(list, sc)
	}
	f := groupFailures(list, func(sc *verdict.Scenario) string { return "#run=" + sc.Name })
	if got := f.Title(); got != "11 failed runs, 2 causes" {
		t.Errorf("title %q", got)
	}
	var got []string
	for _, g := range f.Groups {
		got = append(got, fmt.Sprintf("%d %s|%s|%s|%s %s", g.Seeds, g.Rule, g.Where, g.Text, g.Results[0].Name, g.Results[0].Link))
	}
	want := []string{
		"8 invariant 2, ownership|scheduler|the scheduler of executor-… dispatched it twice|a #run=a",
		"3 invariant 2, ownership|shell|shell-… began it twice|b #run=b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if groupFailures(list[2:], nil) != nil {
		t.Error("groups of no failure")
	}
}

func TestGridShowsWhichSeedsFailed(t *testing.T) {
	result := func(name string, seeds uint64, fails func(uint64) bool) *verdict.Scenario {
		sc := verdict.NewScenario(verdict.Scenario{Name: name, Profile: config.Hardened}, verdict.Want{})
		for seed := uint64(1); seed <= seeds; seed++ {
			r := &verdict.Run{Seed: seed}
			if fails(seed) {
				r.Violations = []verdict.Violation{{Invariant: 1, Seed: seed, Reproduce: fmt.Sprintf("chaos run %s --seed %d", name, seed)}}
			}
			sc.Add(r)
		}
		return sc
	}
	none := func(*verdict.Scenario) string { return "" }
	g := newGrid([]*verdict.Scenario{
		result("rare", 4, func(s uint64) bool { return s == 3 }),
		result("fine", 900, func(uint64) bool { return false }),
		result("often", 10, func(s uint64) bool { return s%3 == 0 }),
	}, none)
	if g.Each != 1 || g.Columns != 10 || len(g.Rows) != 2 || g.All.Failing != 4 {
		t.Fatalf("%+v", g)
	}
	often, rare := g.Rows[0], g.Rows[1]
	if often.Name != "often" || often.Few != "M2 0h1v1h-1zM5 0h1v1h-1zM8 0h1v1h-1z" || often.Seeds != "3, 6, 9" || often.Failed != "3 3 3" || often.Reproduce != "chaos run often --seed SEED" {
		t.Errorf("%+v", often)
	}
	if rare.Width != 4 || rare.Few != "M2 0h1v1h-1z" {
		t.Errorf("%+v", rare)
	}
	if g.All.Some != "M2 0h1v1h-1z" {
		t.Errorf("seed 3 failed twice, and the row of all is %+v", g.All)
	}

	g = newGrid([]*verdict.Scenario{result("many", 5000, func(s uint64) bool { return s%2 == 0 })}, none)
	if g.Each != 50 || g.Columns != 100 {
		t.Errorf("%d columns of %d seeds", g.Columns, g.Each)
	}
	// Only 1,000 of the 2,500 failed seeds are kept: up to seed 2,000.
	if r := g.Rows[0]; r.Unknown != 40 || !strings.HasSuffix(r.Seeds, "14, 16 and 992 more") {
		t.Errorf("%d columns are known; %s", r.Unknown, r.Seeds)
	}
	if newGrid([]*verdict.Scenario{result("one", 1, func(uint64) bool { return true })}, none) != nil {
		t.Error("a grid of one seed")
	}
}

// A scenario has one row, with its profiles side by side.
func TestTableHasOneRowForEachScenario(t *testing.T) {
	s, records := Many(56)
	list := sortedScenarios(s)
	shown := chooseRecords(firstFailure(s, records), records)
	table := newTable(list, newRunLinker(records, runKeys(records), shown))
	if want := []string{"hardened", "hardened, varied", "documented", "documented, varied"}; !slices.Equal(table.Columns, want) {
		t.Errorf("columns %q, want %q", table.Columns, want)
	}
	if len(table.Rows) != 14 || table.Fail != 2 || table.Fail+table.Inconclusive+table.Pass != 14 {
		t.Errorf("%d rows, %d failed, %d inconclusive, %d passed", len(table.Rows), table.Fail, table.Inconclusive, table.Pass)
	}
	names := make(map[string]bool)
	for i, row := range table.Rows {
		if names[row.Name] {
			t.Errorf("%s has two rows", row.Name)
		}
		names[row.Name] = true
		if i > 0 && row.Rank > table.Rows[i-1].Rank {
			t.Errorf("%s (%s) is below a better one", row.Name, row.Verdict)
		}
		for _, cell := range row.Cells {
			for _, r := range cell.Results {
				if (r.Verdict == "fail") != (r.Link != "") {
					t.Errorf("%s, %s: %s has the link %q", row.Name, cell.Column, r.Verdict, r.Link)
				}
			}
		}
	}
}

// Every link leads to a run in the page or to an existing file.
func TestPageHasNoBrokenLinks(t *testing.T) {
	dir := t.TempDir()
	s, records := Many(164)
	if err := Write(dir, s, records); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	inside, beside := 0, 0
	for _, part := range strings.Split(string(text), `<a href="`)[1:] {
		href, _, _ := strings.Cut(part, `"`)
		switch key, run := strings.CutPrefix(href, "#run="); {
		case run:
			inside++
			if !strings.Contains(string(text), `"key":"`+key+`"`) {
				t.Errorf("no run %s in the page", key)
			}
		case strings.HasPrefix(href, "#"):
			if !strings.Contains(string(text), `id="`+href[1:]+`"`) {
				t.Errorf("nothing has the id of %s", href)
			}
		case !strings.Contains(href, "$"): // a script's
			beside++
			page, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(href)))
			if key := filepath.Dir(href); err != nil || !bytes.Contains(page, []byte(`"key":"`+key+`"`)) {
				t.Errorf("%s: %v, or another run", href, err)
			}
		}
	}
	if inside == 0 || beside == 0 {
		t.Errorf("%d links inside, %d to other pages", inside, beside)
	}
}

func TestFaultIntervalsNameTheirTargets(t *testing.T) {
	r := &verdict.Record{
		Workers: map[execution.WorkerID]string{3: "shell-3"},
		FaultIntervals: []verdict.FaultInterval{
			{Fault: "kill one worker", Begin: 1, End: 5},
			{Fault: "kill one worker", Begin: 10, End: 15},
			{Fault: "pause shell-1", Begin: 2, End: 3},
			{Fault: "drop messages", Begin: 4, End: 9},
			{Fault: "cut shell-1 from broker", Begin: 4, End: 9},
		},
		Events: []history.Event{
			{At: 1, Kind: history.FaultBegan, Fault: "kill one worker", Process: "shell-2"},
			{At: 2, Kind: history.FaultTouched, Fault: "kill one worker", Process: "shell-2"},
			{At: 2, Kind: history.FaultBegan, Fault: "pause shell-1", Process: "shell-1"},
			{At: 3, Kind: history.FaultTouched, Fault: "pause shell-1", Process: "shell-1"},
			{At: 4, Kind: history.FaultBegan, Fault: "cut shell-1 from broker", Process: "shell-1", Queue: "broker"},
			{At: 10, Kind: history.FaultBegan, Fault: "kill one worker", Process: "shell-11,shell-12,shell-13,shell-14"},
			{At: 17, Kind: history.FaultTouched, Fault: "kill one worker", Process: "shell-11"},
			{At: 18, Kind: history.FaultTouched, Fault: "drop messages", Queue: "worker.3.executions", Message: 4},
		},
	}
	want := []string{
		"kill one worker → shell-2", "kill one worker → shell-11, shell-12, shell-13 and 1 more", "pause shell-1",
		"drop messages → the queue of worker shell-3", "cut shell-1 from broker (touched nothing)",
	}
	b := &builder{r: r, t: newDescriber(r.Workers)}
	if got := b.labelIntervals(r.FaultIntervals); !slices.Equal(got, want) {
		t.Errorf("labels\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	r.Kinds = []history.Kind{history.FaultBegan}
	if got := b.labelIntervals(r.FaultIntervals)[4]; got != "cut shell-1 from broker" {
		t.Errorf("%q, though the history records no evidence", got)
	}
}

// The default profile comes first among equal results, because people begin with it. If only one profile
// fails, it is the headline.
func TestDefaultProfileComesFirst(t *testing.T) {
	results := func(failing ...config.Profile) *verdict.Sweep {
		s := &verdict.Sweep{}
		for _, p := range []config.Profile{config.Documented, config.Hardened} {
			sc := &verdict.Scenario{Name: "calm", Profile: p, Seeds: 1}
			if slices.Contains(failing, p) {
				sc.Violations = []verdict.Violation{{Invariant: 4, Name: "one run at a time"}}
			}
			s.Scenarios = append(s.Scenarios, sc)
		}
		return s
	}
	for _, c := range []struct {
		failing []config.Profile
		want    config.Profile
	}{
		{[]config.Profile{config.Hardened, config.Documented}, config.Hardened},
		{[]config.Profile{config.Documented}, config.Documented},
	} {
		if f := firstFailure(results(c.failing...), nil); f.scenario.Profile != c.want {
			t.Errorf("where %v fail, the headline is of %s, want %s", c.failing, f.scenario.Profile, c.want)
		}
	}
	if list := sortedScenarios(results()); list[0].Profile != config.Hardened {
		t.Errorf("the first of two results that pass is of %s", list[0].Profile)
	}
}
