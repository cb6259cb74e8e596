package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "refused-result-dropped", Source: "D23", Expected: 13, Scenario: "database-errors",
			About: "a worker drops a result if the database's error says that the statement is wrong",
			Store: func(p Process, c store.Store) store.Store { return &faintHeartedStore{Store: c, p: p, results: true} },
		},
	)

	registerMutants(
		Mutant{
			Name: "refused-letter-dropped", Source: "D25", Expected: 12, Scenario: "database-errors",
			About: "the dead letter handler acknowledges a message if the database's error says that the statement is wrong",
			Store: func(p Process, c store.Store) store.Store { return &faintHeartedStore{Store: c, p: p, letters: true} },
		},
	)
}

// faintHeartedStore is a store whose caller gives up at the first error that marks its statement as wrong.
type faintHeartedStore struct {
	store.Store
	p                Process
	results, letters bool
}

// isPermanentRefusal reports whether the database refused a statement permanently.
func isPermanentRefusal(err error) bool { return err != nil && !store.Retriable(err) }

// Finish implements store.Store.
func (f *faintHeartedStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := f.Store.Finish(ctx, w, fs)
	if !f.results || !isPermanentRefusal(err) {
		return outcomes, err
	}
	outcomes = make([]store.Outcome, len(fs))
	for i := range fs {
		f.p.Acted("gave up on a result that was refused", fs[i].Key.ID)
		outcomes[i].Applied = true
	}
	return outcomes, nil
}

// Reclaim implements store.Store.
func (f *faintHeartedStore) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	outcomes, err := f.Store.Reclaim(ctx, rs)
	if f.letters && isPermanentRefusal(err) && len(rs) > 0 && rs[0].Cause == store.DeadLettered {
		f.p.Acted("gave up on a dead letter whose take-back was refused", rs[0].Key.ID)
		return make([]store.Outcome, len(rs)), nil
	}
	return outcomes, err
}
