-- +goose NO TRANSACTION
-- +goose Up

-- needs: 13
-- While somebody holds an old snapshot, the entries of rows that have left stay in every index. What an incarnation holds was
-- assigned at scheduled_at, so a count can begin where an earlier one found the oldest. The index takes the place of
-- execution_work_held (incarnation, id): an entry is as long, a dispatch and a return write it as before, and no other step
-- does. So an execution writes the same WAL.
create index concurrently if not exists execution_work_holder on execution_work (incarnation, scheduled_at) where incarnation is not null;
drop index concurrently if exists execution_work_held;

-- How many executions an incarnation holds: those that were assigned to it since a moment, and those of older ones that it
-- still holds. Volatile, like held_by.
create or replace function held_since(holder bigint, since timestamptz, older bigint[]) returns bigint
language sql volatile as 'select (select count(*) from execution_work e where e.incarnation = holder and e.scheduled_at >= since)
    + (select count(*) from execution_work e where e.id = any(older) and e.incarnation = holder and e.scheduled_at < since)';

-- +goose Down

drop function if exists held_since(bigint, timestamptz, bigint[]);
create index concurrently if not exists execution_work_held on execution_work (incarnation, id) where incarnation is not null;
drop index concurrently if exists execution_work_holder;
