package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	register(
		Mutant{
			Name: "claims-beside-forgotten", Source: "D25", Expected: 20, Scenario: "errors-in-batches",
			About: "a worker takes a refusal of one claim for a refusal of all, and loses the executions that it has claimed",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &aloneOrNothing{Store: s, p: p, claims: true} }),
		},
		Mutant{
			Name: "results-beside-forgotten", Source: "D25", Expected: 15, Scenario: "errors-in-batches",
			About: "a worker takes a refusal of one result for a refusal of all, writes results again that are stored, and does not count those runs",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &aloneOrNothing{Store: s, p: p, results: true} }),
		},
	)
}

// aloneOrNothing is a store that forgets the answers about some rows of a call if the database
// refused others.
type aloneOrNothing struct {
	store.Store
	p Process
	// claims and results say of which calls.
	claims, results bool
}

// forgets says that a call has an answer that the worker must not learn.
func (a *aloneOrNothing) forgets(err error, answers int) bool {
	if err == nil || answers == 0 || store.Retriable(err) {
		return false
	}
	a.p.Acted("forgot the answers beside a refusal")
	return true
}

// Claim implements store.Worker.
func (a *aloneOrNothing) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := a.Store.Claim(ctx, w, cs)
	if a.claims && a.forgets(err, len(results)) {
		return nil, err
	}
	return results, err
}

// Finish implements store.Worker.
func (a *aloneOrNothing) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := a.Store.Finish(ctx, w, fs)
	if a.results && a.forgets(err, len(outcomes)) {
		return nil, err
	}
	return outcomes, err
}
