-- +goose NO TRANSACTION
-- +goose Up

-- needs: 13
-- The figures ask since when the oldest execution finds no worker that fits it. Only rows that find none are in the index.
create index concurrently if not exists execution_work_unfit on execution_work (unschedulable_since) where unschedulable_since is not null;

-- +goose Down

drop index concurrently if exists execution_work_unfit;
