package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/selftest/mutant"
)

// Every attack on the page names tests that exist, so that renaming a test can't leave an attack untested.
// .ci/attack takes the names from the page.
func TestEveryAttackNamesItsTests(t *testing.T) {
	_, run, _ := strings.Cut(readText(t, "../.ci/attack"), "HANDOFF_TEST_GARBAGE=200000 go test ")
	run, _, _ = strings.Cut(run, "\n")
	declared, inReach := map[string]bool{}, map[string]bool{}
	for name, source := range allTexts(t, "", ".go") {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(source, -1) {
				declared[m[1]] = true
				folder := path.Dir(name)
				root, _, _ := strings.Cut(folder, "/")
				inReach[m[1]] = inReach[m[1]] || strings.Contains(run, " ./"+folder+" ") || strings.Contains(run, " ./"+root+"/... ")
			}
		}
	}
	var attacks []string
	page := readPage(t, "docs/attacks.md")
	tables := page.parseTables()
	if len(tables) != 2 {
		t.Fatalf("docs/attacks.md has %d tables, want thresholds and attacks", len(tables))
	}
	for i, column := range []int{2, 3} {
		first := tables[i].columnCells(0)
		for row, cell := range tables[i].columnCells(column) {
			tests := regexp.MustCompile(`\b(?:Test|Fuzz)\w+`).FindAllString(cell, -1)
			if len(tests) == 0 {
				t.Errorf("docs/attacks.md: %s names no test", first[row])
			}
			for _, name := range tests {
				if !declared[name] {
					t.Errorf("docs/attacks.md: %s names %s, and there is no such test", first[row], name)
				} else if !inReach[name] {
					t.Errorf("docs/attacks.md: %s names %s, and .ci/attack does not run its package", first[row], name)
				}
			}
			if i == 1 {
				attacks = append(attacks, strings.Split(first[row], ", ")...)
			}
		}
	}
	want := []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13", "S14", "S15", "S16", "S17", "X1"}
	if !slices.Equal(attacks, want) {
		t.Errorf("docs/attacks.md has the attacks %q, want %q", attacks, want)
	}
	planted := 0
	for _, m := range mutant.All() {
		if strings.Contains(readText(t, "attacks.md"), inlineCode(m.Name)) {
			planted++
		}
	}
	if planted < 6 {
		t.Errorf("docs/attacks.md names %d mutants, want six", planted)
	}
}

// The thresholds on the page equal the ones in the code that enforces them.
func TestAttackThresholdsMatchTheirTests(t *testing.T) {
	page := readText(t, "attacks.md")
	for row, judged := range map[string]struct{ file, constant string }{
		"100 ms |":                   {"core/api/costs_test.go", "mostProcessorTime = 100 * time.Millisecond"},
		"32 MB |":                    {"core/api/costs_test.go", "mostMemory        = 32 << 20"},
		"256 MB |":                   {"core/api/admission_test.go", "grown > 256<<20"},
		"| 100, found in one pass":   {"core/api/limits.go", "maxMistakes = 100"},
		"| 1 MB |":                   {"chaos/live/cluster/attack_test.go", "len(log) > 1<<20"},
		"messages | 5 s |":           {"chaos/live/cluster/attack_test.go", "took > 5*time.Second"},
		"200,000 unreadable":         {".ci/attack", "HANDOFF_TEST_GARBAGE=200000"},
		"obeys a signal within 1 s;": {"cmd/chaos/hostile_unix_test.go", "obeys = time.Second"},
		"64 MB beyond the size":      {"cmd/chaos/hostile_test.go", "peak > 64<<20+len(c.text)"},
		"within one canary interval": {"chaos/live/cluster/attack_test.go", "canaryInterval, canaryWait = 5 * time.Minute, 10 * time.Second"},
	} {
		if !strings.Contains(page, row) || !strings.Contains(readText(t, "../"+judged.file), judged.constant) {
			t.Errorf("docs/attacks.md says %q, and %s does not judge %q; or vice versa", row, judged.file, judged.constant)
		}
	}
}
