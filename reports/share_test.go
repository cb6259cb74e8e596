package reports_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"handoff/chaos/history"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/reports"
)

const shareSeeds = 12

// drawnRun returns a run with mostly random fields.
func drawnRun(t *rapid.T, seed uint64) *verdict.Run {
	draw := rapid.IntRange(0, 3)
	r := &verdict.Run{
		Scenario: "s", Profile: config.Hardened, Seed: seed, Steps: uint64(draw.Draw(t, "steps")), Virtual: time.Duration(draw.Draw(t, "virtual")),
		Hash: rapid.Uint64().Draw(t, "hash"), Sometimes: map[string]int{"parked": draw.Draw(t, "parked")}, Texts: map[string]int{"boom": draw.Draw(t, "texts")},
		Faults:    []verdict.FaultCount{{Fault: fmt.Sprint("crash ", draw.Draw(t, "fault")), Planned: 1, Fired: draw.Draw(t, "fired"), Touched: draw.Draw(t, "touched")}},
		Detection: map[string]time.Duration{"lost": time.Duration(draw.Draw(t, "detection"))}, CompletedBefore: draw.Draw(t, "before"), CompletedAfter: draw.Draw(t, "after"),
	}
	r.Chains[execution.Completed], r.Chains[execution.None] = int64(draw.Draw(t, "completed")), int64(draw.Draw(t, "stuck"))
	r.Rows = r.Chains
	for range draw.Draw(t, "violations") {
		r.Violations = append(r.Violations, verdict.Violation{
			Invariant: draw.Draw(t, "invariant"), Name: "rule", Seed: seed, Step: uint64(draw.Draw(t, "step")), Message: fmt.Sprint("what ", draw.Draw(t, "message")),
			Reproduce: fmt.Sprint("replay ", seed),
		})
	}
	if draw.Draw(t, "gives up") == 0 {
		r.GaveUp = fmt.Sprint("too long ", seed)
	}
	if draw.Draw(t, "panics") == 0 {
		r.Panic = fmt.Sprint("nil map ", seed)
	}
	return r
}

// sweepOf returns the result of a sweep over some of the runs.
func sweepOf(runs []*verdict.Run, part bool) (*verdict.Sweep, []*verdict.Record) {
	sc := verdict.NewScenario(verdict.Scenario{Name: "s", World: "sim", Profile: config.Hardened}, verdict.Want{
		Seeds: len(runs), Sometimes: []string{"parked"}, Texts: []string{"boom"}, Faults: true, Share: part,
	})
	var first *verdict.Run
	for _, r := range runs {
		sc.Add(r)
		sc.Wall += time.Duration(len(runs)) * time.Second
		if len(r.Failures()) > 0 && (first == nil || r.Seed < first.Seed) {
			first = r
		}
	}
	s := &verdict.Sweep{Scenarios: []*verdict.Scenario{sc}, Go: "go1", Commit: "c", Notes: []string{"left out: t"}}
	s.Judge()
	if first == nil {
		return s, nil
	}
	record := &verdict.Record{
		Run: *first, Workers: map[execution.WorkerID]string{1: "shell-1"},
		FaultIntervals: []verdict.FaultInterval{{Fault: "crash shell-1", End: time.Second}},
		ScenarioText:   []byte("name: s\n"),
	}
	record.Violations = first.Failures()
	for step := range 4 {
		record.Events = append(record.Events, history.Event{Kind: history.Created, Step: uint64(step), Execution: execution.ID(first.Seed), Chain: execution.ID(first.Seed)})
	}
	return s, []*verdict.Record{record}
}

// reportFiles returns the files of a report by name, without the timing.
func reportFiles(t *rapid.T, dir string) map[string]string {
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "timing.json" {
			return err
		}
		text, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, dir)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The merged result is the same to the byte, however the runs were divided, and however often and in whatever
// order the shares are given.
func TestSharesMergeByteForByte(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second: make test has it")
	}
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		home := filepath.Join(dir, fmt.Sprint(n))
		defer os.RemoveAll(home)
		shares := rapid.IntRange(1, 4).Draw(t, "shares")
		var all []*verdict.Run
		parts := make([][]*verdict.Run, shares)
		for seed := range uint64(shareSeeds) {
			r := drawnRun(t, seed+1)
			all = append(all, r)
			i := rapid.IntRange(0, shares-1).Draw(t, "share")
			parts[i] = append(parts[i], r)
		}
		one, records := sweepOf(all, false)
		if err := reports.Write(filepath.Join(home, "one"), one, records); err != nil {
			t.Fatal(err)
		}
		var given []shard.File
		for i, runs := range parts {
			folder := filepath.Join(home, fmt.Sprint(i))
			s, records := sweepOf(runs, true)
			h := shard.Header{Share: shard.Share{Index: i + 1, Of: shares}, Seeds: shareSeeds}
			if err := reports.WriteShare(folder, h, s, records, []reports.Source{{File: "s.yaml", Text: "name: s"}}); err != nil {
				t.Fatal(err)
			}
			f, err := shard.Verify(filepath.Join(folder, shard.FileName))
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, f)
			if rapid.Bool().Draw(t, "twice") {
				given = append(given, f)
			}
		}
		set, err := shard.Gather(rapid.Permutation(given).Draw(t, "order"))
		if err != nil || len(set.Missing) > 0 {
			t.Fatalf("missing %v, %v", set.Missing, err)
		}
		merged, sources, err := reports.MergeShares(set)
		if err != nil || len(sources) != shares || sources[0].Text != "name: s" {
			t.Fatal(sources, err)
		}
		merged.Whole(shareSeeds, shareSeeds, set.Absent())
		if err := reports.Write(filepath.Join(home, "merged"), merged, records); err != nil {
			t.Fatal(err)
		}
		// Data that no report file shows, such as the durations of detections, is also equal.
		if want, got := one.Scenarios[0].Store(), merged.Scenarios[0].Store(); storedText(want) != storedText(got) {
			t.Fatalf("one run\n%s\nmerged\n%s", storedText(want), storedText(got))
		}
		want, got := reportFiles(t, filepath.Join(home, "one")), reportFiles(t, filepath.Join(home, "merged"))
		for name, text := range want {
			if got[name] != text {
				t.Fatalf("%s differs:\n%s\nmerged:\n%s", name, clipText(text), clipText(got[name]))
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%d files, and %d merged", len(want), len(got))
		}
	})
}

// storedText returns a result in its file format.
func storedText(s verdict.Stored) string {
	text, err := json.Marshal(s)
	return fmt.Sprint(string(text), err)
}

func clipText(text string) string { return text[:min(len(text), 4000)] }

// writeTwoShares writes two shares of runs, of which seed 3 fails, and returns the folder.
func writeTwoShares(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 2 {
		var runs []*verdict.Run
		for seed := uint64(i + 1); seed <= 4; seed += 2 {
			r := &verdict.Run{Scenario: "s", Profile: config.Hardened, Seed: seed}
			if seed == 3 {
				r.Violations = []verdict.Violation{{Invariant: 2, Name: "ownership", Seed: seed}}
			}
			runs = append(runs, r)
		}
		s, records := sweepOf(runs, true)
		h := shard.Header{Share: shard.Share{Index: i + 1, Of: 2}, Seeds: 4}
		if err := reports.WriteShare(filepath.Join(dir, fmt.Sprint(i+1)), h, s, records, nil); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A file with a valid checksum may still contain data that this program never writes.
func TestForgedShareIsRefused(t *testing.T) {
	tests := []struct {
		name string
		item any
		want string
	}{
		{"negative counts", map[string]any{"scenario": map[string]any{"result": map[string]any{"Name": "s", "Seeds": -4}}}, "a count is -4, below zero"},
		{"terminal controls", map[string]any{"scenario": map[string]any{"result": map[string]any{"Name": "\x1b[2J"}}}, "letters that can't be shown"},
		{"another scenario", map[string]any{"scenario": map[string]any{"result": map[string]any{"Name": "t"}}}, "one share has 2 scenarios, the other share 1"},
		{"a table with too few rows", map[string]any{"matrix": map[string]any{"Mutants": []any{map[string]any{}}}}, "0 rows for 1 mutants"},
	}
	for _, test := range tests {
		dir := writeTwoShares(t)
		path := filepath.Join(dir, "1", shard.FileName)
		var items []any
		f, err := shard.Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		var aside any
		if err := shard.Each(f, &aside, func(item map[string]any) error {
			items = append(items, item)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := shard.Write(file, f.Header, append(items, test.item), map[string]any{}); err != nil {
			t.Fatal(err)
		}
		file.Close()
		if _, _, err := reports.MergeShares(gatherShares(t, dir)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.name, err, test.want)
		}
	}
}

func gatherShares(t *testing.T, dir string) shard.Set {
	t.Helper()
	paths, err := shard.Find([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(paths)
	var list []shard.File
	for _, path := range paths {
		f, err := shard.Verify(path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, f)
	}
	set, err := shard.Gather(list)
	if err != nil {
		t.Fatal(err)
	}
	return set
}
