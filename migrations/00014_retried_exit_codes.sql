-- +goose Up
-- needs: 13

-- The exit codes that mean a failure for now, because the action's author says so; null for none. An execution keeps those that
-- its action had at its creation. Older programs leave them null and never retry for them, as before.
alter table action add column retried_exit_codes smallint[]
    constraint action_retried_exit_codes check (1 <= all(retried_exit_codes) and 255 >= all(retried_exit_codes));
alter table execution_record add column retried_exit_codes smallint[];

create or replace view execution as
select r.id, r.action, r.action_ref, r.runtime, r.entrypoint, r.timeout_seconds, r.dispatch_timeout_seconds, r.max_retries, r.concurrency,
       r.parameters, coalesce(w.status, r.status) as status, coalesce(w.worker, r.worker) as worker, coalesce(w.incarnation, r.incarnation) as incarnation,
       coalesce(w.epoch, r.epoch) as epoch, coalesce(w.dispatches, r.dispatches) as dispatches, coalesce(w.avoid_worker, r.avoid_worker) as avoid_worker,
       r.pinned_worker, coalesce(w.dispatch_deadline, r.dispatch_deadline) as dispatch_deadline, coalesce(w.run_deadline, r.run_deadline) as run_deadline,
       r.result, r.failure_reason, r.original_execution, r.retry_count, r.retry_reason,
       case when w.id is null then r.retry_at else w.retry_at end as retry_at,
       coalesce(w.due_at, r.due_at) as due_at, r.parent, coalesce(w.awaits_parent, false) as awaits_parent,
       r.has_children, r.cancel_requested_at, r.idempotency_key, r.created, coalesce(w.unschedulable_since, r.unschedulable_since) as unschedulable_since,
       coalesce(w.scheduling_at, r.scheduling_at) as scheduling_at, coalesce(w.scheduling_by, r.scheduling_by) as scheduling_by,
       coalesce(w.scheduling_expires_at, r.scheduling_expires_at) as scheduling_expires_at, coalesce(w.scheduled_at, r.scheduled_at) as scheduled_at,
       coalesce(w.published_at, r.published_at) as published_at, coalesce(w.started_at, r.started_at) as started_at,
       coalesce(w.claim_beat, r.claim_beat) as claim_beat, coalesce(w.canceling_at, r.canceling_at) as canceling_at,
       r.ended, r.orchestrated_at, coalesce(w.written_by, r.written_by) as written_by,
       case when w.id is null then r.written_incarnation else w.written_incarnation end as written_incarnation,
       coalesce(w.written_epoch, r.written_epoch) as written_epoch, case when w.id is null then r.written_reason else w.written_reason end as written_reason,
       r.settling_at, r.own_limits, r.submitted_by, r.cancel_requested_by,
       case when w.id is null then r.written_actor else w.written_actor end as written_actor,
       r.retried_exit_codes
  from execution_record r
  left join execution_work w on w.id = r.id;

-- By hand the view is changed: see 00013. This comes after execution_by_hand, by its name, and adds the column.
-- +goose StatementBegin
create function edit_retried_exit_codes() returns trigger
language plpgsql as $$
begin
    if tg_op = 'INSERT' or new.retried_exit_codes is distinct from old.retried_exit_codes then
        update execution_record set retried_exit_codes = new.retried_exit_codes where id = new.id;
    end if;
    return new;
end
$$;
-- +goose StatementEnd

create trigger execution_by_hand_exit_codes instead of insert or update on execution for each row execute function edit_retried_exit_codes();

-- +goose Down

drop trigger execution_by_hand_exit_codes on execution;
drop trigger execution_by_hand on execution;
drop function edit_retried_exit_codes();
drop view execution;
alter table execution_record drop column retried_exit_codes;
alter table action drop column retried_exit_codes;
create view execution as
select r.id, r.action, r.action_ref, r.runtime, r.entrypoint, r.timeout_seconds, r.dispatch_timeout_seconds, r.max_retries, r.concurrency,
       r.parameters, coalesce(w.status, r.status) as status, coalesce(w.worker, r.worker) as worker, coalesce(w.incarnation, r.incarnation) as incarnation,
       coalesce(w.epoch, r.epoch) as epoch, coalesce(w.dispatches, r.dispatches) as dispatches, coalesce(w.avoid_worker, r.avoid_worker) as avoid_worker,
       r.pinned_worker, coalesce(w.dispatch_deadline, r.dispatch_deadline) as dispatch_deadline, coalesce(w.run_deadline, r.run_deadline) as run_deadline,
       r.result, r.failure_reason, r.original_execution, r.retry_count, r.retry_reason,
       case when w.id is null then r.retry_at else w.retry_at end as retry_at,
       coalesce(w.due_at, r.due_at) as due_at, r.parent, coalesce(w.awaits_parent, false) as awaits_parent,
       r.has_children, r.cancel_requested_at, r.idempotency_key, r.created, coalesce(w.unschedulable_since, r.unschedulable_since) as unschedulable_since,
       coalesce(w.scheduling_at, r.scheduling_at) as scheduling_at, coalesce(w.scheduling_by, r.scheduling_by) as scheduling_by,
       coalesce(w.scheduling_expires_at, r.scheduling_expires_at) as scheduling_expires_at, coalesce(w.scheduled_at, r.scheduled_at) as scheduled_at,
       coalesce(w.published_at, r.published_at) as published_at, coalesce(w.started_at, r.started_at) as started_at,
       coalesce(w.claim_beat, r.claim_beat) as claim_beat, coalesce(w.canceling_at, r.canceling_at) as canceling_at,
       r.ended, r.orchestrated_at, coalesce(w.written_by, r.written_by) as written_by,
       case when w.id is null then r.written_incarnation else w.written_incarnation end as written_incarnation,
       coalesce(w.written_epoch, r.written_epoch) as written_epoch, case when w.id is null then r.written_reason else w.written_reason end as written_reason,
       r.settling_at, r.own_limits, r.submitted_by, r.cancel_requested_by,
       case when w.id is null then r.written_actor else w.written_actor end as written_actor
  from execution_record r
  left join execution_work w on w.id = r.id;
create trigger execution_by_hand instead of insert or update or delete on execution for each row execute function edit_execution();
