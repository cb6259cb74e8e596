package scenario

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// Unmoved makes MoveFault keep a fault's start or duration.
const Unmoved time.Duration = -1

// MoveFault returns the text of the scenario, changed so that its i-th fault, counted from 0, begins at a
// fixed time and has a fixed duration. Either may be Unmoved. Only these values change in the text, so
// comments and style stay. If the style of the text does not allow that, the whole file is rewritten without
// its comments. A fault with neither for nor restart_after can't be made longer.
func MoveFault(file string, text []byte, i int, at, lasts time.Duration) ([]byte, error) {
	s, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	if i < 0 || i >= len(s.Faults) {
		return nil, fmt.Errorf("%s has %d faults, none of them is number %d", file, len(s.Faults), i)
	}
	if lasts != Unmoved && s.Faults[i].For == 0 && s.Faults[i].RestartAfter == 0 {
		return nil, fmt.Errorf("%s ends by itself: it has neither for nor restart_after", s.Faults[i].Name)
	}
	moved := func(text []byte) bool {
		m, err := Parse(file, text)
		if err != nil || len(m.Faults) != len(s.Faults) {
			return false
		}
		f, was := &m.Faults[i], &s.Faults[i]
		if at != Unmoved && (f.When.Min != at || f.When.Max != at || f.When.After != "") {
			return false
		}
		return lasts == Unmoved || was.For != 0 && f.For == lasts || was.For == 0 && f.RestartAfter == lasts
	}
	if out := moveValues(text, i, at, lasts); out != nil && moved(out) {
		return out, nil
	}
	d, err := Edit(s)
	if err != nil {
		return nil, err
	}
	if at != Unmoved {
		d.SetAt(i, at)
	}
	if lasts != Unmoved && s.Faults[i].For != 0 {
		d.SetFor(i, lasts)
	} else if lasts != Unmoved {
		setValue(findValue(d.root, "faults").Content[i], "restart_after", textNode(yamlfile.Short(lasts)))
	}
	out := d.Bytes(file, "a fault was moved")
	if _, err := Parse(file, out); err != nil {
		return nil, err
	}
	return out, nil
}

// moveValues replaces the values in the text. It returns nil if it can't find them.
func moveValues(text []byte, i int, at, lasts time.Duration) []byte {
	var doc yaml.Node
	if yaml.Unmarshal(text, &doc) != nil || len(doc.Content) == 0 {
		return nil
	}
	faults := findValue(doc.Content[0], "faults")
	if faults == nil || i >= len(faults.Content) {
		return nil
	}
	fault := faults.Content[i]
	type change struct {
		from, to int
		value    string
	}
	var changes []change
	note := func(n *yaml.Node, value string) bool {
		from, to := spanOf(text, n)
		changes = append(changes, change{from, to, value})
		return to > from
	}
	if at != Unmoved && !note(findValue(fault, "when"), "{at: "+yamlfile.Short(at)+"}") {
		return nil
	}
	if lasts != Unmoved && !note(durationOf(fault), yamlfile.Short(lasts)) {
		return nil
	}
	if len(changes) == 2 && changes[0].from < changes[1].from {
		changes[0], changes[1] = changes[1], changes[0]
	}
	out := string(text)
	for _, c := range changes { // replace the later value first, so that the earlier position stays valid
		out = out[:c.from] + c.value + out[c.to:]
	}
	return []byte(out)
}

// durationOf returns the node with the duration of a fault.
func durationOf(fault *yaml.Node) *yaml.Node {
	if n := findValue(fault, "for"); n != nil {
		return n
	}
	if fault.Kind == yaml.MappingNode {
		for i := 1; i < len(fault.Content); i += 2 {
			if n := findValue(fault.Content[i], "for"); n != nil {
				return n
			}
		}
	}
	return findValue(fault, "restart_after")
}

// spanOf returns the position of a value in the text: a plain one-line scalar, or a mapping or list in braces
// or brackets. It is empty for anything else.
func spanOf(text []byte, n *yaml.Node) (from, to int) {
	if n == nil || n.Line < 1 || n.Column < 1 || n.Anchor != "" {
		return 0, 0
	}
	for range n.Line - 1 {
		end := strings.IndexByte(string(text[from:]), '\n')
		if end < 0 {
			return 0, 0
		}
		from += end + 1
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(text[from:])
		from += size
	}
	rest := string(text[from:])
	if n.Kind == yaml.ScalarNode {
		if n.Value == "" || !strings.HasPrefix(rest, n.Value) {
			return 0, 0
		}
		return from, from + len(n.Value)
	}
	depth := 0
	for i, r := range rest {
		switch r {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"', '\'', '#':
			return 0, 0
		}
		if depth == 0 {
			if i == 0 {
				return 0, 0 // the value is in block style
			}
			return from, from + i + 1
		}
	}
	return 0, 0
}
