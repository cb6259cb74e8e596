-- +goose NO TRANSACTION
-- +goose Up

-- needs: 13
-- The incarnation after whose end the worker's queues were deleted; null while they may be there. If it is the latest one,
-- nobody has to think of the worker until it registers again, so the passes of the executors read by this index, which has only
-- the others. Without it each pass reads every name that was ever seen, such as that of each pod.
alter table worker add column queues_deleted_after bigint;
create index concurrently if not exists worker_in_use on worker (id) where queues_deleted_after is distinct from incarnation;

-- +goose Down

drop index concurrently if exists worker_in_use;
alter table worker drop column queues_deleted_after;
