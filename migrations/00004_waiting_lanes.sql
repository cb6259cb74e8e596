-- +goose Up

-- Requested rows wait in lanes, oldest due first: a lane holds the rows of one runtime that are pinned to one worker (0 for
-- none) and need a slot of one action (0 for actions without a concurrency limit). A claim walks only the lanes from which
-- rows are wanted, so a lane costs the same however many rows wait in it. The first and the third column are
-- expressions, so that "none" compares like any other value; statements must repeat them word for word.
create index execution_waiting on execution
    ((case when concurrency is null then 0 else action end), runtime, (coalesce(pinned_worker, 0)), due_at, id)
    where status = 'requested';
drop index execution_due;
drop index execution_due_limited;

-- Statements that count or check held slots read no free ones.
create index concurrency_slot_taken on concurrency_slot (action, number) where execution is not null;

-- +goose Down

drop index concurrency_slot_taken;
create index execution_due on execution (runtime, due_at, id) where status = 'requested' and concurrency is null;
create index execution_due_limited on execution (action, due_at, id) where status = 'requested' and concurrency is not null;
drop index execution_waiting;
