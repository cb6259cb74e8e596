package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/invariant"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/telemetry"
	"handoff/scenarios"
)

// row is one line of the tables in seeds.md.
type row struct {
	line                         int
	section, asks, answer, where string
}

// TestEveryLineOfTheSourceDocumentsHasAnAnswerThatIsThere reads the tables of seeds.md and looks up
// everything that they name.
func TestEveryLineOfTheSourceDocumentsHasAnAnswerThatIsThere(t *testing.T) {
	text, rows := readTables(t, "seeds.md")
	known := inventory(t)
	counts := make(map[string]int)
	for _, r := range rows {
		counts[r.answer]++
		named := 0
		for _, m := range reference.FindAllStringSubmatch(r.where, -1) {
			named++
			if kind, name := m[1], m[2]; !known[kind](name) {
				t.Errorf("seeds.md:%d: there is no %s %q", r.line, kind, name)
			}
		}
		named += len(linked.FindAllString(r.where, -1))
		switch r.answer {
		case "built":
			if named == 0 {
				t.Errorf("seeds.md:%d: %q is said to be built, and nothing is named that shows it", r.line, r.asks)
			}
		case "otherwise", "declined":
			if len(r.where) < 30 {
				t.Errorf("seeds.md:%d: %q has no reason", r.line, r.asks)
			}
		default:
			t.Errorf("seeds.md:%d: the answer is %q; allowed are built, otherwise, declined", r.line, r.answer)
		}
	}
	want := fmt.Sprintf("%d lines: %d built, %d otherwise, %d declined.", len(rows), counts["built"], counts["otherwise"], counts["declined"])
	if !strings.Contains(text, want) {
		t.Errorf("seeds.md does not say %q", want)
	}
}

var (
	reference = regexp.MustCompile("\\b(key|figure|alert|sql|scenario|mutant|test|log|text|api|target|invariant) `([^`]+)`")
	number    = regexp.MustCompile(`\binvariant (\d+)\b`)
	linked    = regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
)

// readTables returns a page and the rows of its tables, and checks the files that the rows link to.
func readTables(t *testing.T, page string) (text string, rows []row) {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range strings.Split(string(data), "\n") {
		if !strings.HasPrefix(l, "| ") || strings.HasPrefix(l, "| section ") {
			continue
		}
		cells := strings.Split(strings.Trim(l, "| "), " | ")
		if len(cells) != 4 {
			t.Errorf("%s:%d: %d cells, want 4: section, what it asks, answer, where or why", page, i+1, len(cells))
			continue
		}
		// "invariant 5" reads better without quotes.
		cell := number.ReplaceAllString(cells[3], "invariant `$1`")
		rows = append(rows, row{i + 1, cells[0], cells[1], cells[2], cell})
		for _, m := range linked.FindAllStringSubmatch(cell, -1) {
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s:%d: %v", page, i+1, err)
			}
		}
	}
	return string(data), rows
}

// inventory says for each kind of reference whether one of that name exists.
func inventory(t *testing.T) map[string]func(name string) bool {
	t.Helper()
	keys := make(map[string]bool)
	addKeys(keys, reflect.TypeFor[config.Config](), "")
	addKeys(keys, reflect.TypeFor[config.Deployment](), "")
	figures := make(map[string]bool)
	for _, f := range telemetry.Table() {
		figures[f.Name] = true
	}
	sources := sources(t)
	sql := schema(t)
	openAPI := read(t, "../core/api/openapi.yaml")
	makefile := read(t, "../Makefile")
	return map[string]func(string) bool{
		"key":      func(name string) bool { return keys[name] },
		"figure":   func(name string) bool { return figures[name] },
		"alert":    func(name string) bool { return slices.Contains(telemetry.RuleNames(), name) },
		"mutant":   func(name string) bool { return mutant.Find(name) != nil },
		"scenario": func(name string) bool { _, err := scenarios.Find(name); return err == nil },
		"sql":      sql,
		"invariant": func(name string) bool {
			n, err := strconv.Atoi(name)
			return err == nil && invariant.ByNumber(n) != nil
		},
		"test": func(name string) bool {
			dir, test, ok := strings.Cut(name, " ")
			return ok && slices.ContainsFunc(tests(t, dir), func(text string) bool { return strings.Contains(text, "\nfunc "+test+"(t *testing.T)") })
		},
		// What a daemon logs or tells stands in a string of the core or of a command.
		"log":    func(line string) bool { return slices.ContainsFunc(sources, quotes(line)) },
		"text":   func(text string) bool { return slices.ContainsFunc(sources, quotes(text)) },
		"target": func(name string) bool { return strings.Contains(makefile, "\n"+name+":") },
		"api": func(name string) bool {
			method, path, _ := strings.Cut(name, " ")
			_, after, found := strings.Cut(openAPI, "\n  "+path+":\n")
			entry, _, _ := strings.Cut(after, "\n  /")
			return found && strings.Contains("\n"+entry, "\n    "+strings.ToLower(method)+":")
		},
	}
}

// addKeys adds the keys of a section, dotted.
func addKeys(keys map[string]bool, section reflect.Type, prefix string) {
	for i := range section.NumField() {
		f := section.Field(i)
		path := prefix + f.Tag.Get("yaml")
		if f.Type.Kind() == reflect.Struct {
			addKeys(keys, f.Type, path+".")
			continue
		}
		keys[path] = true
	}
}

// quotes says whether a string literal of a source file contains the words.
func quotes(words string) func(source string) bool {
	literal := regexp.MustCompile(`"[^"\n]*` + regexp.QuoteMeta(words))
	return func(source string) bool { return literal.MatchString(source) }
}

// sources are the files of the core and of the daemons, tests left out.
func sources(t *testing.T) (texts []string) {
	t.Helper()
	for _, root := range []string{"../core", "../cmd/executor", "../cmd/worker"} {
		err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				texts = append(texts, read(t, path))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// tests are the test files of a package.
func tests(t *testing.T, dir string) (texts []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		texts = append(texts, read(t, name))
	}
	return texts
}

// schema says whether the migrations create an object, or a column of a table ("table.column").
func schema(t *testing.T) func(name string) bool {
	t.Helper()
	files, err := filepath.Glob("../migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	objects := make(map[string]bool)
	created := regexp.MustCompile(`(?m)^create (?:or replace )?(?:unique )?(?:table|view|function|index|trigger|type) (?:if not exists )?(\w+)`)
	table := regexp.MustCompile(`(?ms)^create table (\w+) \(\n(.*?)\n\)`)
	column := regexp.MustCompile(`(?m)^    (\w+) `)
	added := regexp.MustCompile(`(?m)^alter table (\w+)\s+add (?:column )?(\w+) `)
	for _, file := range files {
		up, _, _ := strings.Cut(read(t, file), "-- +goose Down")
		for _, m := range created.FindAllStringSubmatch(up, -1) {
			objects[m[1]] = true
		}
		for _, m := range table.FindAllStringSubmatch(up, -1) {
			for _, c := range column.FindAllStringSubmatch(m[2], -1) {
				objects[m[1]+"."+c[1]] = true
			}
		}
		for _, m := range added.FindAllStringSubmatch(up, -1) {
			objects[m[1]+"."+m[2]] = true
		}
	}
	if len(objects) < 50 {
		t.Fatalf("the migrations create %d objects only: %v", len(objects), slices.Sorted(maps.Keys(objects)))
	}
	return func(name string) bool { return objects[name] }
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
