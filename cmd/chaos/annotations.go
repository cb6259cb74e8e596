package main

import (
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/sim/explore"
)

// newLocator returns a function that finds the file and the line of a violation.
func newLocator(targets []explore.Target) func(*verdict.Scenario, *verdict.Violation) (string, int) {
	files := make(map[string]*scenario.Scenario)
	for _, t := range targets {
		files[t.Scenario.Digest] = t.Scenario
	}
	return func(sc *verdict.Scenario, v *verdict.Violation) (string, int) {
		s := files[sc.Digest]
		if s == nil {
			return "", 0
		}
		return inWorkspace(s.File), s.Line(sc.Profile, v.Invariant, v.Message)
	}
}

// inWorkspace returns the path relative to the root of the repository that GitHub has checked out.
func inWorkspace(path string) string {
	workspace := os.Getenv("GITHUB_WORKSPACE")
	if here, err := filepath.Abs(path); err == nil && workspace != "" {
		if inside, err := filepath.Rel(workspace, here); err == nil && inside != ".." && !strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
			path = inside
		}
	}
	return filepath.ToSlash(path)
}
