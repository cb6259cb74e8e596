package promise

import "handoff/chaos/jobhistory"

func doneMeansDone() Rule {
	return Rule{
		Name: "P3", Title: "Done means done",
		Statement: "The system says done only after an attempt has ended ok, and failed only if none has.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Settled}, {jobhistory.Ended}},
		Promised:  func(p *Promises) bool { return p.Delivery == AtLeastOnce },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.settled = func(j *job, l *jobhistory.Line) {
				if l.Kind == jobhistory.Settled && l.Outcome == jobhistory.Done {
					s.judged++
					if j.oks == 0 {
						b.recordViolation(s, j, b.now, "the system says at %s that %s is done; none of its %d attempts had ended ok", b.formatMoment(b.now), j.name, j.starts)
					}
				}
			}
			c.rest = func(j *job) {
				if j.final == jobhistory.Failed {
					s.judged++
					if j.oks > 0 {
						b.recordViolation(s, j, j.finalAt, "the system says at %s that %s failed; it had run well", b.formatMoment(j.finalAt), j.name)
					}
				}
			}
		},
	}
}
