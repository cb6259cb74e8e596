-- +goose NO TRANSACTION
-- +goose Up

-- needs: 13
-- Retention looks for the children of a chain before the chain leaves. Building this index in a transaction would hold up every
-- write to the largest table for as long as it takes. A database that got it from an earlier 00016 keeps it.
create index concurrently if not exists execution_record_children on execution_record (parent, id) where parent is not null;

-- +goose Down

drop index concurrently if exists execution_record_children;
