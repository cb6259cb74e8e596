package executor

import (
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// brakeStep is the time between two reaps while the brake lets one worker through at a time.
const brakeStep = time.Second

// brake stands between the lease monitor and a mass failure. When more than a fraction of the workers
// that were alive a lease ago are over, it is likelier that something between them and the database
// broke than that all of them died: it holds for two leases, in which they can come back, and then
// lets one a second through, so that whoever looks can still stop it (defect D47; Kubernetes' node
// lifecycle controller does the same with a zone).
//
// Each executor has its own, and it lives in memory: an executor that starts anew watches for a full
// lease before it can reap at all, and then holds by itself.
type brake struct {
	config config.Config
	// departed are workers that this executor had seen alive and then found gone.
	departed map[execution.WorkerID]departure

	engaged bool
	since   time.Duration
	// trickles says that the hold is over and more than one worker waits.
	trickles bool
}

// departure is when a worker was found gone, and whether it was marked lost or had stopped by itself. Both were alive
// a lease ago; only the lost are over.
type departure struct {
	at   time.Duration
	lost bool
}

func (b *brake) hold() time.Duration { return 2 * b.config.Worker.Lease() }

// admit returns which of those that are over may be reaped now. alive is how many are not gone, those
// that are over among them.
func (b *brake) admit(now time.Duration, over []store.Reap, alive int) []store.Reap {
	b.trickles = false
	b.forget(now)
	lost := 0
	for _, d := range b.departed { //detlint:ok counts
		if d.lost {
			lost++
		}
	}
	mass := b.config.Executor.Brakes(alive+len(b.departed), len(over)+lost)
	held := b.engaged && now-b.since < b.hold()
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

// forget drops who departed more than a lease ago, counted from the beginning of a hold while there is
// one: who was lost just before it belongs to the same failure, and who stops meanwhile does not end it.
func (b *brake) forget(now time.Duration) {
	if b.engaged {
		now = b.since
	}
	for id, d := range b.departed { //detlint:ok deletes those that match, in any order
		if d.at <= now-b.config.Worker.Lease() {
			delete(b.departed, id)
		}
	}
}
