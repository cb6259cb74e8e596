package reports

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"handoff/chaos/shard"
	"handoff/chaos/verdict"
)

// RunShares is the kind of shares that divide a sweep's runs.
const RunShares = "run"

// maxTargets is the maximum number of results in a share: one for each scenario and profile.
const maxTargets = 20_000

// shareItem is a line of a share; exactly one field is set.
type shareItem struct {
	Notes    []string        `json:"notes,omitempty"`
	Scenario *verdict.Stored `json:"scenario,omitempty"`
	Matrix   *verdict.Matrix `json:"matrix,omitempty"`
	State    *shareState     `json:"state,omitempty"`
}

// shareState holds fields that concern the whole sweep.
type shareState struct {
	Interrupted bool `json:"interrupted"`
}

// Source is the file of a scenario outside the library.
type Source struct {
	File string `json:"file"`
	Text string `json:"text"`
}

// shareAside holds data that differs between two runs of the same share, such as the paths of scenario files.
type shareAside struct {
	Wall    []float64 `json:"wall_s"`
	Sources []Source  `json:"sources"`
}

// WriteShare writes the report of a share into dir, as Write does, and the file that MergeShares reads. sources
// are the scenarios outside the library. That file comes last, so a reader that sees it finds everything else.
func WriteShare(dir string, h shard.Header, s *verdict.Sweep, records []*verdict.Record, sources []Source) error {
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
	aside := shareAside{Sources: sources}
	for _, sc := range s.Scenarios {
		stored := sc.Store()
		items = append(items, shareItem{Scenario: &stored})
		aside.Wall = append(aside.Wall, sc.Wall.Seconds())
	}
	if s.Matrix != nil {
		items = append(items, shareItem{Matrix: s.Matrix})
	}
	h.Kind, h.Commit, h.Go = RunShares, s.Commit, s.Go
	return WriteFile(filepath.Join(dir, shard.FileName), func(w io.Writer) error { return shard.Write(w, h, items, aside) })
}

// MergeShares merges the shares of a sweep, and returns their scenarios outside the library. The caller
// judges the result (Sweep.Whole) and repeats the failed runs: a share has no histories. Memory depends on
// the number of results, not on the number of shares.
func MergeShares(set shard.Set) (sweep *verdict.Sweep, sources []Source, err error) {
	for _, f := range set.Files {
		s, aside, err := readShare(f)
		if err != nil {
			return nil, nil, err
		}
		if sweep == nil {
			sweep = s
		} else if err := sweep.Merge(s); err != nil {
			return nil, nil, fmt.Errorf("%s can't be merged with the shares before it: %s", f.Path, Printable(err.Error(), ""))
		}
		sources = append(sources, aside.Sources...)
	}
	return sweep, sources, nil
}

func readShare(f shard.File) (*verdict.Sweep, shareAside, error) {
	s := &verdict.Sweep{Go: f.Header.Go, Commit: f.Header.Commit}
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
		case item.State != nil:
			s.Interrupted = item.State.Interrupted
		default:
			s.Notes = append(s.Notes, item.Notes...)
		}
		return nil
	})
	for i, sc := range s.Scenarios {
		if i < len(aside.Wall) && aside.Wall[i] >= 0 && aside.Wall[i] < math.MaxInt32 {
			sc.Wall = time.Duration(aside.Wall[i] * float64(time.Second))
		}
	}
	return s, aside, err
}

// plainNames refuses names that are too long, or have characters that a terminal would interpret or can't
// show.
func plainNames[T ~string](first string, profile T, others ...string) error {
	for _, name := range append(others, first, string(profile)) {
		if len(name) > maxName || name != Printable(name, "") {
			return fmt.Errorf("the name %q is too long, or has letters that can't be shown", clipQuotation(name))
		}
	}
	return nil
}
