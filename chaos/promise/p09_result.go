package promise

import (
	"slices"

	"handoff/chaos/jobhistory"
)

func stableResult() Rule {
	return Rule{
		Name: "P9", Title: "The result stays",
		Statement: "After done the stored result never changes, and it is that of an attempt that ended ok.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Settled}},
		Promised:  func(p *Promises) bool { return p.ResultStable },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.settled = func(j *job, l *jobhistory.Line) {
				if l.Kind != jobhistory.Settled || l.Result == "" {
					return
				}
				s.judged++
				switch {
				case j.final == jobhistory.Done && j.result != "" && j.result != l.Result:
					b.recordViolation(s, j, j.finalAt, "the result of %s was %q when it was done at %s, and is %q at %s", j.name, j.result, b.formatMoment(j.finalAt), l.Result, b.formatMoment(b.now))
				case len(j.results) > 0 && !slices.Contains(j.results, l.Result):
					b.recordViolation(s, j, b.now, "the result of %s is %q; the attempts that ended ok returned %q", j.name, l.Result, j.results)
				}
			}
		},
	}
}
