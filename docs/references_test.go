package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

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
	for name, source := range allTexts(t, "", ".go", ".yaml", ".yml", "") {
		if strings.HasPrefix(name, "docs/") {
			continue
		}
		for _, variable := range variableName.FindAllString(source, -1) {
			found[variable] = true
		}
	}
	return found
}

// effective is the configuration in force with these settings of the command line, and nothing else.
func effective(flags ...config.Flag) *config.Effective {
	e, _ := config.Load(config.Input{Flags: flags})
	return e
}

// setting is one key of a configuration, with its value as it is printed.
type setting struct{ key, value string }

// settings are all keys of a configuration, of both daemons, in the order in which they are printed.
func settings(t *testing.T, e *config.Effective) []setting {
	t.Helper()
	var printed bytes.Buffer
	e.Print(&printed)
	return flatten(t, printed.Bytes())
}

// defaults are the settings of a profile.
func defaults(t *testing.T, p config.Profile) []setting {
	t.Helper()
	return settings(t, effective(config.Flag{Name: "--profile", Path: "profile", Value: string(p)}))
}

// flatten reads a YAML file of sections and keys.
func flatten(t *testing.T, source []byte) (list []setting) {
	t.Helper()
	var file yaml.Node
	if err := yaml.Unmarshal(source, &file); err != nil {
		t.Fatal(err)
	}
	var visit func(n *yaml.Node, prefix string)
	visit = func(n *yaml.Node, prefix string) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := prefix+n.Content[i].Value, n.Content[i+1]
			switch value.Kind {
			case yaml.MappingNode:
				visit(value, key+".")
			case yaml.SequenceNode:
				var items []string
				for _, item := range value.Content {
					items = append(items, item.Value)
				}
				list = append(list, setting{key, "[" + strings.Join(items, ", ") + "]"})
			default:
				list = append(list, setting{key, value.Value})
			}
		}
	}
	if len(file.Content) > 0 {
		visit(file.Content[0], "")
	}
	return list
}

// configurationKeys are the keys of both daemons.
func configurationKeys(t *testing.T) (keys []string) {
	t.Helper()
	for _, s := range settings(t, effective()) {
		keys = append(keys, s.key)
	}
	return keys
}

var (
	createTable = regexp.MustCompile(`(?ms)^create table (?:if not exists )?(\w+) \(\n(.*?)\n\)`)
	alterTable  = regexp.MustCompile(`(?s)\nalter table (\w+)([^;]*);`)
	addColumn   = regexp.MustCompile(`add column (?:if not exists )?(\w+)`)
	sqlColumn   = regexp.MustCompile(`(?m)^    "?(\w+)"?\s+\w`)
	upPart      = regexp.MustCompile(`(?s)-- \+goose Up(.*?)(-- \+goose Down|$)`)
)

// tableColumns are the columns of every table of the schema, in their order.
func tableColumns(t *testing.T) map[string][]string {
	t.Helper()
	columns, up := map[string][]string{}, ""
	migrations := allTexts(t, "migrations", ".sql")
	for _, name := range slices.Sorted(maps.Keys(migrations)) {
		for _, part := range upPart.FindAllStringSubmatch(migrations[name], -1) {
			up += part[1]
		}
	}
	for _, table := range createTable.FindAllStringSubmatch(up, -1) {
		for _, m := range sqlColumn.FindAllStringSubmatch(table[2], -1) {
			if !slices.Contains([]string{"constraint", "primary", "unique", "check"}, m[1]) {
				columns[table[1]] = append(columns[table[1]], m[1])
			}
		}
	}
	for _, altered := range alterTable.FindAllStringSubmatch(up, -1) {
		name := altered[1]
		if name == "execution_record" {
			name = "execution" // the view, which shows every column of the record
		}
		for _, c := range addColumn.FindAllStringSubmatch(altered[2], -1) {
			columns[name] = append(columns[name], c[1])
		}
	}
	return columns
}
