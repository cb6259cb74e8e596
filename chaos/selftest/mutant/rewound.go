package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	register(
		Mutant{
			Name: "beats-on-after-a-loss", Source: "D15", Expected: 12, Scenario: "rewound-database",
			About: "an incarnation goes on although the database has lost some of its heartbeats, and maybe more",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &beatingOn{s, p}
			},
		},
	)
}

// beatingOn is a worker's store whose heartbeats do not say which earlier heartbeat the database
// must know.
type beatingOn struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (bo *beatingOn) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if b.Acknowledged > 0 {
		bo.p.Acted("did not check whether the database knows its last heartbeat")
	}
	b.Acknowledged = 0
	return bo.Store.Heartbeat(ctx, b)
}
