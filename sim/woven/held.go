package woven

import (
	"os"
	"sync"
)

// Held panics if m is not locked. In a run, only one task runs at a time, and the kernel switches no task
// within a critical section, so the caller holds the lock. what names the position and the field.
func Held(m *sync.Mutex, what string) {
	if m.TryLock() {
		m.Unlock()
		panic("guard: " + what + " without its lock")
	}
}

// MutantVariable is the environment variable that names a mutant of the woven source.
const MutantVariable = "HANDOFF_WOVEN_MUTANT"

// planted is the name of the mutant that this process runs, or "".
var planted = os.Getenv(MutantVariable)

// Planted reports whether this process runs with the mutant of that name.
func Planted(name string) bool { return planted == name }
