// Package guard lets the simulator notice a missing lock.
//
// The kernel runs one task at a time and switches only where a task calls it. Everything between
// two such calls is atomic, with a lock or without, so a missing lock changes no history. It can be
// noticed all the same. By the core's convention a mutex guards the fields below it in its struct,
// down to the next empty line. A guarded build compiles a copy of the core's source (the compiler's
// -overlay) that calls [Held] before every statement that touches such a field. A task that has not
// locked panics. That fails the run, at the first visit and under every seed.
//
// Eraser checks the same discipline (Savage et al., SOSP 1997); here the order of the fields says
// which lock is meant. A field that only one task uses, or that never changes, is above the mutex
// or behind an empty line. Values that guarded lists and maps point to are guarded, too, where
// methods of the same struct touch them. A lock that is held, but at the wrong moment, is not
// noticed here: package preempt looks for those.
//
// Package weave writes the overlay; make guarded and the mutants of the core's source are built with
// it. An ordinary build contains nothing of it.
package guard

import "sync"

// Held panics if nobody holds m. In a run only one task goes on at a time, and no task is switched
// away within a critical section, so the holder is the caller. what names the position and the
// field.
func Held(m *sync.Mutex, what string) {
	if m.TryLock() {
		m.Unlock()
		panic("guard: " + what + " without its lock")
	}
}
