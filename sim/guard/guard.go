// Package guard lets the simulator see a lock that is missing.
//
// The kernel runs one task at a time and switches only where a task calls it. What stands between two such calls is atomic,
// with its lock or without, so a missing lock changes no history. But it shows without any switch: by the core's convention
// a mutex guards the fields that stand below it in its struct, down to the next empty line. In a guarded build a copy of the core's source, put in place
// by the compiler's -overlay, calls [Held] before every statement that touches such a field. Whoever has not locked panics,
// which fails the run, at the first visit and under every seed.
//
// This is the discipline that Eraser checks (Savage et al., SOSP 1997), with the locksets declared by the order of fields. A
// field that one task alone uses, or that never changes, stands above the mutex or behind an empty line. What the lists and maps among
// the guarded fields point at is guarded, too, where methods of the same struct touch it. Not seen is a lock that is held at the
// wrong moment: package preempt looks for those.
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
