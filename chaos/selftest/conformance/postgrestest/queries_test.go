package postgrestest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/store/postgres"
)

const queryFiles = "../../../../docs/sql"

// fleetAndHistory is the data for the queries of docs/sql: five workers of which one is eligible, a
// chain of three rows, executions of every kind half an hour before the hour, and older ones
// outside every window.
const fleetAndHistory = `
set session_replication_role = replica;
insert into action (ref, runtime, entrypoint, max_retries) values ('a', 'shell', '/bin/a', 2);
insert into worker (name, incarnation, cordoned_at) values ('fit', 1, null), ('stale', 2, null), ('cordoned', 3, now()), ('gone', 4, null), ('failing', 5, null);
insert into worker_incarnation (incarnation, worker, process, attempt, lifecycle, runtimes, capacity, lease_expires_at, registered_at, consumer_alive, capabilities)
select n, n, 1, 1, (case when n = 4 then 'lost' else 'active' end)::worker_lifecycle, '{shell}', 10, now() + case when n = 2 then interval '-1 hour' else interval '1 hour' end,
       now(), true, case when n = 5 then '{"health": {"status": "unhealthy"}}' else '{}' end::jsonb
  from generate_series(1, 5) n;
create temp table told as
select *, date_trunc('hour', now()) - case when id > 100 then interval '3 days' else interval '30 minutes' end as at
  from (values (1, 'failed', 'transient', null::int, 0, null, 1), (2, 'failed', 'connection', 1, 1, 'transient', 1), (3, 'completed', null, 1, 2, 'connection', 1),
        (4, 'failed', 'worker_lost', null, 0, null, 1), (5, 'failed', 'transient', null, 0, null, 5), (6, 'failed', 'validation', null, 0, null, 1),
        (7, 'running', null, 4, 1, 'worker_lost', 1), (8, 'scheduled', null, null, 0, null, 1), (9, 'scheduled', null, null, 0, null, 2), (10, 'scheduled', null, null, 0, null, 2),
        (101, 'failed', 'transient', null, 0, null, 1), (102, 'completed', null, 101, 1, 'transient', 1)) t (id, status, failure, original, retry, retried, worker);
insert into execution (id, action, action_ref, runtime, entrypoint, max_retries, status, worker, incarnation, epoch, scheduled_at, dispatch_deadline,
       started_at, run_deadline, claim_beat, ended, orchestrated_at, due_at, created, failure_reason, original_execution, retry_count, retry_reason, result, written_by)
select id, 1, 'a', 'shell', '/bin/a', 2, status::execution_status, worker, worker, 1, at, at, case when status <> 'scheduled' then at end, at, 1,
       case when status in ('failed', 'completed') then at end, case when status in ('failed', 'completed') and id <> 5 then at end, at, at, failure::failure_reason,
       original, retry, retried::failure_reason, case when status = 'failed' then '{"error": "no"}' end::json, 'api'
  from told;
insert into dead_letter (queue, reason, outcome, action_ref, worker, received_at, handled_at)
select 'q', reason, 'kept', action, worker, case when ago > 1 then now() - interval '2 days' else date_trunc('hour', now()) - interval '30 minutes' end, case when closed then now() end
  from (values ('expired', 'a', 1, 1, false), ('expired', 'a', 1, 1, true), ('rejected', 'b', 2, 1, true), ('malformed', null, null, 1, false), ('expired', 'a', 1, 2, false))
    t (reason, action, worker, ago, closed);
set session_replication_role = origin`

// queryAnswers is the answer of each query of docs/sql for these data: a line for each row, with
// "at" for a moment and "for" for a duration.
func queryAnswers() map[string][]string {
	return map[string][]string{
		"retry_rate_over_time.sql": {"at|6|3|50.0"},
		"retry_success_by_reason.sql": {
			"worker_lost|1|0|0|0|", "transient|1|1|0|1|0.0", "connection|1|1|1|1|100.0",
		},
		"worker_health_distribution.sql": {
			"active|cordoned|healthy|1|0|20.0", "active|live|healthy|1|1|20.0", "active|live|unhealthy|1|0|20.0",
			"active|stale heartbeat|healthy|1|0|20.0", "lost|live|healthy|1|0|20.0",
		},
		"queue_depth.sql": {
			"1|fit|10|1|for|", "2|stale|10|2|for|", "3|cordoned|10|0||", "5|failing|10|0||", "|||3|for|0.8",
		},
		"retry_chain.sql": {
			"1|0|2|failed|transient||1|1|at||at|at|no", "2|1|2|failed|connection|transient|1|1|at||at|at|no", "3|2|2|completed||connection|1|1|at||at|at|",
		},
		"dead_letters_by_reason_action_worker.sql": {"at|expired|a|1|2|1", "at|malformed|||1|1", "at|rejected|b|2|1|0"},
		"eligible_workers.sql":                     {"1|fit|healthy|10|1||at"},
		"retriable_failures.sql":                   {"5|a|failed|transient|0|2|at|f"},
	}
}

var (
	momentShown = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)
	lengthShown = regexp.MustCompile(`^(-?\d+ days? )?-?\d\d:\d\d:\d\d`)
)

// queryLines executes a query as psql would, and shows the answer.
func queryLines(t *testing.T, conn *pgx.Conn, sql string) (lines []string) {
	t.Helper()
	results, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range results[len(results)-1].Rows {
		var shown []string
		for _, value := range row {
			text := string(value)
			switch {
			case momentShown.MatchString(text):
				text = "at"
			case lengthShown.MatchString(text):
				text = "for"
			}
			shown = append(shown, text)
		}
		lines = append(lines, strings.Join(shown, "|"))
	}
	return lines
}

func documentedQueries(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(queryFiles + "/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no queries in %s: %v", queryFiles, err)
	}
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- ") || !strings.Contains(string(text), "arameter") {
			t.Errorf("%s does not begin with what it answers and its parameters", file)
		}
		found[filepath.Base(file)] = string(text)
	}
	return found
}

func queryDatabase(t *testing.T) *pgx.Conn {
	t.Helper()
	url := servers.Database(t).URL
	db, err := postgres.Open(t.Context(), url, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.PgConn().Exec(t.Context(), editable+";"+fleetAndHistory).ReadAll(); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestDocumentedQueriesAnswerTheirQuestions(t *testing.T) {
	conn := queryDatabase(t)
	want := queryAnswers()
	for name, sql := range documentedQueries(t) {
		if got := queryLines(t, conn, sql); !slices.Equal(got, want[name]) {
			t.Errorf("%s answers\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want[name], "\n"))
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("there is no %s/%s", queryFiles, name)
	}
	// Any row of a chain names it.
	chain := strings.Replace(documentedQueries(t)["retry_chain.sql"], "select 1::bigint as id", "select 3::bigint as id", 1)
	if got := queryLines(t, conn, chain); !slices.Equal(got, queryAnswers()["retry_chain.sql"]) {
		t.Errorf("the chain of its last row: %q", got)
	}
}

// A query is run during an incident, on a database with years of data. Rows older than its window, or beyond
// the newest executions that it reads, must cost nothing.
func TestDocumentedQueriesSkipOldHistory(t *testing.T) {
	conn := queryDatabase(t)
	ctx := t.Context()
	must := func(sql string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	const n = 20_000
	grow := func(from int) {
		t.Helper()
		at := "now() - interval '40 days' + n * interval '1 second'"
		must("set session_replication_role = replica")
		must(inBulk(strings.NewReplacer("AT", at, "FROM", strconv.Itoa(from+1), "TO", strconv.Itoa(from+n)).Replace(`
			insert into execution (id, action, action_ref, runtime, entrypoint, max_retries, status, worker, incarnation, epoch, scheduled_at, dispatch_deadline,
				ended, orchestrated_at, due_at, created, failure_reason, original_execution, retry_count, retry_reason, written_by)
			select 1000 + n, 1, 'a', 'shell', '/bin/a', 2, 'failed', 1, 1, 1, AT, AT, AT, AT, AT, AT, 'transient',
				case when n % 2 = 0 then 999 + n end, case when n % 2 = 0 then 1 else 0 end, case when n % 2 = 0 then 'transient' end::failure_reason, 'api'
			  from generate_series(FROM, TO) n;
			insert into dead_letter (queue, reason, outcome, received_at) select 'q', 'expired', 'kept', AT from generate_series(FROM, TO) n;
			set session_replication_role = origin`)))
		must("vacuum analyze execution_record")
		must("vacuum analyze dead_letter")
	}
	all := documentedQueries(t)
	costs := func() map[string]cost {
		t.Helper()
		found := make(map[string]cost)
		for name, sql := range all {
			sql = strings.Replace(sql, "100000 as most", "500 as most", 1)
			var text []byte
			// After a change of the tables, the first call replans a function and reads catalogues.
			for range 2 {
				if err := conn.QueryRow(ctx, "explain (analyze, buffers, format json) "+sql, pgx.QueryExecModeSimpleProtocol).Scan(&text); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			var plans []executed
			if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
				t.Fatalf("%s: %v", name, err)
			}
			o := observer{plans: plans}
			found[name] = o.totalCost().cost
		}
		return found
	}
	grow(0)
	before := costs()
	grow(n)
	after := costs()
	for name := range all {
		t.Logf("%s: %v rows/buffers with %d executions, %v with %d", name, before[name], n, after[name], 2*n)
		if g := growthOf(before[name], after[name]); g != constant || after[name].rows > 10_000 {
			t.Errorf("%s grows with what is finished: %v, from %v to %v rows/buffers", name, g, before[name], after[name])
		}
	}
}
