package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim/explore"
)

const annotationsUsage = "write the failures as annotations of GitHub Actions to this `FILE`; - is standard output; in GitHub Actions they are always printed, except with --mutant"

// annotate writes the annotations where they are asked for, and in GitHub Actions prints them. The
// mistakes of a planted mutant are wanted, so they are not printed unasked.
func (a *app) annotate(f *runFlags, s *verdict.Sweep, targets []explore.Target) error {
	write := func(w io.Writer, s *verdict.Sweep) error {
		return reports.WriteAnnotations(w, s, locator(targets))
	}
	if f.annotations == "" && os.Getenv("GITHUB_ACTIONS") == "true" && f.mutant == "" {
		return write(a.out, s)
	}
	return f.writeCopy(f.annotations, s, write)
}

// locator finds the file and the line of a violation. Without targets, as for merged shares, it knows
// the library only.
func locator(targets []explore.Target) func(*verdict.Scenario, *verdict.Violation) (string, int) {
	files := make(map[string]*scenario.Scenario)
	for _, t := range targets {
		files[t.Scenario.Digest] = t.Scenario
	}
	return func(sc *verdict.Scenario, v *verdict.Violation) (string, int) {
		s := files[sc.Digest]
		if s == nil {
			known, err := scenarios.Find(sc.Name)
			if err != nil || known.Digest != sc.Digest {
				return "", 0
			}
			s = known
		}
		return inWorkspace(s.File), s.Line(sc.Profile, v.Invariant, v.Message)
	}
}

// inWorkspace is a path as GitHub knows it: from the root of the repository that it has checked out.
func inWorkspace(path string) string {
	workspace := os.Getenv("GITHUB_WORKSPACE")
	if here, err := filepath.Abs(path); err == nil && workspace != "" {
		if inside, err := filepath.Rel(workspace, here); err == nil && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
			path = inside
		}
	}
	return filepath.ToSlash(path)
}
