package daemon

import (
	"os"
	"runtime/debug"
)

// garbagePercent is how much a daemon's heap may grow over what is live before it is collected, in
// percent. A daemon has little live memory, and allocates some 50 kB for each execution: at Go's
// default of 100 a quarter of its processor time went into collecting garbage
// (chaos/bench/README.md).
const garbagePercent = 400

// CollectRarely sets how often garbage is collected. Whoever sets GOGC decides, and GOMEMLIMIT
// bounds the memory as in any Go program.
func CollectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}
