package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/telemetry"
	"handoff/scenarios"
)

// parseGo parses the Go files of some directories, and what is below them, without tests.
func parseGo(t *testing.T, directories ...string) []*ast.File {
	t.Helper()
	var files []*ast.File
	for _, d := range directories {
		err := filepath.WalkDir(filepath.Join(root, d), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			files = append(files, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// literal is the value of a string literal.
func literal(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// literals are the strings that a program can print.
func literals(files []*ast.File) (texts []string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := literal(n); ok {
				texts = append(texts, text)
			}
			return true
		})
	}
	return texts
}

// Whoever greps a log for what a page says has to find it.
func TestEveryLogLineOfAPageIsWrittenByTheCode(t *testing.T) {
	said := literals(parseGo(t, "core", "cmd/executor", "cmd/worker"))
	lines := 0
	for _, p := range readPages(t) {
		for _, b := range p.tables() {
			if b.header[0] != "Log line" {
				continue
			}
			for _, line := range b.column(0) {
				lines++
				if !slices.ContainsFunc(said, func(text string) bool { return strings.HasPrefix(text, line) }) {
					t.Errorf("%s: no code logs %q", p.path, line)
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("the pages have %d log lines: the test does not see them", lines)
	}
}

// What the executor starts, the page lists, under the name that figures and goroutine dumps show.
func TestTheExecutorPageListsEveryPart(t *testing.T) {
	p := readPage(t, "docs/executor.md")
	listed := p.tableOf(t, "Part").column(0)
	started := map[string]bool{}
	for _, f := range parseGo(t, "core/executor") {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if ok && (method.Sel.Name == "Go" || method.Sel.Name == "every") {
				for _, argument := range call.Args {
					if name, ok := literal(argument); ok && name != "probe" {
						started[name] = true
					}
				}
			}
			return true
		})
	}
	if len(started) < 20 {
		t.Fatalf("the code starts %d parts: the test does not see them", len(started))
	}
	for name := range started {
		if !slices.Contains(listed, name) {
			t.Errorf("docs/executor.md does not list the part %q", name)
		}
	}
	for _, name := range listed {
		if !started[name] {
			t.Errorf("docs/executor.md lists the part %q, which core/executor does not start", name)
		}
	}
}

var (
	keyName      = regexp.MustCompile(`^(executor|worker|message_queue|retry|health|api|database|log)\.[a-z_]+(\.[a-z_]+)*$`)
	keyPart      = regexp.MustCompile(`\.(go|md|yaml|sh|sql)$`)
	figureName   = regexp.MustCompile(`\bhandoff_[a-z_]+\b`)
	variableName = regexp.MustCompile(`\bHANDOFF_[A-Z][A-Z_]*[A-Z]\b`)
	scenarioList = regexp.MustCompile(`Scenarios?:\s+(` + "`[a-z0-9-]+`" + `(,\s+|\s+and\s+)?)+`)
	inBackticks  = regexp.MustCompile("`([^`]+)`")
)

// A key that was renamed is found on the pages that still have the old name.
func TestEveryConfigurationKeyOnAPageExists(t *testing.T) {
	known := map[string]bool{}
	for _, key := range configurationKeys(t) {
		for section := key; section != ""; section = section[:max(0, strings.LastIndexByte(section, '.'))] {
			known[section] = true
		}
	}
	columns := tableColumns(t)
	found := 0
	for _, p := range readPages(t) {
		for _, s := range p.spans() {
			name, _, _ := strings.Cut(s.text, ":")
			if !keyName.MatchString(name) || keyPart.MatchString(name) {
				continue
			}
			found++
			table, column, _ := strings.Cut(name, ".")
			if !known[name] && !slices.Contains(columns[table], column) {
				t.Errorf("%s:%d names the key %s, which does not exist", p.path, s.line, name)
			}
		}
	}
	if found < 50 {
		t.Errorf("the pages name %d keys: the test does not see them", found)
	}
}

// So are figures, environment variables and scenarios.
func TestEveryFigureVariableAndScenarioOnAPageExists(t *testing.T) {
	figures := map[string]bool{}
	for _, info := range telemetry.Table() {
		figures[info.Name] = true
	}
	for _, name := range telemetry.PoolFigures() {
		figures[name] = true
	}
	variables := sourceVariables(t)
	for _, key := range configurationKeys(t) {
		variables[config.EnvName(key)] = true
	}
	library := map[string]bool{}
	list, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		library[s.Name] = true
	}
	for _, p := range readPages(t) {
		source := string(p.source)
		for _, at := range figureName.FindAllStringIndex(source, -1) {
			name := source[at[0]:at[1]]
			if strings.ContainsAny(source[at[1]:min(len(source), at[1]+1)], "(@*") {
				continue // a pattern, or a user of the database
			}
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count", "_created"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !figures[base] && !figures[name] && !strings.HasSuffix(name, "_") {
				t.Errorf("%s names the figure %s, which core/telemetry does not have", p.path, name)
			}
		}
		for _, name := range variableName.FindAllString(source, -1) {
			if !variables[name] {
				t.Errorf("%s names the variable %s, which nothing reads", p.path, name)
			}
		}
		for _, b := range p.tables() {
			for i, title := range b.header {
				if title != "Scenario" {
					continue
				}
				for _, name := range b.column(i) {
					if !library[name] {
						t.Errorf("%s names the scenario %s, which the library does not have", p.path, name)
					}
				}
			}
		}
		for _, mention := range scenarioList.FindAllString(source, -1) {
			for _, name := range inBackticks.FindAllStringSubmatch(mention, -1) {
				if !library[name[1]] {
					t.Errorf("%s names the scenario %s, which the library does not have", p.path, name[1])
				}
			}
		}
	}
}

// sourceVariables are the HANDOFF_ variables that code, the Makefile or a compose file names.
func sourceVariables(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); name == ".git" || name == "bin" || name == "out" || name == "docs" {
				return filepath.SkipDir
			}
			return nil
		case strings.HasSuffix(path, ".md"):
			return nil
		case !d.Type().IsRegular() || !slices.Contains([]string{".go", ".yaml", ".yml", ""}, filepath.Ext(path)) && d.Name() != "Makefile" && d.Name() != "Dockerfile":
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil || bytes.IndexByte(source, 0) >= 0 {
			return err
		}
		for _, name := range variableName.FindAllString(string(source), -1) {
			found[name] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
