package oracle

import "handoff/core/execution"

// StatusName returns the name of a status in the database, in messages and in the API (docs/ownership.md,
// "The transition table"). The name of None is none.
func StatusName(s execution.Status) string { return statusNames[s] }

var statusNames = [execution.Statuses]string{ //detlint:ok a constant table, never written
	execution.None: "none", execution.Requested: "requested", execution.Scheduling: "scheduling", execution.Scheduled: "scheduled",
	execution.Running: "running", execution.Canceling: "canceling", execution.Completed: "completed", execution.Failed: "failed",
	execution.Cancelled: "cancelled", execution.Timeout: "timeout", execution.Abandoned: "abandoned",
}

// PartName returns the name, in audits and in failed_by, of a part that writes statuses (docs/ownership.md,
// "Writer").
func PartName(p execution.Part) string { return partNames[p] }

var partNames = [execution.Parts]string{ //detlint:ok a constant table, never written
	execution.NoPart: "nobody", execution.API: "api", execution.Scheduler: "scheduler", execution.TimeoutMonitor: "execution_timeout_monitor",
	execution.DeadLetterHandler: "dead_letter_handler", execution.Reconciler: "reconciler", execution.RetryManager: "retry_manager",
	execution.ExecutionManager: "execution_manager", execution.Worker: "worker",
}

// ReasonNames returns the names of the failure reasons, in order (docs/retries.md, "Failure reasons"). The
// first name is empty and means no reason.
func ReasonNames() []string {
	return []string{
		execution.NoReason: "", execution.WorkerUnavailable: "worker_unavailable", execution.NoWorkers: "no_workers",
		execution.QueueTimeout: "queue_timeout", execution.DispatchTimeout: "dispatch_timeout", execution.Unroutable: "unroutable",
		execution.WorkerLost: "worker_lost", execution.WorkerShutdown: "worker_shutdown", execution.HeartbeatStale: "heartbeat_stale",
		execution.RunTimeout: "run_timeout", execution.Transient: "transient", execution.Connection: "connection",
		execution.Validation: "validation", execution.Permission: "permission", execution.ActionNotFound: "action_not_found",
		execution.InvalidParameters: "invalid_parameters", execution.Rejected: "rejected", execution.CancelRequested: "cancelled",
		execution.ParentFailed: "parent_failed", execution.Unknown: "unknown",
	}
}
