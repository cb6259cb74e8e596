package promise

import "handoff/chaos/jobhistory"

func boundedAttempts() Rule {
	return Rule{
		Name: "P7", Title: "Attempts",
		Statement: "A job starts at most as often as is promised; once, where delivery is at most once.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Started}},
		Promised:  func(p *Promises) bool { return p.Attempts > 0 || p.Delivery == AtMostOnce },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			most := b.Attempts
			if b.Delivery == AtMostOnce {
				most = 1
			}
			c.started = func(a *attempt) {
				s.judged++
				if most > 0 && a.job.starts == most+1 {
					b.recordViolation(s, a.job, b.now, "%s started for the %d. time at %s, on %s; allowed are %d", a.job.name, a.job.starts, b.formatMoment(b.now), a.by.name, most)
				}
			}
		},
	}
}
