package explore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/testenv"
	"handoff/scenarios"
	"handoff/sim"
)

// sampled lists the mutants that every test run shrinks; make test-all shrinks all mutants, which takes
// minutes.
func sampled() []string {
	if !testenv.All() {
		return []string{"refused-letter-dropped", "returned-is-confirmed", "one-clock-lease"}
	}
	var all []string
	for _, f := range mutant.All() {
		all = append(all, f.Name)
	}
	return all
}

// mostShrinkRuns bounds the work of shrinking one failure; most take a few hundred runs.
const mostShrinkRuns = 20_000

// A shrunk file fails with the mutant, by the mutant's expected invariant, and passes without it. Most
// files are small and are found quickly.
func TestShrunkFilesFailOnlyWithTheirMutant(t *testing.T) {
	var faults, executions []int
	chosen := sampled()
	for _, kill := range kills(t) {
		f := kill.Mutant
		if !slices.Contains(chosen, f.Name) {
			continue
		}
		if !kill.Killed() {
			t.Errorf("%s was not killed", f.Name)
			continue
		}
		small, err := Shrink(context.Background(), kill.Target, kill.Seed, f, "shrunk-"+f.Name+".yaml")
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		t.Logf("%-26s %2d faults %3d executions %d workers, %4d runs", f.Name, small.Faults, small.Executions, small.Workers, small.Runs)
		faults, executions = append(faults, small.Faults), append(executions, small.Executions)
		if small.Runs > mostShrinkRuns {
			t.Errorf("%s: shrinking took %d runs, at most %d are allowed", f.Name, small.Runs, mostShrinkRuns)
		}
		s, err := scenario.Parse("shrunk.yaml", small.File)
		if err != nil {
			t.Errorf("%s: the shrunk file is refused: %v\n%s", f.Name, err, small.File)
			continue
		}
		checkRegression(t, s)
		if s.Regression.Invariant != f.Expected {
			t.Errorf("%s: the shrunk file is about invariant %d, want %d", f.Name, s.Regression.Invariant, f.Expected)
		}
	}
	if m := median(faults); m > 3 {
		t.Errorf("the median of the faults is %d, want at most 3", m)
	}
	if m := median(executions); m > 3 {
		t.Errorf("the median of the executions is %d, want at most 3", m)
	}
}

func median(list []int) int {
	slices.Sort(list)
	if len(list) == 0 {
		return 0
	}
	return list[len(list)/2]
}

// checkRegression requires that a file fails with its mutant and passes without it.
func checkRegression(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	if s.Regression == nil {
		t.Errorf("%s says no regression: it belongs into the library", s.File)
		return
	}
	target := Target{Scenario: s, Profile: s.Profiles[0]}
	if r := runOnce(target, sim.Options{Seed: s.Regression.Seed}); len(r.Failures()) > 0 || r.GaveUp != "" {
		t.Errorf("%s fails in seed %d with no mutant planted: %v %s", s.Name, s.Regression.Seed, r.Failures(), r.GaveUp)
	}
	if s.Regression.Mutant == "" {
		return
	}
	planted := mutant.Find(s.Regression.Mutant)
	if planted == nil {
		t.Errorf("%s plants %q, which is no mutant", s.File, s.Regression.Mutant)
		return
	}
	r := runOnce(target, sim.Options{Seed: s.Regression.Seed, Mutant: planted})
	for _, v := range r.Failures() {
		if v.Invariant == s.Regression.Invariant {
			return
		}
	}
	t.Errorf("%s does not break invariant %d in seed %d with %s planted; it breaks %v", s.File, s.Regression.Invariant, s.Regression.Seed, s.Regression.Mutant, r.Failures())
}

// Every file in scenarios/regressions still fails with its mutant and passes without it.
func TestRegressionFilesFailOnlyWithMutant(t *testing.T) {
	list, err := scenarios.Regressions()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Fatal("there is no regression")
	}
	for _, s := range list {
		t.Run(s.Name, func(t *testing.T) { checkRegression(t, s) })
	}
}

// The same run is always shrunk to the same file.
func TestShrinkingIsDeterministic(t *testing.T) {
	skipShort(t)
	s, err := scenarios.Find("queue-unbound")
	if err != nil {
		t.Fatal(err)
	}
	target, f := Target{Scenario: s, Profile: s.Profiles[0]}, mutant.Find("returned-is-confirmed")
	var files [2][]byte
	for i := range files {
		small, err := Shrink(context.Background(), target, 1, f, "twice.yaml")
		if err != nil {
			t.Fatal(err)
		}
		files[i] = small.File
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Errorf("two files:\n%s\n%s", files[0], files[1])
	}
	if _, err := Shrink(context.Background(), target, 1, nil, "sound.yaml"); err == nil {
		t.Error("a run that passes was shrunk")
	}
}

// A failure that also happens without the mutant is not attributed to it. The error states this, and not
// that the run passes.
func TestFailureWithoutMutantIsNotShrunk(t *testing.T) {
	s, err := scenario.Parse("cancelled-and-lost.yaml", []byte(cancelledAndLost))
	if err != nil {
		t.Fatal(err)
	}
	target := Target{Scenario: s, Profile: config.Hardened}
	_, err = Shrink(t.Context(), target, 50, mutant.Find("returned-is-confirmed"), "small.yaml")
	want := "cancelled-and-lost (hardened) fails in seed 50, but cut down to this one profile it was not found to fail in the same way " +
		"and to pass without the mutant returned-is-confirmed; tried: seed 50 and seeds 1 to 40"
	var notKept *ErrNotKept
	if !errors.As(err, &notKept) || errors.Is(err, ErrNothingToShrink) || err.Error() != want {
		t.Errorf("the error is %v\nwant %s", err, want)
	}
	small, err := Shrink(t.Context(), target, 50, nil, "small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if about := "The smallest scenario found that still fails like cancelled-and-lost, seed 50: "; !strings.HasPrefix(small.Target.Scenario.About, about) {
		t.Errorf("about %q; want %q and the expectation", small.Target.Scenario.About, about)
	}
}
