package scenario

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// This file edits a document at any path. A path is a list of keys and list indices, such as
// "cluster", "executors" or "faults", 2, "for".

// Put sets the value at a path, given as YAML, and adds missing mappings on the path. It panics if the value
// isn't YAML or the path contains a scalar: both are mistakes of the caller.
func (d *Document) Put(value string, path ...any) {
	at := d.root
	for _, step := range path[:len(path)-1] {
		next := childNode(at, step)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
			setValue(at, step.(string), next)
		}
		at = next
	}
	switch last := path[len(path)-1].(type) {
	case int:
		at.Content[last] = parseNode(value)
	case string:
		setValue(at, last, parseNode(value))
	}
}

// PutConfig sets a key of the configuration, such as executor.batch_size.
func (d *Document) PutConfig(key, value string) { d.Put(value, configPath(key)...) }

// TakeConfig removes a key of the configuration, so that its default applies. It also removes sections that
// become empty.
func (d *Document) TakeConfig(key string) {
	for path := configPath(key); len(path) > 0; path = path[:len(path)-1] {
		if n := d.nodeAt(path...); n != nil && len(path) < len(configPath(key)) && len(n.Content) > 0 {
			return
		}
		d.Take(path...)
	}
}

func configPath(key string) []any {
	path := []any{"config"}
	for part := range strings.SplitSeq(key, ".") {
		path = append(path, part)
	}
	return path
}

// ConfigKeys lists the keys of the configuration that the document sets.
func (d *Document) ConfigKeys() (keys []string) {
	var walk func(n *yaml.Node, prefix string)
	walk = func(n *yaml.Node, prefix string) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			name, value := prefix+n.Content[i].Value, n.Content[i+1]
			if value.Kind == yaml.MappingNode {
				walk(value, name+".")
				continue
			}
			keys = append(keys, name)
		}
	}
	if n := d.nodeAt("config"); n != nil {
		walk(n, "")
	}
	return keys
}

// Append adds an item to the list at a path; it creates the list if it is missing.
func (d *Document) Append(value string, path ...any) {
	if d.nodeAt(path...) == nil {
		d.Put("[]", path...)
		d.nodeAt(path...).Style = 0
	}
	list := d.nodeAt(path...)
	list.Content = append(list.Content, parseNode(value))
}

// Take removes the value at a path, if the path has one.
func (d *Document) Take(path ...any) {
	at := d.nodeAt(path[:len(path)-1]...)
	if at == nil {
		return
	}
	switch last := path[len(path)-1].(type) {
	case int:
		at.Content = slices.Delete(at.Content, last, last+1)
	case string:
		removeKey(at, last)
	}
}

// Has reports whether a path has a value.
func (d *Document) Has(path ...any) bool { return d.nodeAt(path...) != nil }

// Load returns the path to the load with a number, counted from 0.
func (d *Document) Load(i int) []any { return []any{"workload", d.stepIndices(false)[i]} }

// CancelStep returns the path to the workload's cancellation with a number, counted from 0.
func (d *Document) CancelStep(i int) []any { return []any{"workload", d.stepIndices(true)[i]} }

func (d *Document) nodeAt(path ...any) *yaml.Node {
	n := d.root
	for _, step := range path {
		if n = childNode(n, step); n == nil {
			return nil
		}
	}
	return n
}

func childNode(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case string:
		return findValue(n, step)
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	}
	return nil
}

// parseNode returns the YAML node of a value.
func parseNode(value string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
		panic("scenarios: this isn't a YAML value: " + value)
	}
	return cloneNode(doc.Content[0])
}
