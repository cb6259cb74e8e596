package scenario

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// This file edits any place of a document. A path leads there: names of keys and places in lists, such as
// "cluster", "executors" or "faults", 2, "for".

// Put sets the value at a path, written as YAML; mappings that are missing on the way are added. It panics on a value that is no YAML
// and on a path through what is no mapping or list, which are mistakes of the caller.
func (d *Document) Put(value string, path ...any) {
	at := d.root
	for _, step := range path[:len(path)-1] {
		next := child(at, step)
		if next == nil {
			next = &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
			set(at, step.(string), next)
		}
		at = next
	}
	switch last := path[len(path)-1].(type) {
	case int:
		at.Content[last] = parsed(value)
	case string:
		set(at, last, parsed(value))
	}
}

// PutConfig sets a key of the configuration, such as executor.batch_size.
func (d *Document) PutConfig(key, value string) { d.Put(value, configPath(key)...) }

// TakeConfig takes a key of the configuration out, so that the default holds. Sections that are left without keys go, too.
func (d *Document) TakeConfig(key string) {
	for path := configPath(key); len(path) > 0; path = path[:len(path)-1] {
		if n := d.at(path...); n != nil && len(path) < len(configPath(key)) && len(n.Content) > 0 {
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
	if n := d.at("config"); n != nil {
		walk(n, "")
	}
	return keys
}

// Append adds an item to the list at a path, which is made where there is none.
func (d *Document) Append(value string, path ...any) {
	if d.at(path...) == nil {
		d.Put("[]", path...)
		d.at(path...).Style = 0
	}
	list := d.at(path...)
	list.Content = append(list.Content, parsed(value))
}

// Take takes out what is at a path, if there is anything.
func (d *Document) Take(path ...any) {
	at := d.at(path[:len(path)-1]...)
	if at == nil {
		return
	}
	switch last := path[len(path)-1].(type) {
	case int:
		at.Content = slices.Delete(at.Content, last, last+1)
	case string:
		unset(at, last)
	}
}

// Has says whether there is anything at a path.
func (d *Document) Has(path ...any) bool { return d.at(path...) != nil }

// Load is the path to the load of that number, from 0, and CancelStep to that step that cancels.
func (d *Document) Load(i int) []any { return []any{"workload", d.steps(false)[i]} }

// CancelStep returns the path to a step of the workload that cancels, by its number from 0.
func (d *Document) CancelStep(i int) []any { return []any{"workload", d.steps(true)[i]} }

func (d *Document) at(path ...any) *yaml.Node {
	n := d.root
	for _, step := range path {
		if n = child(n, step); n == nil {
			return nil
		}
	}
	return n
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case string:
		return get(n, step)
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	}
	return nil
}

// parsed is the node that a text stands for.
func parsed(value string) *yaml.Node {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil || len(doc.Content) != 1 {
		panic("scenarios: this is no value of a scenario: " + value)
	}
	return cloneNode(doc.Content[0])
}
