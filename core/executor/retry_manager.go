package executor

import (
	"handoff/core/execution"
	"handoff/core/store"
)

// retryFor returns the retry that follows a terminal row, nil for none. It decides by the failure reason,
// never by the status or an error text (defects D48, D49).
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
