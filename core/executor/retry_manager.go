package executor

import (
	"handoff/core/execution"
	"handoff/core/store"
)

// retryFor decides by the failure reason whether another row follows a terminal one, never by the status or
// an error text (defects D48, D49). It returns nil if none follows.
func (s *Service) retryFor(row *execution.Execution) *store.Retry {
	free := 0
	if row.MayBeFree() {
		free = s.config.Retry.FreeShutdowns
	}
	if !s.config.Retry.Enabled || !row.Retriable() && free == 0 {
		return nil
	}
	return &store.Retry{
		Count:  row.RetryCount + 1,
		Reason: row.FailureReason,
		Delay:  s.config.Retry.Backoff(row.RetryCount, s.host.Uint64N),
		Free:   free,
	}
}
