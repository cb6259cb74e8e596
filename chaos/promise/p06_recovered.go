package promise

import "handoff/chaos/jobhistory"

// lostJobsRecovered bounds the time from the loss of an attempt to the next start of its job, counted while the queue could
// work. A worker that is back before its job was taken over goes on with it, and nothing is judged then.
func lostJobsRecovered() Rule {
	return Rule{
		Name: "P6", Title: "Recovered",
		Statement: "A job whose attempt died, or whose worker is silent, starts again or is settled within the promised recovery and the slack, counted while a worker had a free slot and no server was down.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Started}, {jobhistory.Ended, jobhistory.ProcessEnded}},
		OfTime:    true,
		Promised:  func(p *Promises) bool { return p.Recovery.longestBound() > 0 },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			check := func(j *job) {
				for _, x := range j.lost {
					bound, what := b.Recovery.Killed, "died"
					if x.silent {
						bound, what = b.Recovery.Silent, "was on a worker that fell silent"
					}
					bound += b.Slack
					s.judged++
					if took := b.served - x.served; bound > b.Slack && took > bound {
						b.recordViolation(s, j, x.at, "%s was not recovered in time: attempt %s %s at %s, and it took %s", j.name, x.of, what, b.formatMoment(x.at), formatBound(took, bound))
					}
				}
			}
			c.started = func(a *attempt) { check(a.job) }
			c.settled = func(j *job, l *jobhistory.Line) {
				if l.Kind == jobhistory.Settled {
					check(j)
				}
			}
			c.rest = func(j *job) {
				if j.final == "" && !j.gone && (j.oks == 0 || b.seen[jobhistory.Settled]) {
					check(j)
				}
			}
		},
	}
}
