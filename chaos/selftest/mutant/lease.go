package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

func init() {
	register(
		Mutant{
			Name: "read-renews-the-lease", Source: "D15", Expected: 4, Scenario: "full-database",
			About: "if the database refuses to write a heartbeat, the worker treats an answer to a read as a renewed lease, and runs on when the lease is over",
			Store: func(p Process, c store.Store) store.Store {
				if !p.Worker {
					return c
				}
				return &credulous{c, p}
			},
		},
	)
}

// credulous is a store of a worker that treats any answer of the database as one to its heartbeat.
type credulous struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (c *credulous) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := c.Store.Heartbeat(ctx, b)
	if !refused(err) {
		return reply, err
	}
	if _, readErr := c.Executions(ctx, []execution.ID{1}); readErr != nil {
		return reply, err
	}
	c.p.Acted("treated its lease as renewed because the database could be read")
	return store.BeatReply{}, nil
}
