-- +goose Up

-- needs: 13
-- Programs of before read the view execution_transition, which shows what the table of that name showed.

-- The transitions of one statement are mostly alike: the same step, by the same part, at the same moment. So the audit
-- stores what is alike once, with the executions that it is about: a row for each kind of transition that a statement made among 64
-- neighbouring executions. Rows of before are about one execution, and stay as they are.
--
-- A transition has a number: that of its group, and the place of its execution in it. Numbers of groups are 64 apart.
alter table execution_transition rename to transition_group;
alter table transition_group rename constraint execution_transition_pkey to transition_group_pkey;
alter table transition_group rename column execution to base;
-- Bit n stands for execution base + n. base is a multiple of 64, or the execution of a row of before.
alter table transition_group add column members bigint not null default 1;
-- Not validated: the scan would lock the table.
alter table transition_group add constraint transition_group_members check (members <> 0) not valid;
alter table transition_group alter column id set increment by 64;
alter index execution_transition_execution rename to transition_group_base;

-- The members of a group: their distances from the base, and their places.
create function members_of(members bigint) returns table (distance integer, place integer)
language sql immutable as $$
    select d, bit_count((members & ~(-1::bigint << d))::bit(64))::integer
      from generate_series(0, case members when 1 then 0 else 63 end) d
     where (members >> d) & 1 = 1
$$;

-- Every transition. No index leads to those of one execution, or to the newest: for them there are transitions_of and
-- latest_transitions.
create view execution_transition as
select g.id + m.place as id, g.transaction, g.base + m.distance as execution, g."from", g."to", g.epoch, g.old_epoch, g.named_epoch,
       g.worker, g.incarnation, g.writer, g.writer_incarnation, g.reason, g.at, g.actor
  from transition_group g cross join lateral members_of(g.members) m;

-- The transitions of one execution.
create function transitions_of(of bigint) returns setof execution_transition
language sql stable as $$
    select g.id + bit_count((g.members & ~(-1::bigint << ((of - g.base) & 63)::integer))::bit(64)), g.transaction, of, g."from", g."to", g.epoch,
           g.old_epoch, g.named_epoch, g.worker, g.incarnation, g.writer, g.writer_incarnation, g.reason, g.at, g.actor
      from transition_group g
     where g.base in (of, of & ~63::bigint) and (g.members >> ((of - g.base) & 63)::integer) & 1 = 1
$$;

-- The newest transitions, newest first.
create function latest_transitions(most bigint) returns setof execution_transition
language sql stable as $$
    select g.id + m.place, g.transaction, g.base + m.distance, g."from", g."to", g.epoch, g.old_epoch, g.named_epoch,
           g.worker, g.incarnation, g.writer, g.writer_incarnation, g.reason, g.at, g.actor
      from (select * from transition_group order by transaction desc, id desc limit most) g cross join lateral members_of(g.members) m
     order by g.transaction desc, g.id + m.place desc limit most
$$;

-- As in 00013, for groups. Alike transitions are found by sorting or by hashing; both cost in proportion to the rows.
-- +goose StatementBegin
create or replace function audit_creation() returns trigger
language plpgsql as $$
begin
    insert into transition_group (base, members, "to", epoch, old_epoch, named_epoch, writer, reason, actor)
    select n.id & ~63::bigint, bit_or(1::bigint << (n.id & 63)::integer), n.status, n.epoch, n.epoch, n.epoch, n.written_by, n.retry_reason,
           case when n.written_by = 'api' then n.written_actor end
      from new_rows n
     group by 1, 3, 4, 7, 8, 9
     order by min(n.id);
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    insert into transition_group (
        base, members, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select x.base, x.members,
           case when x.both and step = 1 then 'scheduling' else x.old_status end,
           case when step = 0 then 'scheduling' else x.status end,
           case when step = 0 then x.old_epoch else x.epoch end,
           x.old_epoch, x.written_epoch,
           case when step = 1 then x.worker end, case when step = 1 then x.incarnation end,
           x.written_by, x.written_incarnation, x.written_reason, x.actor
      from (
        select g.*, g.old_status = 'requested' and g.status = 'scheduled' as both,
               generate_series(case when g.old_status = 'requested' and g.status = 'scheduled' then 0 else 1 end, 1) as step
          from (
            select n.id & ~63::bigint as base, bit_or(1::bigint << (n.id & 63)::integer) as members, min(n.id) as lowest,
                   o.status as old_status, n.status, n.epoch, o.epoch as old_epoch, n.written_epoch,
                   coalesce(n.worker, o.worker) as worker, coalesce(n.incarnation, o.incarnation) as incarnation,
                   n.written_by, n.written_incarnation, n.written_reason,
                   case when n.written_by in ('api', 'dead_letter_handler') then n.written_actor end as actor
              from new_rows n
              join old_rows o on o.id = n.id
             where n.status <> o.status
             group by 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14
          ) g
      ) x
     order by x.step, x.lowest;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function audit_end() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off as $$
begin
    insert into transition_group (
        base, members, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select g.id & ~63::bigint, bit_or(1::bigint << (g.id & 63)::integer), g.status, r.status, r.epoch, g.epoch, r.written_epoch, r.worker, r.incarnation,
           r.written_by, r.written_incarnation, r.written_reason,
           case when r.written_by in ('api', 'dead_letter_handler') then r.written_actor end
      from gone g
      join execution_record r on r.id = g.id
     where r.id = any(array(select id from gone)) and r.status is not null
     group by 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
     order by min(g.id);
    return null;
end
$$;
-- +goose StatementEnd

-- +goose Down

drop function latest_transitions(bigint);
drop function transitions_of(bigint);
drop view execution_transition;

-- The numbers of transitions stay what they were.
with grouped as (
    delete from transition_group where members <> 1 returning *
)
insert into transition_group (
    id, transaction, base, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, at, actor
) overriding system value
select g.id + m.place, g.transaction, g.base + m.distance, g."from", g."to", g.epoch, g.old_epoch, g.named_epoch, g.worker, g.incarnation,
       g.writer, g.writer_incarnation, g.reason, g.at, g.actor
  from grouped g cross join lateral members_of(g.members) m;

drop function members_of(bigint);
-- The next number is above those of the last group.
select nextval(pg_get_serial_sequence('transition_group', 'id'));
alter table transition_group alter column id set increment by 1, drop column members;
alter table transition_group rename column base to execution;
alter table transition_group rename constraint transition_group_pkey to execution_transition_pkey;
alter index transition_group_base rename to execution_transition_execution;
alter table transition_group rename to execution_transition;

-- +goose StatementBegin
create or replace function audit_creation() returns trigger
language plpgsql as $$
begin
    insert into execution_transition (execution, "to", epoch, old_epoch, named_epoch, writer, reason, actor)
    select n.id, n.status, n.epoch, n.epoch, n.epoch, n.written_by, n.retry_reason,
           case when n.written_by = 'api' then n.written_actor end
      from new_rows n
     order by n.id;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function audit_transition() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select x.id,
           case when x.both and x.step = 1 then 'scheduling' else x.old_status end,
           case when x.step = 0 then 'scheduling' else x.status end,
           case when x.step = 0 then x.old_epoch else x.epoch end,
           x.old_epoch, x.written_epoch,
           case when x.step = 1 then x.worker end, case when x.step = 1 then x.incarnation end,
           x.written_by, x.written_incarnation, x.written_reason,
           case when x.written_by in ('api', 'dead_letter_handler') then x.written_actor end
      from (
        select n.id, o.status as old_status, n.status, n.epoch, o.epoch as old_epoch, n.written_epoch,
               coalesce(n.worker, o.worker) as worker, coalesce(n.incarnation, o.incarnation) as incarnation,
               n.written_by, n.written_incarnation, n.written_reason, n.written_actor,
               o.status = 'requested' and n.status = 'scheduled' as both,
               generate_series(case when o.status = 'requested' and n.status = 'scheduled' then 0 else 1 end, 1) as step
          from new_rows n
          join old_rows o on o.id = n.id
         where n.status <> o.status
      ) x
     order by x.id, x.step;
    return null;
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function audit_end() returns trigger
language plpgsql set enable_hashjoin = on set enable_nestloop = off set enable_mergejoin = off set enable_seqscan = off set enable_bitmapscan = off as $$
begin
    insert into execution_transition (
        execution, "from", "to", epoch, old_epoch, named_epoch, worker, incarnation, writer, writer_incarnation, reason, actor
    )
    select g.id, g.status, r.status, r.epoch, g.epoch, r.written_epoch, r.worker, r.incarnation,
           r.written_by, r.written_incarnation, r.written_reason,
           case when r.written_by in ('api', 'dead_letter_handler') then r.written_actor end
      from gone g
      join execution_record r on r.id = g.id
     where r.id = any(array(select id from gone)) and r.status is not null
     order by g.id;
    return null;
end
$$;
-- +goose StatementEnd
