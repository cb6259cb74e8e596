-- +goose Up

-- needs: 13
-- Earlier programs write to the tables and not through the view, and they never lower an epoch.

-- An edit by hand reads a row and writes it a moment later. If the edit has many rows, that moment is as long as its statement.
-- So this trigger runs before execution_by_hand (triggers of a view run in the order of their names, and each gets the row that
-- the one before returned). It locks the row as the programs do, first the work and then the record. It then applies the columns
-- that the edit has changed to the row as it is now.
-- +goose StatementBegin
create function merge_edit() returns trigger
language plpgsql set enable_seqscan = off as $$
declare
    latest execution;
begin
    perform from execution_work where id = old.id for update;
    perform from execution_record where id = old.id for update;
    select * into latest from execution where id = old.id;
    if not found then
        return null; -- it has been deleted in the meantime
    end if;
    delete from execution_unhandled where ended = latest.ended and id = old.id;
    if tg_op = 'DELETE' then
        return old;
    end if;
    -- A conversion to jsonb would change the text of these two.
    if new.result::text is distinct from old.result::text then
        latest.result := new.result;
    end if;
    if new.parameters::text is distinct from old.parameters::text then
        latest.parameters := new.parameters;
    end if;
    return jsonb_populate_record(latest, coalesce((
        select jsonb_object_agg(n.key, n.value)
          from jsonb_each(to_jsonb(new) - 'result' - 'parameters') n join jsonb_each(to_jsonb(old)) o on o.key = n.key
         where n.value is distinct from o.value), '{}'));
end
$$;
-- +goose StatementEnd

create trigger execution_a_merge instead of update or delete on execution for each row execute function merge_edit();

-- The epoch distinguishes a late answer from a current one. It never falls, whoever writes.
-- +goose StatementBegin
create function refuse_epoch() returns trigger
language plpgsql as $$
begin
    raise exception 'the epoch of execution % is %, and can not fall to %', old.id, old.epoch, new.epoch using errcode = 'check_violation';
end
$$;
-- +goose StatementEnd

create trigger execution_epoch before update on execution_work for each row when (new.epoch < old.epoch and new.epoch >= 0) execute function refuse_epoch();

-- +goose Down

drop trigger execution_epoch on execution_work;
drop function refuse_epoch();
drop trigger execution_a_merge on execution;
drop function merge_edit();
