package executor

import (
	"slices"
	"time"

	"handoff/core/host"
)

// mostMoments is the maximum number of due times. Later ones are dropped; a poll then finds the rows.
const mostMoments = 1000

// dueTimes lists the times, on the monotonic clock, at which rows are known to become due, the earliest
// first. It keeps all of them, because a pass at the first time does not handle rows that are due later.
type dueTimes []time.Duration

// add inserts a due time, unless it is already listed or too late for a full list.
func (d *dueTimes) add(at time.Duration) {
	i, known := slices.BinarySearch(*d, at)
	if known || i >= mostMoments {
		return
	}
	if *d = slices.Insert(*d, i, at); len(*d) > mostMoments {
		*d = (*d)[:mostMoments]
	}
}

// dropUntil drops the due times that have passed.
func (d *dueTimes) dropUntil(now time.Duration) {
	i, known := slices.BinarySearch(*d, now)
	if known {
		i++
	}
	*d = slices.Delete(*d, 0, i)
}

// next returns the earliest due time, or host.Forever if there is none.
func (d dueTimes) next() time.Duration {
	if len(d) == 0 {
		return host.Forever
	}
	return d[0]
}
