package promise

import "handoff/chaos/jobhistory"

func notBefore() Rule {
	return Rule{
		Name: "P12", Title: "Not before",
		Statement: "A job with an earliest start does not start before it, and starts within the promised delay after it, counted while the queue could work.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Submitted}, {jobhistory.Started}},
		OfTime:    true,
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.started = func(a *attempt) {
				j := a.job
				if j.notBefore == 0 || j.starts > 1 {
					return
				}
				s.judged++
				due := max(j.notBefore, j.submitted)
				switch late := b.now - due; {
				case b.now < j.notBefore-tolerance:
					b.recordViolation(s, j, b.now, "%s started at %s, %s before its earliest start at %s", j.name, b.formatMoment(b.now), formatLength(j.notBefore-b.now), b.formatMoment(j.notBefore))
				case b.Punctual > 0 && late-b.unservedTime(j) > b.Punctual+b.Slack:
					b.recordViolation(s, j, due, "%s was due at %s and started %s later; allowed are %s", j.name, b.formatMoment(due), formatLength(late), formatLength(b.Punctual))
				}
			}
		},
	}
}
