//go:build unix

package postgrestest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/api"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// endedLongAgo are executions that are hard for lists: hardly one is abandoned, none of the later
// half has failed, and those of worker 7, of the action old.rare or of the parent 5 are far back.
const endedLongAgo = `
set session_replication_role = replica;
insert into execution_record (action, action_ref, runtime, entrypoint, max_retries, parameters, status, worker, incarnation, epoch, dispatch_deadline, run_deadline,
    due_at, created, scheduled_at, started_at, claim_beat, ended, orchestrated_at, parent, failure_reason, written_by)
select 1000000, case when n < 1000 then 'old.rare' else 'old.often' end, 'old', '/bin/true', 1, '{"n": 1}', x.status, w, w, 1, x.at, x.at, x.at, x.at, x.at, x.at, 1, x.at, x.at,
       case when n between 100 and 120 then 5 end, case when x.status <> 'completed' then 'transient'::failure_reason end, 'api'
  from generate_series(1, %[1]d) n
 cross join lateral (select (case when n in (10, 20) then 'abandoned' when n < %[1]d / 2 and n %% 50 = 0 then 'failed' else 'completed' end)::execution_status as status,
       case when n < 500 then 7 else 8 + n %% 5 end as w, now() - (%[1]d - n) * interval '1 second' as at) x;
set session_replication_role = origin`

// filters are all filters of a list of executions, each in its worst case.
var filters = []string{
	"", "status=abandoned", "status=failed", "status=timeout", "status=cancelled", "status=requested", "status=scheduling", "status=scheduled",
	"status=running", "status=canceling", "status=completed", "action_ref=old.rare", "action_ref=no.such", "worker_id=7", "worker_id=999999", "parent=5",
	"parent=119000", "status=failed&worker_id=9", "limit=500",
}

// fillExecutions makes a database with this many executions, or HANDOFF_LIST_ROWS of them if that is set.
func fillExecutions(b *fixture, rows int) int {
	if text := os.Getenv("HANDOFF_LIST_ROWS"); text != "" {
		var err error
		if rows, err = strconv.Atoi(text); err != nil || rows < 1000 {
			b.Fatalf("HANDOFF_LIST_ROWS is %q, must be a number from 1000", text)
		}
	}
	b.execSQL("select set_execution_audit(false)")
	_, err := b.conn.PgConn().Exec(b.ctx, fmt.Sprintf(endedLongAgo, rows)).ReadAll()
	b.must(err)
	b.execSQL("vacuum analyze execution_record")
	return rows
}

// listed holds the statements that lists have sent.
type listed struct {
	mu  sync.Mutex
	all []pgx.TraceQueryStartData
}

func (l *listed) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, "r.action_ref = $3") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, data)
	}
	return ctx
}

func (*listed) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// plan is a node of an explained plan.
type plan struct {
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan
}

// visitedRows is the number of rows that the leaves below the node have read.
func (p *plan) visitedRows() (n float64) {
	for i := range p.Plans {
		n += p.Plans[i].visitedRows()
	}
	if len(p.Plans) == 0 {
		n = (p.Rows + p.Removed) * p.Loops
	}
	return n
}

// However many executions there are, every filter of the list reads a bounded number of them, and a client
// that follows the pages finds all that match.
func TestListFiltersReadBoundedRows(t *testing.T) {
	b := newFixture(t)
	const most = 50000
	rows := fillExecutions(b, 120000)
	var sent listed
	db := b.openStore(postgres.Options{Tracer: &sent})
	c := config.Default(config.Hardened)
	c.Executor.StatementTimeout = testenv.Patience()
	h := api.NewServer(api.Options{Store: db, Config: c, Log: slog.New(slog.DiscardHandler)}).Handler()
	for _, filter := range filters {
		before, ids, pages := int64(0), 0, 0
		for {
			path := "/api/v1/executions?" + filter
			if before > 0 {
				path += fmt.Sprintf("&before=%d", before)
			}
			answer := httptest.NewRecorder()
			request := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
			request.Host = "localhost"
			h.ServeHTTP(answer, request)
			var page struct {
				Executions []json.RawMessage
				Before     *int64
			}
			if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != 200 {
				t.Fatalf("%s: %d %v\n%s", path, answer.Code, err, answer.Body)
			}
			ids, pages = ids+len(page.Executions), pages+1
			if page.Before == nil || pages > rows/most+3 {
				break
			}
			before = *page.Before
		}
		switch filter {
		case "status=abandoned":
			if ids != 2 {
				t.Errorf("%s: %d executions in %d pages, want 2", filter, ids, pages)
			}
		case "parent=5":
			if ids != 21 {
				t.Errorf("%s: %d executions in %d pages, want 21", filter, ids, pages)
			}
		}
	}
	seen := map[string]bool{}
	for _, data := range sent.all {
		key := data.SQL + fmt.Sprint(data.Args)
		if seen[key] {
			continue
		}
		seen[key] = true
		var text []byte
		b.must(b.conn.QueryRow(b.ctx, "explain (analyze, format json) "+data.SQL, data.Args...).Scan(&text))
		var explained []struct{ Plan plan }
		b.must(json.Unmarshal(text, &explained))
		if n := explained[0].Plan.visitedRows(); n > most+1 {
			t.Errorf("%v visits %.0f of %d rows:\n%s", data.Args, n, rows, data.SQL)
		}
	}
	if len(seen) < len(filters) {
		t.Errorf("only %d statements were seen", len(seen))
	}
}

// The time to create an execution, claim it and dispatch it, alone and with 32 clients that list, in turns,
// so that other work of the machine affects both alike. With them the 99th percentile must be below twice
// that without them, at 2 million rows (HANDOFF_LIST_ROWS) on an otherwise idle machine. On a busy machine a
// bound on times would fail at random, so the ratio is only reported, and the test demands that both were
// served.
func TestSchedulingBesideLists(t *testing.T) {
	testenv.Nightly(t, "it compares latencies; TestListFiltersReadBoundedRows counts what a list reads")
	b := newFixture(t)
	rows := fillExecutions(b, 60000)
	pool := b.openStore(postgres.Options{MaxConns: config.Default(config.Hardened).Database.Connections})
	b.must(pool.PutActions(b.ctx, []execution.Action{{Ref: "shell.echo", Runtime: "shell", Entrypoint: "echo", Timeout: time.Minute}}))
	w := b.activeWorker("w")
	s := httptest.NewServer(b.serveAPI())
	defer s.Close()
	turns, each := 3, 40
	if rows >= 1000000 {
		turns, each = 5, 200
	}
	schedule := func() (all []time.Duration) {
		for range each {
			began := time.Now()
			_, err := pool.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo"}})
			b.must(err)
			_, err = pool.Workers(b.ctx, nil)
			b.must(err)
			found, err := pool.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 100}}, Others: 100})
			b.must(err)
			for i := range found {
				_, err := pool.Dispatch(b.ctx, "e", []store.Dispatch{{Key: found[i].Key(), Worker: w, Timeout: time.Minute, Limit: 1 << 20}})
				b.must(err)
			}
			all = append(all, time.Since(began))
		}
		return all
	}
	schedule() // warms up
	var alone, beside []time.Duration
	answers := &answers{counts: make(map[string]int)}
	for range turns {
		alone = append(alone, schedule()...)
		stop := startListing(t, s.URL, answers)
		beside = append(beside, schedule()...)
		stop()
	}
	p99 := func(all []time.Duration) time.Duration {
		slices.Sort(all)
		return all[len(all)*99/100]
	}
	a, l := p99(alone), p99(beside)
	t.Logf("%d rows: p50 %v alone, %v with 32 listing clients; p99 %v alone, %v with them: %.2f times", rows, alone[len(alone)/2], beside[len(beside)/2], a, l, float64(l)/float64(a))
	for _, kind := range slices.Sorted(maps.Keys(answers.counts)) {
		t.Logf("%s: %d answers", kind, answers.counts[kind])
	}
	if answers.counts["200"] == 0 {
		t.Error("no list was answered meanwhile")
	}
}

// answers counts the answers of lists by their status.
type answers struct {
	mu     sync.Mutex
	counts map[string]int
}

// startListing makes 32 clients list until the returned function is called.
func startListing(t *testing.T, url string, a *answers) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	var clients sync.WaitGroup
	var next atomic.Int64
	for range 32 {
		clients.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/api/v1/executions?"+filters[int(next.Add(1))%len(filters)], nil)
				if err != nil {
					t.Error(err)
					return
				}
				kind := "broken off"
				if answer, err := client.Do(r); err == nil {
					kind = strconv.Itoa(answer.StatusCode)
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
				a.mu.Lock()
				a.counts[kind]++
				a.mu.Unlock()
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
		client.CloseIdleConnections()
	}
}
