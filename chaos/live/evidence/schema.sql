-- What happens to the rows that matter, written in the transaction in which it happens. The daemons know
-- nothing of it, and nothing that they say reaches it but what stands in the row itself; who wrote is the
-- session's application_name, which is in the address that each daemon is given.
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
    if tg_table_name = 'execution' then
        became := became || jsonb_build_object('error', new.result ->> 'error');
    elsif tg_table_name = 'worker_incarnation' then
        became := became || jsonb_build_object('name', (select w.name from worker w where w.id = new.worker));
    elsif tg_table_name = 'concurrency_slot' then
        became := became || jsonb_build_object('action_ref', (select a.ref from action a where a.id = new.action));
    end if;
    insert into chaos_evidence (at, process, source, was, became)
    values (clock_timestamp(), current_setting('application_name'), tg_table_name, was, became);
    return null;
end
$$;

create trigger chaos_created after insert on execution for each row execute function chaos_witness();
create trigger chaos_changed after update on execution for each row
when (old.status <> new.status or old.published_at is distinct from new.published_at
      or old.orchestrated_at is distinct from new.orchestrated_at or old.cancel_requested_at is distinct from new.cancel_requested_at
      or old.awaits_parent <> new.awaits_parent)
execute function chaos_witness();
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
