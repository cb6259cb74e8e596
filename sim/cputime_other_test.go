//go:build !unix

package sim

import "time"

// cpuTime is unknown on this system, so figures per second of processor time are omitted.
func cpuTime() time.Duration { return 0 }
