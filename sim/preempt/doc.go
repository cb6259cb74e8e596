// Package preempt lets the simulator switch tasks inside the core's critical sections.
//
// The kernel runs one task at a time and switches only where a task calls it. So everything that
// the core does between two such calls is atomic in an ordinary run: a lock that is missing there,
// or released too early, changes nothing. In a build with the tag preempt the core is woven. The
// compiler's -overlay puts a copy of its source in place, in which
//
//   - sync.Mutex is [Mutex], whose Lock blocks in a way that the kernel sees, so that it may be
//     held across a switch, and
//   - [Point] is called before every statement that touches a field that tasks share.
//
// At both the running task may be held up for a moment while others go on, as on a machine with
// many processors. All draws come from streams of the kernel, so such a run can be replayed and
// shrunk like any other.
//
// # Which points are chosen
//
// Bugs of this kind need few switches, but at the right place (a bound on their number is the idea
// of probabilistic concurrency testing: Burckhardt et al., ASPLOS 2010). A separate chance at every
// point would spread the switches evenly over thousands of visits. So each run draws which points
// are hot: one in sixteen, or one in four. A visit of a hot point is interrupted with a chance of
// one in four, at most twenty times a run. The interruption lasts up to 200 ms. In every other run
// it also ends when another task of the process has come to a point of the same file. The other
// points cost nothing.
//
// Package weave writes the overlay. Without the tag nothing of this is compiled, and [Built] is
// false.
package preempt
