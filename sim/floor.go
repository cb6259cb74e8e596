package sim

import (
	"runtime"
	"sync"
)

// floor is memory that nobody touches, so that it costs none; but the collector counts it as live. What is live of a run is
// a megabyte or two, and at GOGC=400, which the chaos command sets, the collector would start whenever another dozen has
// been allocated: 45 times in 240 short runs, a twentieth of their time. With the floor it starts at about 90 MB, for all runs
// of a process together.
var floor = sync.OnceValue(func() []byte { return make([]byte, 16<<20) }) //detlint:ok nobody reads or writes it

// keepFloor is called once a run: a process that runs nothing has none, and what nothing uses would not be there.
func keepFloor() { runtime.KeepAlive(floor()) }
