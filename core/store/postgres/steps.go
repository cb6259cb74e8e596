package postgres

import (
	"context"
	"errors"
	"fmt"

	"handoff/core/store"
)

// step is one kind of guarded statement that handles many items.
type step[Q, R any] struct {
	op string
	// row identifies the row that an item is about.
	row func(*Q) any
	// run executes one statement for items about different rows, and fills in the results at the
	// items' indexes.
	run func(ctx context.Context, items []Q, results []R) error
}

// runEach makes the step for every item, in one statement if possible. It sends another statement for
// items about the same row as an earlier one. If the statement fails with a request error or a lock
// timeout, it retries row by row. It returns an error for each item.
func (s step[Q, R]) runEach(ctx context.Context, items []Q) ([]R, []error) {
	results, errs := make([]R, len(items)), make([]error, len(items))
	var broken error
	for _, round := range s.splitRounds(items) {
		if broken != nil {
			for _, i := range round {
				errs[i] = unavailableError(s.op, fmt.Errorf("not sent, because an earlier statement failed: %w", broken))
			}
			continue
		}
		broken = s.runRound(ctx, items, round, results, errs)
	}
	return results, errs
}

// runRound sends one statement for the items at these indexes, and returns an error if no further one should
// be sent.
func (s step[Q, R]) runRound(ctx context.Context, items []Q, places []int, results []R, errs []error) error {
	batch, out := make([]Q, len(places)), make([]R, len(places))
	for n, i := range places {
		batch[n] = items[i]
	}
	err := s.run(ctx, batch, out)
	switch {
	case err == nil:
		for n, i := range places {
			results[i] = out[n]
		}
		return nil
	case len(places) == 1 && !store.Retriable(err):
		errs[places[0]] = fmt.Errorf("%w (row %v)", err, s.row(&batch[0]))
		return nil
	case len(places) == 1 && waitedForLock(err) && hasRowLockTimeout(ctx):
		errs[places[0]] = fmt.Errorf("%w (row %v is locked by another session)", err, s.row(&batch[0]))
		return nil
	case store.Retriable(err) && (len(places) == 1 || !waitedForLock(err)):
		for _, i := range places {
			errs[i] = err
		}
		return err
	case waitedForLock(err):
		ctx = withRowLockTimeout(ctx)
	}
	var broken error
	held := 0
	for n, i := range places {
		if broken == nil && held == maxLockedRows {
			broken = fmt.Errorf("%d rows were locked by other sessions", held)
		}
		if broken != nil {
			errs[i] = unavailableError(s.op, fmt.Errorf("not sent, because an earlier statement failed: %w", broken))
			continue
		}
		broken = s.runRound(ctx, items, places[n:n+1], results, errs)
		if waitedForLock(errs[i]) {
			held++
		}
	}
	return broken
}

// maxLockedRows is the number of locked rows after which the rest of a batch is not tried, because the whole
// table may be locked. Waiting RowLockTimeout for each of them takes a second.
const maxLockedRows = 50

// splitRounds splits the indexes of items into rounds. No two in a round are about the same row, and items
// about the same row stay in their order.
func (s step[Q, R]) splitRounds(items []Q) [][]int {
	if len(items) == 0 {
		return nil
	}
	var rounds [][]int
	seen := make(map[any]int, len(items))
	for i := range items {
		row := s.row(&items[i])
		n := seen[row]
		seen[row] = n + 1
		if n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], i)
	}
	return rounds
}

// runAll makes the step for every item of one call. If the error is about single rows, the results of
// the others are returned with it.
func (s step[Q, R]) runAll(ctx context.Context, items []Q) ([]R, error) {
	results, errs := s.runEach(ctx, items)
	return combineErrors(results, errs)
}

// combineErrors combines the errors of a call's items into the call's error: unavailable only if no item was
// applied. The results of items without an error are returned with it.
func combineErrors[R any](results []R, errs []error) ([]R, error) {
	var passing, bad []error
	clean := true
	for _, err := range errs {
		switch {
		case err == nil:
			clean = false
		case store.Retriable(err):
			clean = clean && !errors.Is(err, store.ErrUnknownOutcome)
			passing = append(passing, err)
		default:
			bad = append(bad, err)
		}
	}
	switch {
	case len(passing) > 0 && clean:
		return nil, passing[0]
	case len(passing) > 0 && errors.Is(passing[0], store.ErrUnknownOutcome):
		return results, passing[0]
	case len(passing) > 0:
		return results, unknownOutcomeError("a part of the call", fmt.Errorf("%v", passing[0]))
	case len(bad) > 0:
		return results, errors.Join(bad...)
	}
	return results, nil
}
