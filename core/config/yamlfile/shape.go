package yamlfile

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"
)

// Shape describes a mapping with fixed keys. The Reader checks files against it, and Object turns it into
// JSON Schema, so editors and the Reader can't disagree.
type Shape struct {
	// Where is the name of the mapping in messages, such as "partition" or "worker w1".
	Where string
	Keys  []Key
}

// Key is a key that a Shape may have.
type Key struct {
	Name string
	// About describes the key's purpose in one line, with a lower-case first letter. Editors and messages
	// show it.
	About string
	// Required reports whether a mapping without the key is refused.
	Required bool
	// Value is the schema of the key's value; nil allows any.
	Value Schema
}

// NewShape returns the shape of a mapping with the name where in messages.
func NewShape(where string, keys ...Key) Shape { return Shape{where, keys} }

// Required returns a mandatory key.
func Required(name, about string, value Schema) Key {
	return Key{Name: name, About: about, Required: true, Value: value}
}

// Optional returns an optional key; about should describe the default.
func Optional(name, about string, value Schema) Key {
	return Key{Name: name, About: about, Value: value}
}

// Names lists the keys in their order.
func (s Shape) Names() []string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Name
	}
	return names
}

// Object returns the shape as JSON Schema: an object with these keys and no others. Callers may
// change the result.
func (s Shape) Object() Schema {
	properties, required := Schema{}, []string{}
	for _, k := range s.Keys {
		properties[k.Name] = k.Value.With(k.About)
		if k.Required {
			required = append(required, k.Name)
		}
	}
	out := Schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// Mapping is a YAML mapping whose keys were checked against a Shape.
type Mapping struct {
	Node *yaml.Node
	// Keys and Values are the nodes of keys and values, by the key's name.
	Keys, Values map[string]*yaml.Node
	// Invalid reports whether keys were unknown or duplicate: a key that seems to be missing may be one of
	// them.
	Invalid bool
}

// At returns the value of a key, nil if it was omitted.
func (m Mapping) At(key string) *yaml.Node { return m.Values[key] }

// Has reports whether a key was given.
func (m Mapping) Has(key string) bool { return m.Values[key] != nil }

// Mapping reads n as a mapping of a shape. It refuses unknown, duplicate and missing keys and returns the
// others. If the key that was probably meant is missing, an unknown key is read in its place, to find the
// mistakes below it. ok is false only if n is not a mapping.
func (r *Reader) Mapping(n *yaml.Node, s Shape) (m Mapping, ok bool) {
	m = Mapping{Node: n, Keys: map[string]*yaml.Node{}, Values: map[string]*yaml.Node{}}
	list, duplicate, ok := r.readEntries(n, s.Where)
	if !ok {
		return m, false
	}
	m.Invalid = duplicate
	var misspelt []Entry
	for _, e := range list {
		if !slices.Contains(s.Names(), e.Name) {
			r.Unknown(e.Key, fmt.Sprintf("unknown key %q under %s", Cut(e.Name), s.Where), e.Name, s.Names())
			m.Invalid = true
			misspelt = append(misspelt, e)
			continue
		}
		m.Keys[e.Name], m.Values[e.Name] = e.Key, e.Value
	}
	for _, e := range misspelt {
		if meant := Nearest(e.Name, s.Names()); meant != "" && !m.Has(meant) {
			m.Keys[meant], m.Values[meant] = e.Key, e.Value
		}
	}
	for _, k := range s.Keys {
		if k.Required && !m.Has(k.Name) && !m.Invalid {
			r.Refuse(n, "%s lacks %q: %s", s.Where, k.Name, k.About)
		}
	}
	return m, true
}
