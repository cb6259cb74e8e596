-- +goose Up

-- The last moment at which every run slot of the incarnation was taken, as its heartbeats say; null for never. A dispatch
-- during or before that moment waited behind other runs: it counts for nobody and fails nothing.
alter table worker_incarnation add column full_at timestamptz;

-- +goose Down

alter table worker_incarnation drop column full_at;
