package executor

import (
	"context"
	"log/slog"

	"handoff/core/execution"
	"handoff/core/store"
)

// passBatches is the maximum number of batches in one pass, so that every pass ends and its loop reports
// progress. The next pass finds the remaining rows.
const passBatches = 200

// drainFinding handles the rows of a finding, batch by batch, until a batch is not full or ctx ends. With
// only one batch per pass, a loop would fall behind permanently as soon as more than a batch becomes due
// between two passes.
//
// handle returns the rows that it leaves unchanged, because it skipped them, failed to handle them, or only
// sent a hint. The rest of the pass excludes them, so that they don't block others; the next pass retries
// them. An error from handle means that the database is away, and ends the pass.
func (s *Service) drainFinding(ctx context.Context, f store.Finding, handle func(rows []execution.Execution) (left []execution.ID, err error)) error {
	f.Limit = s.config.Executor.BatchSize
	for range passBatches {
		rows, err := askStore(s.db, s.store.Find, f)
		if err != nil || len(rows) == 0 {
			return err
		}
		left, err := handle(rows)
		if err != nil || len(rows) < f.Limit || ctx.Err() != nil {
			return err
		}
		f.Skip = append(f.Skip, left...)
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "a pass stopped at its limit of batches, the next pass goes on", slog.String("cause", f.Cause.String()), slog.Int("batches", passBatches))
	return nil
}

// repeatBatches calls batch, which handles at most limit rows and returns their number. It stops when a batch
// is not full, ctx ends, or the pass has made passBatches calls.
func (s *Service) repeatBatches(ctx context.Context, batch func(ctx context.Context, limit int) (done int, err error)) error {
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

// databaseAnswers reports whether the database answers. Callers use it after a batch failed with a retriable
// error: if the database is away, the pass ends; if it answers, only this statement fails.
func (s *Service) databaseAnswers() bool {
	return s.db(func(ctx context.Context) error {
		_, err := s.store.Clock(ctx)
		return err
	}) == nil
}

// idsOf returns the ids of rows.
func idsOf(rows []execution.Execution) []execution.ID {
	ids := make([]execution.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}
