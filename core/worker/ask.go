package worker

import (
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// AskLease is for who asks apart from a run how long a worker may run what it has claimed: it hands out the worker's own
// view of its right, which was granted at a moment of the host's monotonic clock.
func AskLease(h host.Host, c config.Worker, granted time.Duration) (renew func(sent time.Duration) bool, deadline func() (fence, kill time.Duration), fence func() bool) {
	l := newLease(h, c, granted)
	return l.renew, l.deadline, l.fence
}
