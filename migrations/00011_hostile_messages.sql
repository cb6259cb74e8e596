-- +goose Up

-- How long the body of a dead letter was, as whoever stores it keeps only its beginning; null for one that was stored
-- before. Whoever can publish a message decides how long it is, so the database refuses what is longer, too.
alter table dead_letter add column body_bytes bigint;
-- Not validated: bodies that were stored before may be longer, and the scan would lock the table. They have no length,
-- and neither have those that an executor of the version before stores, so that both can run beside each other.
alter table dead_letter add constraint dead_letter_body_cut check (body_bytes is null or octet_length(body) <= 16384) not valid;

-- A worker ends an execution as cancelled only where somebody has asked for that, which the row says by being canceling.
-- A message that asks for it proves nothing: anybody who can publish can send one.
drop trigger execution_lawful on execution;
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
    when 'running' then new.status in ('completed', 'failed', 'timeout') and new.written_by = 'worker'
                     or new.status in ('abandoned', 'failed') and new.written_by in ('reconciler', 'execution_timeout_monitor')
                     or new.status = 'timeout' and new.written_by = 'execution_timeout_monitor'
                     or new.status = 'canceling' and new.written_by = 'api'
    when 'canceling' then new.status in ('completed', 'failed', 'timeout', 'cancelled') and new.written_by = 'worker'
                       or new.status = 'cancelled' and new.written_by in ('reconciler', 'execution_timeout_monitor')
end, false))
execute function refuse_transition();

-- +goose Down

drop trigger execution_lawful on execution;
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

alter table dead_letter drop constraint dead_letter_body_cut;
alter table dead_letter drop column body_bytes;
