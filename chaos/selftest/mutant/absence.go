package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "grace-runs-on", Source: "D45", Expected: 9, Scenario: "comes-and-goes",
			About: "an execution that no worker fits keeps its old grace although a fitting worker came and went: a new grace begins only if an executor looked at the execution meanwhile",
			Store: func(p Process, c store.Store) store.Store { return &absenceBlindStore{c, p} },
		},
	)
}

// absenceBlindStore hides workers that came and went between two checks of a row.
type absenceBlindStore struct {
	store.Store
	p Process
}

// Park implements store.Store.
func (a *absenceBlindStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	for i := range ps {
		k := &ps[i]
		if k.Unschedulable && k.Seen > 0 && k.Seen < k.Grace {
			a.p.Acted("let the grace run on although a fitting worker was there", k.Key.ID)
		}
		k.Seen, k.Patience = 0, 0
	}
	return a.Store.Park(ctx, executor, ps)
}
