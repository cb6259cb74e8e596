package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Exec executes a statement by hand.
func (s *Store) Exec(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return err
}

// Traced returns options under which a tracer sees every statement of a store, before it is sent and after.
func (o Options) Traced(t pgx.QueryTracer) Options {
	o.trace = t
	return o
}

// mutable are the statements that a test may change, by name.
var mutable = map[string]*string{
	"claim": &claimRows, "finish": &finishRows, "dispatch": &dispatch, "reclaim": &reclaim, "park": &park,
	"end unheld": &endUnheld, "newest": &selectNewest,
}

// Mutate replaces a part of a statement, in all stores, until back is called. It returns false if the statement
// does not contain that part exactly once.
func Mutate(statement, part, by string) (back func(), changed bool) {
	s := mutable[statement]
	original := *s
	*s = strings.Replace(original, part, by, 1)
	return func() { *s = original }, strings.Count(original, part) == 1
}
