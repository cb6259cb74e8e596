package weave

import (
	"fmt"
	"strings"
)

// Mutant is a lock that is missing, or is released too early: a bug that shows only where tasks are preempted.
type Mutant struct {
	// Name chooses it, with the environment variable of preempt.MutantVariable.
	Name string
	// File has Old exactly once. New stands there instead; it asks preempt.Planted for the name, so that a build holds
	// every mutant and runs with at most one.
	File, Old, New string
}

func (m *Mutant) plant(f *file) error {
	if n := strings.Count(f.text, m.Old); n != 1 {
		return fmt.Errorf("weaving: mutant %s: its text stands %d times in %s, want once; it begins %.60q", m.Name, n, m.File, m.Old)
	}
	f.text = strings.Replace(f.text, m.Old, m.New, 1)
	return nil
}
