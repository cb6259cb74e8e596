// Package guard lets the simulator see a lock that is missing.
//
// The kernel runs one task at a time and switches only where a task calls it. What stands between two such calls is atomic,
// with its lock or without, so a missing lock changes no history. It can be seen all the same. By the core's convention a
// mutex guards the fields that stand below it in its struct, down to the next empty line. A guarded build compiles a copy
// of the core's source (the compiler's -overlay) that calls [Held] before every statement that touches such a field. A task
// that has not locked panics, which fails the run, at the first visit and under every seed.
//
// This is the discipline that Eraser checks (Savage et al., SOSP 1997); here the order of the fields says which lock is
// meant. A field that one task alone uses, or that never changes, stands above the mutex or behind an empty line. What the
// guarded lists and maps point at is guarded, too, where methods of the same struct touch it. A lock that is held, but at
// the wrong moment, is not seen here: package preempt looks for those.
//
// Package weave writes the overlay; make chaos and the mutants of the core's source are built with it. An ordinary build has
// nothing of it.
package guard

import "sync"

// Held panics if nobody holds m. In a run one task goes on at a time, and none is switched away within a critical section, so
// the holder is the caller. what names the place and the field.
func Held(m *sync.Mutex, what string) {
	if m.TryLock() {
		m.Unlock()
		panic("guard: " + what + " without its lock")
	}
}
