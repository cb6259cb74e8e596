package promise

import (
	"time"

	"handoff/chaos/jobhistory"
)

// gracefulStop judges processes that are asked to stop. One that the observer kills meanwhile is not judged.
func gracefulStop() Rule {
	return Rule{
		Name: "P10", Title: "Graceful stop",
		Statement: "A process that is asked to stop ends within the promised time and the slack, starts nothing after the slack, and none of its attempts dies. Where jobs are finished, each ends ok or failed; where they are handed back, each ends before its process.",
		Needs:     [][]jobhistory.Kind{{jobhistory.ProcessStopping}},
		OfTime:    true,
		Promised:  func(p *Promises) bool { return p.Stop != nil },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			var bound time.Duration
			if b.Stop != nil {
				bound = b.Stop.Within + b.Slack
			}
			c.started = func(a *attempt) {
				if p := a.by; p.asked && b.now > p.stopping+b.Slack {
					b.recordViolation(s, a.job, p.stopping, "%s started attempt %s of %s at %s, %s after it was asked to stop", p.name, a.name, a.job.name, b.formatMoment(b.now), formatLength(b.now-p.stopping))
				}
			}
			c.ended = func(a *attempt) {
				if p := a.by; p.asked && b.Stop != nil && b.Stop.Finish && a.how == jobhistory.Cancelled {
					b.recordViolation(s, a.job, p.stopping, "%s did not finish attempt %s of %s after it was asked to stop: it cancelled it at %s", p.name, a.name, a.job.name, b.formatMoment(b.now))
				}
			}
			c.process = func(p *process, l *jobhistory.Line) {
				if l.Kind == jobhistory.ProcessStopping {
					s.judged++
				}
				if !p.asked || l.Kind != jobhistory.ProcessEnded || l.Outcome == jobhistory.Killed {
					return
				}
				if took := b.now - p.stopping; bound > 0 && took > bound {
					b.recordViolation(s, nil, p.stopping, "%s was asked to stop at %s and ended after %s", p.name, b.formatMoment(p.stopping), formatBound(took, bound))
				}
				for _, a := range p.attempts {
					b.recordViolation(s, a.job, p.stopping, "%s ended at %s, %s after it was asked to stop, and attempt %s of %s died with it", p.name, b.formatMoment(b.now), formatLength(b.now-p.stopping), a.name, a.job.name)
				}
			}
			c.end = func() {
				for _, p := range b.names {
					if took := b.now - p.stopping; p.asked && p.up && bound > 0 && took > bound {
						b.recordViolation(s, nil, p.stopping, "%s was asked to stop at %s and still runs after %s", p.name, b.formatMoment(p.stopping), formatBound(took, bound))
					}
				}
			}
		},
	}
}
