// Package yamlfile reads YAML files that people write. It reports all mistakes at once, each with its line
// and column and the allowed values.
//
// It is the project's only YAML reader, so a daemon's configuration, a file of actions and a scenario report
// the same mistake in the same words. NewReader and Root open a file; they bound its size, its depth and the
// growth of its aliases. Mapping reads a mapping by its Shape, Entries reads a mapping whose keys the author
// chooses, and Items reads a list. Text, Choice, Integer, Duration, Share and others read values. On a
// mistake each records a problem and returns ok false, so callers can continue; at the end Problems returns
// them all. A Shape also yields a JSON Schema, for editors.
package yamlfile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds on a file. People write these files, so a larger one is a mistake or an attack.
const (
	// MaxBytes is the size of the largest file that Root reads.
	MaxBytes = 1 << 20
	maxNodes = 20_000
	maxDepth = 32
)

// Reader reads the tree of one file and collects every problem. Its methods return ok false if they refused
// something; callers then continue.
type Reader struct {
	file, kind string
	lines      []string
	problems   Errors
	warnings   Errors
	// hidden has the numbers of the lines that no problem may quote.
	hidden map[int]bool
}

// NewReader returns a reader of a file. kind is the word for such a file in messages, such as
// "configuration".
func NewReader(file, kind string, data []byte) *Reader {
	return &Reader{file: file, kind: kind, lines: strings.Split(string(data), "\n")}
}

// Count returns the number of problems so far. A part of the file is valid if reading it does not change the
// number.
func (r *Reader) Count() int { return len(r.problems) }

// Problems returns the problems found so far, sorted by position.
func (r *Reader) Problems() Errors {
	r.problems.Sort()
	return r.problems
}

// Refuse records a problem at a node.
func (r *Reader) Refuse(n *yaml.Node, message string, args ...any) {
	r.RefuseAt(n.Line, n.Column, Problem{Message: fmt.Sprintf(message, args...)})
}

// Warn records a warning at a node: the value is accepted but should be written differently.
func (r *Reader) Warn(n *yaml.Node, message string, args ...any) {
	r.warnings = append(r.warnings, r.problemAt(n.Line, n.Column, Problem{Message: fmt.Sprintf(message, args...)}))
}

// Warnings returns the warnings recorded so far, sorted by position. Warnings are not problems.
func (r *Reader) Warnings() Errors {
	r.warnings.Sort()
	return r.warnings
}

// Unknown records that a name is not allowed.
func (r *Reader) Unknown(n *yaml.Node, message, got string, allowed []string) {
	r.RefuseAt(n.Line, n.Column, Problem{Message: message, Allowed: allowed, Nearest: Nearest(got, allowed)})
}

// RefuseAt records a problem at a position. It fills in the file and the source line.
func (r *Reader) RefuseAt(line, column int, p Problem) {
	r.problems = append(r.problems, r.problemAt(line, column, p))
}

// problemAt fills in a problem's position and source line.
func (r *Reader) problemAt(line, column int, p Problem) Problem {
	line = max(1, min(line, len(r.lines)))
	p.File, p.Line, p.Column = r.file, line, max(1, column)
	if !r.hidden[line] {
		p.Source = strings.TrimRight(r.lines[line-1], "\r")
	}
	return p
}

// Hide keeps later problems from quoting the lines of a node, which may hold secrets.
func (r *Reader) Hide(n *yaml.Node) {
	if r.hidden == nil {
		r.hidden = make(map[int]bool)
	}
	r.hidden[n.Line] = true
	for _, child := range n.Content {
		r.Hide(child)
	}
}

// Root parses the file into one tree without aliases. It returns nil if the file can't be read or
// is empty.
func (r *Reader) Root(data []byte) *yaml.Node {
	if len(data) > MaxBytes {
		r.RefuseAt(1, 1, Problem{Message: fmt.Sprintf("the file has more than %d bytes, the most that a %s may have", MaxBytes, r.kind)})
		return nil
	}
	if line, column, ok := badCharacter(data); !ok {
		r.RefuseAt(line, column, Problem{Message: "not a readable character; a " + r.kind + " is UTF-8 text"})
		return nil
	}
	var documents []yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		r.refuseSyntaxError(err)
		return nil
	}
	if len(documents) > 1 {
		second := &documents[1]
		if len(second.Content) > 0 {
			second = second.Content[0]
		}
		r.Refuse(second, "a second document begins here; a file holds one %s", r.kind)
		return nil
	}
	if len(documents) == 0 || len(documents[0].Content) == 0 || IsNull(documents[0].Content[0]) {
		return nil
	}
	budget := maxNodes
	return r.expandAliases(documents[0].Content[0], &budget, 0, nil)
}

// refuseSyntaxError records an error of the YAML parser at its position.
func (r *Reader) refuseSyntaxError(err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		r.RefuseAt(1, 1, Problem{Message: "not YAML: " + err.Error()})
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
	r.RefuseAt(e.Mark.Line, e.Mark.Column, Problem{Message: message})
}

// expandAliases copies a tree and replaces aliases by their targets. A few lines of nested aliases could grow
// to billions of nodes, and an alias inside its own anchor would recurse endlessly. The budget bounds the
// first; open detects the second.
func (r *Reader) expandAliases(n *yaml.Node, budget *int, depth int, open []*yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		for _, o := range open {
			if o == n.Alias {
				r.Refuse(n, "alias *%s stands inside its own anchor", n.Value)
				return nil
			}
		}
		target := r.expandAliases(n.Alias, budget, depth+1, append(open, n.Alias))
		if target != nil {
			target.Line, target.Column = n.Line, n.Column
		}
		return target
	}
	*budget--
	if *budget < 0 || depth > maxDepth {
		r.Refuse(n, "the file grows beyond %d values or %d levels when its aliases are written out", maxNodes, maxDepth)
		return nil
	}
	out := *n
	out.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		inside := open
		if n.Anchor != "" {
			inside = append(slices.Clone(open), n)
		}
		if out.Content[i] = r.expandAliases(child, budget, depth+1, inside); out.Content[i] == nil {
			return nil
		}
	}
	return &out
}

// badCharacter returns the position of the first byte that is not printable UTF-8, which the parser reports
// without a position.
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

// Entry is one pair of a mapping.
type Entry struct {
	Name       string
	Key, Value *yaml.Node
}

// Entries returns the pairs of a mapping whose keys the author chooses. It refuses duplicates. If n is not a
// mapping, it refuses n and returns nil.
func (r *Reader) Entries(n *yaml.Node, where string) []Entry {
	list, _, _ := r.readEntries(n, where)
	return list
}

// readEntries is Entries, but also reports whether it refused a key: a duplicate, or a key that is not a
// name. ok is false if n is not a mapping.
func (r *Reader) readEntries(n *yaml.Node, where string) (list []Entry, duplicate, ok bool) {
	if n.Kind != yaml.MappingNode {
		r.Refuse(n, "%s must be a mapping (key: value), is %s", where, KindOf(n))
		return nil, false, false
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode {
			r.Refuse(key, "a key under %s must be a name, is %s", where, KindOf(key))
			duplicate = true
			continue
		}
		if line, seen := first[key.Value]; seen {
			r.Refuse(key, "duplicate key %q under %s; the first is in line %d", key.Value, where, line)
			duplicate = true
			continue
		}
		first[key.Value] = key.Line
		list = append(list, Entry{key.Value, key, value})
	}
	return list, duplicate, true
}

// Items returns the elements of a sequence.
func (r *Reader) Items(n *yaml.Node, where string) ([]*yaml.Node, bool) {
	if n.Kind != yaml.SequenceNode {
		r.Refuse(n, "%s must be a list, is %s", where, KindOf(n))
		return nil, false
	}
	return n.Content, true
}

// IsNull reports whether a node is an empty value.
func IsNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// KindOf describes a node in words that an author of YAML knows.
func KindOf(n *yaml.Node) string {
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
		return "the number " + Cut(n.Value)
	case "!!bool":
		return "the boolean " + n.Value
	}
	return fmt.Sprintf("the string %q", Cut(n.Value))
}

// Cut shortens a text so that a message can quote it.
func Cut(text string) string {
	const longest = 80
	n := 0
	for at := range text {
		if n++; n > longest {
			return text[:at] + "…"
		}
	}
	return text
}
