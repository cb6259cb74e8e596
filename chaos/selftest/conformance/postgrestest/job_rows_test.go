package postgrestest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/jobhistory"
	"handoff/chaos/jobhistory/jobrows"
	"handoff/chaos/servers"
)

// riverTable has what riverQuery reads: a part of the example of docs/history.md, on the columns of River's table.
const riverTable = `create table river_job (id bigint primary key, state text, created_at timestamptz, scheduled_at timestamptz,
	attempt int, attempted_at timestamptz, finalized_at timestamptz, errors jsonb[]);
insert into river_job select i, case when i % 7 = 0 then 'running' else 'completed' end, now() + i * interval '1 second', now(),
	1, now() + i * interval '1 second', case when i % 7 > 0 then now() + (i + 5) * interval '1 second' end,
	case when i = 1 then array['{"at": "2026-11-27T10:00:00Z", "attempt": 0}'::jsonb] end from generate_series(1, 5000) i`

const riverQuery = `select created_at as at, 'submitted' as kind, id::text as job, null as attempt, null as outcome, scheduled_at as not_before from river_job
union all select attempted_at, 'started', id::text, attempt::text, null, null from river_job where attempted_at is not null
union all select finalized_at, 'settled', id::text, null, 'done', null from river_job where finalized_at is not null
order by at;`

func TestQueryRowsAreHistory(t *testing.T) {
	url := servers.Database(t).URL
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), riverTable); err != nil {
		t.Fatal(err)
	}
	read := func(query string) (counts map[jobhistory.Kind]int, err error) {
		r, closeRows, err := jobrows.Open(t.Context(), url, "jobs.sql", query)
		if err != nil {
			return nil, err
		}
		defer closeRows()
		counts = map[jobhistory.Kind]int{}
		for {
			var l jobhistory.Line
			if err := r.Next(&l); errors.Is(err, io.EOF) {
				return counts, nil
			} else if err != nil {
				return counts, err
			}
			counts[l.Kind]++
		}
	}
	counts, err := read(riverQuery)
	if got := fmt.Sprint(counts); err != nil || got != "map[submitted:5000 started:5000 settled:4286]" {
		t.Errorf("%s, %v", got, err)
	}
	for query, want := range map[string]string{
		"select now() as at, 'begun' as kind":                            `jobs.sql:row 1: unknown kind "begun"`,
		"select now() as at, 'started' as kind, 1 as jobs":               `the query has a column "jobs"; allowed: at, kind`,
		"select 'started' as kind":                                       "the query has no column at",
		"select 1; drop table river_job":                                 "cannot insert multiple commands",
		"delete from river_job returning now() as at, 'gone' as kind":    "syntax error",
		"with x as (delete from river_job returning id) select * from x": "jobs.sql",
		"select now() as at, 'started' as kind, null as job":             "names no job",
	} {
		if _, err := read(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
	var left int
	if err := conn.QueryRow(t.Context(), "select count(*) from river_job").Scan(&left); err != nil || left != 5000 {
		t.Errorf("%d rows are left, %v", left, err)
	}
}
