-- +goose Up

-- What waits to be scheduled stands in lanes: the rows of one runtime that are pinned to one worker (0 for none) and need
-- a slot of one action (0 for those without a limit of concurrency), each lane oldest due first. A claim walks only the
-- lanes of which something is wanted, so that a lane costs the same however many rows wait in it. The first column and
-- the third are expressions, so that "none" compares like any other value; statements repeat them word by word.
create index execution_waiting on execution
    ((case when concurrency is null then 0 else action end), runtime, (coalesce(pinned_worker, 0)), due_at, id)
    where status = 'requested';
drop index execution_due;
drop index execution_due_limited;

-- Who counts or checks the slots that are held passes over no free ones.
create index concurrency_slot_taken on concurrency_slot (action, number) where execution is not null;

-- +goose Down

drop index concurrency_slot_taken;
create index execution_due on execution (runtime, due_at, id) where status = 'requested' and concurrency is null;
create index execution_due_limited on execution (action, due_at, id) where status = 'requested' and concurrency is not null;
drop index execution_waiting;
