package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"handoff/scenarios"
	"handoff/sim/explore"
)

func readRepoFile(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNightHasMillionRuns(t *testing.T) {
	size := regexp.MustCompile(`(?m)^NIGHT_SEEDS=([0-9]+)$`).FindStringSubmatch(readRepoFile(t, ".ci", "night"))
	if size == nil {
		t.Fatal(".ci/night has no NIGHT_SEEDS")
	}
	seeds, _ := strconv.Atoi(size[1])
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	if runs := seeds * len(explore.Targets(library)); runs < 1_000_000 || runs > 1_500_000 {
		t.Errorf("NIGHT_SEEDS %d of %d scenarios and profiles are %d runs; want 1 to 1.5 million", seeds, len(explore.Targets(library)), runs)
	}
}

// chaos accepts the commands in the files of docs/deploy and in the nightly targets of the Makefile.
func TestNightCommandsAreValid(t *testing.T) {
	text := readRepoFile(t, "docs", "deploy", "kubernetes-chaos.yaml") + readRepoFile(t, ".ci", "night")
	text = strings.NewReplacer("[chaos, ", "chaos ", ", ", " ", "]", " ").Replace(text)
	found := 0
	for _, m := range regexp.MustCompile(`(?m)chaos (run|merge|mutants) ((?:.*--(?:shard|partial)).*)$`).FindAllStringSubmatch(text, -1) {
		found++
		cmd, _, err := (&app{out: newTerminal(os.Stdout), err: newTerminal(os.Stderr)}).rootCommand().Find([]string{m[1]})
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
			if cmd.Flags().Lookup(flag[1]) == nil {
				t.Errorf("chaos %s has no flag --%s: %s", m[1], flag[1], m[0])
			}
		}
	}
	if found < 6 {
		t.Errorf("%d commands were found", found)
	}
}
