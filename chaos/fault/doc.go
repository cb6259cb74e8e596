// Package fault holds the kinds of faults that a scenario can name, one file per kind. The file
// defines everything about its kind: its name, its YAML keys and fields, how long it may last,
// which failures of executions it can explain, and how it is injected.
//
// A world is where a scenario runs: the simulator, or real daemons on real servers. A world offers
// small interfaces to faults (world.go): Processes, Links, and so on. The function that injects a
// fault takes the interface it needs as its last parameter:
//
//	func init() {
//		Register(Kind{
//			Name: "deaf", Ends: WithFor, Excuses: []Cause{WorkerDeaf},
//			About:   "a worker's consumer hangs and its heartbeats go on: it looks alive and takes nothing",
//			Example: "deaf: shell-1, for: 5m",
//		}, (*deafWorker).inject)
//	}
//
//	type deafWorker struct{ Target string }
//
//	func (d *deafWorker) Read(r *Reader)   { d.Target = r.Worker(r.Value) }
//	func (d *deafWorker) Strikes() Strikes { return Strikes{Target: d.Target} }
//
//	func (d *deafWorker) inject(x *Injection, w Deafness) (func(), error) { return w.Deafen(x) }
//
// A world that does not implement the interface can't run the fault. Kind.Lacks derives this from
// the types and names the missing interface; there is no list to maintain.
//
// Other modules register their own kinds in the same way, like drivers of database/sql.
//
// Words: a Kind is a type of failure. A Fault is one entry of a scenario, with the fields of its kind. An
// Injection is one fault in one run. A fault strikes its targets: processes, servers, queues or links. It
// touches something when it affects it, such as a message that it delays. A fault that touches nothing has
// tested nothing, and the run's verdict reports that.
package fault
