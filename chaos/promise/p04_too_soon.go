package promise

import (
	"time"

	"handoff/chaos/jobhistory"
)

// notTooSoon judges a second start beside a living attempt when that attempt ends or dies, because an observer may see a
// death a little later than the start that follows it.
func notTooSoon() Rule {
	return Rule{
		Name: "P4", Title: "Not too soon",
		Statement: "A job starts alongside a living attempt only if that attempt's lease is over: it has run for the lease's time or, where leases are renewed, its process was silent for that time.",
		Needs:     [][]jobhistory.Kind{{jobhistory.Started}, {jobhistory.Ended}},
		OfTime:    true,
		Promised:  func(p *Promises) bool { return p.Lease.After > 0 },
		make: func(b *Book, c *checks) {
			s := b.ruleBeingMade()
			early := make(map[*attempt][]suspect)
			c.started = func(a *attempt) {
				s.judged++
				for _, old := range a.job.open {
					since, how := old.lease, "had run"
					if b.Lease.Renewed {
						since, how = b.now, "its worker was silent"
						if old.by.isSilent() {
							since = old.by.quiet
						}
					}
					if held := b.now - since; !old.released && held < b.Lease.After-tolerance {
						early[old] = append(early[old], suspect{a, b.now, held, how})
					}
				}
			}
			c.ended = func(old *attempt) {
				for _, x := range early[old] {
					if old.how != jobhistory.Died || old.to > x.at+tolerance {
						b.recordViolation(s, old.job, x.at, "%s was started again too soon: attempt %s started on %s at %s alongside attempt %s on %s, %s for %s; the lease is %s",
							old.job.name, x.other.name, x.other.by.name, b.formatMoment(x.at), old.name, old.by.name, describeHeld(x.how), formatLength(x.held), formatLength(b.Lease.After))
					}
				}
				delete(early, old)
			}
		},
	}
}

func describeHeld(how string) string {
	if how == "had run" {
		return "which had run"
	}
	return "whose worker had been silent"
}

// suspect is what may be a violation once the fate of an attempt is known.
type suspect struct {
	other *attempt
	at    time.Duration
	held  time.Duration
	how   string
}

// tolerance is how exactly times of different processes can be compared.
const tolerance = 250 * time.Millisecond
