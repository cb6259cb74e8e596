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

// node is the part of scenarios/schema.json that the pages use. The tests of chaos/scenario compare the
// schema with the loader.
type node struct {
	Description          string
	Required             []string
	OneOf                []node
	Items                *node
	Properties           map[string]*node
	AdditionalProperties *node
	Deprecated           bool
}

// UnmarshalJSON reads a schema. The schemas `true` and `false` have no content for a page.
func (n *node) UnmarshalJSON(data []byte) error {
	if string(data) == "true" || string(data) == "false" {
		return nil
	}
	type plain node
	return json.Unmarshal(data, (*plain)(n))
}

// scenarioParts returns the mappings that have their own table of keys in docs/scenarios.md.
func scenarioParts(t *testing.T) map[string]*node {
	t.Helper()
	var top node
	if err := json.Unmarshal([]byte(readText(t, "../scenarios/schema.json")), &top); err != nil {
		t.Fatal(err)
	}
	cluster := top.Properties["cluster"]
	action := top.Properties["actions"].AdditionalProperties
	steps := top.Properties["workload"].Items.OneOf
	return map[string]*node{
		"the file": &top, "cluster": cluster, "worker": cluster.Properties["workers"].AdditionalProperties, "action": action, "fails": action.Properties["fails"],
		"submission": &steps[0], "cancellation": steps[1].Properties["cancel"], "when": top.Properties["faults"].Items.Properties["when"],
		"expect": &top.Properties["expect"].OneOf[0],
	}
}

// scenarioKeysTable lists the keys of one mapping: required ones, then the others, each by name.
func scenarioKeysTable(n *node) func(*testing.T) string {
	return func(*testing.T) string {
		names := slices.SortedFunc(maps.Keys(n.Properties), func(a, b string) int {
			return cmp.Or(n.requiredPlace(a)-n.requiredPlace(b), strings.Compare(a, b))
		})
		var rows [][]string
		for _, name := range names {
			needed := ""
			if n.requiredPlace(name) < len(n.Required) {
				needed = "yes"
			}
			if key := n.Properties[name]; !key.Deprecated {
				rows = append(rows, []string{inlineCode(name), needed, key.Description})
			}
		}
		return markdownTable([]string{"Key", "required", "meaning"}, rows)
	}
}

// requiredPlace returns a key's position among the required keys, or their number if the key is optional.
func (n *node) requiredPlace(name string) int {
	if at := slices.Index(n.Required, name); at >= 0 {
		return at
	}
	return len(n.Required)
}

// faultsTable lists every kind of fault, with a scenario entry that can be copied.
func faultsTable(*testing.T) string {
	kinds := slices.SortedFunc(slices.Values(fault.Kinds()), func(a, b *fault.Kind) int { return strings.Compare(a.Example, b.Example) })
	var rows [][]string
	for _, k := range kinds {
		where := "both"
		if scenario.Lacks(k, scenario.Live) != "" {
			where = "sim"
		}
		rows = append(rows, []string{inlineCode(k.Example), k.About, where})
	}
	return markdownTable([]string{"Entry of `faults`, beside `when`", "what happens", "worlds"}, rows)
}

// invariantNames returns the numbers and names of all rules; bin/chaos list --invariants prints their
// statements.
func invariantNames(*testing.T) string {
	var safety, conduct []string
	for _, i := range invariant.All() {
		name := fmt.Sprintf("%d %s", i.Number, i.Name)
		if i.Conduct {
			conduct = append(conduct, name)
		} else {
			safety = append(safety, name)
		}
	}
	return wrapItem("Safety: "+strings.Join(safety, ", ")+".") + wrapItem("Conduct: "+strings.Join(conduct, ", ")+".")
}

// Each YAML block of docs/scenarios.md replaces keys of the first one, which is a complete scenario.
func TestScenariosExamplesAreRead(t *testing.T) {
	p := readPage(t, "docs/scenarios.md")
	blocks := p.codeBlocks("yaml")
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
		s, err := scenario.Parse(p.path, text)
		if misspelt := strings.Contains(block, "wrokers"); (err != nil) != misspelt || err == nil && len(s.Warnings) > 0 {
			t.Errorf("%v, warnings of %+v\n%s", err, s, text)
		}
	}
}
