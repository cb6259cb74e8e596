-- +goose Up

-- Who asked: the name of the token with which a request came to the API. Null where no token was needed, and for whatever
-- executors and workers do by themselves.
-- Who created the execution; retries have the name of the first row.
alter table execution add column submitted_by text;
-- Who asked for the cancellation of the chain; on its first row, with cancel_requested_at.
alter table execution add column cancel_requested_by text;
-- For the audit trigger: who asked for the last change, where it was asked for. Only statements that a request may cause
-- set it, so the trigger looks at it only where such a part wrote: api and dead_letter_handler.
alter table execution add column written_actor text;
alter table execution_transition add column actor text;
alter table dead_letter add column handled_by text;
-- Who cordoned the worker, drained it or lifted the cordon last.
alter table worker add column cordon_changed_by text;
alter table action add column put_by text;

-- As in 00002 and 00003, with the actor. Settings of a function are lost when it is replaced, so they stand here again.
-- +goose StatementBegin
create or replace function audit_creation() returns trigger
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
create or replace function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select n.id, o.status, n.status, n.epoch, o.epoch, n.written_epoch, coalesce(n.worker, o.worker), coalesce(n.incarnation, o.incarnation),
           n.written_by, n.written_incarnation, n.written_reason,
           case when n.written_by in ('api', 'dead_letter_handler') then n.written_actor end
      from new_rows n
      join old_rows o on o.id = n.id
     where n.status <> o.status
     order by n.id;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
create or replace function audit_creation() returns trigger
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
create or replace function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
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

alter table action drop column put_by;
alter table worker drop column cordon_changed_by;
alter table dead_letter drop column handled_by;
alter table execution_transition drop column actor;
alter table execution drop column written_actor;
alter table execution drop column cancel_requested_by;
alter table execution drop column submitted_by;
