package promise

import (
	"time"

	"handoff/chaos/jobhistory"
)

// boundedOverlap compares each pair of attempts of a job. When the first of them ends, it is not yet known whether the
// other still lives, so the pair is judged when that ends too. An attempt that never ends makes no violation.
func boundedOverlap() Rule {
	return Rule{
		Name: "P5", Title: "No overlap",
		Statement: "Two attempts of a job don't run at the same time, or not for longer than is promised. Time in which one of their processes was paused does not count.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Started}, {jobhistory.Ended}},
		OfTime:    true,
		Promised:  func(p *Promises) bool { return p.Overlap != nil },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			pending := make(map[*attempt][]overlap)
			c.started = func(*attempt) { s.judged++ }
			c.ended = func(a *attempt) {
				for _, x := range pending[a] {
					live := x.to - x.from - b.frozenTime(x.from, x.to, a.by, x.other.by)
					if live <= 0 {
						continue
					}
					b.overlaps = append(b.overlaps, live)
					if b.Overlap != nil && live > *b.Overlap+tolerance {
						b.recordViolation(s, a.job, x.from, "%s ran twice at the same time: attempt %s on %s and attempt %s on %s, from %s to %s, for %s; allowed are %s",
							a.job.name, x.other.name, x.other.by.name, a.name, a.by.name, b.formatMoment(x.from), b.formatMoment(x.to), formatLength(live), formatLength(*b.Overlap))
					}
				}
				delete(pending, a)
				for _, other := range a.job.open {
					pending[other] = append(pending[other], overlap{a, max(a.from, other.from), a.to})
				}
			}
		},
	}
}

type overlap struct {
	other    *attempt
	from, to time.Duration
}
