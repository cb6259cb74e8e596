package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Exec executes a statement by hand.
func (s *Store) Exec(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return err
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
