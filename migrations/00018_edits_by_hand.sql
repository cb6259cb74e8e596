-- +goose Up

-- needs: 13
-- Programs of before write through the tables, not through the view, and never lower an epoch.

-- An edit by hand reads a row, and writes it a moment later; with many rows the moment is as long as the statement. What happened
-- to the row in between must stay. So the edit locks the row first, as the programs do (the work, then the record), and writes only
-- the columns that it changed.
-- +goose StatementBegin
create or replace function edit_execution() returns trigger
language plpgsql set enable_seqscan = off as $$
declare
    ends boolean;
    latest execution;
begin
    if tg_op <> 'INSERT' then
        perform from execution_work where id = old.id for update;
        perform from execution_record where id = old.id for update;
        select * into latest from execution where id = old.id;
        if not found then
            return null; -- it was deleted meanwhile
        end if;
        delete from execution_unhandled where ended = latest.ended and id = old.id;
    end if;
    if tg_op = 'UPDATE' then
        if new.id <> old.id then
            raise exception 'execution % can not become execution %', old.id, new.id using errcode = 'check_violation';
        end if;
        if new.result::text is not distinct from old.result::text then
            new.result := latest.result;
        end if;
        if new.parameters::text is not distinct from old.parameters::text then
            new.parameters := latest.parameters;
        end if;
        -- Of the other columns it writes those that the edit changed. (Through jsonb, parameters and result would lose their spaces.)
        latest.result := new.result;
        latest.parameters := new.parameters;
        new := jsonb_populate_record(latest, coalesce((
            select jsonb_object_agg(n.key, n.value)
              from jsonb_each(to_jsonb(new) - 'result' - 'parameters') n join jsonb_each(to_jsonb(old)) o on o.key = n.key
             where n.value is distinct from o.value), '{}'));
    end if;
    if tg_op = 'DELETE' then
        with gone as (delete from execution_work where id = old.id)
        delete from execution_record where id = old.id;
        return old;
    end if;
    new.status := coalesce(new.status, 'requested');
    new.epoch := coalesce(new.epoch, 0);
    new.dispatches := coalesce(new.dispatches, 0);
    new.retry_count := coalesce(new.retry_count, 0);
    new.has_children := coalesce(new.has_children, false);
    new.written_epoch := coalesce(new.written_epoch, 0);
    ends := new.status >= 'completed';
    if tg_op = 'INSERT' then
        new.id := coalesce(new.id, nextval(pg_get_serial_sequence('execution_record', 'id')));
        insert into execution_record (id, action, action_ref, runtime, entrypoint, max_retries, retry_count, original_execution, created, status, ended, written_by)
        values (new.id, new.action, new.action_ref, new.runtime, new.entrypoint, new.max_retries, new.retry_count, new.original_execution, new.created,
                case when ends then new.status end, new.ended, new.written_by);
    end if;
    if ends and new.orchestrated_at is null and new.ended is not null then
        insert into execution_unhandled (ended, id) values (new.ended, new.id);
    end if;
    if not ends then
        update execution_work
           set lane_action = case when new.concurrency is null then 0 else new.action end, lane_worker = coalesce(new.pinned_worker, 0),
               due_at = new.due_at, retry_at = new.retry_at, parent = new.parent, avoid_worker = new.avoid_worker,
               unschedulable_since = new.unschedulable_since, epoch = new.epoch, worker = new.worker, incarnation = new.incarnation,
               scheduling_at = new.scheduling_at, scheduling_expires_at = new.scheduling_expires_at, scheduled_at = new.scheduled_at,
               published_at = new.published_at, dispatch_deadline = new.dispatch_deadline, started_at = new.started_at,
               run_deadline = new.run_deadline, claim_beat = new.claim_beat, canceling_at = new.canceling_at,
               written_incarnation = new.written_incarnation, written_epoch = new.written_epoch, dispatches = new.dispatches,
               status = new.status, written_by = new.written_by, written_reason = new.written_reason, retry_reason = new.retry_reason,
               scheduling_by = new.scheduling_by, runtime = new.runtime, written_actor = new.written_actor
         where id = new.id;
        if not found then
            insert into execution_work (
                id, lane_action, lane_worker, due_at, retry_at, parent, avoid_worker, unschedulable_since, epoch, worker, incarnation,
                scheduling_at, scheduling_expires_at, scheduled_at, published_at, dispatch_deadline, started_at, run_deadline, claim_beat,
                canceling_at, written_incarnation, written_epoch, dispatches, status, written_by, written_reason, retry_reason,
                scheduling_by, runtime, written_actor
            ) values (
                new.id, case when new.concurrency is null then 0 else new.action end, coalesce(new.pinned_worker, 0),
                new.due_at, new.retry_at, new.parent, new.avoid_worker, new.unschedulable_since, new.epoch, new.worker, new.incarnation,
                new.scheduling_at, new.scheduling_expires_at, new.scheduled_at, new.published_at, new.dispatch_deadline, new.started_at,
                new.run_deadline, new.claim_beat, new.canceling_at, new.written_incarnation, new.written_epoch, new.dispatches, new.status,
                new.written_by, new.written_reason, new.retry_reason, new.scheduling_by, new.runtime, coalesce(new.written_actor,
                new.submitted_by)
            );
        end if;
    end if;
    with gone as (
        delete from execution_work where ends and id = new.id
    )
    update execution_record
       set action = new.action, action_ref = new.action_ref, runtime = new.runtime, entrypoint = new.entrypoint,
           timeout_seconds = new.timeout_seconds, dispatch_timeout_seconds = new.dispatch_timeout_seconds, max_retries = new.max_retries,
           concurrency = new.concurrency, parameters = new.parameters, pinned_worker = new.pinned_worker,
           original_execution = new.original_execution, retry_count = new.retry_count, retry_reason = new.retry_reason, parent = new.parent,
           has_children = new.has_children, cancel_requested_at = new.cancel_requested_at, cancel_requested_by = new.cancel_requested_by,
           idempotency_key = new.idempotency_key, created = new.created, own_limits = new.own_limits, submitted_by = new.submitted_by,
           settling_at = new.settling_at, result = new.result, failure_reason = new.failure_reason, ended = new.ended,
           orchestrated_at = new.orchestrated_at, written_by = new.written_by, written_incarnation = new.written_incarnation,
           written_epoch = new.written_epoch, written_reason = new.written_reason, written_actor = new.written_actor,
           epoch = case when ends then new.epoch else 0 end, dispatches = case when ends then new.dispatches else 0 end,
           status = case when ends then new.status end, worker = case when ends then new.worker end,
           incarnation = case when ends then new.incarnation end, avoid_worker = case when ends then new.avoid_worker end,
           dispatch_deadline = case when ends then new.dispatch_deadline end, run_deadline = case when ends then new.run_deadline end,
           retry_at = case when ends then new.retry_at end, due_at = case when ends then new.due_at end,
           unschedulable_since = case when ends then new.unschedulable_since end, scheduling_at = case when ends then new.scheduling_at end,
           scheduling_by = case when ends then new.scheduling_by end,
           scheduling_expires_at = case when ends then new.scheduling_expires_at end,
           scheduled_at = case when ends then new.scheduled_at end, published_at = case when ends then new.published_at end,
           started_at = case when ends then new.started_at end, claim_beat = case when ends then new.claim_beat end,
           canceling_at = case when ends then new.canceling_at end
     where id = new.id;
    return new;
end
$$;
-- +goose StatementEnd

-- The epoch is what tells a late answer from a current one. It never falls, whoever writes.
create function refuse_epoch() returns trigger
language plpgsql as $$
begin
    raise exception 'the epoch of execution % is %, and can not fall to %', old.id, old.epoch, new.epoch using errcode = 'check_violation';
end
$$;

create trigger execution_epoch before update on execution_work for each row when (new.epoch < old.epoch and new.epoch >= 0) execute function refuse_epoch();

-- +goose Down

drop trigger execution_epoch on execution_work;
drop function refuse_epoch();
-- +goose StatementBegin
create or replace function edit_execution() returns trigger
language plpgsql set enable_seqscan = off as $$
declare
    ends boolean;
begin
    if tg_op <> 'INSERT' then
        delete from execution_unhandled where ended = old.ended and id = old.id;
    end if;
    if tg_op = 'DELETE' then
        with gone as (delete from execution_work where id = old.id)
        delete from execution_record where id = old.id;
        return old;
    end if;
    new.status := coalesce(new.status, 'requested');
    new.epoch := coalesce(new.epoch, 0);
    new.dispatches := coalesce(new.dispatches, 0);
    new.retry_count := coalesce(new.retry_count, 0);
    new.has_children := coalesce(new.has_children, false);
    new.written_epoch := coalesce(new.written_epoch, 0);
    ends := new.status >= 'completed';
    if tg_op = 'INSERT' then
        new.id := coalesce(new.id, nextval(pg_get_serial_sequence('execution_record', 'id')));
        insert into execution_record (id, action, action_ref, runtime, entrypoint, max_retries, retry_count, original_execution, created, status, ended, written_by)
        values (new.id, new.action, new.action_ref, new.runtime, new.entrypoint, new.max_retries, new.retry_count, new.original_execution, new.created,
                case when ends then new.status end, new.ended, new.written_by);
    elsif new.id <> old.id then
        raise exception 'execution % can not become execution %', old.id, new.id using errcode = 'check_violation';
    end if;
    if ends and new.orchestrated_at is null and new.ended is not null then
        insert into execution_unhandled (ended, id) values (new.ended, new.id);
    end if;
    if not ends then
        update execution_work
           set lane_action = case when new.concurrency is null then 0 else new.action end, lane_worker = coalesce(new.pinned_worker, 0),
               due_at = new.due_at, retry_at = new.retry_at, parent = new.parent, avoid_worker = new.avoid_worker,
               unschedulable_since = new.unschedulable_since, epoch = new.epoch, worker = new.worker, incarnation = new.incarnation,
               scheduling_at = new.scheduling_at, scheduling_expires_at = new.scheduling_expires_at, scheduled_at = new.scheduled_at,
               published_at = new.published_at, dispatch_deadline = new.dispatch_deadline, started_at = new.started_at,
               run_deadline = new.run_deadline, claim_beat = new.claim_beat, canceling_at = new.canceling_at,
               written_incarnation = new.written_incarnation, written_epoch = new.written_epoch, dispatches = new.dispatches,
               status = new.status, written_by = new.written_by, written_reason = new.written_reason, retry_reason = new.retry_reason,
               scheduling_by = new.scheduling_by, runtime = new.runtime, written_actor = new.written_actor
         where id = new.id;
        if not found then
            insert into execution_work (
                id, lane_action, lane_worker, due_at, retry_at, parent, avoid_worker, unschedulable_since, epoch, worker, incarnation,
                scheduling_at, scheduling_expires_at, scheduled_at, published_at, dispatch_deadline, started_at, run_deadline, claim_beat,
                canceling_at, written_incarnation, written_epoch, dispatches, status, written_by, written_reason, retry_reason,
                scheduling_by, runtime, written_actor
            ) values (
                new.id, case when new.concurrency is null then 0 else new.action end, coalesce(new.pinned_worker, 0),
                new.due_at, new.retry_at, new.parent, new.avoid_worker, new.unschedulable_since, new.epoch, new.worker, new.incarnation,
                new.scheduling_at, new.scheduling_expires_at, new.scheduled_at, new.published_at, new.dispatch_deadline, new.started_at,
                new.run_deadline, new.claim_beat, new.canceling_at, new.written_incarnation, new.written_epoch, new.dispatches, new.status,
                new.written_by, new.written_reason, new.retry_reason, new.scheduling_by, new.runtime, coalesce(new.written_actor,
                new.submitted_by)
            );
        end if;
    end if;
    with gone as (
        delete from execution_work where ends and id = new.id
    )
    update execution_record
       set action = new.action, action_ref = new.action_ref, runtime = new.runtime, entrypoint = new.entrypoint,
           timeout_seconds = new.timeout_seconds, dispatch_timeout_seconds = new.dispatch_timeout_seconds, max_retries = new.max_retries,
           concurrency = new.concurrency, parameters = new.parameters, pinned_worker = new.pinned_worker,
           original_execution = new.original_execution, retry_count = new.retry_count, retry_reason = new.retry_reason, parent = new.parent,
           has_children = new.has_children, cancel_requested_at = new.cancel_requested_at, cancel_requested_by = new.cancel_requested_by,
           idempotency_key = new.idempotency_key, created = new.created, own_limits = new.own_limits, submitted_by = new.submitted_by,
           settling_at = new.settling_at, result = new.result, failure_reason = new.failure_reason, ended = new.ended,
           orchestrated_at = new.orchestrated_at, written_by = new.written_by, written_incarnation = new.written_incarnation,
           written_epoch = new.written_epoch, written_reason = new.written_reason, written_actor = new.written_actor,
           epoch = case when ends then new.epoch else 0 end, dispatches = case when ends then new.dispatches else 0 end,
           status = case when ends then new.status end, worker = case when ends then new.worker end,
           incarnation = case when ends then new.incarnation end, avoid_worker = case when ends then new.avoid_worker end,
           dispatch_deadline = case when ends then new.dispatch_deadline end, run_deadline = case when ends then new.run_deadline end,
           retry_at = case when ends then new.retry_at end, due_at = case when ends then new.due_at end,
           unschedulable_since = case when ends then new.unschedulable_since end, scheduling_at = case when ends then new.scheduling_at end,
           scheduling_by = case when ends then new.scheduling_by end,
           scheduling_expires_at = case when ends then new.scheduling_expires_at end,
           scheduled_at = case when ends then new.scheduled_at end, published_at = case when ends then new.published_at end,
           started_at = case when ends then new.started_at end, claim_beat = case when ends then new.claim_beat end,
           canceling_at = case when ends then new.canceling_at end
     where id = new.id;
    return new;
end
$$;
-- +goose StatementEnd
