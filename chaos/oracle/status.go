package oracle

import "handoff/core/execution"

// Terminal reports whether a status is final (docs/ownership.md: completed, failed, timeout, cancelled and
// abandoned end an execution).
func Terminal(s execution.Status) bool {
	switch s {
	case execution.Completed, execution.Failed, execution.Cancelled, execution.Timeout, execution.Abandoned:
		return true
	default:
		return false
	}
}

// Claimed reports whether a worker owns an execution of this status (docs/ownership.md: from its claim on
// to its end).
func Claimed(s execution.Status) bool { return s == execution.Running || s == execution.Canceling }

// Gone reports whether an incarnation has permanently lost its right to work (docs/ownership.md: it has
// stopped or is lost).
func Gone(l execution.Lifecycle) bool { return l == execution.Stopped || l == execution.Lost }

// Retriable reports whether a retry may follow a failure for this reason: the column "retriable" of
// docs/retries.md.
func Retriable(r execution.Reason) bool { return reasons[r].retriable }

// BlamesWorker reports whether a failure for this reason counts in its worker's health: the column "blames
// the worker" of docs/retries.md.
func BlamesWorker(r execution.Reason) bool { return reasons[r].blames }

// OfAction reports whether an action may give this reason for its own failure: the column "by an action" of
// docs/retries.md.
func OfAction(r execution.Reason) bool { return reasons[r].ofAction }

// reason is a row of the table of failure reasons.
type reason struct{ retriable, blames, ofAction bool }

// reasons holds the row of each reason. There are fewer than 256 reasons.
var reasons = [256]reason{ //detlint:ok a constant table, never written
	execution.WorkerUnavailable: {retriable: true, blames: true},
	execution.NoWorkers:         {retriable: true},
	execution.QueueTimeout:      {retriable: true, blames: true},
	execution.DispatchTimeout:   {retriable: true},
	execution.Unroutable:        {retriable: true},
	execution.WorkerLost:        {retriable: true, blames: true},
	execution.WorkerShutdown:    {retriable: true},
	execution.HeartbeatStale:    {retriable: true, blames: true},
	execution.RunTimeout:        {retriable: true},
	execution.Transient:         {retriable: true, ofAction: true},
	execution.Connection:        {retriable: true, ofAction: true},
	execution.Validation:        {ofAction: true},
	execution.Permission:        {ofAction: true},
	execution.ActionNotFound:    {ofAction: true},
	execution.InvalidParameters: {ofAction: true},
	execution.Rejected:          {ofAction: true},
	execution.Unknown:           {ofAction: true},
}
