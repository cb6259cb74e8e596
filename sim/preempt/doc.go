// Package preempt lets the simulator switch tasks inside the core's critical sections.
//
// The kernel runs one task at a time and switches only where a task calls it, so whatever the core does between two such
// calls is atomic in an ordinary run: a lock that is missing there, or released too early, changes nothing. In a build with
// the tag preempt the core is woven: a copy of its source, put in place by the compiler's -overlay, in which
//
//   - sync.Mutex is [Mutex], whose Lock blocks in the kernel's sight and therefore may be held across a switch, and
//   - [Point] stands before every statement that touches a field that tasks share.
//
// At both the running task may be held up for a moment while others go on, as on a machine with many processors. What
// is drawn comes from streams of the kernel, so such a run is replayed and shrunk like any other.
//
// # Which points are chosen
//
// Bugs of this kind need few switches, but at the right place (a bound on their number is the idea of probabilistic
// concurrency testing: Burckhardt et al., ASPLOS 2010). A chance of its own at every point would spread the switches evenly
// over thousands of visits. So each run draws which points are hot: one in sixteen, or one in four. A visit of a hot one is
// interrupted with a chance of one in four, at most twenty times a run. It lasts up to 200 ms, in every other run also until
// another task of the process has come to the same file's points. The other points cost nothing.
//
// Package weave writes the overlay. Without the tag nothing of this is compiled, and [Built] is false.
package preempt
