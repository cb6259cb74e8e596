package reports

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// RunShares is the kind of a share of a sweep's runs.
const RunShares = "run"

// maxTargets is the greatest number of results in a share: one for each scenario and profile.
const maxTargets = 20_000

// shareItem is a line of a share; one of its fields is set.
type shareItem struct {
	Notes    []string        `json:"notes,omitempty"`
	Scenario *verdict.Stored `json:"scenario,omitempty"`
	Matrix   *verdict.Matrix `json:"matrix,omitempty"`
	Record   *shareRecord    `json:"record,omitempty"`
	State    *shareState     `json:"state,omitempty"`
}

// shareState holds the fields of a sweep as a whole.
type shareState struct {
	Interrupted bool `json:"interrupted"`
}

// shareRecord is the record of a run without the events. Those are in a history file, which is read
// back only for the smallest failing seed of all shares.
type shareRecord struct {
	Run            verdict.Run                   `json:"run"`
	Workers        map[execution.WorkerID]string `json:"workers"`
	FaultIntervals []verdict.FaultInterval       `json:"fault_intervals"`
	Events         int                           `json:"events"`
	// Folder is the folder of the history, beside the share.
	Folder string `json:"folder"`
	// Scenario is the SHA-256 of the scenario in that folder, in hexadecimal; empty if there is none.
	Scenario string `json:"scenario,omitempty"`
	// Explained says why the run failed; left out if that was not asked.
	Explained *explain.Explanation `json:"explained,omitempty"`
	// Parents are the numbers of the events that led to each event, as verdict.Record has them.
	Parents [][]int32 `json:"parents,omitempty"`
}

// shareAside holds what differs between two runs of the same share.
type shareAside struct {
	Wall []float64 `json:"wall_s"`
}

// WriteShare writes the report of a share into dir, as Write does, and the file that MergeShares
// reads. That file comes last, so a reader that sees it finds everything else there.
func WriteShare(dir string, h shard.Header, s *verdict.Sweep, records []*verdict.Record) error {
	shown := *s
	shown.Notes = append(shown.Notes[:len(shown.Notes):len(shown.Notes)],
		"This is share "+h.Share.String()+" of the runs. Conditions on the whole sweep, such as that every fault strikes, are judged by chaos merge.")
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
		items = append(items, shareItem{Record: &shareRecord{r.Run, r.Workers, r.FaultIntervals, len(r.Events), folders[i], digest(r.ScenarioText), r.Explained, r.Parents}})
	}
	h.Kind, h.Commit, h.Go = RunShares, s.Commit, s.Go
	return WriteFile(filepath.Join(dir, shard.FileName), func(w io.Writer) error { return shard.Write(w, h, items, aside) })
}

// digest is the SHA-256 of a text, in hexadecimal; empty for none.
func digest(text []byte) string {
	if text == nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// MergeShares merges the shares of a sweep. The caller judges the result (Sweep.Whole). Its records
// have no causes yet. Memory depends on the number of results and of shown failures, not on the
// number of shares.
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

// merging is the state of a merge.
type merging struct {
	sweep   *verdict.Sweep
	stories map[int]story // by the index of the result: the record of its smallest failing seed so far
}

type story struct {
	shareRecord
	dir string
}

// add reads a share and merges it.
func (m *merging) add(f shard.File) error {
	s := &verdict.Sweep{Go: f.Header.Go, Commit: f.Header.Commit}
	var told []story
	var aside shareAside
	err := shard.Each(f, &aside, func(item shareItem) error {
		switch {
		case item.Scenario != nil:
			sc, err := item.Scenario.Restore()
			if err == nil {
				err = plainNames(sc.Name, sc.Profile, sc.Mutant, sc.World, sc.Strategy)
			}
			if err != nil {
				return errors.New(Printable(err.Error(), ""))
			}
			if s.Scenarios = append(s.Scenarios, sc); len(s.Scenarios) > maxTargets {
				return fmt.Errorf("more than %d results; no library has as many", maxTargets)
			}
		case item.Matrix != nil:
			if len(item.Matrix.Runs) != len(item.Matrix.Mutants) {
				return fmt.Errorf("matrix: %d rows for %d mutants", len(item.Matrix.Runs), len(item.Matrix.Mutants))
			}
			s.Matrix = item.Matrix
		case item.Record != nil:
			if told = append(told, story{*item.Record, filepath.Dir(f.Path)}); len(told) > len(s.Scenarios) {
				return fmt.Errorf("more stories than results")
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

// records reads the records back, in the order of the results.
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

// read reads the history of a record. A run that failed without a violation to show has no history.
func (t *story) read() (*verdict.Record, error) {
	r := &verdict.Record{Run: t.Run, Workers: t.Workers, FaultIntervals: t.FaultIntervals, Explained: t.Explained}
	if t.Folder == "" {
		return r, nil
	}
	if t.Folder != fileName(t.Folder) {
		return nil, fmt.Errorf("%s: the folder of a history is called %q, which is no name beside it", filepath.Join(t.dir, shard.FileName), t.Folder)
	}
	path := filepath.Join(t.dir, t.Folder, HistoryFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the history of seed %d of %s: %w; copy the share's whole folder, and not only its %s", t.Run.Seed, Printable(t.Run.Scenario, ""), err, shard.FileName)
	}
	defer func() { _ = file.Close() }() // opened only for reading
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
	r.Events, r.Parents = h.Events, t.Parents
	for i, of := range r.Parents {
		if len(r.Parents) > len(r.Events) || slices.ContainsFunc(of, func(p int32) bool { return p < 0 || int(p) >= i }) {
			return nil, fmt.Errorf("%s: the parents of event %d are no events before it: the share is damaged; run it again", filepath.Join(t.dir, shard.FileName), i+1)
		}
	}
	r.ScenarioText, err = t.scenario()
	return r, err
}

// scenario reads the scenario of a record, nil if it has none.
func (t *story) scenario() ([]byte, error) {
	if t.Scenario == "" {
		return nil, nil
	}
	path := filepath.Join(t.dir, t.Folder, ScenarioFile)
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the scenario of seed %d of %s: %w; copy the share's whole folder, and not only its %s", t.Run.Seed, Printable(t.Run.Scenario, ""), err, shard.FileName)
	}
	defer func() { _ = file.Close() }() // opened only for reading
	text, err := io.ReadAll(io.LimitReader(file, yamlfile.MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if digest(text) != t.Scenario {
		return nil, fmt.Errorf("%s: it is not the scenario that the share ran: it was changed or cut off; copy it again, or run the share again", path)
	}
	return text, nil
}

// plainNames refuses names with characters that a terminal would obey or can't show.
func plainNames[T ~string](first string, profile T, others ...string) error {
	for _, name := range append(others, first, string(profile)) {
		if len(name) > maxName || name != Printable(name, "") {
			return fmt.Errorf("the name %q is too long, or has letters that can't be shown", clip(name))
		}
	}
	return nil
}
