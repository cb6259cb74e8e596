-- +goose Up

-- Set on the first row of a chain whose end was handled while children may still wait to be started or skipped, which
-- is done in bounded batches: the moment of the last batch, or of the handling. Null when no child waits.
--
-- It is stored because a search would have no bound. The chain's last row tells whether its end was handled, and the
-- child's row tells that it waits: a search would have to walk over the waiting children of all
-- parents, most of which are still running. The index holds only the chains with children to settle now.
alter table execution add column settling_at timestamptz;
-- Not validated: the column is null in every existing row, and the scan would lock the table.
alter table execution add constraint settling_after_end check (settling_at is null or orchestrated_at is not null) not valid;

create index execution_settling on execution (settling_at, id) where settling_at is not null;

-- +goose Down

drop index execution_settling;
alter table execution drop constraint settling_after_end;
alter table execution drop column settling_at;
