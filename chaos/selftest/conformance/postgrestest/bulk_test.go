package postgrestest_test

import "strings"

// inBulk changes a script that writes executions into the view, so that it writes many at once. The view is
// edited row by row, so thousands take long. It is for scripts in the role of a replica.
func inBulk(script string) string {
	before, inserts, found := script, "", false
	for {
		var head, rest string
		if head, rest, found = strings.Cut(before, "insert into execution ("); !found {
			return inserts + before
		}
		statement, after, ends := strings.Cut(rest, ";\n")
		if !ends {
			statement, after = rest, ""
		}
		inserts += head + stagedTable + "insert into staged (" + statement + ";\n" + spreadStaged
		before = after
	}
}

// stagedTable contains the rows of one statement before they are spread over the two tables.
const stagedTable = `create temp table staged as select * from execution with no data;
`

const spreadStaged = `
update staged set id = coalesce(id, nextval(pg_get_serial_sequence('execution_record', 'id'))), status = coalesce(status, 'requested'),
	epoch = coalesce(epoch, 0), dispatches = coalesce(dispatches, 0), retry_count = coalesce(retry_count, 0),
	has_children = coalesce(has_children, false), written_epoch = coalesce(written_epoch, 0);
insert into execution_record (id,
	action, action_ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, concurrency, parameters, pinned_worker,
	original_execution, retry_count, retry_reason, parent, has_children, cancel_requested_at, cancel_requested_by, idempotency_key, created, own_limits,
	submitted_by, settling_at, result, failure_reason, ended, orchestrated_at, written_by, written_incarnation, written_epoch, written_reason,
	written_actor, status, worker, incarnation, avoid_worker, dispatch_deadline, run_deadline, retry_at, due_at, unschedulable_since, scheduling_at,
	scheduling_by, scheduling_expires_at, scheduled_at, published_at, started_at, claim_beat, canceling_at, epoch, dispatches)
select id,
	action, action_ref, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, concurrency, parameters, pinned_worker,
	original_execution, retry_count, retry_reason, parent, has_children, cancel_requested_at, cancel_requested_by, idempotency_key, created, own_limits,
	submitted_by, settling_at, result, failure_reason, ended, orchestrated_at, written_by, written_incarnation, written_epoch, written_reason,
	written_actor, case when status >= 'completed' then status end, case when status >= 'completed' then worker end,
	case when status >= 'completed' then incarnation end, case when status >= 'completed' then avoid_worker end,
	case when status >= 'completed' then dispatch_deadline end, case when status >= 'completed' then run_deadline end,
	case when status >= 'completed' then retry_at end, case when status >= 'completed' then due_at end,
	case when status >= 'completed' then unschedulable_since end, case when status >= 'completed' then scheduling_at end,
	case when status >= 'completed' then scheduling_by end, case when status >= 'completed' then scheduling_expires_at end,
	case when status >= 'completed' then scheduled_at end, case when status >= 'completed' then published_at end,
	case when status >= 'completed' then started_at end, case when status >= 'completed' then claim_beat end,
	case when status >= 'completed' then canceling_at end, case when status >= 'completed' then epoch else 0 end,
	case when status >= 'completed' then dispatches else 0 end
  from staged order by id;
insert into execution_work (id, lane_action, lane_worker,
	due_at, retry_at, parent, avoid_worker, unschedulable_since, epoch, worker, incarnation, scheduling_at, scheduling_expires_at, scheduled_at,
	published_at, dispatch_deadline, started_at, run_deadline, claim_beat, canceling_at, written_incarnation, written_epoch, dispatches, status,
	written_by, written_reason, retry_reason, scheduling_by, runtime, written_actor)
select id, case when concurrency is null then 0 else action end, coalesce(pinned_worker, 0),
	due_at, retry_at, parent, avoid_worker, unschedulable_since, epoch, worker, incarnation, scheduling_at, scheduling_expires_at, scheduled_at,
	published_at, dispatch_deadline, started_at, run_deadline, claim_beat, canceling_at, written_incarnation, written_epoch, dispatches, status,
	written_by, written_reason, retry_reason, scheduling_by, runtime, written_actor
  from staged where status < 'completed' order by id;
insert into execution_unhandled (ended, id) select ended, id from staged where status >= 'completed' and orchestrated_at is null;
drop table staged;
`
