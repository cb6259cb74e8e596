//go:build !unix

package sim

import "time"

// cpuTime returns 0: it is unknown on this system, so results per second of processor time are omitted.
func cpuTime() time.Duration { return 0 }
