package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
)

// unitMeasurement has a package that panics at its start if condition, a Go expression over mutant, is true.
func unitMeasurement(t *testing.T, condition string) *measurement {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	m := &measurement{root: root, work: t.TempDir(), numbers: map[*source.Candidate]int{}}
	text := fmt.Sprintf("package execution\n\nimport \"os\"\n\nfunc init() {\n\tif mutant := os.Getenv(%q); %s {\n\t\tpanic(mutant)\n\t}\n}\n", source.Variable, condition)
	planted, overlay := filepath.Join(t.TempDir(), "planted.go"), filepath.Join(t.TempDir(), "overlay.json")
	for file, text := range map[string]string{
		planted: text, overlay: fmt.Sprintf(`{"Replace": {%q: %q}}`, filepath.Join(root, "core", "execution", "zz_planted.go"), planted),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.overlay = overlay
	return m
}

func TestUnitTestsJudgeMutantOfPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of a package")
	}
	m := unitMeasurement(t, `mutant == "7"`)
	for number, want := range map[int]string{7: score.UnitKilled, 8: score.UnitSurvived} {
		c, r := &source.Candidate{Package: "core/execution"}, &score.Result{}
		m.numbers[c] = number
		if err := m.unitTests(t.Context(), c, r); err != nil || r.Unit != want || r.Killed() {
			t.Errorf("number %d: %q, %v; want %q", number, r.Unit, err, want)
		}
	}
	if files, err := os.ReadDir(m.work); err != nil || len(files) != 1+len(oracleTests) {
		t.Errorf("built %v, %v; want the tests of its package and those of the oracle, once", files, err)
	}
}

func TestFailingUnitTestsJudgeNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests of a package")
	}
	m := unitMeasurement(t, `mutant != ""`)
	r := &score.Result{}
	err := m.unitTests(t.Context(), &source.Candidate{Package: "core/execution"}, r)
	if err == nil || !strings.Contains(err.Error(), "the unit tests of core/execution fail without any mutant") || r.Unit != "" {
		t.Errorf("%q, %v", r.Unit, err)
	}
}
