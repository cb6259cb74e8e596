package store

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// ReclaimCause is the reason why rows need attention, and why a part may reclaim them.
type ReclaimCause uint8

// The causes. Each comment names the statuses that the cause covers and when the cause applies.
const (
	NoCause ReclaimCause = iota
	// Unclaimed: scheduled for at least Age.
	Unclaimed
	// DeadLettered: scheduled, and its message died. Only for Reclaim: the dead letter is the
	// evidence, and the epoch is the guard.
	DeadLettered
	// Undeliverable: scheduled, and its message was returned or refused. Only for Reclaim.
	Undeliverable
	// Unpublished: scheduled for at least Age and never confirmed by the broker.
	Unpublished
	// UnpublishedLate: unpublished, scheduled for at least Age, and past half of the time until the dispatch
	// deadline. If its message arrived now, the worker would have little or no time left to claim it.
	UnpublishedLate
	// OwnerGone: scheduled or running at an incarnation that is lost, stopped or superseded; or
	// scheduled at one that is draining. For a running row, the lease of that incarnation must also
	// have ended at least Age ago, so that its actions have ended (defect D15).
	OwnerGone
	// Overrun: running, and its run deadline passed at least Age ago.
	Overrun
	// ClaimExpired: scheduling, and the claim has expired.
	ClaimExpired
	// Unorchestrated: terminal for at least Age without terminal handling. Only for Find.
	Unorchestrated
	// Unanswered: canceling for at least Age. Only for Find.
	Unanswered
	// Unsettled: the first row of a chain whose end was handled and whose children may still wait. None of
	// them was settled within the last Age. Only for Find.
	Unsettled
)

// String returns the cause's name in logs and in the guard of PostgreSQL's statement.
func (r ReclaimCause) String() string {
	names := [...]string{
		"none", "unclaimed", "dead_lettered", "undeliverable", "unpublished", "unpublished_late", "owner_gone", "overrun",
		"claim_expired", "unorchestrated", "unanswered", "unsettled",
	}
	if int(r) >= len(names) {
		return fmt.Sprintf("ground %d", uint8(r))
	}
	return names[r]
}

// Finding is a query for rows that need attention for one cause.
type Finding struct {
	Cause ReclaimCause
	Age   time.Duration
	Limit int
	// Skip excludes rows that a pass could not handle, so that Find returns the rows behind them.
	Skip []execution.ID
}

// Reclaim is a request to take one row at one epoch from its holder.
type Reclaim struct {
	// Key was read before the call, so its epoch was committed before the call.
	Key   execution.Key
	Cause ReclaimCause
	// Age is the age of the Finding, if the cause has one; the guard checks it again.
	Age    time.Duration
	By     execution.Part
	Reason execution.Reason
	// Result is the result of the row if it fails.
	Result execution.Result

	// Policy applies to rows that were never claimed: Fail, or Reschedule until MaxDispatches is used up. A
	// row taken from a draining worker is always rescheduled: an orderly stop must not fail executions
	// (defect D37).
	Policy        config.Unclaimed
	MaxDispatches int
	// Counts reports whether this reclaim uses up a dispatch if the worker could have claimed the row. It
	// could if its incarnation is still the active one when the step is made, and was not full at any time
	// since the dispatch. The reclaim then also counts against the worker's health.
	//
	// If the worker is gone, the execution is not at fault. If the row waited behind other runs, neither is
	// at fault, so Policy reschedules a row that waited at a full worker. A worker is full while every run
	// slot is taken: either a heartbeat reported it (Beat.WasFull), or as many rows run there now as it has
	// slots.
	Counts bool
	// Delay is how long a rescheduled row waits before it is due.
	Delay time.Duration
	// Actor is the name of the API token that made the request, for the audit. It is empty if no token was
	// needed or there was no request. The audit records it only if By is the dead letter handler, which also
	// does the replays that people ask for.
	Actor string

	// To is the terminal status of a row that was claimed. A row that is canceling ends as
	// cancelled, regardless of To.
	To execution.Status
}

// Reap marks one incarnation lost.
type Reap struct {
	WorkerKey
	// Beat is the heartbeat number that, as the caller observed, has not changed for a full lease.
	Beat uint64
}
