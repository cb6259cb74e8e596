package sim

import (
	"context"
	"sync"
	"testing"

	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// statementRecorder records which statements processes make, and for how many items.
type statementRecorder struct {
	store.Store
	note func(what string, items int)
}

func (sr statementRecorder) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	a, err := sr.Store.DispatchDue(ctx, d)
	sr.note("DispatchDue", len(a.Rows))
	return a, err
}

func (sr statementRecorder) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	sr.note("Dispatch", len(ds))
	return sr.Store.Dispatch(ctx, executor, ds)
}

func (sr statementRecorder) MarkPublished(ctx context.Context, keys []execution.Key) ([]execution.Key, error) {
	sr.note("MarkPublished", len(keys))
	return sr.Store.MarkPublished(ctx, keys)
}

func (sr statementRecorder) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	sr.note("Claim", len(cs))
	return sr.Store.Claim(ctx, w, cs)
}

func (sr statementRecorder) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	sr.note("Finish", len(fs))
	return sr.Store.Finish(ctx, w, fs)
}

func (sr statementRecorder) Orchestrate(ctx context.Context, os []store.Orchestration) ([]store.Orchestrated, error) {
	sr.note("Orchestrate", len(os))
	return sr.Store.Orchestrate(ctx, os)
}

func (sr statementRecorder) SettleChildren(ctx context.Context, chains []execution.ID, most int) ([]store.Settled, error) {
	sr.note("SettleChildren", len(chains))
	return sr.Store.SettleChildren(ctx, chains, most)
}

func (sr statementRecorder) Release(ctx context.Context, w store.WorkerKey) ([]execution.Key, error) {
	keys, err := sr.Store.Release(ctx, w)
	sr.note("Release", len(keys))
	return keys, err
}

func (sr statementRecorder) Reclaim(ctx context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	sr.note("Reclaim", len(rs))
	return sr.Store.Reclaim(ctx, rs)
}

// Purge records the statement by its kind, with the number of removed rows.
func (sr statementRecorder) Purge(ctx context.Context, p store.Purge) (store.Purged, error) {
	done, err := sr.Store.Purge(ctx, p)
	sr.note("Purge "+p.What.String(), done.Removed)
	return done, err
}

// The sweeps over yield points prove nothing about a statement that their scenarios never make, or never make
// for several rows if it is meant for several.
func TestSweptScenariosMakeEveryLifecycleStatement(t *testing.T) {
	most, all := make(map[string]int), make(map[string]int)
	var mu sync.Mutex
	planted := &mutant.Mutant{Name: "none", Store: func(_ mutant.Process, s store.Store) store.Store {
		return statementRecorder{s, func(what string, items int) {
			mu.Lock()
			defer mu.Unlock()
			most[what], all[what] = max(most[what], items), all[what]+items
		}}
	}}
	for _, s := range append(smallScenarios(t), parsed(t, shortMemory)) {
		for _, profile := range config.Profiles() {
			Run(s, profile, Options{Seed: 1, Mutant: planted})
		}
	}
	for what, least := range map[string]int{
		"DispatchDue": 6, "Dispatch": 1, "MarkPublished": 2, "Claim": 3, "Finish": 2, "Orchestrate": 1, "SettleChildren": 1, "Release": 1,
		"Reclaim": 1, "Purge executions": 2, "Purge refused_results": 2, "Purge expiries": 2, "Purge incarnations": 1, "Purge workers": 1,
	} {
		if most[what] < least {
			t.Errorf("%s is made for at most %d rows, want %d; all: %v", what, most[what], least, most)
		}
	}
	for _, what := range []string{"Purge executions", "Purge refused_results", "Purge expiries", "Purge incarnations", "Purge workers"} {
		if each := len(config.Profiles()); all[what] < 2*each {
			t.Errorf("%s removes %d rows in both profiles, want several in each", what, all[what])
		}
	}
}
