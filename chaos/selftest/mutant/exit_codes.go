package mutant

import (
	"context"
	"slices"

	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants stores that change the exit codes which actions declare as temporary failures.

func init() {
	registerMutants(
		Mutant{
			Name: "declared-codes-lost", Source: "D49", Expected: 13, Scenario: "exit-codes",
			About: "a worker does not read the exit codes that an action declares as failures for now",
			Store: changeExitCodes(func([]int16) []int16 { return nil }),
		},
		Mutant{
			Name: "last-declared-code-lost", Source: "D49", Expected: 13, Scenario: "exit-codes",
			About: "a worker does not read the last exit code, 255, among those that an action declares",
			Store: changeExitCodes(func(codes []int16) []int16 {
				return slices.DeleteFunc(codes, func(c int16) bool { return c == execution.MaxExitCode })
			}),
		},
		Mutant{
			Name: "neighbours-declared", Source: "D48", Expected: 13, Scenario: "exit-codes",
			About: "where an action declares an exit code, a worker also retries the next one",
			Store: changeExitCodes(func(codes []int16) []int16 {
				for _, c := range slices.Clone(codes) {
					if c < execution.MaxExitCode && !slices.Contains(codes, c+1) {
						codes = append(codes, c+1)
					}
				}
				slices.Sort(codes)
				return codes
			}),
		},
	)
}

// exitCodeStore is a store of a worker that changes the declared exit codes of the rows it claims.
type exitCodeStore struct {
	store.Store
	p Process
	// read returns the codes that the worker sees, given those that the action declares.
	read func([]int16) []int16
}

// Claim implements store.Worker.
func (e *exitCodeStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := e.Store.Claim(ctx, w, cs)
	for i := range results {
		a := &results[i].Row.Action
		declared := a.RetriedExitCodes.List()
		if seen := e.read(slices.Clone(declared)); !slices.Equal(seen, declared) {
			e.p.Acted("changed the exit codes that an action declares", cs[i].Key.ID)
			a.RetriedExitCodes = execution.NewExitCodes(seen...)
		}
	}
	return results, err
}

// changeExitCodes makes each worker see exit codes that differ from the action's.
func changeExitCodes(read func([]int16) []int16) func(Process, store.Store) store.Store {
	return ofWorker(func(p Process, s store.Store) store.Store { return &exitCodeStore{s, p, read} })
}
