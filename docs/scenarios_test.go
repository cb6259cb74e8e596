package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
	var schema node
	if err := json.Unmarshal([]byte(read(t, "../scenarios/schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	return &schema
}

// part is a mapping of the language that the page explains in a table of its own.
type part struct {
	name   string
	schema *node
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
		{"the file", top},
		{"cluster", cluster},
		{"worker", cluster.Properties["workers"].AdditionalProperties},
		{"action", action},
		{"fails", action.Properties["fails"]},
		{"submission", &steps[0]},
		{"cancellation", steps[1].Properties["cancel"]},
		{"when", top.Properties["faults"].Items.Properties["when"]},
		{"settle", top.Properties["settle"]},
		{"expect", &expect},
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

// invariantNames are the numbers and names of all rules; bin/chaos list --invariants prints their statements.
func invariantNames(*testing.T) string {
	var names []string
	for _, i := range invariant.All() {
		names = append(names, fmt.Sprintf("%d %s", i.Number, i.Name))
	}
	return wrapped(strings.Join(names, ", ") + ".")
}

// Each YAML block of docs/scenarios.md replaces keys of the first one, which is a whole scenario.
func TestScenariosExamplesAreRead(t *testing.T) {
	p := readPage(t, "docs/scenarios.md")
	blocks := p.blocks("yaml")
	for _, block := range append(blocks, "cluster: {wrokers: {}}\n") {
		whole, own := map[string]any{}, map[string]any{}
		if err := yaml.Unmarshal([]byte(blocks[0]), &whole); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(block), &own); err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		maps.Copy(whole, own)
		text, err := yaml.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		misspelt := strings.Contains(block, "wrokers")
		s, err := scenario.Parse(p.path, text)
		if (err != nil) != misspelt || err == nil && len(s.Warnings) > 0 {
			t.Errorf("%v, warnings of %+v\n%s", err, s, text)
		}
	}
}
