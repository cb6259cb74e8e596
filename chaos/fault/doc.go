// Package fault holds the kinds of faults that a scenario can name, one file a kind. Such a file says everything about
// its kind: its name, how a file of YAML says it, its own fields, how long it may last, which bad ends of executions it
// can explain, and how it is injected.
//
// A world is where a scenario runs: the simulator, or real daemons on real servers. What a world offers to faults are
// the small interfaces of world.go: Processes, Links, and so on. A fault is injected by a function whose last parameter
// is the interface that it needs:
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
// A world that does not implement the interface can't run the fault. Nobody keeps a list of that: Kind.Lacks derives it
// from the types, and says which interface is missing.
//
// Packages outside this module register kinds of their own in the same way, as drivers of database/sql do.
//
// Words: a kind is what can go wrong, a Fault is one entry of a scenario with its own fields, an Injection is one
// fault of one run while it is brought about. It strikes processes, servers, queues or links. It touches what it makes
// a difference to: a fault that touches nothing has tested nothing, and the run's verdict says so.
package fault
