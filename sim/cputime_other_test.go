//go:build !unix

package sim

import "time"

// cpuTime is unknown on this system: figures per second of processor time are left out.
func cpuTime() time.Duration { return 0 }
