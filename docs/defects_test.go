package docs

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/invariant"
	"handoff/chaos/selftest/mutant"
	"handoff/scenarios"
)

// lastDefect is the number of the source documents' last defect.
const lastDefect = 60

// citation matches the number of a defect from the source documents (D), the audit (C) or the attacks (S),
// and ranges such as D36 to D40.
var citation = regexp.MustCompile(`\b([DCS])([1-9]\d?)\b(?: to [DCS]([1-9]\d?)\b)?`)

// citedDefects returns the distinct numbers in a text, in order. A range over a whole catalogue, such as D1
// to D60, cites no particular defect.
func citedDefects(text string) (numbers []string) {
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			if last, _ = strconv.Atoi(m[3]); first == 1 && last > 10 {
				continue
			}
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, m[1]+strconv.Itoa(n))
		}
	}
	return inOrder(numbers)
}

// inOrder sorts numbers (D before C before S) and removes duplicates.
func inOrder(numbers []string) []string {
	slices.SortFunc(numbers, func(a, b string) int {
		return cmp.Or(strings.Index("DCS", a[:1])-strings.Index("DCS", b[:1]), len(a)-len(b), strings.Compare(a, b))
	})
	return slices.Compact(numbers)
}

// evidence maps titles on the page to the items that show one defect.
type evidence map[string][]string

// defectsOfTheCode returns the defects that need an entry, with their evidence. These are all defects of the
// source documents, and those defects of the audit and the attacks that a mutant, a scenario or an invariant
// names.
func defectsOfTheCode(t *testing.T) (of map[string]evidence) {
	t.Helper()
	of = make(map[string]evidence)
	add := func(number, title, item string) {
		if of[number] == nil {
			of[number] = make(evidence)
		}
		if title != "" && !slices.Contains(of[number][title], item) {
			of[number][title] = append(of[number][title], item)
		}
	}
	rule := func(n int) string { return fmt.Sprintf("%2d (%s)", n, invariant.ByNumber(n).Name) } // sorts by the number
	for n := 1; n <= lastDefect; n++ {
		add("D"+strconv.Itoa(n), "", "")
	}
	for _, m := range mutant.All() {
		add(m.Source, "Mutants", fmt.Sprintf("%s (%d, %s)", inlineCode(m.Name), m.Expected, inlineCode(m.Scenario)))
		add(m.Source, "Invariants", rule(m.Expected))
		add(m.Source, "Scenarios", inlineCode(m.Scenario))
	}
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range library {
		for _, number := range citedDefects(s.About) {
			add(number, "Scenarios", inlineCode(s.Name))
		}
	}
	cites := func(dir string, each func(name, number string)) {
		for name, source := range allTexts(t, dir, ".go", ".sql") {
			for _, number := range citedDefects(source) {
				if !strings.HasSuffix(name, "_test.go") {
					each(name, number)
				}
			}
		}
	}
	cites("chaos/invariant", func(name, number string) {
		if n, err := strconv.Atoi(path.Base(name)[1:3]); err == nil {
			add(number, "Invariants", rule(n))
		}
	})
	for _, dir := range []string{"core", "cmd", "migrations"} {
		cites(dir, func(name, number string) {
			if of[number] != nil {
				add(number, "Cited in", inlineCode(name))
			}
		})
	}
	return of
}

// evidenceList formats the evidence of a defect for the page.
func evidenceList(s evidence) func(t *testing.T) string {
	return func(*testing.T) string {
		var b strings.Builder
		for _, title := range []string{"Invariants", "Scenarios", "Mutants", "Cited in"} {
			items := slices.Clone(s[title])
			if title != "Mutants" {
				slices.SortFunc(items, func(a, b string) int { return strings.Compare(strings.Trim(a, "`"), strings.Trim(b, "`")) })
			}
			if len(items) > 0 {
				b.WriteString(wrapItem("- "+title+": "+strings.Join(items, ", ")) + "\n")
			}
		}
		return b.String()
	}
}

// wrapItem breaks a list item at 100 columns.
func wrapItem(text string) string {
	words := strings.Fields(text)
	line, lines := words[0], ""
	for _, word := range words[1:] {
		if len(line)+1+len(word) > 100 {
			lines, line = lines+line+"\n", " "
		}
		line += " " + word
	}
	return lines + line
}

// A defect cited in the code, such as D20, has an entry on the page.
func TestCitedDefectsHaveEntries(t *testing.T) {
	known, explained := defectsOfTheCode(t), map[string]bool{}
	var entries []string
	for _, m := range regexp.MustCompile(`(?m)^### ([DCS]\d+)$`).FindAllStringSubmatch(readText(t, "defects.md"), -1) {
		entries = append(entries, m[1])
		explained[m[1]] = true
	}
	if want := inOrder(slices.Collect(maps.Keys(known))); !slices.Equal(entries, want) {
		t.Errorf("docs/defects.md has the entries %q, want %q", entries, want)
	}
	attacks := readPage(t, "docs/attacks.md") // docs/attacks.md has a row for each attack
	for _, b := range attacks.parseTables() {
		for _, number := range citedDefects(strings.Join(b.columnCells(0), " ")) {
			explained[number] = true
		}
	}
	for name, source := range allTexts(t, "", ".go", ".yaml", ".yml", ".md", ".sql", ".sh") {
		for _, number := range citedDefects(source) {
			// Tests invent attacks.
			if !explained[number] && (number[0] == 'D' || !strings.HasSuffix(name, "_test.go")) {
				t.Errorf("%s cites %s, and no page explains that", name, number)
			}
		}
	}
}
