// Package woven holds the functions that a woven core calls. A woven core is a copy of the core's source
// with calls between its statements, which the compiler uses by -overlay. Package weave writes two kinds of
// such copies. An ordinary build contains none of these calls.
//
// The kernel runs one task at a time and switches only where a task calls it. Everything that the
// core does between two such calls is atomic in an ordinary run, so a lock that is missing there, or
// released too early, changes no history.
//
// # Guarded
//
// By the core's convention a mutex guards the fields below it in its struct, down to the next empty line. A
// guarded build calls [Held] before every statement that touches such a field. A task that has not locked
// the mutex panics. That fails the run, at the first visit and under every seed.
//
// Eraser checks the same discipline (Savage et al., SOSP 1997); here the order of the fields determines the
// lock. A field that only one task uses, or that never changes, is above the mutex or behind an empty line.
// Values that guarded lists and maps point to are guarded, too, where methods of the same struct touch
// them. A lock that is held at the wrong time is not detected.
//
// # Preempted
//
// A build with the tag preempt also detects that. In it
//
//   - sync.Mutex is [Mutex], whose Lock blocks in a way that the kernel sees, so that it may be
//     held across a switch, and
//   - [Point] is called before every statement that touches a field that tasks share.
//
// At both, the running task may be interrupted while others continue, as on a machine with many processors.
// All draws come from streams of the kernel, so such a run can be replayed and shrunk like any other.
//
// Bugs of this kind need few switches, but at the right place. Bounding their number is the idea of
// probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010). A separate chance at every point
// would spread the switches evenly over thousands of visits. So each run draws which points are hot: one in
// sixteen, or one in four. A visit of a hot point is interrupted with a probability of one in four, at most
// twenty times a run. The interruption lasts up to 200 ms. In every second run, it may also end when
// another task of the process reaches a point of the same file. The other points cost nothing.
package woven
