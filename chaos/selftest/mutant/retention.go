package mutant

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants executors that delete what must be kept, or keep what must be deleted.

func init() {
	registerMutants(
		Mutant{
			Name: "chains-leave-early", Source: "D28", Expected: 32, Scenario: "what-is-kept-leaves",
			About: "an executor deletes executions after a quarter of the time for which they must be kept",
			Store: changePurges(purgeStore{early: map[store.Kept]bool{store.KeptExecutions: true}}),
		},
		Mutant{
			Name: "chains-never-leave", Source: "D28", Expected: 32, Scenario: "what-is-kept-leaves",
			About: "no executor deletes executions whose retention is over",
			Store: changePurges(purgeStore{keeps: true}),
		},
		Mutant{
			Name: "child-of-a-running-parent-leaves", Source: "D28", Expected: 32, Scenario: "what-is-kept-leaves",
			About: "an ended child is deleted although the chain of its parent goes on",
			Statements: deletingToo("deleted a child whose parent goes on", func(_ Tx, _, parent *execution.Execution) bool {
				return parent != nil && !parent.Status.Terminal()
			}),
		},
		Mutant{
			Name: "parent-leaves-its-children", Source: "D28", Expected: 32, Scenario: "what-is-kept-leaves",
			About: "an ended execution is deleted although its children are still there",
			Statements: deletingToo("deleted a parent of children", func(tx Tx, first, _ *execution.Execution) bool {
				for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
					if child := tx.Row(id); child != nil && child.Parent == first.ID {
						return true
					}
				}
				return false
			}),
		},
		Mutant{
			Name: "incarnations-leave-early", Source: "D28", Expected: 32, Scenario: "what-is-kept-leaves",
			About: "an executor deletes incarnations of workers after a quarter of the time for which they must be kept",
			Store: changePurges(purgeStore{early: map[store.Kept]bool{store.KeptIncarnations: true}}),
		},
	)
}

// purgeStore is a store whose purges request something else.
type purgeStore struct {
	store.Store
	p Process
	// early selects the kinds whose retention is reduced to a quarter.
	early map[store.Kept]bool
	// keeps suppresses the deletion of executions.
	keeps bool
}

func changePurges(of purgeStore) func(Process, store.Store) store.Store {
	return func(p Process, c store.Store) store.Store {
		if !p.Executor() {
			return c
		}
		own := of
		own.Store, own.p = c, p
		return &own
	}
}

// Purge implements store.Store.
func (ps *purgeStore) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if ps.keeps && p.What == store.KeptExecutions {
		ps.p.Acted("did not delete executions")
		return store.Purged{}, nil
	}
	if ps.early[p.What] {
		p.Age /= 4
		ps.p.Acted("asked to delete " + p.What.String() + " after a quarter of the time for which they are kept")
	}
	return ps.Store.Purge(ctx, p)
}

// chainDeleteStore is a store that also deletes chains of one family whatever the other chains do.
type chainDeleteStore struct {
	Database
	p Process
	// picks reports whether a chain belongs to the family. parent is the first row of its parent's chain, nil
	// if there is none.
	picks func(tx Tx, first, parent *execution.Execution) bool
	says  string
}

func deletingToo(says string, picks func(tx Tx, first, parent *execution.Execution) bool) func(Process, Database) store.Store {
	return func(p Process, c Database) store.Store {
		if !p.Executor() {
			return c
		}
		return &chainDeleteStore{c, p, picks, says}
	}
}

// Purge implements store.Store.
func (c *chainDeleteStore) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	if p.What == store.KeptExecutions {
		if err := c.Step(ctx, func(tx Tx) {
			for id := execution.ID(1); int(id) <= tx.Rows(); id++ {
				first := tx.Row(id)
				if first == nil || first.Original != 0 || first.IdempotencyKey != "" || !first.Status.Terminal() ||
					first.OrchestratedAt.IsZero() || tx.Now().Sub(first.Ended) < p.Age {
					continue
				}
				if c.picks(tx, first, tx.Row(first.Parent)) {
					c.p.Acted(c.says, id)
					tx.Purge(id)
				}
			}
		}); err != nil {
			return store.Purged{}, err
		}
	}
	return c.Database.Purge(ctx, p)
}
