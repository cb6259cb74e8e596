//go:build !simulator

package audit

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
)

// readRetention reads what retention has deleted. A database with an older schema has no such record.
func readRetention(ctx context.Context, tx pgx.Tx, r *Result) error {
	var there bool
	if err := tx.QueryRow(ctx, "select to_regclass('execution_transition_gone') is not null").Scan(&there); err != nil || !there {
		return err
	}
	var since *time.Time
	if err := tx.QueryRow(ctx, "select max(at) from execution_transition_gone").Scan(&since); err != nil {
		return fmt.Errorf("reading until when retention has deleted the audit: %w", err)
	}
	if since != nil {
		r.Since = *since
	}
	err := tx.QueryRow(ctx, `select count(distinct t.execution) from execution_transition t
		where not exists (select from execution_record e where e.id = t.execution)`).Scan(&r.Left)
	if err != nil {
		return fmt.Errorf("counting deleted executions with remaining audit lines: %w", err)
	}
	return nil
}

// setAsideTruncated counts, but doesn't judge, an event of an execution whose first events were deleted.
func (j *judge) setAsideTruncated(e *history.Event) {
	j.r.Events++
	j.suite.SetAside(e)
}
