package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

// parseGo parses the Go files in and below some directories, without tests.
func parseGo(t *testing.T, directories ...string) (files []*ast.File) {
	t.Helper()
	for _, d := range directories {
		for name, source := range allTexts(t, d, ".go") {
			if !strings.HasSuffix(name, "_test.go") {
				f, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
		}
	}
	return files
}

// stringLiteral returns the value of a string literal.
func stringLiteral(n ast.Node) (string, bool) {
	l, ok := n.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// stringLiterals returns the strings that a program can print.
func stringLiterals(files []*ast.File) (texts []string) {
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := stringLiteral(n); ok {
				texts = append(texts, text)
			}
			return true
		})
	}
	return texts
}

var (
	keyName      = regexp.MustCompile(`^(executor|worker|message_queue|retry|health|api|database|log)\.[a-z_]+(\.[a-z_]+)*$`)
	keyPart      = regexp.MustCompile(`\.(go|md|yaml|sh|sql)$`)
	figureName   = regexp.MustCompile(`\bhandoff_[a-z_]*[a-z]\b[(@*_]?`)
	figureSuffix = regexp.MustCompile(`_(bucket|sum|count|created)$`)
	variableName = regexp.MustCompile(`\bHANDOFF_[A-Z][A-Z_]*[A-Z]\b`)
	scenarioList = regexp.MustCompile(`Scenarios?:\s+(` + "`[a-z0-9-]+`" + `(,\s+|\s+and\s+)?)+`)
	inBackticks  = regexp.MustCompile("`([^`]+)`")
	requestSpan  = regexp.MustCompile(`^(?:(GET|POST|PUT|DELETE|PATCH) )?(/(?:api/v1/|healthz|readyz|metrics)[^\s?]*)`)
	pathVariable = regexp.MustCompile(`\\\{\w+\\\}`)
)

// Names that pages mention exist: log lines, keys and columns, requests, metrics, environment variables,
// scenarios.
func TestNamesExist(t *testing.T) {
	logged := stringLiterals(parseGo(t, "core", "cmd/executor", "cmd/worker"))
	keys, variables := map[string]bool{}, sourceVariables(t)
	for _, key := range configurationKeys(t) {
		variables[config.EnvName(key)] = true
		for section := key; section != ""; section = section[:max(0, strings.LastIndexByte(section, '.'))] {
			keys[section] = true
		}
	}
	figures := map[string]bool{}
	for _, info := range telemetry.Table() {
		figures[info.Name] = true
	}
	for _, name := range telemetry.PoolFigures() {
		figures[name] = true
	}
	var document struct{ Paths map[string]map[string]any }
	if err := yaml.Unmarshal([]byte(readText(t, "../core/api/openapi.yaml")), &document); err != nil {
		t.Fatal(err)
	}
	columns := tableColumns(t)
	named := map[string]int{}
	for _, p := range readPages(t) {
		demand := func(exists bool, kind, name string) {
			if named[kind]++; !exists {
				t.Errorf("%s names the %s %q, which does not exist", p.path, kind, name)
			}
		}
		for _, b := range p.parseTables() {
			if b.header[0] == "Log line" {
				for _, line := range b.columnCells(0) {
					demand(slices.ContainsFunc(logged, func(text string) bool { return strings.HasPrefix(text, line) }), "log line", line)
				}
			}
		}
		for _, s := range p.codeSpans() {
			name, _, _ := strings.Cut(s.text, ":")
			if table, column, _ := strings.Cut(name, "."); keyName.MatchString(name) && !keyPart.MatchString(name) {
				demand(keys[name] || slices.Contains(columns[table], column), "key", name)
			}
			if m := requestSpan.FindStringSubmatch(s.text); m != nil {
				answered := false
				for path, item := range document.Paths {
					pattern := pathVariable.ReplaceAllString(regexp.QuoteMeta(path), `(\{\w+\}|[A-Za-z0-9_.:-]+)`)
					fits := regexp.MustCompile("^" + pattern + "$").MatchString(m[2])
					answered = answered || fits && (m[1] == "" || item[strings.ToLower(m[1])] != nil)
				}
				demand(answered, "request", s.text)
			}
		}
		source := p.text
		for _, name := range figureName.FindAllString(source, -1) {
			if !strings.ContainsAny(name[len(name)-1:], "(@*_") { // skip patterns and database users
				demand(figures[name] || figures[figureSuffix.ReplaceAllString(name, "")], "figure", name)
			}
		}
		for _, name := range variableName.FindAllString(source, -1) {
			demand(variables[name], "variable", name)
		}
		for _, mention := range scenarioList.FindAllString(source, -1) {
			for _, name := range inBackticks.FindAllStringSubmatch(mention, -1) {
				_, err := scenarios.Find(name[1])
				demand(err == nil, "scenario", name[1])
			}
		}
	}
	for _, kind := range []string{"log line", "key", "request", "figure", "variable", "scenario"} {
		if named[kind] < 20 {
			t.Errorf("the pages have %d of the kind %s: the test misses some", named[kind], kind)
		}
	}
}

// sourceVariables returns the HANDOFF_ variables in code, the Makefile or a compose file.
func sourceVariables(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for name, source := range allTexts(t, "", ".go", ".yaml", ".yml", "") {
		if !strings.HasPrefix(name, "docs/") {
			for _, variable := range variableName.FindAllString(source, -1) {
				found[variable] = true
			}
		}
	}
	return found
}

// setting is a configuration key with its printed value.
type setting struct{ key, value string }

// printedSettings returns both daemons' settings in a configuration, in the order in which they are printed.
func printedSettings(t *testing.T, e *config.Effective) []setting {
	t.Helper()
	var printed bytes.Buffer
	e.Print(&printed)
	return flattenYAML(t, printed.Bytes())
}

// defaultSettings returns the settings of a profile.
func defaultSettings(t *testing.T, p config.Profile) []setting {
	t.Helper()
	e, _ := config.Load(config.Input{Flags: []config.Flag{{Name: "--profile", Path: "profile", Value: string(p)}}})
	return printedSettings(t, e)
}

// flattenYAML reads a YAML file of sections and keys.
func flattenYAML(t *testing.T, source []byte) (list []setting) {
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

// configurationKeys returns the keys of both daemons.
func configurationKeys(t *testing.T) (keys []string) {
	t.Helper()
	for _, s := range defaultSettings(t, config.Hardened) {
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

// tableColumns returns the columns of every table of the schema, in order.
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
			name = "execution" // this view has every column of the record
		}
		for _, c := range addColumn.FindAllStringSubmatch(altered[2], -1) {
			columns[name] = append(columns[name], c[1])
		}
	}
	return columns
}
