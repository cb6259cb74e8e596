package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
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
	"end unheld": &endUnheld, "newest": &selectNewest, "orchestrate": &orchestrate, "settle children": &settleChildren,
}

// Mutate replaces a part of a statement, in all stores, until back is called. It returns false if the statement
// does not contain that part exactly once.
func Mutate(statement, part, by string) (back func(), changed bool) {
	s := mutable[statement]
	original := *s
	*s = strings.Replace(original, part, by, 1)
	return func() { *s = original }, strings.Count(original, part) == 1
}

// Observe lets the store's sessions tell notice of the plans of all statements that they execute, as
// auto_explain writes them in JSON: of those inside triggers and functions, too. Plans come as notices, so
// that they belong to the call that caused them. Connections are made anew.
func (s *Store) Observe(ctx context.Context, notice func(text string)) error {
	config := s.pool.Config()
	s.pool.Close()
	set := config.ConnConfig.RuntimeParams
	set["session_preload_libraries"] = "auto_explain"
	for name, value := range map[string]string{
		"log_min_duration": "0", "log_level": "notice", "log_format": "json", "log_nested_statements": "on",
		"log_analyze": "on", "log_buffers": "on", "log_timing": "off", "log_verbose": "off", "log_triggers": "off",
	} {
		set["auto_explain."+name] = value
	}
	set["client_min_messages"] = "notice"
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { notice(n.Message) }
	pool, err := pgxpool.NewWithConfig(ctx, config)
	s.pool = pool
	return err
}
