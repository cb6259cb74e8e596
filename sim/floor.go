package sim

import (
	"runtime"
	"sync"
)

// floor is memory that nobody touches, so it costs nothing, but the collector counts it as live. A
// run has only a megabyte or two of live memory. At GOGC=400, which the chaos command sets, the
// collector would start after every further dozen megabytes: 45 times in 240 short runs, a
// twentieth of their time. With the floor it starts at about 90 MB, for all runs of a process
// together.
var floor = sync.OnceValue(func() []byte { return make([]byte, 16<<20) }) //detlint:ok nobody reads or writes it

// keepFloor is called once a run. So a process without runs has no floor, and the floor stays in
// use, or it would be collected.
func keepFloor() { runtime.KeepAlive(floor()) }
