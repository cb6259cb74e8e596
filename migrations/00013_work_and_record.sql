-- +goose Up
-- needs: 13

-- What is kept and what is worked on are two things. An execution has a row for good, which is written when it is created and
-- when it ends; and, for as long as it has not ended, a row of work, which every step touches. The row of work is narrow,
-- and no index of it names a column that a claim, a mark or a request to cancel writes, so those stay on their page and write no
-- index (HOT). The row for good keeps room for its end, and no index of it names a column that an end writes.
--
-- The view named execution shows both as the one row that they are. It can be edited by hand, under the law and the audit.
--
-- Programs that do not know this version can't work with it: they lock and change rows of a table named execution.
alter table execution rename to execution_record;

drop trigger execution_begins on execution_record;
drop trigger execution_terminal on execution_record;
drop trigger execution_lawful on execution_record;
drop trigger execution_audit_creation on execution_record;
drop trigger execution_audit_transition on execution_record;
drop function audit_creation();
drop function audit_transition();
drop function set_execution_audit(boolean);
drop function is_execution_retriable(bigint);
drop function held_by(bigint);
drop function get_worker_queue_depth(bigint);

create table execution_work (
    id                    bigint primary key,

    -- What the lanes of the scheduler need. 0 stands for no limit of concurrency, and for no worker that it is pinned to.
    lane_action           bigint not null,
    lane_worker           bigint not null,
    due_at                timestamptz not null,
    retry_at              timestamptz,
    parent                bigint,
    avoid_worker          bigint,
    unschedulable_since   timestamptz,

    epoch                 bigint not null default 0 constraint execution_epoch_check check (epoch >= 0),
    worker                bigint,
    incarnation           bigint,
    scheduling_at         timestamptz,
    scheduling_expires_at timestamptz,
    scheduled_at          timestamptz,
    published_at          timestamptz,
    dispatch_deadline     timestamptz,
    started_at            timestamptz,
    run_deadline          timestamptz,
    claim_beat            bigint,
    canceling_at          timestamptz,

    -- Who wrote the status last, for the audit: see 00001.
    written_incarnation   bigint,
    written_epoch         bigint not null default 0,
    dispatches            integer not null default 0 check (dispatches >= 0),
    status                execution_status not null default 'requested',
    written_by            part not null,
    written_reason        failure_reason,
    retry_reason          failure_reason,
    awaits_parent         boolean not null generated always as (due_at = 'infinity') stored,
    -- The same as its status, for indexes: a step that leaves it as it is writes none of them.
    waits                 boolean not null generated always as (status = 'requested') stored,
    scheduling_by         text,
    runtime               text not null,
    written_actor         text,

    constraint worker_with_incarnation check ((worker is null) = (incarnation is null)),
    constraint unowned_before_dispatch check (
        status not in ('requested', 'scheduling')
        or incarnation is null and dispatch_deadline is null and scheduled_at is null and started_at is null
    ),
    constraint claimed_for_scheduling check (
        status <> 'scheduling'
        or scheduling_at is not null and scheduling_by is not null and scheduling_expires_at is not null
    ),
    constraint owned_from_dispatch check (
        status not in ('scheduled', 'running', 'canceling')
        or incarnation is not null and epoch > 0 and scheduled_at is not null and dispatch_deadline is not null
    ),
    constraint started_when_claimed check (
        status not in ('running', 'canceling') or started_at is not null and run_deadline is not null and claim_beat is not null
    ),
    constraint canceling_since check (status <> 'canceling' or canceling_at is not null),
    constraint waits_before_scheduling check (status = 'requested' or due_at < 'infinity'),
    constraint waits_for_a_parent check (parent is not null or due_at < 'infinity'),
    constraint work_has_not_ended check (status < 'completed')
) with (
    -- Every row is written three times in a short life. A version can go when its transaction is over, so there has to be room for
    -- two or three of each, or claims leave the page and write every index.
    fillfactor = 30,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Ends that nobody has handled yet. A list of its own, because an index of the permanent rows that holds only those would
-- be one that every end writes.
create table execution_unhandled (
    ended timestamptz not null,
    id    bigint not null,
    primary key (ended, id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

insert into execution_unhandled (ended, id)
select ended, id from execution_record where status >= 'completed' and orchestrated_at is null;

insert into execution_work (
    id, lane_action, lane_worker, due_at, retry_at, parent, avoid_worker, unschedulable_since, epoch, worker, incarnation, scheduling_at,
    scheduling_expires_at, scheduled_at, published_at, dispatch_deadline, started_at, run_deadline, claim_beat, canceling_at,
    written_incarnation, written_epoch, dispatches, status, written_by, written_reason, retry_reason, scheduling_by, runtime, written_actor
)
select id, case when concurrency is null then 0 else action end, coalesce(pinned_worker, 0), due_at, retry_at, parent, avoid_worker,
       unschedulable_since, epoch, worker, incarnation, scheduling_at, scheduling_expires_at, scheduled_at, published_at, dispatch_deadline,
       started_at, run_deadline, claim_beat, canceling_at, written_incarnation, written_epoch, dispatches, status, written_by,
       written_reason, retry_reason, scheduling_by, runtime, written_actor
  from execution_record where status < 'completed';

drop index execution_waiting;
drop index execution_canceling;
drop index execution_claim_expiry;
drop index execution_scheduled;
drop index execution_run_deadline;
drop index execution_held;
drop index execution_unorchestrated;
alter table execution_record
    drop constraint worker_with_incarnation,
    drop constraint unowned_before_dispatch,
    drop constraint claimed_for_scheduling,
    drop constraint owned_from_dispatch,
    drop constraint started_when_claimed,
    drop constraint canceling_since,
    drop constraint waits_before_scheduling,
    drop constraint waits_for_a_parent,
    drop constraint ended_when_terminal,
    drop constraint orchestrated_after_end,
    drop constraint execution_epoch_check,
    drop constraint execution_dispatches_check,
    drop column awaits_parent, -- with execution_children
    alter column status drop not null,
    alter column status drop default,
    alter column due_at drop not null;

-- What has not ended says so by having no status, and nothing else that an end writes. due_at keeps what a creation says.
update execution_record
   set status = null, worker = null, incarnation = null, epoch = 0, dispatches = 0, avoid_worker = null, dispatch_deadline = null,
       run_deadline = null, retry_at = null, due_at = null, unschedulable_since = null, scheduling_at = null, scheduling_by = null,
       scheduling_expires_at = null, scheduled_at = null, published_at = null, started_at = null, claim_beat = null, canceling_at = null
 where status < 'completed';

-- Not validated: every row of before fulfils them, and the scan would lock the table.
alter table execution_record
    add constraint ended_when_terminal check ((ended is not null) = (status is not null) and coalesce(status >= 'completed', true)) not valid,
    add constraint orchestrated_after_end check (orchestrated_at is null or ended is not null) not valid,
    -- Room on the page for the end of each row, which makes it nearly twice as long.
    set (fillfactor = 40);

create index execution_work_lanes on execution_work (lane_action, runtime, lane_worker, due_at, id) where waits;
create index execution_work_children on execution_work (parent, id) where awaits_parent;
create index execution_work_claim_expiry on execution_work (scheduling_expires_at, id) where incarnation is null and scheduling_expires_at is not null;
-- Whatever somebody holds: as many rows as the fleet has room for. The monitors walk it.
create index execution_work_held on execution_work (incarnation, id) where incarnation is not null;

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

-- How many dispatches wait for this worker, at whichever of its incarnations.
create function get_worker_queue_depth(worker_id bigint) returns bigint
language sql stable as $$
    select count(*) from execution_work e where e.incarnation is not null and e.status = 'scheduled' and e.worker = worker_id
$$;

-- As in 00001.
create function held_by(holder bigint) returns bigint
language sql volatile as $$
    select count(*) from execution_work e where e.incarnation = holder
$$;

-- When the end of a chain was asked for, and by whom, as its first row says now: volatile for the same reason.
create function cancel_requested_at(execution_id bigint) returns timestamptz
language sql volatile as $$
    select e.cancel_requested_at from execution_record e where e.id = execution_id
$$;

create function cancel_requested_by(execution_id bigint) returns text
language sql volatile as $$
    select e.cancel_requested_by from execution_record e where e.id = execution_id
$$;

-- As in 00001.
create function is_execution_retriable(execution_id bigint) returns boolean
language sql stable as $$
    select coalesce((
        select e.status in ('failed', 'timeout', 'abandoned')
               and e.failure_reason <= 'connection' and e.retry_count < e.max_retries
          from execution_record e where e.id = execution_id
    ), false)
$$;

-- The law, as in 00002 and 00011. Work begins as requested, and goes only together with the end of its execution, in one
-- statement; which end may follow is asked when the statement is over, of the row for good.
create trigger execution_begins before insert on execution_work for each row
when (new.status <> 'requested' or new.epoch <> 0 or new.written_by not in ('api', 'retry_manager'))
execute function refuse_transition();

create trigger execution_record_begins before insert on execution_record for each row
when (new.status is not null or new.written_by not in ('api', 'retry_manager'))
execute function refuse_transition();

create trigger execution_terminal before update on execution_record for each row
when (old.status is not null and new.status is distinct from old.status)
execute function refuse_transition();

create trigger execution_lawful before update on execution_work for each row
when (new.status <> old.status and not coalesce(case old.status
    when 'requested' then new.status = 'scheduling' and new.written_by = 'scheduler'
                       or new.status = 'scheduled' and new.written_by = 'scheduler' and new.epoch = old.epoch + 1
                          and new.scheduling_by is not null and new.scheduling_at = new.scheduled_at
    when 'scheduling' then new.status = 'requested' and new.written_by in ('scheduler', 'reconciler')
                        or new.status = 'scheduled' and new.written_by = 'scheduler'
    when 'scheduled' then new.status = 'requested'
                          and new.written_by in ('scheduler', 'execution_timeout_monitor', 'dead_letter_handler', 'reconciler', 'worker')
                       or new.status = 'running' and new.written_by = 'worker'
    when 'running' then new.status = 'canceling' and new.written_by = 'api'
end, false))
execute function refuse_transition();

create function may_end("from" execution_status, "to" execution_status, by part) returns boolean
language sql immutable as $$
    select coalesce(case "from"
        when 'requested' then "to" = 'cancelled' and by in ('api', 'execution_manager')
        when 'scheduling' then "to" = 'failed' and by = 'scheduler' or "to" = 'cancelled' and by = 'api'
        when 'scheduled' then "to" = 'failed' and by in ('scheduler', 'execution_timeout_monitor', 'dead_letter_handler', 'reconciler')
                           or "to" = 'cancelled' and by = 'api'
        when 'running' then "to" in ('completed', 'failed', 'timeout') and by = 'worker'
                         or "to" in ('abandoned', 'failed') and by in ('reconciler', 'execution_timeout_monitor')
                         or "to" = 'timeout' and by = 'execution_timeout_monitor'
        when 'canceling' then "to" in ('completed', 'failed', 'timeout', 'cancelled') and by = 'worker'
                           or "to" = 'cancelled' and by in ('reconciler', 'execution_timeout_monitor')
    end, false)
$$;

-- Deleting an execution as a whole is no end, and is left to whoever may delete.
--
-- A session plans these functions' statements once, whatever size the tables have then. So the other table is restricted to the
-- ids of the batch before it is joined, and joined by a hash: nothing is read from end to end, or compared each with each.
-- +goose StatementBegin
create function refuse_end() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    bad record;
begin
    select g.id, g.status as was, r.status, r.written_by into bad
      from gone g join execution_record r on r.id = g.id
     where r.id = any(array(select id from gone)) and (r.status is null or not may_end(g.status, r.status, r.written_by))
     limit 1;
    if not found then
        return null;
    end if;
    if bad.status is null then
        raise exception 'the work of execution % may only go together with its end, in one statement: change the view execution', bad.id
            using errcode = 'check_violation', constraint = 'execution_work_ends';
    end if;
    raise exception 'execution % may not go from % to % by %', bad.id, bad.was, bad.status, bad.written_by
        using errcode = 'check_violation', constraint = 'execution_transition_lawful';
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function refuse_unfinished() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off as $$
declare
    unfinished bigint;
begin
    select w.id into unfinished from execution_work w where w.id = any(array(select n.id from ended n where n.status is not null)) limit 1;
    if found then
        raise exception 'execution % may only end together with its work, in one statement: change the view execution', unfinished
            using errcode = 'check_violation', constraint = 'execution_work_ends';
    end if;
    return null;
end
$$;
-- +goose StatementEnd

create trigger execution_work_ends after delete on execution_work
referencing old table as gone
for each statement execute function refuse_end();

create trigger execution_ends after update on execution_record
referencing new table as ended
for each statement execute function refuse_unfinished();

-- The audit, as in 00010 and 00012. An end is written when the work goes.
-- +goose StatementBegin
create function audit_creation() returns trigger
language plpgsql as $$
begin
    insert into execution_transition (execution, "to", epoch, old_epoch, named_epoch, writer, reason, actor)
    select n.id, n.status, n.epoch, n.epoch, n.epoch, n.written_by, n.retry_reason,
           case when n.written_by = 'api' then n.written_actor end
      from new_rows n
     order by n.id;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select x.id,
           case when x.both and x.step = 1 then 'scheduling' else x.old_status end,
           case when x.step = 0 then 'scheduling' else x.status end,
           case when x.step = 0 then x.old_epoch else x.epoch end,
           x.old_epoch, x.written_epoch,
           case when x.step = 1 then x.worker end, case when x.step = 1 then x.incarnation end,
           x.written_by, x.written_incarnation, x.written_reason,
           case when x.written_by in ('api', 'dead_letter_handler') then x.written_actor end
      from (
        select n.id, o.status as old_status, n.status, n.epoch, o.epoch as old_epoch, n.written_epoch,
               coalesce(n.worker, o.worker) as worker, coalesce(n.incarnation, o.incarnation) as incarnation,
               n.written_by, n.written_incarnation, n.written_reason, n.written_actor,
               o.status = 'requested' and n.status = 'scheduled' as both,
               generate_series(case when o.status = 'requested' and n.status = 'scheduled' then 0 else 1 end, 1) as step
          from new_rows n
          join old_rows o on o.id = n.id
         where n.status <> o.status
      ) x
     order by x.id, x.step;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function audit_end() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select g.id, g.status, r.status, r.epoch, g.epoch, r.written_epoch, r.worker, r.incarnation,
           r.written_by, r.written_incarnation, r.written_reason,
           case when r.written_by in ('api', 'dead_letter_handler') then r.written_actor end
      from gone g
      join execution_record r on r.id = g.id
     where r.id = any(array(select id from gone)) and r.status is not null
     order by g.id;
    return null;
end
$$;
-- +goose StatementEnd

create trigger execution_audit_creation after insert on execution_work
referencing new table as new_rows
for each statement execute function audit_creation();

create trigger execution_audit_transition after update on execution_work
referencing old table as old_rows new table as new_rows
for each statement execute function audit_transition();

create trigger execution_audit_end after delete on execution_work
referencing old table as gone
for each statement execute function audit_end();

-- Turns the audit on or off, for everybody.
-- +goose StatementBegin
create function set_execution_audit(enabled boolean) returns void
language plpgsql as $$
begin
    if enabled then
        alter table execution_work enable trigger execution_audit_creation, enable trigger execution_audit_transition, enable trigger execution_audit_end;
    else
        alter table execution_work disable trigger execution_audit_creation, disable trigger execution_audit_transition, disable trigger execution_audit_end;
    end if;
end
$$;
-- +goose StatementEnd

-- By hand the view is changed, row by row. What it may not say is refused by the tables. Rows are found by their ids, whatever
-- size the tables had when the session planned that first.
-- +goose StatementBegin
create function edit_execution() returns trigger
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

create trigger execution_by_hand instead of insert or update or delete on execution for each row execute function edit_execution();

-- +goose Down

drop view execution;
drop function edit_execution();
drop function set_execution_audit(boolean);
drop trigger execution_ends on execution_record;
drop trigger execution_terminal on execution_record;
drop trigger execution_record_begins on execution_record;
drop function is_execution_retriable(bigint);
drop function cancel_requested_by(bigint);
drop function cancel_requested_at(bigint);
drop function held_by(bigint);
drop function get_worker_queue_depth(bigint);
alter table execution_record rename to execution;
alter table execution drop constraint ended_when_terminal, drop constraint orchestrated_after_end, set (fillfactor = 70);

update execution r
   set due_at = w.due_at, retry_at = w.retry_at, avoid_worker = w.avoid_worker, unschedulable_since = w.unschedulable_since, epoch = w.epoch,
       worker = w.worker, incarnation = w.incarnation, scheduling_at = w.scheduling_at, scheduling_expires_at = w.scheduling_expires_at,
       scheduled_at = w.scheduled_at, published_at = w.published_at, dispatch_deadline = w.dispatch_deadline, started_at = w.started_at,
       run_deadline = w.run_deadline, claim_beat = w.claim_beat, canceling_at = w.canceling_at, written_incarnation = w.written_incarnation,
       written_epoch = w.written_epoch, dispatches = w.dispatches, status = w.status, written_by = w.written_by,
       written_reason = w.written_reason, scheduling_by = w.scheduling_by, written_actor = w.written_actor
  from execution_work w
 where w.id = r.id;

-- Nothing is lost with these: what stood there stands in execution now. Written as one block, so that nobody is told it were lost.
-- +goose StatementBegin
do $$ begin
    drop table execution_unhandled;
    drop table execution_work;
end $$;
-- +goose StatementEnd
drop function audit_end();
drop function audit_transition();
drop function audit_creation();
drop function refuse_unfinished();
drop function refuse_end();
drop function may_end(execution_status, execution_status, part);

alter table execution
    alter column due_at set not null,
    alter column status set default 'requested',
    alter column status set not null,
    add column awaits_parent boolean not null generated always as (due_at = 'infinity') stored,
    add constraint worker_with_incarnation check ((worker is null) = (incarnation is null)),
    add constraint unowned_before_dispatch check (
        status not in ('requested', 'scheduling')
        or incarnation is null and dispatch_deadline is null and scheduled_at is null and started_at is null
    ),
    add constraint claimed_for_scheduling check (
        status <> 'scheduling'
        or scheduling_at is not null and scheduling_by is not null and scheduling_expires_at is not null
    ),
    add constraint owned_from_dispatch check (
        status not in ('scheduled', 'running', 'canceling')
        or incarnation is not null and epoch > 0 and scheduled_at is not null and dispatch_deadline is not null
    ),
    add constraint started_when_claimed check (
        status not in ('running', 'canceling') or started_at is not null and run_deadline is not null and claim_beat is not null
    ),
    add constraint canceling_since check (status <> 'canceling' or canceling_at is not null),
    add constraint waits_before_scheduling check (status = 'requested' or due_at < 'infinity'),
    add constraint waits_for_a_parent check (parent is not null or due_at < 'infinity'),
    add constraint ended_when_terminal check ((ended is not null) = (status >= 'completed')),
    add constraint orchestrated_after_end check (orchestrated_at is null or ended is not null),
    add constraint execution_epoch_check check (epoch >= 0),
    add constraint execution_dispatches_check check (dispatches >= 0);

create index execution_children on execution (parent, id) where status = 'requested' and awaits_parent;
create index execution_canceling on execution (canceling_at, id) where status = 'canceling';
create index execution_claim_expiry on execution (scheduling_expires_at, id) where status = 'scheduling';
create index execution_scheduled on execution (scheduled_at, id) where status = 'scheduled';
create index execution_run_deadline on execution (run_deadline, id) where status in ('running', 'canceling');
create index execution_held on execution (incarnation, id) where status in ('scheduled', 'running', 'canceling');
create index execution_unorchestrated on execution (ended, id) where status >= 'completed' and orchestrated_at is null;
create index execution_waiting on execution
    ((case when concurrency is null then 0 else action end), runtime, (coalesce(pinned_worker, 0)), due_at, id)
    where status = 'requested';

-- +goose StatementBegin
create function get_worker_queue_depth(worker_id bigint) returns bigint
language sql stable as $$
    select count(*) from execution e where e.status = 'scheduled' and e.worker = worker_id
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function held_by(holder bigint) returns bigint
language sql volatile as $$
    select count(*) from execution e where e.incarnation = holder and e.status in ('scheduled', 'running', 'canceling')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function is_execution_retriable(execution_id bigint) returns boolean
language sql stable as $$
    select coalesce((
        select e.status in ('failed', 'timeout', 'abandoned')
               and e.failure_reason <= 'connection' and e.retry_count < e.max_retries
          from execution e where e.id = execution_id
    ), false)
$$;
-- +goose StatementEnd

create trigger execution_begins before insert on execution for each row
when (new.status <> 'requested' or new.epoch <> 0 or new.written_by not in ('api', 'retry_manager'))
execute function refuse_transition();

create trigger execution_terminal before update on execution for each row
when (old.status >= 'completed' and new.status <> old.status)
execute function refuse_transition();

create trigger execution_lawful before update on execution for each row
when (old.status < 'completed' and new.status <> old.status and not coalesce(case old.status
    when 'requested' then new.status = 'scheduling' and new.written_by = 'scheduler'
                       or new.status = 'scheduled' and new.written_by = 'scheduler' and new.epoch = old.epoch + 1
                          and new.scheduling_by is not null and new.scheduling_at = new.scheduled_at
                       or new.status = 'cancelled' and new.written_by in ('api', 'execution_manager')
    when 'scheduling' then new.status in ('requested', 'scheduled', 'failed') and new.written_by = 'scheduler'
                        or new.status = 'requested' and new.written_by = 'reconciler'
                        or new.status = 'cancelled' and new.written_by = 'api'
    when 'scheduled' then new.status in ('requested', 'failed')
                          and new.written_by in ('scheduler', 'execution_timeout_monitor', 'dead_letter_handler', 'reconciler')
                       or new.status in ('requested', 'running') and new.written_by = 'worker'
                       or new.status = 'cancelled' and new.written_by = 'api'
    when 'running' then new.status in ('completed', 'failed', 'timeout') and new.written_by = 'worker'
                     or new.status in ('abandoned', 'failed') and new.written_by in ('reconciler', 'execution_timeout_monitor')
                     or new.status = 'timeout' and new.written_by = 'execution_timeout_monitor'
                     or new.status = 'canceling' and new.written_by = 'api'
    when 'canceling' then new.status in ('completed', 'failed', 'timeout', 'cancelled') and new.written_by = 'worker'
                       or new.status = 'cancelled' and new.written_by in ('reconciler', 'execution_timeout_monitor')
end, false))
execute function refuse_transition();

-- +goose StatementBegin
create function audit_creation() returns trigger
language plpgsql as $$
begin
    insert into execution_transition (execution, "to", epoch, old_epoch, named_epoch, writer, reason, actor)
    select n.id, n.status, n.epoch, n.epoch, n.epoch, n.written_by, n.retry_reason,
           case when n.written_by = 'api' then n.submitted_by end
      from new_rows n
     order by n.id;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select x.id,
           case when x.both and x.step = 1 then 'scheduling' else x.old_status end,
           case when x.step = 0 then 'scheduling' else x.status end,
           case when x.step = 0 then x.old_epoch else x.epoch end,
           x.old_epoch, x.written_epoch,
           case when x.step = 1 then x.worker end, case when x.step = 1 then x.incarnation end,
           x.written_by, x.written_incarnation, x.written_reason,
           case when x.written_by in ('api', 'dead_letter_handler') then x.written_actor end
      from (
        select n.id, o.status as old_status, n.status, n.epoch, o.epoch as old_epoch, n.written_epoch,
               coalesce(n.worker, o.worker) as worker, coalesce(n.incarnation, o.incarnation) as incarnation,
               n.written_by, n.written_incarnation, n.written_reason, n.written_actor,
               o.status = 'requested' and n.status = 'scheduled' as both,
               generate_series(case when o.status = 'requested' and n.status = 'scheduled' then 0 else 1 end, 1) as step
          from new_rows n
          join old_rows o on o.id = n.id
         where n.status <> o.status
      ) x
     order by x.id, x.step;
    return null;
end
$$;
-- +goose StatementEnd

create trigger execution_audit_creation after insert on execution
referencing new table as new_rows
for each statement execute function audit_creation();

create trigger execution_audit_transition after update on execution
referencing old table as old_rows new table as new_rows
for each statement execute function audit_transition();

-- +goose StatementBegin
create function set_execution_audit(enabled boolean) returns void
language plpgsql as $$
begin
    if enabled then
        alter table execution enable trigger execution_audit_creation, enable trigger execution_audit_transition;
    else
        alter table execution disable trigger execution_audit_creation, disable trigger execution_audit_transition;
    end if;
end
$$;
-- +goose StatementEnd
