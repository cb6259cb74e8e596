package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// attempt is one of the most expensive requests.
type attempt struct {
	name, query string
	body        func() []byte
	headers     []string
	// unsized reports whether the request does not state the length of its body.
	unsized bool
	// prepare changes the store before the request.
	prepare func(*fakeStore)
}

func (a *attempt) bytes() []byte {
	if a.body == nil {
		return nil
	}
	return a.body()
}

// fill returns a function that builds a body of about n bytes: begin, text repeated, and end.
func fill(begin, text string, n int, end string) func() []byte {
	return func() []byte {
		var b bytes.Buffer
		b.Grow(n + len(text) + len(begin) + len(end))
		b.WriteString(begin)
		for b.Len() < n-len(end)-len(text) {
			b.WriteString(text)
		}
		body := bytes.TrimSuffix(b.Bytes(), []byte(","))
		return append(body, end...)
	}
}

// numbered repeats a format with increasing numbers, so that no two repetitions are equal.
func numbered(begin, format string, n int, end string) func() []byte {
	return func() []byte {
		b := bytes.NewBufferString(begin)
		for i := 0; i < n; i++ {
			fmt.Fprintf(b, format, i)
		}
		return append(bytes.TrimSuffix(b.Bytes(), []byte(",")), end...)
	}
}

// worstBodies returns invalid bodies of about n bytes.
func worstBodies(n int) []attempt {
	return []attempt{
		{name: "unknown fields", body: fill(`{`, `"x":1,`, n, `}`)},
		{name: "different unknown fields", body: numbered(`{`, `"x%d":1,`, n/12, `}`)},
		{name: "unknown fields on lines of their own", body: fill(`{`, "\n\"\u00fc\":1,", n, `}`)},
		{name: "a long name", body: fill(`{"`, `action_ref`, n, `":1}`)},
		{name: "a long name of escapes", body: fill(`{"`, `\u0041`, n, `":1}`)},
		{name: "one repeated field", body: fill(`{`, `"action_ref":"a",`, n, `}`)},
		{name: "a long text", body: fill(`{"action_ref":"`, `\u003c`, n, `"}`)},
		{name: "a long number", body: fill(`{"worker_id":`, `1`, n, `}`)},
		{name: "deep lists", body: fill(`{"parameters":`, `[`, n, ``)},
		{name: "deep objects", body: fill(`{"parameters":`, `{"":`, n, ``)},
		{name: "many small values", body: fill(`{"parameters":{"a":[`, `1,`, n, `]}}`)},
		{name: "many lists", body: fill(`{"x":[`, `[],`, n, `]}`)},
		{name: "half characters", body: fill(`{"parameters":{"a":"`, `\ud800`, n, `"}}`)},
		{name: "invalid UTF-8 at the end", body: fill(`{"parameters":"`, "x\n", n-1, "\xff")},
		{name: "long names", body: fill(`{`, `"`+strings.Repeat("n", 100_000)+`":1,`, n, `}`)},
		{name: "lists just above the greatest depth", body: fill(`{"action_ref":"core.echo","parameters":`+strings.Repeat(`{"a":`, maxJSONDepth-4)+`[`, `[[]],`, n-maxJSONDepth, `]`+strings.Repeat(`}`, maxJSONDepth-3))},
		{name: "lines before a mistake", body: fill(`{`, "\n", n-6, `"x":1}`)},
		{name: "spaces", body: fill(``, " \n", n, ``)},
		{name: "null", body: func() []byte { return []byte("null") }},
		{name: "nothing", body: func() []byte { return nil }},
		{name: "too long", body: fill(`{"x":"`, `x`, n+1000, `"}`)},
		{name: "too long, of unstated length", body: fill(`{"x":"`, `x`, n+1000, `"}`), unsized: true},
		{name: "of unstated length", body: fill(`{"parameters":{"a":[`, `1,`, n, `]}}`), unsized: true},
	}
}

// dense returns an object of n bytes with as many values as possible.
func dense(n int) string {
	return string(fill(`{"a":[`, `1,`, n, `]}`)())
}

// members returns an object of about n bytes with many fields, in ascending or reverse order.
func members(n int, reverse bool) string {
	var all []string
	for i := range n / 13 {
		all = append(all, fmt.Sprintf(`"k%06d":%d`, i, i%10))
	}
	if reverse {
		slices.Reverse(all)
	}
	return "{" + strings.Join(all, ",") + "}"
}

func item(parameters, key string) string {
	return fmt.Sprintf(`{"action_ref":"core.echo","idempotency_key":%q,"parameters":%s}`, key, parameters)
}

func batchOf(n int, one func(i int) string) func() []byte {
	return func() []byte {
		all := make([]string, n)
		for i := range all {
			all[i] = one(i)
		}
		return []byte(`{"executions":[` + strings.Join(all, ",") + `]}`)
	}
}

// stored returns a function that adds n rows to the store, as created by requests with the keys "k0", "k1",
// ….
func stored(n int, parameters string) func(*fakeStore) {
	return func(db *fakeStore) {
		for i := range n {
			db.rows = append(db.rows, execution.Execution{
				ID: execution.ID(len(db.rows) + 1), Status: execution.Requested, Action: execution.Action{Ref: "core.echo"}, Parameters: json.RawMessage(parameters), IdempotencyKey: fmt.Sprintf("core.echo k%d", i),
			})
		}
	}
}

// worstBatches returns batches of about the largest allowed length.
func worstBatches() []attempt {
	big, small := dense(maxParameters), dense(4000)
	all := append(worstBodies(maxBatchBody), []attempt{
		{name: "15 with the largest parameters", body: batchOf(15, func(i int) string { return item(big, fmt.Sprint("k", i)) })},
		{name: "1000 with 4 KB each", body: batchOf(1000, func(i int) string { return item(small, fmt.Sprint("k", i)) })},
		{name: "an item with a million unknown fields", body: fill(`{"executions":[{`, `"x":1,`, maxBatchBody, `}]}`)},
		{name: "items that are not objects", body: fill(`{"executions":[`, `1,`, maxBatchBody, `]}`)},
		{name: "empty items", body: fill(`{"executions":[`, `{},`, maxBatchBody, `]}`)},
		{name: "more than 1000 good items", body: fill(`{"executions":[`, `{"action_ref":"core.echo"},`, maxBatchBody, `]}`)},
		{name: "refused limits, far apart", body: batchOf(1000, func(int) string {
			return `{"action_ref":"core.echo",` + strings.Repeat("\n ", 2000) + `"dispatch_timeout_seconds":86400}`
		})},
		{name: "large items for an unknown action", body: batchOf(1000, func(int) string { return `{"action_ref":"none","parameters":` + small + `}` })},
		{name: "100 mistakes in each item", body: fill(`{"executions":[`, `{`+strings.Repeat(`"x":1,`, 99)+`"x":1},`, maxBatchBody, `]}`)},
		{name: "keys that were used for other small parameters", prepare: stored(1000, `{"b":1}`), body: batchOf(1000, func(i int) string { return item(`{"a":1}`, fmt.Sprint("k", i)) })},
		{
			name: "keys that were used for the same parameters in another order", prepare: stored(15, members(250<<10, true)),
			body: batchOf(15, func(i int) string { return item(members(250<<10, false), fmt.Sprint("k", i)) }),
		},
		{name: "one key for all, with the parameters in another order", body: batchOf(15, func(i int) string { return item(members(250<<10, i%2 == 0), "k") })},
		{name: "unknown action names", body: batchOf(1000, func(i int) string { return fmt.Sprintf(`{"action_ref":"%s.%d"}`, strings.Repeat("x", 190), i) })},
	}...)
	return all
}

// worstQueries returns the most expensive queries of every list.
func worstQueries(limit int) []attempt {
	return []attempt{
		{name: "a full page", query: fmt.Sprintf("?limit=%d", limit)},
		{name: "many parameters", query: "?" + strings.Repeat("a=1&", 4000)},
		{name: "different parameters", query: "?" + string(numbered("", "a%d=1&", 1500, "b=1")())},
		{name: "a long name", query: "?" + strings.Repeat("x", 15<<10) + "=1"},
		{name: "invalid UTF-8", query: "?" + strings.Repeat("%ff", 5000)},
		{name: "a semicolon", query: "?limit=1;select%201"},
		{name: "a percent sign", query: "?limit=%"},
	}
}

// worst returns the most expensive requests of every endpoint.
func worst() map[string][]attempt {
	key := []string{"Idempotency-Key", "k0"}
	again := func(parameters string) func() []byte {
		return func() []byte { return []byte(`{"action_ref":"core.echo","parameters":` + parameters + `}`) }
	}
	long := strings.Repeat("x", 15<<10)
	all := map[string][]attempt{
		"POST /api/v1/executions": append(worstBodies(maxBody), []attempt{
			{name: "the largest parameters", body: again(dense(maxParameters))},
			{name: "parameters in another order under a used key", body: again(members(250<<10, false)), headers: key, prepare: stored(1, members(250<<10, true))},
			{name: "a long key", body: again("{}"), headers: []string{"Idempotency-Key", long}},
		}...),
		"POST /api/v1/executions/batch":            worstBatches(),
		"POST /api/v1/executions/1/cancel":         worstBodies(maxBody),
		"POST /api/v1/executions/1/retry":          append(worstBodies(maxBody), attempt{name: "of large parameters"}),
		"GET /api/v1/executions/count":             append(worstQueries(500), attempt{name: "all", query: "?status=failed"}),
		"POST /api/v1/executions/cancel":           append(worstBodies(maxBody), attempt{name: "all", body: func() []byte { return []byte(`{"status":"failed"}`) }}),
		"POST /api/v1/executions/retry":            append(worstBodies(maxBody), attempt{name: "of large parameters", body: func() []byte { return []byte(`{"status":"failed"}`) }}),
		"GET /api/v1/executions/1":                 {{name: "a large row"}},
		"GET /api/v1/executions/" + long:           {{name: "a long id"}},
		"GET /api/v1/executions/1/transitions":     worstQueries(500),
		"GET /api/v1/executions/1/chain":           {{name: "a long chain"}},
		"POST /api/v1/actions":                     append(worstBodies(maxBody), attempt{name: "a long entrypoint", body: fill(`{"ref":"a","runtime":"shell","entrypoint":"`, `<`, maxBody, `"}`)}),
		"GET /api/v1/actions/core.echo":            {{name: "one"}},
		"GET /api/v1/changes":                      append(worstQueries(1)[1:], attempt{name: "a long position", headers: []string{"Last-Event-ID", long}}),
		"GET /api/v1/openapi.yaml":                 {{name: "the document"}},
		"POST /api/v1/dead-letters/discard":        append(worstBodies(maxBody), attempt{name: "many ids", body: fill(`{"ids":[`, `1,`, maxBody, `]}`)}, attempt{name: "ids that are not numbers", body: fill(`{"ids":[`, `"1",`, maxBody, `]}`)}),
		"GET /api/v1/dead-letters/1":               {{name: "a large one"}},
		"POST /api/v1/dead-letters/1/replay":       {{name: "of large parameters"}},
		"POST /api/v1/dead-letters/1/discard":      {{name: "one"}},
		"GET /api/v1/dead-letters/summary":         worstQueries(500),
		"GET /api/v1/workers/1":                    {{name: "one"}},
		"POST /api/v1/workers/1/cordon":            append(worstBodies(maxBody), attempt{name: "a long reason", body: fill(`{"reason":"`, `<`, maxBody, `"}`)}),
		"POST /api/v1/workers/1/uncordon":          worstBodies(maxBody),
		"POST /api/v1/workers/1/drain":             worstBodies(maxBody),
		"GET /healthz":                             {{name: "one"}},
		"GET /readyz":                              {{name: "one"}},
		"GET /metrics":                             {{name: "one"}},
		"GET /playbooks/dlq_rate":                  {{name: "one"}},
		"GET /" + strings.Repeat("nothing/", 1500): {{name: "no endpoint"}},
		"DELETE /api/v1/executions":                {{name: "no method"}},
	}
	for _, path := range []string{"executions", "actions", "dead-letters", "observations", "workers"} {
		all["GET /api/v1/"+path] = worstQueries(500)
	}
	return all
}

// crowded fills the store with the largest possible rows.
func crowded(db *fakeStore) {
	const n = 500
	parameters := json.RawMessage(members(255<<10, false))
	output := json.RawMessage(`"` + strings.Repeat(`\u0001`, 255<<10) + `"`)
	text, body := strings.Repeat("<", 200), bytes.Repeat([]byte{1}, 256<<10)
	for i := range n {
		id := execution.ID(i + 1)
		row := execution.Execution{
			ID: id, Action: execution.Action{Ref: "core.echo", Runtime: "shell", Entrypoint: strings.Repeat("<", 4096)}, Parameters: parameters, Status: execution.Failed,
			Result: execution.Result{Error: text, Message: strings.Repeat("<", 4096), Output: output}, IdempotencyKey: "core.echo " + strings.Repeat("k", 255), OrchestratedAt: time.Unix(1e9, 0),
		}
		if i > 0 && i < 101 {
			row.Original, row.RetryCount = 1, i
		}
		db.rows = append(db.rows, row)
		db.letters = append(db.letters, store.StoredDeadLetter{ID: int64(id), DeadLetter: store.DeadLetter{
			Key: row.Key(), Queue: text, Reason: text, XDeath: parameters, Body: body, Outcome: text, Open: true,
		}})
		db.observations = append(db.observations, store.Observation{ID: int64(id), Reason: strings.Repeat("<", 2000), Would: text})
		w := store.WorkerRow{WorkerKey: store.WorkerKey{ID: execution.WorkerID(id)}, Name: text, CordonReason: strings.Repeat("<", 500), HealthURL: text, Runtimes: []string{"shell", "python", "node", "noop"}}
		for range 100 {
			w.Expired = append(w.Expired, time.Minute)
		}
		db.workers = append(db.workers, w)
		ref := fmt.Sprintf("%s.%d", strings.Repeat("x", 190), i)
		db.actions[ref] = execution.Action{Ref: ref, Runtime: "shell", Entrypoint: strings.Repeat("<", 4096)}
	}
	db.audit = map[execution.ID][]store.Transition{1: slices.Repeat([]store.Transition{{From: execution.Requested, To: execution.Scheduling, By: execution.Scheduler, At: time.Unix(1e9, 0)}}, 10000)}
}

// endpoints returns a mux that finds the pattern of a request's endpoint.
func endpoints() *http.ServeMux {
	mux := http.NewServeMux()
	for path := range new(Server).routes() {
		mux.Handle(path, http.NotFoundHandler())
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/playbooks/"} {
		mux.Handle(path, http.NotFoundHandler())
	}
	return mux
}

// Every endpoint needs its most expensive requests in worst, and a fuzz target.
func TestEveryEndpointHasWorstRequests(t *testing.T) {
	missing := map[string]bool{"GET /healthz": true, "GET /readyz": true, "GET /metrics": true, "GET /playbooks/": true}
	for path, m := range new(Server).routes() {
		for method := range m {
			missing[method+" "+path] = true
		}
	}
	fuzzed := maps.Clone(missing)
	mux := endpoints()
	found := func(asked string, in map[string]bool) {
		method, path, _ := strings.Cut(asked, " ")
		_, pattern := mux.Handler(httptest.NewRequest(method, path, http.NoBody))
		delete(in, method+" "+pattern)
	}
	for asked := range worst() {
		found(asked, missing)
	}
	for _, asked := range fuzzTargets {
		found(asked, fuzzed)
	}
	for what, in := range map[string]map[string]bool{"worst requests in worst()": missing, "fuzz target in fuzz_test.go": fuzzed} {
		if len(in) > 0 {
			t.Errorf("endpoints without %s: %v", what, slices.Sorted(maps.Keys(in)))
		}
	}
}
