-- +goose Up

-- On the first row of a chain whose end was handled: its children may still wait to be started or skipped, which
-- is done in bounded batches; the moment is that of the last batch, or of the handling. Null when none waits.
--
-- It is stored because it can't be derived at a bounded price. Whether a chain's end was handled stands on its
-- last row, and that a child waits stands on the child: a search would have to walk over the waiting
-- children of all parents, most of which are still running. The index holds only what is to be done now.
alter table execution add column settling_at timestamptz;
-- Not validated: the column is null in every row that is there, and a scan would keep everybody out.
alter table execution add constraint settling_after_end check (settling_at is null or orchestrated_at is not null) not valid;

create index execution_settling on execution (settling_at, id) where settling_at is not null;

-- +goose Down

drop index execution_settling;
alter table execution drop constraint settling_after_end;
alter table execution drop column settling_at;
