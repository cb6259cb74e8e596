package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
	"golang.org/x/tools/cover"
)

// a gap is a run of statements that nothing reached.
type gap struct {
	// File is the path below the module, Function what it stands in, Text its first line of code.
	File, Function, Text string
	Line, Statements     int
}

func (g *gap) key() string { return g.File + " " + g.Function + ": " + g.Text }

// a reason says why no simulated run comes to some statements of a function.
type reason struct {
	// Function is FILE NAME, as the report prints it; First are the first lines of its gaps.
	Function string   `yaml:"function"`
	First    []string `yaml:"first"`
	Why      string   `yaml:"why"`
}

// module is the first element of the import paths in a profile.
const module = "handoff/"

// report writes what was not reached, and says whether all is as it has to be.
func report(w io.Writer, profile, reasons string, most float64, folders []string) (ok bool, err error) {
	gaps, all, err := gapsOf(profile, folders)
	if err != nil {
		return false, err
	}
	known, err := reasonsIn(reasons)
	if err != nil {
		return false, err
	}
	ok = true
	missed := 0
	for _, g := range gaps {
		missed += g.Statements
		why, said := known[g.key()]
		delete(known, g.key())
		if !said {
			ok, why = false, "NO REASON"
		}
		fmt.Fprintf(w, "%s:%d %s: %s (%d)\n    %s\n", g.File, g.Line, g.Function, g.Text, g.Statements, why)
	}
	for _, key := range slices.Sorted(keys(known)) {
		ok = false
		fmt.Fprintf(w, "%s: a reason for what was reached, or is not there: %s\n", reasons, key)
	}
	share := 100 * float64(missed) / float64(max(all, 1))
	fmt.Fprintf(w, "reached: %d of %d statements, %.1f %% were not; %.1f %% may be left out\n", all-missed, all, share, most)
	return ok && share <= most, nil
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// gapsOf reads a profile: what in the folders was not reached, in the order of the source, and how
// many statements there are.
func gapsOf(profile string, folders []string) (gaps []gap, statements int, err error) {
	profiles, err := cover.ParseProfiles(profile)
	if err != nil {
		return nil, 0, err
	}
	for _, p := range profiles {
		file := strings.TrimPrefix(p.FileName, module)
		if !slices.Contains(folders, path.Dir(file)) {
			continue
		}
		source, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return nil, 0, err
		}
		functions, err := functionsOf(file, source)
		if err != nil {
			return nil, 0, err
		}
		lines := bytes.Split(source, []byte("\n"))
		slices.SortFunc(p.Blocks, func(a, b cover.ProfileBlock) int {
			return cmp.Or(cmp.Compare(a.StartLine, b.StartLine), cmp.Compare(a.StartCol, b.StartCol))
		})
		for _, b := range p.Blocks {
			statements += b.NumStmt
			if b.Count > 0 || b.NumStmt == 0 {
				continue
			}
			line, text := firstLine(lines, b)
			gaps = append(gaps, gap{File: file, Function: functions(line), Text: text, Line: line, Statements: b.NumStmt})
		}
	}
	if statements == 0 {
		return nil, 0, fmt.Errorf("%s has no statement of %s", profile, strings.Join(folders, ", "))
	}
	return gaps, statements, nil
}

// firstLine is the first line of code in a block: what is behind its brace, or the line below.
func firstLine(lines [][]byte, b cover.ProfileBlock) (int, string) {
	for n := b.StartLine; n <= b.EndLine && n <= len(lines); n++ {
		text := string(lines[n-1])
		if n == b.StartLine {
			text = strings.TrimPrefix(text[min(b.StartCol-1, len(text)):], "{")
		}
		text = strings.TrimSpace(text)
		if text != "" && !strings.HasPrefix(text, "//") && text != "}" {
			return n, text
		}
	}
	return b.StartLine, strings.TrimSpace(string(lines[b.StartLine-1]))
}

// functionsOf returns what names the function of a line.
func functionsOf(file string, source []byte) (func(line int) string, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return func(line int) string {
		for _, d := range parsed.Decls {
			f, is := d.(*ast.FuncDecl)
			if is && set.Position(f.Pos()).Line <= line && line <= set.Position(f.End()).Line {
				return f.Name.Name
			}
		}
		return "(package)"
	}, nil
}

// reasonsIn reads the reasons, one for each gap that it names.
func reasonsIn(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var list []reason
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	known := make(map[string]string)
	for _, r := range list {
		if r.Function == "" || len(r.First) == 0 || r.Why == "" {
			return nil, fmt.Errorf("%s: each reason needs function, first and why: %+v", file, r)
		}
		for _, first := range r.First {
			known[r.Function+": "+first] = r.Why
		}
	}
	return known, nil
}
