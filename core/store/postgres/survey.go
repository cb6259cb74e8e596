package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
)

// Each line reads one index that contains only rows that have not ended or are not handled. A child
// that waits for its parent is due at infinity: it is counted, but is never the oldest (PostgreSQL
// can't subtract a time from infinity).
const countSurvey = `
with clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now)
select s.status, s.ref, s.n, coalesce(c.now - s.oldest, interval '0') from clock c cross join (
    select 'requested' as status, '' as ref, count(*) as n, min(due_at) filter (where not awaits_parent) as oldest from execution_work where waits
    union all
    select 'scheduling', '', count(*), min(scheduling_at) from execution_work where incarnation is null and scheduling_expires_at is not null
    union all
    select e.status::text, '', count(*), min(case e.status when 'scheduled' then e.scheduled_at else e.started_at end)
      from execution_work e where e.incarnation is not null group by e.status
    union all
    select 'unhandled', '', count(*), min(ended) from execution_unhandled
    union all
    select 'dead letters', '', count(*), null from dead_letter where handled_at is null
    union all
    select 'unclaimed', '', count(*), min(greatest(e.scheduled_at, i.full_at))
      from execution_work e join worker_incarnation i on i.incarnation = e.incarnation where e.status = 'scheduled'
    union all
    select 'unfit', '', count(*), min(unschedulable_since) from execution_work where unschedulable_since is not null
    union all
    select 'held', pg_snapshot_xmin(snapshot)::text, 1, null
      from pg_current_snapshot() snapshot where pg_snapshot_xmin(snapshot) < pg_snapshot_xmax(snapshot)
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
		case "unclaimed":
			found.Unclaimed = max(0, age)
		case "unfit":
			found.Unfit = max(0, age)
		case "held":
			held, err := strconv.ParseUint(ref, 10, 64)
			if err != nil {
				return err
			}
			found.Held = held
		case "slots":
			found.Slots = append(found.Slots, store.SlotsInUse{ActionRef: ref, Count: n})
		default:
			// Rows in a status of a newer program are counted by surveyUnreadable alone.
			if status, err := execution.ParseStatus(name); err == nil {
				by[status] = store.Waiting{Status: status, Count: n, Oldest: max(0, age)}
			}
		}
		return nil
	}, countSurvey, s.clockOverride())
	if err != nil {
		return store.Survey{}, err
	}
	for _, w := range by {
		if w.Count > 0 {
			found.Waiting = append(found.Waiting, w)
		}
	}
	return found, s.surveyUnreadable(ctx, &found)
}
