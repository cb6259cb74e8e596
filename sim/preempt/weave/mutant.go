package weave

import (
	"fmt"
	"strings"
)

// Mutant is a lock that is missing, or is released too early: a bug that only shows if tasks are
// preempted.
type Mutant struct {
	// Name is the value of the environment variable preempt.MutantVariable that chooses the mutant.
	Name string
	// File contains Old exactly once, and New replaces it. New calls preempt.Planted with the name,
	// so that a build holds every mutant and runs with at most one.
	File, Old, New string
}

func (m *Mutant) plant(f *file) error {
	if n := strings.Count(f.text, m.Old); n != 1 {
		return fmt.Errorf("weaving: mutant %s: its text stands %d times in %s, want once; it begins %.60q", m.Name, n, m.File, m.Old)
	}
	f.text = strings.Replace(f.text, m.Old, m.New, 1)
	return nil
}
