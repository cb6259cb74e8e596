-- +goose Up

-- The law: which status may follow which, and by whose hand. It is the table of
-- core/execution.Transitions, and a test compares the two. The condition stands in the trigger
-- itself, where it costs a few comparisons; the function is only called to refuse.
-- +goose StatementBegin
create function refuse_transition() returns trigger
language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        raise exception 'an execution begins as requested at epoch 0, not as % at %', new.status, new.epoch
            using errcode = 'check_violation', constraint = 'execution_begins_requested';
    end if;
    if old.status >= 'completed' then
        raise exception 'execution % is % and can not become %', old.id, old.status, new.status
            using errcode = 'check_violation', constraint = 'execution_terminal_is_final';
    end if;
    raise exception 'execution % may not go from % to % by %', old.id, old.status, new.status, new.written_by
        using errcode = 'check_violation', constraint = 'execution_transition_lawful';
end
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
                       or new.status = 'cancelled' and new.written_by in ('api', 'execution_manager')
    when 'scheduling' then new.status in ('requested', 'scheduled', 'failed') and new.written_by = 'scheduler'
                        or new.status = 'requested' and new.written_by = 'reconciler'
                        or new.status = 'cancelled' and new.written_by = 'api'
    when 'scheduled' then new.status in ('requested', 'failed')
                          and new.written_by in ('scheduler', 'execution_timeout_monitor', 'dead_letter_handler', 'reconciler')
                       or new.status in ('requested', 'running') and new.written_by = 'worker'
                       or new.status = 'cancelled' and new.written_by = 'api'
    when 'running' then new.status in ('completed', 'failed', 'timeout', 'cancelled') and new.written_by = 'worker'
                     or new.status in ('abandoned', 'failed') and new.written_by in ('reconciler', 'execution_timeout_monitor')
                     or new.status = 'timeout' and new.written_by = 'execution_timeout_monitor'
                     or new.status = 'canceling' and new.written_by = 'api'
    when 'canceling' then new.status in ('completed', 'failed', 'timeout', 'cancelled') and new.written_by = 'worker'
                       or new.status = 'cancelled' and new.written_by in ('reconciler', 'execution_timeout_monitor')
end, false))
execute function refuse_transition();

-- The audit: every change of status, written in the transaction that made it.
--
-- Numbers are drawn before their transactions commit, so who reads by id alone passes over what commits late. The
-- stream of changes reads in the order of transaction and id, up to the oldest transaction that still goes on: below
-- it nothing can appear any more. Numbers of transactions belong to one server: rows that a dump brings to another
-- one are told as old once they are marked so (update execution_transition set transaction = '3').
create table execution_transition (
    id                 bigint generated always as identity,
    transaction        xid8 not null default pg_current_xact_id(),
    execution          bigint not null,
    "from"             execution_status,
    "to"               execution_status not null,
    epoch              bigint not null,
    old_epoch          bigint not null,
    named_epoch        bigint not null,
    worker             bigint,
    incarnation        bigint,
    writer             part not null,
    writer_incarnation bigint,
    reason             failure_reason,
    at                 timestamptz not null default clock_timestamp(),
    primary key (transaction, id)
);

create index execution_transition_execution on execution_transition (execution, id);

-- Once a statement and not once a row: for a batch it is one insert. The worker that the audit
-- names is the owner before a take-back, and else the owner after. The store turns hash joins off
-- for its statements; here one is wanted, two lists of one batch meet.
-- +goose StatementBegin
create function audit_creation() returns trigger
language plpgsql as $$
begin
    insert into execution_transition (execution, "to", epoch, old_epoch, named_epoch, writer, reason)
    select n.id, n.status, n.epoch, n.epoch, n.epoch, n.written_by, n.retry_reason
      from new_rows n
     order by n.id;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason
    )
    select n.id, o.status, n.status, n.epoch, o.epoch, n.written_epoch, coalesce(n.worker, o.worker), coalesce(n.incarnation, o.incarnation),
           n.written_by, n.written_incarnation, n.written_reason
      from new_rows n
      join old_rows o on o.id = n.id
     where n.status <> o.status
     order by n.id;
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

-- Turns the audit on or off, for everybody.
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

-- +goose Down

drop function set_execution_audit(boolean);
drop trigger execution_audit_transition on execution;
drop trigger execution_audit_creation on execution;
drop function audit_transition();
drop function audit_creation();
drop table execution_transition;
drop trigger execution_lawful on execution;
drop trigger execution_terminal on execution;
drop trigger execution_begins on execution;
drop function refuse_transition();
