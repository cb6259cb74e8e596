package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds on a file. A scenario is written by hand: what is larger is a mistake or an attack.
const (
	maxBytes = 1 << 20
	maxNodes = 20_000
	maxDepth = 32
)

// reader walks the tree of a file and gathers every problem on the way, so that the author sees
// them all at once. Its methods return ok false where they refused something; callers go on.
type reader struct {
	file     string
	lines    []string
	problems []Problem
}

func newReader(file string, data []byte) *reader {
	return &reader{file: file, lines: strings.Split(string(data), "\n")}
}

// refuse notes a problem at a node.
func (r *reader) refuse(n *yaml.Node, message string, args ...any) {
	r.refuseAt(n.Line, n.Column, Problem{Message: fmt.Sprintf(message, args...)})
}

// unknown notes that a name is none of the allowed ones.
func (r *reader) unknown(n *yaml.Node, message, got string, allowed []string) {
	r.refuseAt(n.Line, n.Column, Problem{Message: message, Allowed: allowed, Nearest: nearest(got, allowed)})
}

func (r *reader) refuseAt(line, column int, p Problem) {
	line = max(1, min(line, len(r.lines)))
	p.File, p.Line, p.Column = r.file, line, max(1, column)
	p.Source = strings.TrimRight(r.lines[line-1], "\r")
	r.problems = append(r.problems, p)
}

// root parses the file into one tree without aliases; nil if it can't be read at all.
func (r *reader) root(data []byte) *yaml.Node {
	if len(data) > maxBytes {
		r.refuseAt(1, 1, Problem{Message: fmt.Sprintf("the file has more than %d bytes, the most that a scenario may have", maxBytes)})
		return nil
	}
	if line, column, ok := badCharacter(data); !ok {
		r.refuseAt(line, column, Problem{Message: "not a readable character; a scenario is UTF-8 text"})
		return nil
	}
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		r.syntax(err)
		return nil
	}
	if len(documents) > 1 {
		second := &documents[1]
		if len(second.Content) > 0 {
			second = second.Content[0]
		}
		r.refuse(second, "a second document begins here; a file holds one scenario")
		return nil
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 || isNull(documents[0].Content[0]) {
		r.refuseAt(1, 1, Problem{Message: "the file is empty; `chaos new` writes a scenario to start from"})
		return nil
	}
	budget := maxNodes
	return r.expand(documents[0].Content[0], &budget, 0, nil)
}

// syntax notes what the YAML parser says, at its position.
func (r *reader) syntax(err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		r.refuseAt(1, 1, Problem{Message: "not YAML: " + err.Error()})
		return
	}
	message := "not YAML: " + e.Message
	if at := max(1, min(e.Mark.Line, len(r.lines))); strings.HasPrefix(strings.TrimLeft(r.lines[at-1], " "), "\t") {
		message = "not YAML: a tab can't indent; use spaces"
	} else if e.ContextMsg != "" {
		message += " " + e.ContextMsg
		if e.ContextMark.Line > 0 && e.ContextMark.Line != e.Mark.Line {
			message += fmt.Sprintf(" that begins in line %d", e.ContextMark.Line)
		}
	}
	r.refuseAt(e.Mark.Line, e.Mark.Column, Problem{Message: message})
}

// expand copies a tree with its aliases written out. A few lines of aliases of aliases would grow
// to billions of nodes, and an alias inside its own anchor for ever; the budget stops both.
func (r *reader) expand(n *yaml.Node, budget *int, depth int, open []*yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		for _, o := range open {
			if o == n.Alias {
				r.refuse(n, "alias *%s stands inside its own anchor", n.Value)
				return nil
			}
		}
		target := r.expand(n.Alias, budget, depth+1, append(open, n.Alias))
		if target != nil {
			target.Line, target.Column = n.Line, n.Column
		}
		return target
	}
	*budget--
	if *budget < 0 || depth > maxDepth {
		r.refuse(n, "the file grows beyond %d values or %d levels when its aliases are written out", maxNodes, maxDepth)
		return nil
	}
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		inside := open
		if n.Anchor != "" {
			inside = append(slices.Clone(open), n)
		}
		if out.Content[i] = r.expand(child, budget, depth+1, inside); out.Content[i] == nil {
			return nil
		}
	}
	return &out
}

// badCharacter finds the first byte that is no text, which the parser reports without a position.
func badCharacter(data []byte) (line, column int, ok bool) {
	line, column = 1, 1
	for i := 0; i < len(data); {
		c, size := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && size == 1, c < ' ' && c != '\t' && c != '\n' && c != '\r', c == 0x7f:
			return line, column, false
		case c == '\n':
			line, column = line+1, 0
		}
		column++
		i += size
	}
	return 0, 0, true
}

// mapping is a YAML mapping whose keys have been checked against a shape.
type mapping struct {
	node   *yaml.Node
	keys   map[string]*yaml.Node
	values map[string]*yaml.Node
	// invalid says that keys were unknown or doubled: what seems to be missing may be one of them.
	invalid bool
}

// at is a key's value, nil where it was left out.
func (m mapping) at(key string) *yaml.Node { return m.values[key] }

// has says that a key was written.
func (m mapping) has(key string) bool { return m.values[key] != nil }

// entry is one pair of a mapping whose keys are names that the author chooses.
type entry struct {
	name       string
	key, value *yaml.Node
}

// entries lists the pairs of a mapping, doubled keys refused; ok is false if n is no mapping.
func (r *reader) entries(n *yaml.Node, where string) (list []entry, doubled, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.refuse(n, "%s must be a mapping (key: value), is %s", where, kindOf(n))
		return nil, false, false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.refuse(key, "a key under %s must be a name, is %s", where, kindOf(key))
			doubled = true
			continue
		}
		if line, seen := first[key.Value]; seen {
			r.refuse(key, "key %q stands twice under %s; the first is in line %d", key.Value, where, line)
			doubled = true
			continue
		}
		first[key.Value] = key.Line
		list = append(list, entry{key.Value, key, value})
	}
	return list, doubled, true
}

// mapping reads n as a mapping of a shape: unknown, doubled and missing keys are refused.
func (r *reader) mapping(n *yaml.Node, s shape) (mapping, bool) {
	m := mapping{node: n, keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{}}
	list, doubled, ok := r.entries(n, s.where)
	if !ok {
		return m, false
	}
	m.invalid = doubled
	names := s.names()
	for _, e := range list {
		if !s.has(e.name) {
			r.unknown(e.key, fmt.Sprintf("unknown key %q under %s", e.name, s.where), e.name, names)
			m.invalid = true
			continue
		}
		m.keys[e.name], m.values[e.name] = e.key, e.value
	}
	for _, k := range s.keys {
		if k.required && !m.has(k.name) && !m.invalid {
			r.refuse(n, "%s lacks %q: %s", s.where, k.name, k.about)
		}
	}
	return m, true
}

// items lists the elements of a sequence.
func (r *reader) items(n *yaml.Node, where string) ([]*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		r.refuse(n, "%s must be a list, is %s", where, kindOf(n))
		return nil, false
	}
	return n.Content, true
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf names what a node is, in the words of someone who writes YAML.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the truth value " + n.Value
	}
	return fmt.Sprintf("the text %q", n.Value)
}
