package scenario

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Document is an editable scenario file. The result of an edit is loaded like any other file, so an invalid
// edit is refused.
type Document struct{ root *yaml.Node }

// Edit opens a loaded scenario for editing. It resolves the anchors of the file.
func Edit(s *Scenario) (*Document, error) {
	if s.root != nil {
		return &Document{root: cloneNode(s.root)}, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(s.source, &doc); err != nil {
		return nil, fmt.Errorf("reading %s again: %w", s.File, err)
	}
	d := &Document{root: cloneNode(doc.Content[0])}
	return d, nil
}

// Clone returns an independent copy.
func (d *Document) Clone() *Document { return &Document{root: cloneNode(d.root)} }

func cloneNode(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return cloneNode(n.Alias)
	}
	out := *n
	out.Anchor = ""
	out.HeadComment, out.LineComment, out.FootComment = "", "", ""
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		out.Content[i] = cloneNode(child)
	}
	return &out
}

// Bytes returns the document as YAML, for a file at path, below a one-line comment.
func (d *Document) Bytes(path, comment string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s# %s\n", SchemaLine(path), comment)
	encodeYAML(&out, d.root)
	return out.Bytes()
}

func encodeYAML(out *bytes.Buffer, root *yaml.Node) {
	enc := yaml.NewEncoder(out)
	enc.SetIndent(2)
	if err := enc.Encode(root); err != nil {
		panic("scenarios: a document that was read can be written: " + err.Error())
	}
}

// Text returns the bytes of the scenario's file, or its document as YAML if the scenario was edited but never
// written. The caller must not change them.
func (s *Scenario) Text() []byte {
	if s.root == nil {
		return s.source
	}
	var out bytes.Buffer
	encodeYAML(&out, s.root)
	return out.Bytes()
}

// Parse writes the document as YAML and loads it.
func (d *Document) Parse(file string) (*Scenario, error) { return Parse(file, d.Bytes(file, "shrunk")) }

// Read loads the document without writing it as YAML first. The scenario has no digest, and line numbers in
// errors are meaningless. Don't edit the document afterwards.
func (d *Document) Read(file string) (*Scenario, error) {
	l := &loader{Reader: yamlfile.NewReader(file, "scenario", nil)}
	l.s.File, l.s.root = file, d.root
	return l.readDocument(d.root)
}

// Keep sets the head of the file: the name, the purpose, a single profile and the simulated world.
func (d *Document) Keep(name, about, profile string) {
	setValue(d.root, "name", textNode(name))
	setValue(d.root, "about", textNode(about))
	setValue(d.root, "profile", textNode(profile))
	setValue(d.root, "worlds", listNode(textNode(string(Sim))))
}

// Judge makes the given invariant the only expectation. Expectations of alerts stay, because an invariant
// judges them.
func (d *Document) Judge(invariant int) {
	judged := pairNode("invariants", listNode(numberNode(invariant)))
	expected := findValue(d.root, "expect")
	if own := findValue(expected, findValue(d.root, "profile").Value); own != nil {
		expected = own
	}
	if alerts := findValue(expected, "alerts"); alerts != nil {
		setValue(judged, "alerts", alerts)
	}
	setValue(d.root, "expect", judged)
}

// Regress records how to reproduce the failure: the seed, the planted mutant (empty for none) and the broken
// invariant (0 for an expectation).
func (d *Document) Regress(r Regression) {
	m := pairNode("seed", numberNode(int(r.Seed)))
	if r.Mutant != "" {
		setValue(m, "mutant", textNode(r.Mutant))
	}
	if r.Invariant != 0 {
		setValue(m, "invariant", numberNode(r.Invariant))
	}
	setValue(d.root, "regression", m)
}

// DropFaults removes n faults, beginning at index i.
func (d *Document) DropFaults(i, n int) { dropItems(findValue(d.root, "faults"), i, n) }

// stepIndices returns the indices of the workload's loads, or of its cancellations.
func (d *Document) stepIndices(cancels bool) (places []int) {
	for i, step := range findValue(d.root, "workload").Content {
		if (findValue(step, "cancel") != nil) == cancels {
			places = append(places, i)
		}
	}
	return places
}

// loadNode returns the node of the i-th step that submits executions.
func (d *Document) loadNode(i int) *yaml.Node {
	return findValue(d.root, "workload").Content[d.stepIndices(false)[i]]
}

// DropLoad removes one load.
func (d *Document) DropLoad(i int) {
	dropItems(findValue(d.root, "workload"), d.stepIndices(false)[i], 1)
}

// DropCancel removes one cancellation from the workload.
func (d *Document) DropCancel(i int) {
	dropItems(findValue(d.root, "workload"), d.stepIndices(true)[i], 1)
}

// SetCount sets the number of executions of a load.
func (d *Document) SetCount(i, count int) {
	setValue(d.loadNode(i), "count", numberNode(count))
}

// SetFrom sets the start of a load.
func (d *Document) SetFrom(i int, from time.Duration) {
	setValue(d.loadNode(i), "from", textNode(yamlfile.Short(from)))
}

// SetTakes sets a fixed duration of an action's runs.
func (d *Document) SetTakes(ref string, takes time.Duration) {
	setValue(findValue(findValue(d.root, "actions"), ref), "takes", textNode(yamlfile.Short(takes)))
}

// DropWorker removes a worker.
func (d *Document) DropWorker(name string) {
	removeKey(findValue(findValue(d.root, "cluster"), "workers"), name)
}

// SetExecutors sets the number of executors.
func (d *Document) SetExecutors(n int) {
	setValue(findValue(d.root, "cluster"), "executors", numberNode(n))
}

// DropUnusedActions removes the actions that no load submits.
func (d *Document) DropUnusedActions() {
	var used []string
	for i := range d.stepIndices(false) {
		used = append(used, findValue(d.loadNode(i), "action").Value)
	}
	actions := findValue(d.root, "actions")
	for i := len(actions.Content) - 2; i >= 0; i -= 2 {
		if !slices.Contains(used, actions.Content[i].Value) {
			actions.Content = slices.Delete(actions.Content, i, i+2)
		}
	}
}

// SetAt sets a fixed start of a fault.
func (d *Document) SetAt(i int, at time.Duration) {
	setValue(findValue(d.root, "faults").Content[i], "when", pairNode("at", textNode(yamlfile.Short(at))))
}

// SetFor sets the duration of a fault.
func (d *Document) SetFor(i int, lasts time.Duration) {
	fault := findValue(d.root, "faults").Content[i]
	if findValue(fault, "for") != nil {
		setValue(fault, "for", textNode(yamlfile.Short(lasts)))
		return
	}
	for j := 1; j < len(fault.Content); j += 2 {
		if inner := fault.Content[j]; findValue(inner, "for") != nil {
			setValue(inner, "for", textNode(yamlfile.Short(lasts)))
		}
	}
}

func dropItems(n *yaml.Node, i, count int) { n.Content = slices.Delete(n.Content, i, i+count) }

func findValue(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

func setValue(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, textNode(name), value)
}

func removeKey(n *yaml.Node, name string) {
	for i := 0; n != nil && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content = slices.Delete(n.Content, i, i+2)
			return
		}
	}
}

func textNode(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}

func numberNode(n int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(n)}
}

func listNode(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle, Content: items}
}

func pairNode(name string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{textNode(name), value}}
}
