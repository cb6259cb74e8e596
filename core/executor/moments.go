package executor

import (
	"slices"
	"time"

	"handoff/core/host"
)

// mostMoments is the maximum number of moments. Beyond it the latest are dropped; a poll then finds the due
// rows.
const mostMoments = 1000

// dueTimes lists the moments, on the monotonic clock, at which rows are known to become due, the earliest
// first. It keeps all of them, because a pass at the first moment leaves the second one ahead.
type dueTimes []time.Duration

// add adds a moment.
func (d *dueTimes) add(at time.Duration) {
	i, known := slices.BinarySearch(*d, at)
	if known || i >= mostMoments {
		return
	}
	if *d = slices.Insert(*d, i, at); len(*d) > mostMoments {
		*d = (*d)[:mostMoments]
	}
}

// dropUntil drops the moments that have passed.
func (d *dueTimes) dropUntil(now time.Duration) {
	i, known := slices.BinarySearch(*d, now)
	if known {
		i++
	}
	*d = slices.Delete(*d, 0, i)
}

// next returns the earliest moment, host.Forever if there is none.
func (d dueTimes) next() time.Duration {
	if len(d) == 0 {
		return host.Forever
	}
	return d[0]
}
