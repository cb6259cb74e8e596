-- +goose Up

-- needs: 11
-- Programs that know no requested → scheduled write none, and read such a row, and its audit, as any other.

-- An execution against which nothing speaks is claimed for scheduling and dispatched by one update. A row is written once
-- by a statement, so what it passes through can't be seen in the table: the law admits the pair of transitions as a whole,
-- where the row says that both were made, at one moment and by one executor, and the audit tells of both.
drop trigger execution_lawful on execution;
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

-- As in 00010, with a line for each of the two transitions that such a row has made. step is 0 for the first of two, 1 for
-- every other. A list of values is no join, so that no plan depends on it.
-- +goose StatementBegin
create or replace function audit_transition() returns trigger
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

-- +goose Down

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
