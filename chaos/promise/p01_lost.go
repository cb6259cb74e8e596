package promise

import "handoff/chaos/jobhistory"

// nothingLost judges at the end, because a job may be late. A job that is open then is stuck, not lost (P2). Failed is
// an end of its own where the job itself failed last, or had all its attempts; a job whose attempts only died has not
// been run.
func nothingLost() Rule {
	return Rule{
		Name: "P1", Title: "Nothing is lost",
		Statement: "An accepted job has an attempt that ended ok, or the system says that it failed or was cancelled, and an attempt or an operator gave a reason. A job that the system no longer knows, or calls done although no attempt ended ok, is lost.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Submitted}, {jobhistory.Ended}},
		Promised:  func(p *Promises) bool { return p.Delivery == AtLeastOnce },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.rest = func(j *job) {
				if !j.accepted || len(j.open) > 0 {
					return
				}
				open := j.final == "" && !j.gone
				if open && j.oks == 0 && (b.seen[jobhistory.Settled] || !b.over) {
					return // P2 judges it
				}
				s.judged++
				exhausted := b.Attempts > 0 && j.starts >= b.Attempts
				switch {
				case j.oks > 0, j.final == jobhistory.Cancelled:
				case j.final == jobhistory.Failed && (j.failures > 0 || exhausted):
				case j.gone:
					b.recordViolation(s, j, j.activeAt, "%s is lost: it was accepted at %s, no attempt ended ok, and the system does not know it any more", j.name, b.formatMoment(j.submitted))
				case j.final == jobhistory.Failed:
					b.recordViolation(s, j, j.activeAt, "%s is lost: the system says failed at %s, but none of its %d attempts ended by itself: %d died", j.name, b.formatMoment(j.finalAt), j.starts, j.deaths)
				case j.final == jobhistory.Done:
					b.recordViolation(s, j, j.activeAt, "%s is lost: the system says done at %s, but no attempt of %d ended ok", j.name, b.formatMoment(j.finalAt), j.starts)
				default:
					b.recordViolation(s, j, j.activeAt, "%s is lost: it was accepted at %s, and no attempt of %d ended ok", j.name, b.formatMoment(j.submitted), j.starts)
				}
			}
		},
	}
}
