package reports

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/verdict"
)

// Files in the folder of a failure: the history of its run, and its scenario, whose configuration determines
// the bounds of judges. The folder needs nothing else to be judged again.
const (
	HistoryFile  = "history.jsonl"
	ScenarioFile = "scenario.yaml"
)

// Write writes the whole report into dir, which it creates if necessary: index.html, result.json,
// timing.json, junit.xml and summary.md. Each record with a violation or a panic gets a folder
// SCENARIO-PROFILE-SEED (SCENARIO-PROFILE-varied-SEED) with its history, its scenario and its page, run.html.
//
// Each file is complete or absent: it is written under another name and then renamed. Neither a full disk nor
// Ctrl-C leaves a partial result that CI mistakes for a whole one. index.html comes last, so a reader that
// sees it finds everything else.
func Write(dir string, sweep *verdict.Sweep, records []*verdict.Record) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the report's folder: %w", err)
	}
	folders := recordFolders(records)
	for i, r := range records {
		if folders[i] == "" {
			continue
		}
		if err := writeFailure(dir, folders[i], r); err != nil {
			return err
		}
	}
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{
		{"result.json", func(w io.Writer) error { return WriteJSON(w, sweep) }},
		{"timing.json", func(w io.Writer) error { return writeTiming(w, sweep) }},
		{"junit.xml", func(w io.Writer) error { return WriteJUnit(w, sweep) }},
		{"summary.md", func(w io.Writer) error { return WriteSummary(w, sweep) }},
		{"index.html", func(w io.Writer) error { return WriteHTML(w, sweep, records) }},
	} {
		if err := WriteFile(filepath.Join(dir, f.name), f.write); err != nil {
			return err
		}
	}
	return nil
}

// writeFailure writes the folder of a failure: its history, its page and its scenario.
func writeFailure(dir, key string, r *verdict.Record) error {
	folder := filepath.Join(dir, key)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("making a failure's folder: %w", err)
	}
	if err := WriteFile(filepath.Join(folder, HistoryFile), func(w io.Writer) error { return WriteHistory(w, r) }); err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(folder, runPage), func(w io.Writer) error { return WriteRun(w, r, key) }); err != nil {
		return err
	}
	if r.ScenarioText == nil {
		return nil
	}
	return WriteFile(filepath.Join(folder, ScenarioFile), func(w io.Writer) error {
		_, err := w.Write(r.ScenarioText)
		return err
	})
}

// WriteFolder writes the folder of one failure into dir, which it creates if necessary, and returns the path
// of its page.
func WriteFolder(dir string, r *verdict.Record) (page string, err error) {
	key := folderOf(r, make(map[string]bool))
	return filepath.Join(dir, key, runPage), writeFailure(dir, key, r)
}

// recordFolders returns the name of each record's folder; empty for records without a failure.
func recordFolders(records []*verdict.Record) []string {
	folders, taken := make([]string, len(records)), make(map[string]bool)
	for i, r := range records {
		if len(r.Violations) > 0 || r.Panic != "" {
			folders[i] = folderOf(r, taken)
		}
	}
	return folders
}

// runKeys returns a name for links to each record: the name of its folder, if it has one.
func runKeys(records []*verdict.Record) map[*verdict.Record]string {
	keys, taken := make(map[*verdict.Record]string, len(records)), make(map[string]bool)
	for i, folder := range recordFolders(records) {
		if folder != "" {
			keys[records[i]], taken[folder] = folder, true
		}
	}
	for _, r := range records {
		if keys[r] == "" {
			keys[r] = folderOf(r, taken)
		}
	}
	return keys
}

// folderOf returns a name for the folder of a failure. The name marks a varied run. The name contains the
// mutant only if two records would otherwise share a folder.
func folderOf(r *verdict.Record, taken map[string]bool) string {
	profile := string(r.Profile)
	if r.Varied != nil {
		profile += "-varied"
	}
	name := fileName(fmt.Sprintf("%s-%s-%d", r.Scenario, profile, r.Seed))
	if taken[name] && r.Mutant != "" {
		name += "-" + fileName(r.Mutant)
	}
	for base, n := name, 2; taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	taken[name] = true
	return name
}

// fileName turns s into a file name that can't lead out of its folder, whatever the scenario file contains.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, s)
	if strings.Trim(s, ".") == "" {
		return "_" + s
	}
	return s
}

// WriteFile writes a file that is either complete or absent: it is written under another name, then renamed.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".handoff-report-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	out := bufio.NewWriter(f)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = f.Chmod(0o644) // temporary files are private, reports are not
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
