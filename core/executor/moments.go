package executor

import (
	"slices"
	"time"

	"handoff/core/host"
)

// mostMoments bounds the remembered moments. Beyond it the latest are forgotten; a poll then finds
// the rows that are due.
const mostMoments = 1000

// moments are the moments, on the monotonic clock, at which rows are known to become due, the
// earliest first. All of them count, not only the first: after a pass at the first moment the
// second one is still to come.
type moments []time.Duration

// add remembers a moment.
func (m *moments) add(at time.Duration) {
	i, known := slices.BinarySearch(*m, at)
	if known || i >= mostMoments {
		return
	}
	if *m = slices.Insert(*m, i, at); len(*m) > mostMoments {
		*m = (*m)[:mostMoments]
	}
}

// pass forgets the moments that have passed.
func (m *moments) pass(now time.Duration) {
	i, known := slices.BinarySearch(*m, now)
	if known {
		i++
	}
	*m = slices.Delete(*m, 0, i)
}

// next is the earliest moment, host.Forever if there is none.
func (m moments) next() time.Duration {
	if len(m) == 0 {
		return host.Forever
	}
	return m[0]
}
