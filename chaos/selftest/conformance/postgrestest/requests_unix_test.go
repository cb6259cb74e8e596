//go:build unix

package postgrestest_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"handoff/core/api"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/submission"
	"handoff/core/testenv"
)

// serveAPI is the API over the database, on its own connections, as in an executor.
func (fi *fixture) serveAPI() http.Handler {
	db := fi.openStore(postgres.Options{MaxConns: config.Default(config.Hardened).Database.APIConnections})
	h, c, log := daemon.New(daemon.Options{}), config.Default(config.Hardened), slog.New(slog.DiscardHandler)
	client := broker.NewClient(h, nil, broker.Topology{}, c.MessageQueue.RabbitMQ, log)
	return api.NewServer(api.Options{
		Submitter: &submission.Submitter{Host: h, Store: db, Notifier: broker.NewNotifier(h, client, "test", log), Timeout: testenv.Patience()},
		Store:     db, Config: c, Log: log,
	}).Handler()
}

// sendRequest sends a request. It returns the answer, its processor time and the largest growth of the heap.
func sendRequest(t *testing.T, h http.Handler, method, path string, body []byte) (status int, answer string, took time.Duration, grown uint64) {
	t.Helper()
	// The request uses a connection, because reading and writing cost, too.
	s := httptest.NewServer(h)
	defer s.Close()
	once := func() {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(got.Body)
		_ = got.Body.Close()
		status, answer = got.StatusCode, string(text)
	}
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	once() // opens connections and prepares statements
	grown = heapGrowth(func() {
		began := used()
		once()
		took = used() - began
	})
	return status, answer, took, grown
}

// askAtOnce makes 32 clients send a request and discard the answer. It returns the largest growth of the heap,
// and the number of served requests.
func askAtOnce(t *testing.T, h http.Handler, method, path string, body []byte) (grown uint64, served int64) {
	t.Helper()
	var ok atomic.Int64
	grown = heapGrowth(func() {
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				w := &discarding{header: http.Header{}}
				if h.ServeHTTP(w, r); w.status == http.StatusOK {
					ok.Add(1)
				}
			})
		}
		all.Wait()
	})
	return grown, ok.Load()
}

// discarding is a client that keeps only the status of its answer.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(status int)      { d.status = status }
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }

// heapGrowth is the largest growth of the heap while act runs.
func heapGrowth(act func()) uint64 {
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before, done, over := heap(), make(chan struct{}), make(chan uint64)
	go func() {
		most := before
		for {
			select {
			case <-done:
				over <- most - before
				return
			case <-time.After(200 * time.Microsecond):
				most = max(most, heap())
			}
		}
	}()
	act()
	close(done)
	return <-over
}

// TestAPIRequestsAreBounded requests lists of rows with as much content as is allowed, and more. The client
// that reads the answers runs in the same process and counts, too.
func TestAPIRequestsAreBounded(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "n.big", Runtime: "shell", Entrypoint: "true"}}))
	b.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, parameters, created, due_at, written_by)
		select a.id, a.ref, a.runtime, repeat('e', 4096), 0, ('{"x":"' || repeat('y', 255 * 1024) || '"}')::json, now(), now(), 'api'
		  from action a, generate_series(1, 500) where a.ref = 'n.big'`)
	b.execSQL(`update execution set status = 'cancelled', ended = now(), result = ('{"output":"' || repeat('z', 1024 * 1024) || '"}')::json where id % 2 = 0`)
	b.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, parameters, due_at, created, written_by, original_execution, retry_count)
		select action, action_ref, runtime, entrypoint, 100, parameters, now() + interval '1 day', now(), 'retry_manager', id, n from execution, generate_series(1, 100) n where id = 1`)
	b.execSQL(`insert into dead_letter (queue, reason, outcome, x_death, body, received_at)
		select 'q', 'expired', 'kept', ('["' || repeat('d', 1024 * 1024) || '"]')::json, convert_to(repeat('b', 1024 * 1024), 'UTF8'), now() from generate_series(1, 50)`)
	h := b.serveAPI()
	small := func(i int) string {
		return fmt.Sprintf(`{"action_ref":"n.big","idempotency_key":"s%d","parameters":{"a":[%s1]}}`, i, strings.Repeat("1,", 1950))
	}
	items := make([]string, 1000)
	for i := range items {
		items[i] = small(i)
	}
	batch := []byte(`{"executions":[` + strings.Join(items, ",") + `]}`)
	for _, x := range []struct {
		method, path string
		body         []byte
		contains     string
	}{
		{"GET", "/api/v1/executions?limit=500", nil, `"before":101}`},
		{"GET", "/api/v1/executions?status=abandoned&limit=500", nil, `"executions":[]`},
		{"GET", "/api/v1/executions/1/chain", nil, `"executions":[{"id":1,`},
		{"GET", "/api/v1/executions/2", nil, `"output":"zzz`},
		{"GET", "/api/v1/dead-letters?limit=500", nil, `"dead_letters":[{"id":50,`},
		{"GET", "/api/v1/dead-letters/1", nil, `"body":"bbb`},
		{"GET", "/api/v1/actions?limit=500", nil, `"n.big"`},
		{"POST", "/api/v1/executions/batch", batch, `"existed":true`},
	} {
		status, answer, took, grown := sendRequest(t, h, x.method, x.path, x.body)
		t.Logf("%s %s: %d, %d bytes, %v of the processor, the heap grew by %d KB", x.method, x.path, status, len(answer), took, grown>>10)
		if status != 200 || !strings.Contains(answer, x.contains) {
			t.Errorf("%s %s: %d %.200s, want %s", x.method, x.path, status, answer, x.contains)
		}
		// The memory and processor time of a request depend on the other work of the machine.
		if !testenv.All() {
			continue
		}
		// The client reads the answer into memory, which doubles as it grows. A busy machine's
		// processor is slower at times and collects the heap later, so the best of five counts.
		allowed := uint64(32<<20 + 3*len(answer))
		const most = 150 * time.Millisecond
		for again := 0; (took > most || grown > allowed) && again < 4; again++ {
			_, _, once, more := sendRequest(t, h, x.method, x.path, x.body)
			took, grown = min(took, once), min(grown, more)
		}
		if grown > allowed {
			t.Errorf("%s %s: the heap grew by %d KB, allowed are %d", x.method, x.path, grown>>10, allowed>>10)
		}
		if took > most {
			t.Errorf("%s %s: took %v of the processor with its client", x.method, x.path, took)
		}
		grown, served := askAtOnce(t, h, x.method, x.path, x.body)
		t.Logf("%s %s: 32 clients, of which %d were served: the heap grew by %d KB", x.method, x.path, served, grown>>10)
		if grown > 256<<20 || served == 0 {
			t.Errorf("%s %s: 32 clients at once, of which %d were served, made the heap grow by %d MB, allowed are 256", x.method, x.path, served, grown>>20)
		}
	}
}

// TestUnreadableRowHidesNoOther writes rows that only a person or a newer program could
// write.
func TestUnreadableRowHidesNoOther(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{{Ref: "core.echo", Runtime: "shell", Entrypoint: "true"}}))
	for range 4 {
		b.requestedExecution()
	}
	w := b.activeWorker("w")
	b.execSQL(`alter type failure_reason add value 'of_tomorrow'`)
	b.execSQL(`update execution set status = 'cancelled', ended = now(), result = '[1]' where id = 1`)
	b.execSQL(`update execution set status = 'cancelled', ended = now(), result = '"a string"' where id = 2`)
	b.execSQL(`update execution set status = 'cancelled', ended = now(), failure_reason = 'of_tomorrow', written_reason = 'of_tomorrow' where id = 3`)
	h := b.serveAPI()
	for _, x := range []struct {
		path     string
		status   int
		contains []string
	}{
		{"/api/v1/executions", 200, []string{`"id":4,`, `{"id":3,"unreadable":"a row can't be read: failure_reason of execution 3: `, `"id":2,`, `"id":1,`}},
		{"/api/v1/executions/1", 500, []string{"unreadable-row", "result of execution 1: must be an object with error, message, failed_by and output"}},
		{"/api/v1/executions/2", 500, []string{"unreadable-row", "result of execution 2"}},
		{"/api/v1/executions/3", 500, []string{"unreadable-row", "failure_reason of execution 3", "of_tomorrow"}},
		{"/api/v1/executions/4", 200, []string{`"status":"requested"`}},
		{"/api/v1/executions/3/transitions", 200, []string{`"to":"cancelled"`, `"unreadable":"`, "of_tomorrow"}},
		{"/api/v1/executions/3/chain", 200, []string{`"unreadable":`}},
		{"/api/v1/workers", 200, []string{`"name":"w"`}},
	} {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "http://localhost"+x.path, http.NoBody))
		for _, part := range x.contains {
			if r.Code != x.status || !strings.Contains(r.Body.String(), part) {
				t.Errorf("%s: %d %s, want %d with %s", x.path, r.Code, r.Body, x.status, part)
			}
		}
	}
	for _, result := range []string{`7`, `null`, `{"error":5,"message":[],"failed_by":{}}`} {
		b.execSQL(`update execution set result = $1::json where id = 1`, result)
		expectReadableRows(t, h, "result "+result, "/api/v1/executions/1", "/api/v1/executions", "/api/v1/executions/1/chain")
	}
	for _, parameters := range []string{`[1]`, `"a string"`, `null`} {
		b.execSQL(`update execution set parameters = $1::json where id = 4`, parameters)
		expectReadableRows(t, h, "parameters "+parameters, "/api/v1/executions/4", "/api/v1/executions")
	}
	b.execSQL(`insert into dead_letter (queue, reason, x_death, body, outcome, received_at) values ('q', 'odd', '"no list"', '\xff00', 'odd', now())`)
	expectReadableRows(t, h, "a dead letter without a list of deaths", "/api/v1/dead-letters", "/api/v1/dead-letters/1", "/api/v1/dead-letters/summary")
	for _, capabilities := range []string{`[]`, `{"health":7}`, `null`} {
		b.execSQL(`update worker_incarnation set capabilities = $1::jsonb`, capabilities)
		expectReadableRows(t, h, "capabilities "+capabilities, "/api/v1/workers", "/api/v1/workers/name:w")
	}
	for capabilities, why := range map[string]string{
		`"many"`:                                          "capabilities is a JSON string",
		`{"health":{"total_executions":"many"}}`:          "total_executions",
		`{"health":{"last_failure":"yesterday"}}`:         "last_failure",
		`{"health":{"average_execution_time_ms":"slow"}}`: "average_execution_time_ms",
	} {
		b.execSQL(`update worker_incarnation set capabilities = $1::jsonb where incarnation = $2`, capabilities, int64(w.Incarnation))
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "http://localhost/api/v1/workers", http.NoBody))
		if r.Code != 200 || !strings.Contains(r.Body.String(), `"unreadable":"`+why[:5]) && !strings.Contains(r.Body.String(), why) {
			t.Errorf("%s: %d %s, want %s", capabilities, r.Code, r.Body, why)
		}
		rows, err := b.Workers(b.ctx, nil)
		if err != nil || !slices.ContainsFunc(rows, func(row store.WorkerRow) bool { return strings.Contains(row.Unreadable, why) }) {
			t.Errorf("%s: the executor reads %v, %v; want a worker that can't be read because of %s", capabilities, rows, err, why)
		}
	}
}

// expectReadableRows requests paths. Each must answer, or a single row must state why it can't be read.
func expectReadableRows(t *testing.T, h http.Handler, what string, paths ...string) {
	t.Helper()
	for _, path := range paths {
		r := httptest.NewRecorder()
		h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
		if r.Code != http.StatusOK && (r.Code != http.StatusInternalServerError || !strings.Contains(r.Body.String(), "unreadable-row")) {
			t.Errorf("%s: %s: %d %s", what, path, r.Code, r.Body)
		}
	}
}
