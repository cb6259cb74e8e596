// Package fault holds the kinds of faults that a scenario can name, one file a kind. Such a file says everything about
// its kind: its name, its keys in YAML, its own fields, how long it may last, which failures of executions it can explain,
// and how it is injected.
//
// A world is where a scenario runs: the simulator, or real daemons on real servers. A world offers small interfaces to
// faults (world.go): Processes, Links, and so on. A fault is injected by a function whose last parameter is the interface
// that it needs:
//
//	func init() {
//		Register(Kind{
//			Name: "deaf", Ends: WithFor, Excuses: []Cause{WorkerDeaf},
//			About:   "a worker's consumer hangs and its heartbeats go on: it looks alive and takes nothing",
//			Example: "deaf: shell-1, for: 5m",
//		}, (*deaf).inject)
//	}
//
//	type deaf struct{ Target string }
//
//	func (f *deaf) Read(r *Reader)   { f.Target = r.Worker(r.Value) }
//	func (f *deaf) Strikes() Strikes { return Strikes{Target: f.Target} }
//
//	func (f *deaf) inject(x *Injection, w Deafness) (func(), error) { return w.Deafen(x) }
//
// A world that does not implement the interface can't run the fault. No list says so: Kind.Lacks derives it from the
// types, and names the missing interface.
//
// Packages outside this module register kinds of their own in the same way, as drivers of database/sql do.
//
// Words: a Kind is what can go wrong. A Fault is one entry of a scenario, with the fields of its kind. An Injection is
// one fault in one run. A fault strikes its targets: processes, servers, queues or links. It touches something when it
// makes a difference to it, such as a message that it delays. A fault that touches nothing has tested nothing, and the
// run's verdict says so.
package fault
