package explore

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/scenarios"
)

// every chooses the scenarios: every eleventh of the sorted library, which makes ten of them, or
// eleven when the library has grown.
const every = 11

// TestTwiceTheSeedsShowWhatWasPredicted predicts from n seeds what n more will show, for scenarios
// chosen by a rule, and then runs those. At least nine of ten predictions must be right. By default
// it takes every third of the chosen scenarios, with ten seeds in one profile.
// HANDOFF_PREDICT=50,100 takes all of them in both profiles, from 50 seeds to 100 and from 100 to
// 200 (make sure).
func TestTwiceTheSeedsShowWhatWasPredicted(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs sixty runs, which prove nothing more under the race detector")
	}
	seeds, step, profiles := []int{10}, 3*every, 1
	if asked := os.Getenv("HANDOFF_PREDICT"); asked != "" {
		seeds, step, profiles = nil, every, 2
		for text := range strings.SplitSeq(asked, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 10 {
				t.Fatalf("HANDOFF_PREDICT=%s: numbers of seeds from 10 on are needed, with commas between, in ascending order", asked)
			}
			seeds = append(seeds, n)
		}
	}
	var targets []Target
	names := slices.Sorted(slices.Values(scenarios.Names()))
	for at := step - 1; at < len(names); at += step {
		s, err := scenarios.Find(names[at])
		if err != nil {
			t.Fatal(err)
		}
		all := Targets([]*scenario.Scenario{s})
		targets = append(targets, all[:min(profiles, len(all))]...)
	}
	held, asked := 0, 0
	so := make([]verdict.Scenario, len(targets))
	upTo := func(n int) {
		ran := so[0].Discovery.Runs()
		if n <= ran {
			return
		}
		out, err := Sweep(t.Context(), targets, Options{First: uint64(ran) + 1, Seeds: n - ran})
		if err != nil {
			t.Fatal(err)
		}
		for i, sc := range out.Sweep.Scenarios {
			so[i].Discovery.Merge(&sc.Discovery)
		}
	}
	for _, n := range seeds {
		upTo(n)
		before := make([]verdict.Scenario, len(targets))
		for i := range so {
			before[i].Discovery.Merge(&so[i].Discovery)
		}
		upTo(2 * n)
		for i, target := range targets {
			was, is := before[i].Discovery.Incidence(), so[i].Discovery.Incidence()
			if was.Runs != n || is.Runs != 2*n {
				t.Fatalf("%s: %d and %d runs were counted, want %d and %d", target, was.Runs, is.Runs, n, 2*n)
			}
			e, found := was.More(n), is.Distinct()-was.Distinct()
			asked++
			verdict := "held"
			if float64(found) < e.Low || float64(found) > e.High {
				verdict = "missed"
			} else {
				held++
			}
			t.Logf("| %s | %d | %d | %d | %.1f (%.0f–%.0f) | %d | %s |", target, n, was.Distinct(), was.In(1), e.Situations, e.Low, e.High, found, verdict)
		}
	}
	t.Logf("%d of %d predictions held", held, asked)
	if misses := asked - held; misses > (asked+9)/10 {
		t.Errorf("only %d of %d predictions held, which is less than nine of ten", held, asked)
	}
}
