package scenario

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
)

// Line returns the line, counted from 1, of the scenario's file with the expectation that a violation breaks
// under a profile. For an invariant, it is the invariant's number under expect, or the key invariants. For an
// expectation (number 0), it is the bound that the message quotes; for an expectation of alerts, the name of
// the alert. A violation without such a line, such as a panic, gets the line of the scenario's name. A
// scenario without a file gets 0.
func (s *Scenario) Line(p config.Profile, invariant int, message string) int {
	var doc yaml.Node
	if s.root != nil || yaml.Unmarshal(s.source, &doc) != nil || len(doc.Content) == 0 {
		return 0
	}
	root := doc.Content[0]
	expect := findValue(root, "expect")
	if own := findValue(expect, string(p)); own != nil {
		expect = own
	}
	if invariant > 0 {
		if n := alertIn(findValue(expect, "alerts"), message); n != nil {
			return n.Line
		}
		if n := invariantIn(expect, invariant); n != nil {
			return n.Line
		}
	} else {
		bounds := s.Expect(p)
		for _, of := range []struct {
			key  string
			list []Bound
		}{{"executions", bounds.Executions}, {"rows", bounds.Rows}} {
			for _, b := range of.list {
				if n := keyOf(findValue(expect, of.key), b.Of); n != nil && strings.Contains(message, b.Quote(of.key)) {
					return n.Line
				}
			}
		}
	}
	if n := keyOf(root, "name"); n != nil {
		return n.Line
	}
	return 1
}

// Quote returns the text by which a message about executions or rows refers to an unmet bound.
func (b Bound) Quote(what string) string {
	return what + " " + b.outcomePhrase() + "; the scenario expects " + b.Of + ": " + b.Source
}

func (b Bound) outcomePhrase() string {
	if b.Of == Stuck {
		return "are stuck"
	}
	return "ended as " + b.Of
}

func alertIn(alerts *yaml.Node, message string) *yaml.Node {
	for _, key := range []string{"fires", "resolves", "never"} {
		list := findValue(alerts, key)
		if list == nil {
			continue
		}
		for _, n := range append([]*yaml.Node{list}, list.Content...) {
			if n.Kind == yaml.ScalarNode && strings.Contains(message, "the alert "+n.Value+" ") {
				return n
			}
		}
	}
	return nil
}

func invariantIn(expect *yaml.Node, invariant int) *yaml.Node {
	if list := findValue(expect, "invariants"); list != nil {
		for _, n := range list.Content {
			if n.Value == strconv.Itoa(invariant) {
				return n
			}
		}
	}
	return keyOf(expect, "invariants")
}

// keyOf returns the node of a key; findValue returns the node of its value.
func keyOf(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return nil
}
