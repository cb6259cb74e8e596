package executor

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// brakeStep is the time between two reaps while the brake lets one worker through at a time.
const brakeStep = time.Second

// brake stands between the lease monitor and a mass failure. If the leases of more than a fraction
// of the workers that were alive a lease ago are over, probably something between them and the
// database broke, and they did not all die. So the brake holds for two leases, in which they can
// come back. Then it lets one reap a second through, so that an operator can still stop it (defect
// D47; Kubernetes' node lifecycle controller does the same with a zone).
//
// Each executor has its own brake, in memory. A restarted executor watches for a full lease before
// it reaps at all, and then its own brake holds.
type brake struct {
	config config.Config
	// departed are workers that this executor saw alive and then found gone.
	departed map[execution.WorkerID]departure

	engaged bool
	since   time.Duration
	// trickles says that the hold is over and more than one worker waits.
	trickles bool
}

// departure is when a worker was found gone, and whether it was marked lost or had stopped by
// itself. Both kinds were alive a lease ago, but only the lost ones have lost their leases.
type departure struct {
	at   time.Duration
	lost bool
}

func (b *brake) holdTime() time.Duration { return 2 * b.config.Worker.Lease() }

// lostCount counts the departed workers that were marked lost. Their leases are over, too, but they are
// not among those that the monitor would mark now.
func (b *brake) lostCount() (n int) {
	for _, d := range b.departed { //detlint:ok counts
		if d.lost {
			n++
		}
	}
	return n
}

// admitReaps returns the reaps of over that may be done now. alive is how many workers are not gone,
// including those of over.
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

// forgetDepartures drops workers that departed more than a lease ago. During a hold this is counted from its
// beginning: a worker that was lost just before belongs to the same failure, and a worker that
// stops meanwhile does not end the hold.
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
