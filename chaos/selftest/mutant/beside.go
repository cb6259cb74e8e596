package mutant

import (
	"context"

	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "claims-beside-forgotten", Source: "D25", Expected: 20, Scenario: "errors-in-batches",
			About: "a worker takes a refusal of one claim for a refusal of all, and loses the executions that it has claimed",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &answerDroppingStore{Store: s, p: p, claims: true} }),
		},
		Mutant{
			Name: "results-beside-forgotten", Source: "D25", Expected: 15, Scenario: "errors-in-batches",
			About: "a worker takes a refusal of one result for a refusal of all, writes results again that are stored, and does not count those runs",
			Store: ofWorker(func(p Process, s store.Store) store.Store { return &answerDroppingStore{Store: s, p: p, results: true} }),
		},
	)
}

// answerDroppingStore is a store that forgets the answers about some rows of a call if the database
// refused others.
type answerDroppingStore struct {
	store.Store
	p Process
	// claims and results select the calls.
	claims, results bool
}

// dropsAnswers reports whether a call has an answer that must be hidden from the worker, and reports the act.
func (a *answerDroppingStore) dropsAnswers(err error, answers int) bool {
	if err == nil || answers == 0 || store.Retriable(err) {
		return false
	}
	a.p.Acted("forgot the answers beside a refusal")
	return true
}

// Claim implements store.Worker.
func (a *answerDroppingStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := a.Store.Claim(ctx, w, cs)
	if a.claims && a.dropsAnswers(err, len(results)) {
		return nil, err
	}
	return results, err
}

// Finish implements store.Worker.
func (a *answerDroppingStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, err := a.Store.Finish(ctx, w, fs)
	if a.results && a.dropsAnswers(err, len(outcomes)) {
		return nil, err
	}
	return outcomes, err
}
