package reports

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"time"

	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// RunShares is the kind of a share of a sweep.
const RunShares = "run"

// maxTargets bounds how many results a share has: one for each scenario and profile.
const maxTargets = 20_000

// shareItem is a line of a share: one of its fields.
type shareItem struct {
	Notes    []string        `json:"notes,omitempty"`
	Scenario *verdict.Stored `json:"scenario,omitempty"`
	Matrix   *verdict.Matrix `json:"matrix,omitempty"`
	Record   *shareRecord    `json:"record,omitempty"`
	State    *shareState     `json:"state,omitempty"`
}

// shareState is what a sweep is as a whole.
type shareState struct {
	Interrupted bool `json:"interrupted"`
}

// shareRecord is the story of a run, without the events: they are in a history of its own, which is read back only for the
// smallest failing seed of all shares.
type shareRecord struct {
	Run            verdict.Run                   `json:"run"`
	Workers        map[execution.WorkerID]string `json:"workers"`
	FaultIntervals []verdict.FaultInterval       `json:"fault_intervals"`
	Events         int                           `json:"events"`
	// Folder is where the history is, beside the share.
	Folder string `json:"folder"`
}

// shareAside is what differs between two runs of a share.
type shareAside struct {
	Wall []float64 `json:"wall_s"`
}

// WriteShare writes the report of a share into dir, as Write does, and beside it the file that MergeShares reads. That one
// comes last: whoever sees it finds everything there.
func WriteShare(dir string, h shard.Header, s *verdict.Sweep, records []*verdict.Record) error {
	shown := *s
	shown.Notes = append(shown.Notes[:len(shown.Notes):len(shown.Notes)],
		"This is share "+h.Share.String()+" of the runs. What only all of them show, such as a fault that never struck, is judged by chaos merge.")
	if err := Write(dir, &shown, records); err != nil {
		return err
	}
	items := []any{shareItem{State: &shareState{s.Interrupted}}}
	if len(s.Notes) > 0 {
		items = append(items, shareItem{Notes: s.Notes})
	}
	var aside shareAside
	for _, sc := range s.Scenarios {
		stored := sc.Store()
		items = append(items, shareItem{Scenario: &stored})
		aside.Wall = append(aside.Wall, sc.Wall.Seconds())
	}
	if s.Matrix != nil {
		items = append(items, shareItem{Matrix: s.Matrix})
	}
	folders := recordFolders(records)
	for i, r := range records {
		items = append(items, shareItem{Record: &shareRecord{r.Run, r.Workers, r.FaultIntervals, len(r.Events), folders[i]}})
	}
	h.Kind, h.Commit, h.Go = RunShares, s.Commit, s.Go
	return WriteFile(filepath.Join(dir, shard.FileName), func(w io.Writer) error { return shard.Write(w, h, items, aside) })
}

// MergeShares puts the shares of a sweep together. What it returns is to be judged (Sweep.Whole), and its records have no
// causes yet. Memory depends on the number of results and on the failures that are shown, and not on the number of shares.
func MergeShares(set shard.Set) (*verdict.Sweep, []*verdict.Record, error) {
	m := merging{stories: make(map[int]story)}
	for _, f := range set.Files {
		if err := m.add(f); err != nil {
			return nil, nil, err
		}
	}
	records, err := m.records()
	return m.sweep, records, err
}

// merging is a merge under way.
type merging struct {
	sweep   *verdict.Sweep
	stories map[int]story // by the index of the result: that of its smallest failing seed so far
}

type story struct {
	shareRecord
	dir string
}

// add reads a share and merges it.
func (m *merging) add(f shard.File) error {
	s := &verdict.Sweep{Go: f.Header.Go, Commit: f.Header.Commit}
	var told []story
	r, err := shard.Each(f.Path, func(r *shard.Reader, item shareItem) error {
		switch {
		case item.Scenario != nil:
			sc, err := item.Scenario.Restore()
			if err == nil {
				err = plainNames(sc.Name, sc.Profile, sc.Mutant, sc.World, sc.Strategy)
			}
			if err != nil {
				return r.Refuse(1, "%s", Printable(err.Error(), ""))
			}
			if s.Scenarios = append(s.Scenarios, sc); len(s.Scenarios) > maxTargets {
				return r.Refuse(1, "more than %d results; no library has as many", maxTargets)
			}
		case item.Matrix != nil:
			if len(item.Matrix.Runs) != len(item.Matrix.Mutants) {
				return r.Refuse(1, "matrix: %d rows for %d mutants", len(item.Matrix.Runs), len(item.Matrix.Mutants))
			}
			s.Matrix = item.Matrix
		case item.Record != nil:
			if told = append(told, story{*item.Record, filepath.Dir(f.Path)}); len(told) > len(s.Scenarios) {
				return r.Refuse(1, "more stories than results")
			}
		case item.State != nil:
			s.Interrupted = item.State.Interrupted
		default:
			s.Notes = append(s.Notes, item.Notes...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var aside shareAside
	if err := r.Aside(&aside); err != nil {
		return err
	}
	for i, sc := range s.Scenarios {
		if i < len(aside.Wall) && aside.Wall[i] >= 0 && aside.Wall[i] < math.MaxInt32 {
			sc.Wall = time.Duration(aside.Wall[i] * float64(time.Second))
		}
	}
	return m.merge(f.Path, s, told)
}

func (m *merging) merge(path string, s *verdict.Sweep, told []story) error {
	if m.sweep == nil {
		m.sweep = s
	} else if err := m.sweep.Merge(s); err != nil {
		return fmt.Errorf("%s: it can't be added to the shares before it: %s", path, Printable(err.Error(), ""))
	}
	for i, sc := range m.sweep.Scenarios {
		for _, t := range told {
			if t.Run.Seed == sc.FirstFailing && sc.Failing > 0 && IsOf(&verdict.Record{Run: t.Run}, sc) {
				m.stories[i] = t
			}
		}
	}
	return nil
}

// records reads the stories back, in the order of the results.
func (m *merging) records() ([]*verdict.Record, error) {
	var list []*verdict.Record
	for i, sc := range m.sweep.Scenarios {
		t, there := m.stories[i]
		if !there || t.Run.Seed != sc.FirstFailing {
			continue
		}
		r, err := t.read()
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// read reads the history of a story. A run that failed without a violation to show has none.
func (t *story) read() (*verdict.Record, error) {
	r := &verdict.Record{Run: t.Run, Workers: t.Workers, FaultIntervals: t.FaultIntervals}
	if t.Folder == "" {
		return r, nil
	}
	if t.Folder != fileName(t.Folder) {
		return nil, fmt.Errorf("%s: the folder of a history is called %q, which is no name beside it", filepath.Join(t.dir, shard.FileName), t.Folder)
	}
	path := filepath.Join(t.dir, t.Folder, "history.jsonl")
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the history of seed %d of %s: %w; copy the share's whole folder, and not only its %s", t.Run.Seed, Printable(t.Run.Scenario, ""), err, shard.FileName)
	}
	defer func() { _ = file.Close() }() // it was only read
	h, err := ReadHistory(path, file)
	if err != nil {
		return nil, err
	}
	if h.Seed != t.Run.Seed || h.Scenario != t.Run.Scenario || h.Profile != t.Run.Profile || !maps.Equal(h.Workers, t.Workers) {
		return nil, fmt.Errorf("%s: it is of seed %d of %s, and not of seed %d of %s: another report was written over it; run the share again",
			path, h.Seed, Printable(h.Scenario, ""), t.Run.Seed, Printable(t.Run.Scenario, ""))
	}
	if len(h.Events) != t.Events {
		return nil, fmt.Errorf("%s: it has %d events, and %d were written: it was cut off; copy it again, or run the share again", path, len(h.Events), t.Events)
	}
	r.Events = h.Events
	return r, nil
}

// plainNames refuses names that would write something else to a terminal.
func plainNames[T ~string](first string, profile T, others ...string) error {
	for _, name := range append(others, first, string(profile)) {
		if len(name) > maxName || name != Printable(name, "") {
			return fmt.Errorf("the name %q is too long, or has letters that can't be shown", clip(name))
		}
	}
	return nil
}
