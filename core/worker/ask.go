package worker

import (
	"time"

	"handoff/core/config"
	"handoff/core/host"
)

// AskLease exposes the worker's own view of its right to run what it has claimed, for callers that
// ask without a run. The right was granted at the moment granted of the host's monotonic clock.
func AskLease(h host.Host, c config.Worker, granted time.Duration) (renew func(sent time.Duration) bool, deadline func() (fence, kill time.Duration), fence func() bool) {
	l := newLease(h, c, granted)
	return l.renew, l.deadline, l.fence
}
