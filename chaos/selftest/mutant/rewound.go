package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "beats-on-after-a-loss", Source: "D15", Expected: 12, Scenario: "rewound-database",
			About: "an incarnation goes on although the database has lost some of its heartbeats, and maybe more",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &beatBaseStore{s, p}
			},
		},
	)
}

// beatBaseStore is a worker's store whose heartbeats do not state which earlier heartbeat the database must
// know.
type beatBaseStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (bbs *beatBaseStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if b.Acknowledged > 0 {
		bbs.p.Acted("did not check whether the database knows its last heartbeat")
	}
	b.Acknowledged = 0
	return bbs.Store.Heartbeat(ctx, b)
}
