package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

const insertDeadLetter = `
insert into dead_letter (execution, epoch, queue, reason, x_death, body, outcome, received_at, handled_at)
select $2, $3, $4, $5, $6::json, $7, $8, c.now, case when $9 then null else c.now end
  from (select coalesce($1::timestamptz, clock_timestamp()) as now) c`

// StoreDeadLetter implements store.Executor.
func (s *Store) StoreDeadLetter(ctx context.Context, d store.DeadLetter) error {
	var id, epoch *int64
	if d.Key.ID != 0 {
		i, e := int64(d.Key.ID), int64(d.Key.Epoch)
		id, epoch = &i, &e
	}
	var deaths *string
	if d.XDeath != nil {
		text := string(d.XDeath)
		deaths = &text
	}
	return s.query(ctx, "storing a dead letter", nothing, insertDeadLetter, s.now(), id, epoch, d.Queue, d.Reason, deaths, d.Body, d.Outcome, d.Open)
}

// Rows that another executor is deleting are left to it.
const purgeDeadLetters = `
delete from dead_letter where id in (
    select id from dead_letter
     where received_at <= coalesce($1::timestamptz, clock_timestamp()) - $2::interval
     order by received_at limit $3 for update skip locked)
returning id`

// PurgeDeadLetters implements store.Executor.
func (s *Store) PurgeDeadLetters(ctx context.Context, age time.Duration, limit int) (int, error) {
	purged := 0
	err := s.query(ctx, "purging dead letters", func(pgx.Rows) error { purged++; return nil }, purgeDeadLetters, s.now(), age, limit)
	return purged, err
}

const deadLetterColumns = `id, execution, epoch, queue, reason, x_death::text, body, outcome, received_at, handled_at`

func scanDeadLetter(into *[]store.StoredDeadLetter) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var d store.StoredDeadLetter
		var id, epoch *int64
		var deaths *string
		var handled *time.Time
		if err := rows.Scan(&d.ID, &id, &epoch, &d.Queue, &d.Reason, &deaths, &d.Body, &d.Outcome, &d.ReceivedAt, &handled); err != nil {
			return err
		}
		if id != nil && epoch != nil {
			d.Key = execution.Key{ID: execution.ID(*id), Epoch: execution.Epoch(*epoch)}
		}
		if deaths != nil {
			d.XDeath = []byte(*deaths)
		}
		d.Open = handled == nil
		if handled != nil {
			d.HandledAt = *handled
		}
		*into = append(*into, d)
		return nil
	}
}

const selectDeadLetters = `
select ` + deadLetterColumns + ` from dead_letter
 where ($1::bigint = 0 or id < $1) and (not $2 or handled_at is null)
 order by id desc limit $3`

// DeadLetters implements store.Client.
func (s *Store) DeadLetters(ctx context.Context, q store.DeadLetterQuery) ([]store.StoredDeadLetter, error) {
	var page []store.StoredDeadLetter
	if err := s.query(ctx, "listing dead letters", scanDeadLetter(&page), selectDeadLetters, q.Before, q.Open, q.Limit); err != nil {
		return nil, err
	}
	return page, nil
}

// DeadLetter implements store.Client.
func (s *Store) DeadLetter(ctx context.Context, id int64) (d store.StoredDeadLetter, known bool, err error) {
	var found []store.StoredDeadLetter
	err = s.query(ctx, "reading a dead letter", scanDeadLetter(&found), `select `+deadLetterColumns+` from dead_letter where id = $1`, id)
	if err != nil || len(found) == 0 {
		return d, false, err
	}
	return found[0], true, nil
}

const settleDeadLetter = `
update dead_letter set handled_at = coalesce($1::timestamptz, clock_timestamp()), outcome = $3
 where id = $2 and handled_at is null
returning id`

// SettleDeadLetter implements store.Client.
func (s *Store) SettleDeadLetter(ctx context.Context, id int64, outcome string) (bool, error) {
	done := false
	err := s.query(ctx, "settling a dead letter", func(pgx.Rows) error { done = true; return nil }, settleDeadLetter, s.now(), id, outcome)
	return done, err
}

// Each line reads one partial index, which holds only what has not ended or is not handled. A child that waits for its
// parent is due at infinity: it counts, and is not the oldest of anything (no time can be taken from infinity).
const survey = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now)
select s.status, s.ref, s.n, coalesce(c.now - s.oldest, interval '0') from clock c cross join (
    select 'requested' as status, '' as ref, count(*) as n, min(due_at) filter (where not awaits_parent) as oldest from execution where status = 'requested'
    union all
    select 'scheduling', '', count(*), min(scheduling_at) from execution where status = 'scheduling'
    union all
    select 'scheduled', '', count(*), min(scheduled_at) from execution where status = 'scheduled'
    union all
    select e.status::text, '', count(*), min(e.started_at) from execution e where e.status in ('running', 'canceling') group by e.status
    union all
    select 'unhandled', '', count(*), min(ended) from execution where status >= 'completed' and orchestrated_at is null
    union all
    select 'dead letters', '', count(*), null from dead_letter where handled_at is null
    union all
    select 'slots', a.ref, x.n, null
      from (
        select h.action, sum(h.n)::bigint as n from (
            select s.action, count(*) as n from concurrency_slot s where s.execution is not null group by s.action
            union all
            select a.id, 0 from action a where a.concurrency is not null
        ) h group by h.action
      ) x join action a on a.id = x.action
) s where s.n > 0 or s.status = 'slots'
 order by s.ref collate "C"`

// Survey implements store.Executor.
func (s *Store) Survey(ctx context.Context) (store.Survey, error) {
	var found store.Survey
	var by [execution.Statuses]store.Waiting
	err := s.query(ctx, "counting", func(rows pgx.Rows) error {
		var name, ref string
		var n int
		var age time.Duration
		if err := rows.Scan(&name, &ref, &n, &age); err != nil {
			return err
		}
		switch name {
		case "unhandled":
			found.OrchestrationLag = age
		case "dead letters":
			found.DeadLettersOpen = n
		case "slots":
			found.Slots = append(found.Slots, store.SlotsInUse{ActionRef: ref, Count: n})
		default:
			status, err := execution.ParseStatus(name)
			if err != nil {
				return err
			}
			by[status] = store.Waiting{Status: status, Count: n, Oldest: max(0, age)}
		}
		return nil
	}, survey, s.now())
	if err != nil {
		return store.Survey{}, err
	}
	for _, w := range by {
		if w.Count > 0 {
			found.Waiting = append(found.Waiting, w)
		}
	}
	return found, nil
}
