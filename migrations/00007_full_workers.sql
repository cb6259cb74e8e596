-- +goose Up

-- When every run slot of the incarnation was taken last, as its heartbeats say; null for never. What waited at a worker
-- that has been full since its dispatch waited behind others: that counts for nobody and fails nothing.
alter table worker_incarnation add column full_at timestamptz;

-- +goose Down

alter table worker_incarnation drop column full_at;
