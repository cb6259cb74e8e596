package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
)

// node is what the pages use of a JSON Schema.
type node struct {
	Type, Description, Pattern string
	Const                      any
	Enum                       []any
	Minimum, Maximum           *int
	Required                   []string
	OneOf                      []node
	Items                      *node
	Properties                 map[string]*node
	AdditionalProperties       *node
	Deprecated                 bool
}

// UnmarshalJSON reads a schema; `true` and `false` are schemas, too, which say nothing that a page shows.
func (n *node) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		return nil
	}
	type plain node
	return json.Unmarshal(data, (*plain)(n))
}

// scenarioSchema is scenarios/schema.json, which the tests of chaos/scenario hold to the loader.
func scenarioSchema(t *testing.T) *node {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, "scenarios", "schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema node
	if err := json.Unmarshal(source, &schema); err != nil {
		t.Fatal(err)
	}
	return &schema
}

// part is a mapping of the language that the page explains in a table of its own.
type part struct {
	name   string
	schema *node
	// path is where the mapping stands in a file, as the examples are searched: * is any key or entry.
	path string
}

// scenarioParts are all mappings whose keys the language fixes, but for the configuration, which docs/contract.md lists,
// and the kinds of faults, which have a table of their own.
func scenarioParts(t *testing.T) []part {
	top := scenarioSchema(t)
	cluster := top.Properties["cluster"]
	action := top.Properties["actions"].AdditionalProperties
	steps := top.Properties["workload"].Items.OneOf
	expect := top.Properties["expect"].OneOf[0]
	return []part{
		{"the file", top, ""},
		{"cluster", cluster, "cluster"},
		{"worker", cluster.Properties["workers"].AdditionalProperties, "cluster/workers/*"},
		{"action", action, "actions/*"},
		{"fails", action.Properties["fails"], "actions/*/fails"},
		{"submission", &steps[0], "workload/*"},
		{"cancellation", steps[1].Properties["cancel"], "workload/*/cancel"},
		{"when", top.Properties["faults"].Items.Properties["when"], "faults/*/when"},
		{"settle", top.Properties["settle"], "settle"},
		{"expect", &expect, "expect"},
		{"alerts", expect.Properties["alerts"], "expect/alerts"},
		{"regression", top.Properties["regression"], "regression"},
	}
}

// keys are the keys of a mapping: those that it needs, then the others, each by name.
func (n *node) keys() []string {
	var names []string
	for name, value := range n.Properties {
		if !value.Deprecated {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		needs := func(name string) int {
			if at := slices.Index(n.Required, name); at >= 0 {
				return at
			}
			return len(n.Required)
		}
		return cmp.Or(needs(a)-needs(b), strings.Compare(a, b))
	})
	return names
}

// patterns say in words what a text has to look like.
var patterns = map[string]string{
	`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`:      "duration",
	`^(100|[0-9]{1,2}(\.[0-9]{1,4})?) ?%$`:  "share, such as `5%`",
	`^(<=|>=|=|<|>)? ?[0-9]{1,9} ?%?$`:      "bound, such as `0`, `>= 3` or `>= 95%`",
	`^[a-z0-9]+(-[a-z0-9]+)*$`:              "name",
	`^[+-]?([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`: "duration with a sign, such as `-45s`",
	`^[+-]?[0-9]{1,2}(\.[0-9]{1,4})? ?%$`:   "share with a sign, such as `-1%`",
}

// mostValues is how many allowed values a cell lists; longer lists have a table of their own.
const mostValues = 8

// value says in a few words what a key may be.
func (n *node) value(t *testing.T) string {
	switch {
	case n.Pattern != "":
		if patterns[n.Pattern] == "" {
			t.Errorf("no words for the pattern %s; add it to patterns", n.Pattern)
		}
		return patterns[n.Pattern]
	case n.Properties["uniform"] != nil:
		return "drawn duration"
	case n.Type == "object":
		return "mapping"
	case n.Const != nil:
		return fmt.Sprintf("`%v`", n.Const)
	case len(n.Enum) > mostValues:
		return "one of a list"
	case len(n.Enum) > 0:
		var values []string
		for _, v := range n.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		return strings.Join(values, ", ")
	case len(n.OneOf) > mostValues:
		return "one of a list"
	case len(n.OneOf) > 0:
		var values []string
		for i := range n.OneOf {
			if v := n.OneOf[i].value(t); !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		return strings.Join(values, "; or ")
	case n.Type == "array":
		return "list of: " + n.Items.value(t)
	case n.Type == "integer" && n.Minimum != nil && n.Maximum != nil:
		return fmt.Sprintf("%d to %d", *n.Minimum, *n.Maximum)
	case n.Type == "integer":
		return "whole number"
	}
	return "text"
}

// scenarioKeysTable lists the keys of one mapping.
func scenarioKeysTable(p part) func(*testing.T) string {
	return func(t *testing.T) string {
		var rows [][]string
		for _, name := range p.schema.keys() {
			key := p.schema.Properties[name]
			needed := ""
			if slices.Contains(p.schema.Required, name) {
				needed = "yes"
			}
			rows = append(rows, []string{code(name), needed, key.value(t), key.Description})
		}
		return markdown([]string{"Key", "required", "value", "meaning"}, rows)
	}
}

// faultsTable lists every kind of fault with an entry that can be copied.
func faultsTable(*testing.T) string {
	var rows [][]string
	kinds := fault.Kinds()
	slices.SortFunc(kinds, func(a, b *fault.Kind) int { return strings.Compare(a.Example, b.Example) })
	for _, k := range kinds {
		where := "both"
		if scenario.Lacks(k, scenario.Live) != "" {
			where = "sim"
		}
		rows = append(rows, []string{code(k.Example), k.About, where})
	}
	return markdown([]string{"Entry of `faults`, beside `when`", "what happens", "worlds"}, rows)
}

// faultFieldsTable lists the fields of faults that have any; all may have `for` inside instead of beside them.
func faultFieldsTable(t *testing.T) string {
	faults := scenarioSchema(t).Properties["faults"].Items.Properties
	var rows [][]string
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		forms := append([]node{*faults[kind]}, faults[kind].OneOf...)
		for _, form := range forms {
			if kind == "when" || kind == "for" || kind == "restart_after" || len(form.Properties) == 0 {
				continue
			}
			for _, name := range form.keys() {
				if field := form.Properties[name]; name != "for" && field.Description != "" {
					needed := ""
					if slices.Contains(form.Required, name) {
						needed = "yes"
					}
					rows = append(rows, []string{code(kind), code(name), needed, field.value(t), field.Description})
				}
			}
		}
	}
	return markdown([]string{"Fault", "field", "required", "value", "meaning"}, rows)
}

func triggersTable(*testing.T) string {
	var rows [][]string
	for _, trigger := range scenario.Triggers() {
		rows = append(rows, []string{code(trigger.Name), trigger.About})
	}
	return markdown([]string{"`after`", "the fault begins when"}, rows)
}

func situationsTable(*testing.T) string {
	var rows [][]string
	for _, s := range scenario.Sometimes() {
		rows = append(rows, []string{code(s.Name), s.About})
	}
	return markdown([]string{"`sometimes`", "a run has reached it when"}, rows)
}

func invariantsTable(*testing.T) string {
	var rows [][]string
	for _, i := range invariant.All() {
		rows = append(rows, []string{fmt.Sprint(i.Number), i.Name, i.Statement})
	}
	return markdown([]string{"Number", "name", "what must be true"}, rows)
}

// scenarioGenerators write the reference parts of docs/scenarios.md and docs/judging.md.
func scenarioGenerators(t *testing.T) map[string]func(*testing.T) string {
	all := map[string]func(*testing.T) string{
		"faults": faultsTable, "fields of faults": faultFieldsTable, "triggers": triggersTable, "situations": situationsTable, "invariants": invariantsTable,
	}
	for _, p := range scenarioParts(t) {
		all["keys of "+p.name] = scenarioKeysTable(p)
	}
	return all
}

// sourceGenerators copy the files that docs/extending.md shows: <!-- generated: source PATH -->.
func sourceGenerators(t *testing.T) map[string]func(*testing.T) string {
	t.Helper()
	all := map[string]func(*testing.T) string{}
	p := readPage(t, "docs/extending.md")
	for _, m := range generated.FindAllSubmatch(p.source, -1) {
		path, ok := strings.CutPrefix(string(m[2]), "source ")
		if !ok {
			continue
		}
		all["source "+path] = func(t *testing.T) string {
			text, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			return "```" + strings.TrimPrefix(filepath.Ext(path), ".") + "\n" + strings.TrimRight(string(text), "\n") + "\n```"
		}
	}
	return all
}

// scenarioExamples are the YAML blocks of docs/scenarios.md as whole scenarios. The first block is one; each other block
// replaces the keys of the first that it names.
func scenarioExamples(t *testing.T) (all []string) {
	t.Helper()
	p := readPage(t, "docs/scenarios.md")
	blocks := p.blocks("yaml")
	if len(blocks) < 10 {
		t.Fatalf("%s has %d examples: the test does not see them", p.path, len(blocks))
	}
	for _, block := range blocks {
		var whole, own yaml.Node
		if err := yaml.Unmarshal([]byte(blocks[0]), &whole); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(block), &own); err != nil {
			t.Errorf("%s: %v\n%s", p.path, err, block)
			continue
		}
		for i := 0; i+1 < len(own.Content[0].Content); i += 2 {
			replaceKey(whole.Content[0], own.Content[0].Content[i], own.Content[0].Content[i+1])
		}
		text, err := yaml.Marshal(&whole)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// replaceKey gives a mapping another value of a key, or the key.
func replaceKey(mapping, key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key.Value {
			mapping.Content[i+1] = value
			return
		}
	}
	mapping.Content = append(mapping.Content, key, value)
}

// What the page on scenarios shows can be typed.
func TestEveryExampleOfTheScenariosPageIsRead(t *testing.T) {
	for _, text := range scenarioExamples(t) {
		s, err := scenario.Parse("docs/scenarios.md", []byte(text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		for _, w := range s.Warnings {
			t.Errorf("%v\n%s", w, text)
		}
	}
	broken := strings.Replace(scenarioExamples(t)[0], "workers:", "wrokers:", 1)
	if _, err := scenario.Parse("docs/scenarios.md", []byte(broken)); err == nil {
		t.Error("a misspelt key is read: this test can't fail")
	}
}

// Each key stands in an example: a reader copies rather than composes.
func TestEveryKeyOfAScenarioHasAnExample(t *testing.T) {
	shown := map[string]bool{}
	for _, text := range scenarioExamples(t) {
		var file yaml.Node
		if err := yaml.Unmarshal([]byte(text), &file); err != nil {
			t.Fatal(err)
		}
		keysShown(file.Content[0], "", shown)
	}
	for _, p := range scenarioParts(t) {
		form := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(p.path), `\*`, `[^/]+`) + "$")
		for _, name := range p.schema.keys() {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(shown)), func(path string) bool {
				parent, key := cutLast(path)
				return key == name && form.MatchString(parent)
			}) {
				t.Errorf("docs/scenarios.md has no example of %s in %s", name, cmp.Or(p.path, p.name))
			}
		}
	}
	if drawn := shown["actions/core.report/takes/log_uniform"]; !drawn {
		t.Errorf("the examples show no duration that is drawn log-uniformly; they show %d keys", len(shown))
	}
}

// keysShown notes the path of every key below a node, its parts with a slash between them. An expectation of one profile
// counts as one of all.
func keysShown(n *yaml.Node, path string, shown map[string]bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			keysShown(item, strings.TrimPrefix(path+"/entry", "/"), shown)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			below := strings.TrimPrefix(path+"/"+name, "/")
			if path == "expect" && (name == "hardened" || name == "documented") {
				below = path
			}
			shown[below] = true
			keysShown(n.Content[i+1], below, shown)
		}
	}
}

// cutLast splits a path before its last key.
func cutLast(path string) (parent, key string) {
	at := strings.LastIndexByte(path, '/')
	if at < 0 {
		return "", path
	}
	return path[:at], path[at+1:]
}
