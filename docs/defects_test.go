package docs

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
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

// cited are the numbers that a text names, in order, each once. D1 to D60 names the catalogue and no defect.
func cited(text string) (numbers []string) {
	for _, m := range citation.FindAllStringSubmatch(text, -1) {
		first, _ := strconv.Atoi(m[2])
		last := first
		if m[3] != "" {
			last, _ = strconv.Atoi(m[3])
		}
		if m[1] == "D" && first == 1 && last == lastDefect {
			continue
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

// allTexts are those with the tests.
func allTexts(t *testing.T, dir string, endings ...string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "out", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular(), !slices.Contains(endings, filepath.Ext(path)):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = string(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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
			names = append(names, fmt.Sprintf("%d (%s)", n, invariant.ByNumber(n).Name))
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
func TestEveryDefectThatIsCitedHasAnEntry(t *testing.T) {
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
	// The audit and the attacks have pages of their own, with a row for each.
	for page, letter := range map[string]string{"docs/findings.md": "C", "docs/attacks.md": "S"} {
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
	if len(files) < 500 {
		t.Fatalf("only %d files: the test does not see the repository", len(files))
	}
	for name, source := range files {
		for _, number := range cited(source) {
			// Tests make up attacks that there are not.
			if !explained[number] && (number[0] == 'D' || !strings.HasSuffix(name, "_test.go")) {
				t.Errorf("%s cites %s, and no page explains that", name, number)
			}
		}
	}
}

// An entry says what goes wrong, and where that is closed; products stand there with the place where they said it.
func TestEveryEntryOfADefectIsWhole(t *testing.T) {
	known := inventory(t)
	for _, e := range defectEntries(t) {
		prose, rest, found := strings.Cut(e.text, "<!-- generated: shown by "+e.number+" -->")
		if !found {
			t.Errorf("defects.md:%d: %s lacks <!-- generated: shown by %s -->", e.line, e.number, e.number)
		}
		if !strings.Contains(rest, "\n- ") {
			t.Errorf("defects.md:%d: nothing shows %s", e.line, e.number)
		}
		parts := strings.Split(strings.TrimSpace(prose), "\n\n")
		if len(parts) < 2 || len(parts) > 3 {
			t.Errorf("defects.md:%d: %s has %d paragraphs, want 2 or 3: what goes wrong, how it is closed, who had it", e.line, e.number, len(parts))
			continue
		}
		if !regexp.MustCompile(`(?s)^\*\*[A-Z][^*]+\.\*\* .{80,}`).MatchString(parts[0]) {
			t.Errorf("defects.md:%d: %s does not begin with a title in bold and what goes wrong", e.line, e.number)
		}
		if !strings.HasPrefix(parts[1], "*Closed by* ") || !linked.MatchString(parts[1]) {
			t.Errorf("defects.md:%d: the second paragraph of %s does not say by which file or section it is closed", e.line, e.number)
		}
		if len(parts) == 3 && (!strings.HasPrefix(parts[2], "*Seen in* ") || !strings.Contains(parts[2], "](https://github.com/")) {
			t.Errorf("defects.md:%d: the third paragraph of %s does not say in which product it was seen, with a link", e.line, e.number)
		}
		text := strings.Join(strings.Fields(prose), " ")
		for _, m := range reference.FindAllStringSubmatch(number.ReplaceAllString(text, "invariant `$1`"), -1) {
			if kind, name := m[1], m[2]; !known[kind](name) {
				t.Errorf("defects.md:%d: there is no %s %q", e.line, kind, name)
			}
		}
	}
}

// What the page lists is read again, without the code that wrote it: each mutant and each scenario stands where it belongs, and
// nowhere else.
func TestMutantsAndScenariosStandUnderTheirDefects(t *testing.T) {
	entries := make(map[string]string)
	for _, e := range defectEntries(t) {
		_, generated, _ := strings.Cut(e.text, "<!-- generated: ")
		entries[e.number] = strings.Join(strings.Fields(generated), " ")
	}
	planted := regexp.MustCompile("`([a-z0-9-]+)` \\((\\d+), `([a-z0-9-]+)`\\)")
	listed := make(map[string][]string)
	for number, text := range entries {
		for _, m := range planted.FindAllStringSubmatch(text, -1) {
			found := mutant.Find(m[1])
			if found == nil || found.Source != number || strconv.Itoa(found.Expected) != m[2] || found.Scenario != m[3] {
				t.Errorf("defects.md: %s lists the mutant %s", number, m[0])
			}
			listed[number] = append(listed[number], m[1])
		}
		for _, name := range inBackticks.FindAllStringSubmatch(scenarioList.FindString(text), -1) {
			if _, err := scenarios.Find(name[1]); err != nil {
				t.Errorf("defects.md: %s lists the scenario %s: %v", number, name[1], err)
			}
		}
	}
	count := 0
	for _, m := range mutant.All() {
		count++
		if !slices.Contains(listed[m.Source], m.Name) {
			t.Errorf("defects.md: %s does not list its mutant %s", m.Source, m.Name)
		}
	}
	if count < 200 {
		t.Errorf("there are %d mutants: the test does not see them", count)
	}
	for _, s := range library(t) {
		for _, number := range cited(s.About) {
			if !strings.Contains(scenarioList.FindString(entries[number]), code(s.Name)) {
				t.Errorf("defects.md: %s does not list the scenario %s, whose text names it", number, s.Name)
			}
		}
	}
}

// Numbers are found in texts, in ranges too.
func TestCitationsAreSeen(t *testing.T) {
	for text, want := range map[string]string{
		"(defects D36 to D38, D7)": "D7 D36 D37 D38",
		"guards (D9, D12, S11)":    "D9 D12 S11",
		"D1 to D60, C1 and S12":    "C1 S12",
		"AD1 D0 D123 ID5":          "",
	} {
		if got := strings.Join(cited(text), " "); got != want {
			t.Errorf("%q cites %q, want %q", text, got, want)
		}
	}
}
