-- +goose Up

-- needs: 13
-- Programs of before delete nothing, and read what is left as any other rows.

-- What is kept and its audit leave in bounded steps. A chain leaves only when no chain has it as its parent, and a worker when
-- no incarnation has it any more. Both columns are written once, at the creation, so the end of an execution writes no more than before.
-- The index for chains is built by the next migration, beside work.
create index worker_incarnation_worker on worker_incarnation (worker, incarnation);
-- For the foreign key: an incarnation that leaves must be nobody's latest.
create index worker_latest on worker (incarnation);
-- These lead the purge and nothing else: an index of the column itself would also be one that the planner may take for the
-- expiries of a single incarnation, and then it reads all others.
create index worker_expiry_age on worker_expiry ((at at time zone 'utc'));
create index refused_result_age on refused_result ((received_at at time zone 'utc'));
create index execution_work_pinned on execution_work (lane_worker) where lane_worker > 0;

-- Up to which place the audit was deleted, which a reader of the changes must know, and when the last of it was written. One
-- row, of zeros as long as nothing was deleted.
create table execution_transition_gone (
    only_row    boolean primary key default true check (only_row),
    transaction xid8 not null default '0',
    id          bigint not null default 0,
    at          timestamptz
);
insert into execution_transition_gone default values;

-- +goose Down

drop table execution_transition_gone;
drop index execution_work_pinned;
drop index refused_result_age;
drop index worker_expiry_age;
drop index worker_latest;
drop index worker_incarnation_worker;
drop index if exists execution_record_children;
