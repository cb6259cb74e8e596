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

// Document is a scenario's file as it can be edited: parts are taken out or made smaller, and what is left is
// written and read again, so that an edit that makes no sense is refused like any other file.
type Document struct{ root *yaml.Node }

// Edit opens a scenario that was read. The anchors of its file are resolved.
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

// Clone returns a copy that can be edited apart.
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

// Bytes is the file, under a comment of one line.
func (d *Document) Bytes(comment string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# yaml-language-server: $schema=../schema.json\n# %s\n", comment)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(d.root); err != nil {
		panic("scenarios: a document that was read can be written: " + err.Error())
	}
	return out.Bytes()
}

// Parse reads the document as it stands.
func (d *Document) Parse(file string) (*Scenario, error) { return Parse(file, d.Bytes("shrunk")) }

// Read reads the document as it stands, as Parse does, without writing it before. The scenario has no digest, and places in
// errors mean nothing. The document must not be edited afterwards.
func (d *Document) Read(file string) (*Scenario, error) {
	l := &loader{Reader: yamlfile.NewReader(file, "scenario", nil)}
	l.s.File, l.s.root = file, d.root
	return l.loaded(d.root)
}

// Keep sets the head of the file: how it is called, what it is about, and the one profile under which it runs.
func (d *Document) Keep(name, about, profile string) {
	set(d.root, "name", textNode(name))
	set(d.root, "about", textNode(about))
	set(d.root, "profile", textNode(profile))
	set(d.root, "worlds", listNode(textNode(string(Sim))))
}

// Judge leaves one invariant to be judged, and nothing to be expected but alerts, which are an invariant's matter.
func (d *Document) Judge(invariant int) {
	judged := pair("invariants", listNode(numberNode(invariant)))
	expected := get(d.root, "expect")
	if own := get(expected, get(d.root, "profile").Value); own != nil {
		expected = own
	}
	if alerts := get(expected, "alerts"); alerts != nil {
		set(judged, "alerts", alerts)
	}
	set(d.root, "expect", judged)
}

// Regress says how the failure is shown again: the seed, the mutant that was planted (empty for none) and the
// invariant that it breaks (0 for an expectation).
func (d *Document) Regress(r Regression) {
	m := pair("seed", numberNode(int(r.Seed)))
	if r.Mutant != "" {
		set(m, "mutant", textNode(r.Mutant))
	}
	if r.Invariant != 0 {
		set(m, "invariant", numberNode(r.Invariant))
	}
	set(d.root, "regression", m)
}

// DropFaults takes n faults out, from the i-th on.
func (d *Document) DropFaults(i, n int) { drop(get(d.root, "faults"), i, n) }

// steps are the places of the workload's loads, or of its cancellations.
func (d *Document) steps(cancels bool) (places []int) {
	for i, step := range get(d.root, "workload").Content {
		if (get(step, "cancel") != nil) == cancels {
			places = append(places, i)
		}
	}
	return places
}

// load is the i-th step of the workload that submits.
func (d *Document) load(i int) *yaml.Node {
	return get(d.root, "workload").Content[d.steps(false)[i]]
}

// DropLoad takes one load out.
func (d *Document) DropLoad(i int) { drop(get(d.root, "workload"), d.steps(false)[i], 1) }

// DropCancel takes out one step of the workload that cancels.
func (d *Document) DropCancel(i int) { drop(get(d.root, "workload"), d.steps(true)[i], 1) }

// SetCount sets how many executions a load submits.
func (d *Document) SetCount(i, count int) {
	set(d.load(i), "count", numberNode(count))
}

// SetFrom sets when a load begins.
func (d *Document) SetFrom(i int, from time.Duration) {
	set(d.load(i), "from", textNode(yamlfile.Short(from)))
}

// SetTakes fixes how long an action's runs last.
func (d *Document) SetTakes(ref string, takes time.Duration) {
	set(get(get(d.root, "actions"), ref), "takes", textNode(yamlfile.Short(takes)))
}

// DropWorker takes a worker out.
func (d *Document) DropWorker(name string) { unset(get(get(d.root, "cluster"), "workers"), name) }

// SetExecutors sets how many executors there are.
func (d *Document) SetExecutors(n int) { set(get(d.root, "cluster"), "executors", numberNode(n)) }

// DropUnusedActions takes out the actions that no load submits.
func (d *Document) DropUnusedActions() {
	var used []string
	for i := range d.steps(false) {
		used = append(used, get(d.load(i), "action").Value)
	}
	actions := get(d.root, "actions")
	for i := len(actions.Content) - 2; i >= 0; i -= 2 {
		if !slices.Contains(used, actions.Content[i].Value) {
			actions.Content = slices.Delete(actions.Content, i, i+2)
		}
	}
}

// SetAt pins the beginning of a fault.
func (d *Document) SetAt(i int, at time.Duration) {
	set(get(d.root, "faults").Content[i], "when", pair("at", textNode(yamlfile.Short(at))))
}

// SetFor sets how long a fault lasts.
func (d *Document) SetFor(i int, lasts time.Duration) {
	fault := get(d.root, "faults").Content[i]
	if get(fault, "for") != nil {
		set(fault, "for", textNode(yamlfile.Short(lasts)))
		return
	}
	for j := 1; j < len(fault.Content); j += 2 {
		if inner := fault.Content[j]; get(inner, "for") != nil {
			set(inner, "for", textNode(yamlfile.Short(lasts)))
		}
	}
}

func drop(n *yaml.Node, i, count int) { n.Content = slices.Delete(n.Content, i, i+count) }

func get(n *yaml.Node, name string) *yaml.Node {
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

func set(n *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			n.Content[i+1] = value
			return
		}
	}
	n.Content = append(n.Content, textNode(name), value)
}

func unset(n *yaml.Node, name string) {
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

func pair(name string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle, Content: []*yaml.Node{textNode(name), value}}
}
