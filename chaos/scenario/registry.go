package scenario

// SometimesInfo describes a situation that a sweep should reach.
type SometimesInfo struct {
	Name  string
	About string
}

// Sometimes lists every situation that `sometimes` may name.
func Sometimes() []SometimesInfo {
	return []SometimesInfo{
		{"lost_worker_detected", "the executor marked a worker as lost"},
		{"work_abandoned", "a claimed execution was taken from a worker that lost its right to it"},
		{"unclaimed_rescheduled", "an execution that was never claimed was taken back for another dispatch"},
		{"unclaimed_failed", "an execution that was never claimed was failed"},
		{"retry_scheduled", "a retry was created"},
		{"dead_lettered_by_ttl", "a dispatch expired in a worker's queue and reached the dead letter queue"},
		{"reclaimed_by_dead_letter_handler", "the dead letter handler took an execution back"},
		{"reclaimed_by_timeout_monitor", "the timeout monitor took an unclaimed execution back"},
		{"stale_write_refused", "a guarded write matched no row"},
		{"claim_refused", "a worker's claim was refused"},
		{"late_result_refused", "a result was refused because its worker had lost the execution"},
		{"fenced_itself", "a worker ended an action because it could not renew its lease"},
		{"registered_again", "a worker name was registered a second time"},
		{"redelivered", "a message was delivered a second time"},
		{"republished", "a dispatch was published a second time at the same epoch"},
		{"returned_unroutable", "a dispatch was returned because no queue was bound"},
		{"no_workers_failed", "an execution failed because no worker fitted"},
		{"parked", "an execution waited for a worker to fit"},
		{"released_on_drain", "a draining worker gave unclaimed work back"},
		{"drained_with_running_work", "a stopping worker finished what was running"},
		{"orchestrated_without_message", "terminal handling was done by the reconciler because no message came"},
		{"scheduling_claim_expired", "the claim of a dead executor was taken back"},
		{"duplicate_dispatch_refused", "a second delivery of a dispatch had no effect"},
		{"run_timed_out", "a worker ended an action at its run timeout"},
		{"overrun_ended", "the timeout monitor ended an execution whose worker had not"},
		{"cancelled_before_handoff", "an execution was cancelled before it was dispatched"},
		{"cancelled_after_handoff", "an execution was cancelled that was dispatched and not claimed"},
		{"cancelled_while_running", "a worker ended an execution because it was cancelled"},
		{"cancelled_pending_retry", "the cancellation of a chain ended its waiting retry"},
		{"cancelled_waiting_for_slot", "an execution was cancelled while all slots of its action were held"},
		{"cancel_came_too_late", "an execution ended in another way after its worker was asked to cancel it"},
		{"slot_passed_on", "a concurrency slot went to an execution that had waited for it"},
		{"child_started", "a workflow child began after its parent's chain had completed"},
		{"child_skipped", "a workflow child was skipped because its parent's chain did not complete"},
		{"child_of_the_ended", "a workflow child was created after its parent's chain had completed"},
		{"worker_failed", "a worker reported a failure of its own"},
		{"worker_recovered", "a worker that had reported failures of its own in a row reported none"},
		{"cordoned", "an operator cordoned a worker"},
		{"observed_timeout", "a timeout monitor that only observes recorded that it would take an unclaimed execution back"},
		{"observed_overrun", "a timeout monitor that only observes recorded that it would end a run past its deadline"},
		{"observed_unreachable", "a prober that only observes recorded that it would avoid a worker"},
		{"observed_reachable", "a prober that only observes recorded that a worker was ready again"},
		{"ended_at_shutdown", "a stopping worker ended an action that outlasted the shutdown timeout"},
	}
}
