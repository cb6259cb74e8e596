package promise

import (
	"fmt"
	"slices"
	"time"
)

// measuredFigures are what is measured in every history, promised or not.
func (b *Book) measuredFigures() (list []Figure) {
	add := func(name, format string, args ...any) {
		list = append(list, Figure{name, fmt.Sprintf(format, args...)})
	}
	add("jobs accepted", "%d", b.accepted)
	if b.unsure+b.refused > 0 {
		add("submissions refused, unsure", "%d, %d", b.refused, b.unsure)
	}
	add("most starts of one job", "%d", b.most)
	add("jobs that ran well more than once", "%d", b.repeated)
	if len(b.overlaps) > 0 {
		add("two attempts at the same time", "%s, %s at the longest", countTimes(len(b.overlaps)), formatLength(slices.Max(b.overlaps)))
	} else {
		add("two attempts at the same time", "never")
	}
	if len(b.again) > 0 {
		add("started again after a loss", "median %s, longest %s, of %d", formatLength(medianOf(b.again)), formatLength(slices.Max(b.again)), len(b.again))
	}
	if len(b.stops) > 0 {
		add("time to stop", "longest %s, of %d", formatLength(slices.Max(b.stops)), len(b.stops))
	}
	if b.rewrites > 0 {
		add("results overwritten", "%d", b.rewrites)
	}
	return list
}

func medianOf(list []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

func countTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
