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
		add("two attempts at a time", "%d times, %s at the longest", len(b.overlaps), formatLength(slices.Max(b.overlaps)))
	} else {
		add("two attempts at a time", "never")
	}
	if len(b.again) > 0 {
		add("again after a loss", "%s in the middle, %s at the longest, of %d", formatLength(medianOf(b.again)), formatLength(slices.Max(b.again)), len(b.again))
	}
	if len(b.stops) > 0 {
		add("stopped after", "%s at the longest, of %d", formatLength(slices.Max(b.stops)), len(b.stops))
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
