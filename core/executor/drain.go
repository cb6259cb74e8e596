package executor

import (
	"context"
	"log/slog"

	"handoff/core/execution"
	"handoff/core/store"
)

// passBatches bounds the batches of one pass. What is left then is found by the next one: the bound is there so
// that a pass comes to an end and its loop is seen to live, not to slow anything down.
const passBatches = 200

// drain handles whatever is found on a ground, batch by batch, until a batch is not full or a stop comes. One
// batch a pass would fall behind for good wherever more than a batch of rows comes up between two passes.
//
// handle returns the rows that stay on the ground: those that it passed over, could not deal with or has only sent
// a hint about. The rest of the pass leaves them out and goes on behind them, so a batch full of such rows
// does not keep the pass from all others, and the next pass tries them again. An error ends the pass: it is for
// a database that is away.
func (s *Service) drain(ctx context.Context, f store.Finding, handle func(rows []execution.Execution) (left []execution.ID, err error)) error {
	f.Limit = s.config.Executor.BatchSize
	for range passBatches {
		var rows []execution.Execution
		if err := s.db(func(ctx context.Context) (err error) {
			rows, err = s.store.Find(ctx, f)
			return err
		}); err != nil || len(rows) == 0 {
			return err
		}
		left, err := handle(rows)
		if err != nil || len(rows) < f.Limit || ctx.Err() != nil {
			return err
		}
		f.Skip = append(f.Skip, left...)
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "a pass stopped at its limit of batches, the next pass goes on", slog.Int("ground", int(f.Ground)), slog.Int("batches", passBatches))
	return nil
}

// repeat calls a step that deals with at most one batch of rows and says with how many, until a batch is not full, a
// stop comes or the pass is at its bound.
func (s *Service) repeat(ctx context.Context, batch func(ctx context.Context, limit int) (done int, err error)) error {
	limit := s.config.Executor.BatchSize
	for range passBatches {
		done := 0
		if err := s.db(func(ctx context.Context) (err error) {
			done, err = batch(ctx, limit)
			return err
		}); err != nil || done < limit || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// reachable says whether the database answers. After a batch has failed for a passing reason it tells a database that
// is away, which ends a pass, from one that would not make this statement.
func (s *Service) reachable() bool {
	return s.db(func(ctx context.Context) error {
		_, err := s.store.Clock(ctx)
		return err
	}) == nil
}

// idsOf are the ids of rows.
func idsOf(rows []execution.Execution) []execution.ID {
	ids := make([]execution.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}
