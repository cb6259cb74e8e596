package promise

import (
	"time"

	"handoff/chaos/jobhistory"
)

// nothingStuck is always judged: no queue means a job to hang. Its bound is the promise of recovery or, without one, a
// minute; to which come the longest run that was seen, since the queue may be busy with others, and the slack. Counted
// is the time in which the queue could work. A job that failed by itself may wait for its next attempt as long as the
// system likes, unless recovery is promised.
func nothingStuck() Rule {
	return Rule{
		Name: "P2", Title: "Nothing is stuck",
		Statement: "A job that nobody runs, and that is not due later, is started or settled before long: within the promised recovery or a minute, the longest run and the slack, counted while the queue could work.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Submitted}, {jobhistory.Started}},
		OfTime:    true,
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			c.rest = func(j *job) {
				if !j.accepted || j.gone || j.final != "" {
					s.judged++
					return
				}
				if len(j.open) > 0 || j.oks > 0 && !b.seen[jobhistory.Settled] {
					return
				}
				bound := b.Recovery.longestBound()
				if bound == 0 {
					if j.failedLast {
						return
					}
					bound = patience
				}
				bound += b.longest + b.Slack
				waited := b.served - j.active
				if due := j.notBefore; due > j.activeAt {
					waited = min(waited, b.now-due-b.unservedTime(j))
				}
				s.judged++
				if waited > bound {
					b.recordViolation(s, j, j.activeAt, "%s is stuck: %s, and nothing happened for %s in which the queue could work; allowed are %s", j.name, lastSign(b, j), formatLength(waited), formatLength(bound))
				}
			}
		},
	}
}

// lastSign says what happened last to a job.
func lastSign(b *Book, j *job) string {
	at := b.formatMoment(j.activeAt)
	switch {
	case j.starts == 0:
		return "it was accepted at " + b.formatMoment(j.submitted) + " and never started"
	case j.deaths == j.starts:
		return "its attempt died at " + at
	case j.oks > 0:
		return "an attempt ended ok at " + at + " but the system does not call it done"
	default:
		return "its last attempt ended at " + at
	}
}

// formatBound formats a time that something took and the one that is allowed.
func formatBound(took, allowed time.Duration) string {
	return formatLength(took) + "; allowed are " + formatLength(allowed)
}
