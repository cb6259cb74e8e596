package executor

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// brakeStep is the time between two reaps while the brake lets one worker through at a time.
const brakeStep = time.Second

// brake protects against mass reaps. If too large a fraction of the workers have lost their leases within a
// lease, the connection to the database is the likelier cause. So the brake blocks reaps for two leases, so
// that the workers can recover. Then it admits one reap per second, so that an operator can still intervene
// (defect D47; Kubernetes' node lifecycle controller does the same with a zone).
//
// Each executor has its own brake, in memory. A restarted executor watches for a full lease before its first
// reap, and then its own brake applies.
type brake struct {
	config config.Config
	// departed holds the workers that this executor saw alive and then found gone.
	departed map[execution.WorkerID]departure

	engaged bool
	since   time.Duration
	// trickles reports whether the hold is over and more than one worker is waiting to be reaped.
	trickles bool
}

// departure records when a worker was found gone, and whether it was marked lost or stopped by itself. Both
// kinds were alive a lease ago, but only lost workers have lost their leases.
type departure struct {
	at   time.Duration
	lost bool
}

func (b *brake) holdTime() time.Duration { return 2 * b.config.Worker.Lease() }

// lostCount returns the number of departed workers that were marked lost. The monitor's current list does not
// include them.
func (b *brake) lostCount() (n int) {
	for _, d := range b.departed { //detlint:ok counts
		if d.lost {
			n++
		}
	}
	return n
}

// admitReaps returns those reaps in over that the brake allows now. alive is the number of workers that are
// not gone, including those in over.
func (b *brake) admitReaps(now time.Duration, over []store.Reap, alive int) []store.Reap {
	b.trickles = false
	b.forgetDepartures(now)
	mass := b.config.Executor.Brakes(alive+len(b.departed), len(over)+b.lostCount())
	held := b.engaged && now-b.since < b.holdTime()
	switch {
	case len(over) == 0, held && !mass:
		b.engaged = false
	case !b.engaged && mass:
		b.engaged, b.since, held = true, now, true
	}
	switch {
	case !b.engaged:
		return over
	case held:
		return nil
	}
	b.trickles = true
	return over[:1]
}

// forgetDepartures drops workers that departed more than a lease ago. During a hold, the lease counts back
// from the start of the hold, because workers lost just before it belong to the same failure. A worker that
// stops does not end the hold.
func (b *brake) forgetDepartures(now time.Duration) {
	if b.engaged {
		now = b.since
	}
	for id, d := range b.departed { //detlint:ok deletes those that match, in any order
		if d.at <= now-b.config.Worker.Lease() {
			delete(b.departed, id)
		}
	}
}
