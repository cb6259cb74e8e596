package promise

import "handoff/chaos/jobhistory"

func finalIsFinal() Rule {
	return Rule{
		Name: "P8", Title: "Final is final",
		Statement: "Once the system says done or failed, it never says that the job is open or ended otherwise. It may forget the job.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Settled}},
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.settled = func(j *job, l *jobhistory.Line) {
				s.judged++
				switch {
				case l.Kind == jobhistory.Reopened && j.final != "":
					b.recordViolation(s, j, j.finalAt, "%s is open again at %s; the system had said %s at %s", j.name, b.formatMoment(b.now), j.final, b.formatMoment(j.finalAt))
				case l.Kind == jobhistory.Settled && j.final != "" && j.final != l.Outcome:
					b.recordViolation(s, j, j.finalAt, "the system says at %s that %s is %s; it had said %s at %s", b.formatMoment(b.now), j.name, l.Outcome, j.final, b.formatMoment(j.finalAt))
				}
			}
		},
	}
}
