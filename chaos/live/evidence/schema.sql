-- These triggers record the changes of the rows that matter, in the transaction that makes them. The daemons do not
-- know of them, and can only affect the records through the rows themselves. The writer is the session's
-- application_name, which is in the address that each daemon gets.
create table chaos_evidence (
    id      bigserial primary key,
    tx      bigint not null default txid_current(),
    at      timestamptz not null,
    process text not null,
    source  text not null,
    was     jsonb,
    became  jsonb not null
);

create function chaos_witness() returns trigger
language plpgsql as $$
declare
    was jsonb;
    became jsonb := to_jsonb(new) - 'parameters' - 'result' - 'body' - 'entrypoint';
begin
    if tg_op = 'UPDATE' then
        was := to_jsonb(old) - 'parameters' - 'result' - 'body' - 'entrypoint';
    end if;
    if tg_table_name = 'worker_incarnation' then
        became := became || jsonb_build_object('name', (select w.name from worker w where w.id = new.worker));
    elsif tg_table_name = 'concurrency_slot' then
        became := became || jsonb_build_object('action_ref', (select a.ref from action a where a.id = new.action));
    end if;
    insert into chaos_evidence (at, process, source, was, became)
    values (clock_timestamp(), current_setting('application_name'), tg_table_name, was, became);
    return null;
end
$$;

-- An execution is in two tables, and a statement changes one of them or both. Its new state is read when the statement is over.
-- Its old state is the same except for the columns that the trigger saw change. The deletion of its work records its end.
create function chaos_witness_execution() returns trigger
language plpgsql as $$
declare
    was jsonb;
    became jsonb;
    row_id bigint := case when tg_op = 'DELETE' then old.id else new.id end;
begin
    select to_jsonb(e) - 'parameters' - 'result' - 'entrypoint'
           || jsonb_build_object('error', concat_ws(': ', e.result ->> 'error', e.result ->> 'message')) into became
      from execution e where e.id = row_id;
    if became is null then
        return null;
    end if;
    if tg_op = 'DELETE' then
        was := became || to_jsonb(old) || '{"ended": null, "orchestrated_at": null, "failure_reason": null}';
    elsif tg_table_name = 'execution_record' then
        was := became || jsonb_build_object('orchestrated_at', old.orchestrated_at, 'cancel_requested_at', old.cancel_requested_at);
    elsif tg_op = 'UPDATE' then
        was := became || to_jsonb(old);
    end if;
    insert into chaos_evidence (at, process, source, was, became)
    values (clock_timestamp(), current_setting('application_name'), 'execution', was, became);
    return null;
end
$$;

create trigger chaos_created after insert on execution_work for each row execute function chaos_witness_execution();
create trigger chaos_changed after update on execution_work for each row
when (old.status <> new.status or old.published_at is distinct from new.published_at or old.awaits_parent <> new.awaits_parent)
execute function chaos_witness_execution();
create trigger chaos_ended after delete on execution_work for each row execute function chaos_witness_execution();
create trigger chaos_marked after update on execution_record for each row
when (old.status is not distinct from new.status
      and (old.orchestrated_at is distinct from new.orchestrated_at or old.cancel_requested_at is distinct from new.cancel_requested_at))
execute function chaos_witness_execution();
create trigger chaos_registered after insert on worker_incarnation for each row execute function chaos_witness();
create trigger chaos_lived after update on worker_incarnation for each row
when (old.lifecycle <> new.lifecycle or old.beat <> new.beat)
execute function chaos_witness();
create trigger chaos_cordoned after update on worker for each row
when (old.cordoned_at is distinct from new.cordoned_at)
execute function chaos_witness();
create trigger chaos_refused after insert on refused_result for each row execute function chaos_witness();
create trigger chaos_slot after update on concurrency_slot for each row
when (old.execution is distinct from new.execution)
execute function chaos_witness();
create trigger chaos_dead after insert on dead_letter for each row execute function chaos_witness();
create trigger chaos_observed after insert on observation for each row execute function chaos_witness();
create trigger chaos_outage_over after update on observation for each row
when (old.ended_at is distinct from new.ended_at)
execute function chaos_witness();
