package executor

import (
	"slices"
	"time"

	"handoff/core/host"
)

// mostMoments bounds the remembered moments. Beyond it the latest are forgotten; a poll then finds
// the rows that are due.
const mostMoments = 1000

// dueTimes are the moments, on the monotonic clock, at which rows are known to become due, the
// earliest first. All of them count, not only the first: after a pass at the first moment the
// second one is still to come.
type dueTimes []time.Duration

// add remembers a moment.
func (d *dueTimes) add(at time.Duration) {
	i, known := slices.BinarySearch(*d, at)
	if known || i >= mostMoments {
		return
	}
	if *d = slices.Insert(*d, i, at); len(*d) > mostMoments {
		*d = (*d)[:mostMoments]
	}
}

// dropUntil forgets the moments that have passed.
func (d *dueTimes) dropUntil(now time.Duration) {
	i, known := slices.BinarySearch(*d, now)
	if known {
		i++
	}
	*d = slices.Delete(*d, 0, i)
}

// next is the earliest moment, host.Forever if there is none.
func (d dueTimes) next() time.Duration {
	if len(d) == 0 {
		return host.Forever
	}
	return d[0]
}
