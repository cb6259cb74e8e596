// Package kernel runs simulated processes: with virtual time, coroutines instead of goroutines, and
// one source for every choice.
//
// # Words
//
// A process is a set of tasks. A task is a coroutine (iter.Pull) that runs ordinary blocking Go code. That
// code is the program: the product under test, which the kernel runs. A model (of a database, a broker, a
// network) offers calls that park the calling task on a [Wait]. A yield point is such a call: only there
// does a task give up control, and only there can a crash or a pause strike. A model counts its yield
// points with [Kernel.Point].
//
// A timer runs a function in kernel context: no task runs, and nothing may block. The function models what
// a server or a machine does on its own. A step is one switch into a task or one fired timer. A machine is
// the clocks of all processes with one name; it can be frozen.
//
// A [Strand] and the contexts that a task holds ([Kernel.Watch]) are notes for observers of a run. They do
// not affect the run.
//
// # Why a run is deterministic
//
// A run is a function of the program and of the answers of its [Chooser], for these reasons.
//
//   - One task runs at a time. It gives up control only inside a kernel call, so nothing can be
//     interleaved between two kernel calls.
//   - The next task comes from a queue ordered by the time at which tasks became runnable. If it
//     holds more than one, the chooser decides. With [Options.TimeIsChoice], letting time pass is
//     one more alternative.
//   - Time moves only when a timer fires. Timers fire in the order of (time, creation).
//   - Random numbers come from labelled streams over the same chooser. With the random chooser
//     ([NewRandom]) a stream's numbers depend only on the seed, on its label and on how many were drawn
//     from it before. So an additional fault does not change the draws of the workload.
//   - The kernel reads no real clock and no global random source, and a run never sees the order of
//     a map. The watchdog does use real time, but a run never sees it.
//   - Pools recycle timers, waits and coroutines. The program never sees the identity or address of
//     a pooled object; generations make stale handles inert.
//
// The kernel can't see a channel, a mutex held across a kernel call, or a bare goroutine. Code that uses
// them hangs the run (the [Watchdog] reports where) or makes it irreproducible (a linter forbids it). Done
// of a kernel context panics for the same reason.
//
// # Why a crash is a crash
//
// A crash must look to the rest of the world as if the process had stopped between two
// instructions. Its tasks are at yield points, and each must leave its stack without any further
// effect.
//
//   - The end signal is runtime.Goexit: deferred functions run, and recover can't swallow it, as it
//     could a panic.
//   - Every kernel call of a dying task ends it. So a deferred function that wants to write, to publish or
//     to sleep is cut off at that call, and the next deferred function runs. Therefore every function with
//     an effect must be a kernel call or begin with [Kernel.CheckAlive].
//   - The kernel ends a task with the stop function that iter.Pull returned, and stop passes Goexit
//     on to its caller. So the kernel calls stop on a goroutine made for that purpose and waits for
//     it; everything stays sequential.
//   - A task that crashes its own process can't be stopped from its own stack. It parks, and the
//     kernel ends it as soon as it has control again, before anything else happens.
//   - Waits, timers and queue entries of a dead process are void: a late reply finds its Wait in a
//     later generation and is dropped.
//
// A run must be closed ([Kernel.Close]); then no goroutine is left. A kernel belongs to one
// goroutine at a time, which must not be locked to its thread. Kernels share nothing, so one can
// run on each core.
package kernel
