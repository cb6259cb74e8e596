package verdict

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// Cause is one way in which runs of a scenario failed. Runs share a cause if they broke the same rule at the
// same place, and their messages are equal apart from numbers, times and names.
type Cause struct {
	// Rule is Violation.Rule.
	Rule string
	// Where is the part or process that the message names first, without its number; empty for none.
	Where string
	// Text is the message's first line, with "…" in place of everything that differs between runs.
	Text string
	// Seeds is the number of runs, and First their smallest seed.
	Seeds int
	First uint64
}

const (
	// keptCauses limits the number of a scenario's causes. The first causes in the order of compareCauses are
	// kept, so their counts are exact whatever the order of runs.
	keptCauses = 50
	// keptSeeds limits the number of a scenario's failed seeds. The smallest seeds are kept.
	keptSeeds = 1000
	// causeText is the maximum length of a cause's text, in bytes.
	causeText = 300
)

var (
	// differingPattern matches everything that may differ between two runs with the same cause: quoted texts,
	// random identifiers, numbers (also in names) and durations.
	differingPattern = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b[0-9a-f]{8,}\b|\d+(?:/\w+)+|\d[\w.:+-]*`)
	// processPattern matches the name of a process, such as executor-1.
	processPattern = regexp.MustCompile(`\b([a-z][a-z_-]*)-\d+\b`)
	// partPattern matches a part with its process, as in "the timeout monitor of executor-1", "the timeout
	// monitor (executor-1)" or "the timeout_monitor, executor-1".
	partPattern = regexp.MustCompile(`\bthe ([a-z][a-z_ ]*?)(?: of | \(|, )[a-z][a-z_-]*-\d+\b`)
)

// Cause returns the cause of one violation, without counts.
func (v *Violation) Cause() Cause {
	line, rest, _ := strings.Cut(v.Message, "\n")
	text := differingPattern.ReplaceAllString(line, "…")
	if v.Name == Expectation && rest != "" {
		// Causes of an unmet expectation differ by how most of the executions that missed it ended.
		most, _, _ := strings.Cut(rest, "\n")
		if at := strings.LastIndex(most, ": execution"); at >= 0 {
			most = most[:at]
		}
		text += "; most: " + differingPattern.ReplaceAllString(most, "…")
	}
	c := Cause{Rule: v.Rule(), Text: clipText(text, causeText)}
	if m := partPattern.FindStringSubmatch(line); m != nil {
		c.Where = strings.ReplaceAll(m[1], "_", " ")
	} else if m := processPattern.FindStringSubmatch(line); m != nil {
		c.Where = m[1]
	}
	return c
}

// clipText shortens a text to at most n bytes, at a character boundary.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-len("…")], "") + "…"
}

// Causes returns the causes of violations with their counts. A run counts once for each of its causes.
func Causes(violations []Violation) []Cause {
	type once struct {
		cause Cause
		seed  uint64
	}
	var list []Cause
	seen := make(map[once]bool, len(violations))
	for i := range violations {
		c := violations[i].Cause()
		if key := (once{c, violations[i].Seed}); !seen[key] {
			seen[key] = true
			c.Seeds, c.First = 1, violations[i].Seed
			list = addCause(list, c)
		}
	}
	return list
}

// addCause adds one cause to an ordered list.
func addCause(list []Cause, c Cause) []Cause {
	at, found := slices.BinarySearchFunc(list, c, compareCauses)
	if found {
		list[at].Seeds += c.Seeds
		list[at].First = min(list[at].First, c.First)
		return list
	}
	list = slices.Insert(list, at, c)
	return list[:min(len(list), keptCauses)]
}

func compareCauses(a, b Cause) int {
	return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Text, b.Text))
}

// addSeed adds a failed seed to an ordered list.
func addSeed(list []uint64, seed uint64) []uint64 {
	at, found := slices.BinarySearch(list, seed)
	if found {
		return list
	}
	list = slices.Insert(list, at, seed)
	return list[:min(len(list), keptSeeds)]
}
