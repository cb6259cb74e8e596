package docs

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/scenarios"
)

// lastDefect is the number of the last defect of the source documents.
const lastDefect = 60

// citation finds the number of a defect of the source documents (D), of the audit (C) or of the attacks (S), and ranges such
// as D36 to D40.
var citation = regexp.MustCompile(`\b([DCS])([1-9]\d?)\b(?: to [DCS]([1-9]\d?)\b)?`)

// cited are the numbers that a text names, in order, each once. A whole catalogue, such as D1 to D60, names no defect.
func cited(text string) (numbers []string) {
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			if last, _ = strconv.Atoi(m[3]); first == 1 && last > 10 {
				continue // a whole catalogue
			}
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, m[1]+strconv.Itoa(n))
		}
	}
	return inOrder(numbers)
}

// inOrder sorts numbers, D before C before S, and leaves out what stands twice.
func inOrder(numbers []string) []string {
	rank := func(s string) (letter, n int) {
		n, _ = strconv.Atoi(s[1:])
		return strings.Index("DCS", s[:1]), n
	}
	slices.SortFunc(numbers, func(a, b string) int {
		la, na := rank(a)
		lb, nb := rank(b)
		return cmp.Or(cmp.Compare(la, lb), cmp.Compare(na, nb))
	})
	return slices.Compact(numbers)
}

// showing is what shows one defect.
type showing struct {
	invariants []int
	scenarios  []string
	mutants    []*mutant.Mutant
	code       []string
}

// defectsOfTheCode are the defects that must have an entry, each with what shows it: all of the source documents, and those of
// the audit and of the attacks that a mutant, a scenario or an invariant names.
func defectsOfTheCode(t *testing.T) (numbers []string, of map[string]*showing) {
	t.Helper()
	of = make(map[string]*showing)
	at := func(number string) *showing {
		if of[number] == nil {
			of[number] = new(showing)
		}
		return of[number]
	}
	for n := 1; n <= lastDefect; n++ {
		at("D" + strconv.Itoa(n))
	}
	for _, m := range mutant.All() {
		s := at(m.Source)
		s.mutants = append(s.mutants, m)
		s.invariants = append(s.invariants, m.Expected)
		s.scenarios = append(s.scenarios, m.Scenario)
	}
	for _, s := range library(t) {
		for _, number := range cited(s.About) {
			at(number).scenarios = append(at(number).scenarios, s.Name)
		}
	}
	for name, source := range texts(t, "chaos/invariant", ".go") {
		n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "i")[:2])
		if err != nil {
			continue // no file of one invariant
		}
		for _, number := range cited(source) {
			at(number).invariants = append(at(number).invariants, n)
		}
	}
	for _, dir := range []string{"core", "cmd", "migrations"} {
		for name, source := range texts(t, dir, ".go", ".sql") {
			for _, number := range cited(source) {
				if of[number] != nil {
					of[number].code = append(of[number].code, name)
				}
			}
		}
	}
	for number, s := range of {
		numbers = append(numbers, number)
		slices.Sort(s.invariants)
		s.invariants = slices.Compact(s.invariants)
		slices.Sort(s.scenarios)
		s.scenarios = slices.Compact(s.scenarios)
		slices.Sort(s.code)
	}
	return inOrder(numbers), of
}

// library is the scenario library.
func library(t *testing.T) []*scenario.Scenario {
	t.Helper()
	list, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// texts are the files below a directory that end so, tests left out, by their paths from the root.
func texts(t *testing.T, dir string, endings ...string) map[string]string {
	t.Helper()
	found := allTexts(t, dir, endings...)
	maps.DeleteFunc(found, func(name, _ string) bool { return strings.HasSuffix(name, "_test.go") })
	return found
}

// shownBy is what a page says of what shows a defect.
func shownBy(s *showing) func(t *testing.T) string {
	return func(*testing.T) string {
		var b strings.Builder
		list := func(title string, items []string) {
			if len(items) > 0 {
				b.WriteString(wrapped("- "+title+": "+strings.Join(items, ", ")) + "\n")
			}
		}
		var names, spans, planted, files []string
		for _, n := range s.invariants {
			names = append(names, fmt.Sprintf("%d (%s)", n, invariant.All()[n-1].Name))
		}
		for _, name := range s.scenarios {
			spans = append(spans, code(name))
		}
		for _, m := range s.mutants {
			planted = append(planted, fmt.Sprintf("%s (%d, %s)", code(m.Name), m.Expected, code(m.Scenario)))
		}
		for _, name := range s.code {
			files = append(files, code(name))
		}
		list("Invariants", names)
		list("Scenarios", spans)
		list("Mutants", planted)
		list("Cited in", files)
		return b.String()
	}
}

// wrapped breaks an item of a list at 100 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 100:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// defectEntry is an entry of defects.md.
type defectEntry struct {
	number, text string
	line         int
}

// defectEntries are the entries of defects.md by their order.
func defectEntries(t *testing.T) (entries []defectEntry) {
	t.Helper()
	var numbers []string
	for i, line := range strings.Split(read(t, "defects.md"), "\n") {
		if heading, ok := strings.CutPrefix(line, "### "); ok {
			entries = append(entries, defectEntry{number: heading, line: i + 1})
			numbers = append(numbers, heading)
			continue
		}
		if strings.HasPrefix(line, "## ") {
			entries = append(entries, defectEntry{})
			continue
		}
		if len(entries) > 0 {
			entries[len(entries)-1].text += line + "\n"
		}
	}
	entries = slices.DeleteFunc(entries, func(e defectEntry) bool { return e.number == "" })
	if !slices.Equal(numbers, inOrder(slices.Clone(numbers))) {
		t.Errorf("the entries of defects.md are not in order: %v", numbers)
	}
	return entries
}

// Whoever reads D20 beside a line of code can look up what it stands for.
func TestCitedDefectsHaveEntries(t *testing.T) {
	numbers, _ := defectsOfTheCode(t)
	explained := make(map[string]bool)
	for _, e := range defectEntries(t) {
		explained[e.number] = true
		if !slices.Contains(numbers, e.number) {
			t.Errorf("defects.md:%d: %s is no defect, and no mutant, scenario or invariant names it", e.line, e.number)
		}
	}
	for _, number := range numbers {
		if !explained[number] {
			t.Errorf("defects.md has no entry %s", number)
		}
	}
	// The attacks have a page of their own, with a row for each.
	for page, letter := range map[string]string{"docs/attacks.md": "S"} {
		p := readPage(t, page)
		for _, b := range p.tables() {
			for _, cell := range b.column(0) {
				for _, number := range cited(cell) {
					if strings.HasPrefix(number, letter) {
						explained[number] = true
					}
				}
			}
		}
	}
	files := allTexts(t, "", ".go", ".yaml", ".yml", ".md", ".sql", ".sh")
	for name, source := range files {
		for _, number := range cited(source) {
			// Tests make up attacks that there are not.
			if !explained[number] && (number[0] == 'D' || !strings.HasSuffix(name, "_test.go")) {
				t.Errorf("%s cites %s, and no page explains that", name, number)
			}
		}
	}
}
