//go:build !simulator

package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/core/config"
)

// Options configures Judge.
type Options struct {
	// Config is the configuration of the daemons; it determines how long an execution may remain open.
	Config config.Config
	// StatementTimeout limits every statement; zero means a minute.
	StatementTimeout time.Duration
}

// ErrNoAudit means that the database has no audit table: it is not Handoff's, or its schema is too old.
var ErrNoAudit = errors.New("the database has no table execution_transition")

// evidence lists the kinds of events that the audit and the executions record completely. Cancellation
// requests and registrations are read too, but only the last request of each execution and the registered
// data of each worker.
var evidence = []history.Kind{history.Created, history.Transition, history.Orchestrated} //nolint:gochecknoglobals // a constant list

// Judge reads and judges a database's audit.
func Judge(ctx context.Context, url string, o Options) (*Result, error) {
	if o.StatementTimeout <= 0 {
		o.StatementTimeout = time.Minute
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("connecting to the database: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return nil, fmt.Errorf("beginning a read-only transaction: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, fmt.Sprintf("set local statement_timeout = %d", o.StatementTimeout.Milliseconds())); err != nil {
		return nil, err
	}
	var there bool
	if err := tx.QueryRow(ctx, "select to_regclass('execution_transition') is not null").Scan(&there); err != nil {
		return nil, err
	}
	if !there {
		return nil, ErrNoAudit
	}
	j := newJudge(History{Config: o.Config, Kinds: evidence}, func(i *invariant.Invariant) string {
		switch i.Number {
		case 8:
			return "the audit does not keep when a retry was due"
		case 16:
			return "the audit does not keep idempotency keys"
		}
		return missingKindsReason(i, evidence)
	})
	if err := readRetention(ctx, tx, j.r); err != nil {
		return nil, err
	}
	now, err := readHistory(ctx, tx, j)
	if err != nil {
		return nil, err
	}
	return j.finishJudgement(now), nil
}
