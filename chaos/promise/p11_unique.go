package promise

import "handoff/chaos/jobhistory"

// uniqueKeys judges jobs that were submitted under one key. A system that answers with the first job (known) has one
// job, and so has one that ignores the second submission: what counts is which jobs start.
func uniqueKeys() Rule {
	return Rule{
		Name: "P11", Title: "Unique",
		Statement: "Of submissions with one key, one job runs.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Submitted, jobhistory.Known}, {jobhistory.Started}},
		Promised:  func(p *Promises) bool { return p.Unique },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			ran := make(map[string]*job)
			c.started = func(a *attempt) {
				j := a.job
				if j.key == "" {
					return
				}
				s.judged++
				if first := ran[j.key]; first == nil {
					ran[j.key] = j
				} else if first != j {
					b.recordViolation(s, j, first.submitted, "%s and %s were submitted under the key %q, and both ran; the second started at %s", first.name, j.name, j.key, b.formatMoment(b.now))
				}
			}
		},
	}
}
