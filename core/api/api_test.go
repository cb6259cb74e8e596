package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

const (
	executionsPath = "/api/v1/executions"
	echo           = `{"action_ref": "core.echo", "parameters": {"a": 1, "b": [2]}}`
)

func TestAcceptedMeansCommitted(t *testing.T) {
	b := setup(t, nil)
	a := b.do("POST", executionsPath, echo)
	if a.status != 201 || a.header.Get("Location") != "/api/v1/executions/1" || a.json["id"] != 1.0 || a.json["existed"] != false {
		t.Fatalf("create: %+v", a)
	}
	if len(b.store.rows) != 1 || string(b.store.rows[0].Parameters) != `{"a": 1, "b": [2]}` {
		t.Errorf("rows: %+v", b.store.rows)
	}
	got := b.do("GET", a.header.Get("Location"), "")
	if got.status != 200 || got.json["status"] != "requested" || got.json["action_ref"] != "core.echo" || got.json["worker"] != nil ||
		got.json["created"] != "2001-09-09T01:46:40Z" || got.json["max_retries"] != 1.0 {
		t.Errorf("get: %s", got.text)
	}
}

func TestTerminalExecutionShowsItsResult(t *testing.T) {
	b := setup(t, nil)
	b.store.rows = []execution.Execution{{
		ID: 7, Action: execution.Action{Ref: "core.echo"}, Status: execution.Failed, Worker: 3, Incarnation: 4, Epoch: 5,
		FailureReason: execution.QueueTimeout, Original: 2, RetryCount: 1, RetryReason: execution.WorkerLost, IdempotencyKey: "core.echo k",
		Result: execution.Result{Error: "Worker queue TTL expired", Message: "m", FailedBy: execution.DeadLetterHandler},
	}}
	a := b.do("GET", executionsPath+"/7", "")
	for field, want := range map[string]any{
		"status": "failed", "worker": 3.0, "incarnation": 4.0, "epoch": 5.0, "failure_reason": "queue_timeout",
		"original_execution": 2.0, "retry_count": 1.0, "retry_reason": "worker_lost", "idempotency_key": "k", "ended": nil,
	} {
		if a.json[field] != want {
			t.Errorf("%s is %v, want %v", field, a.json[field], want)
		}
	}
	if !strings.Contains(a.text, `"result":{"error":"Worker queue TTL expired","message":"m","failed_by":"dead_letter_handler"}`) {
		t.Errorf("result: %s", a.text)
	}
}

func TestIdempotencyKeyFindsRepeatedRequest(t *testing.T) {
	b := setup(t, nil)
	b.store.actions["core.other"] = execution.Action{Ref: "core.other"}
	first := b.do("POST", executionsPath, echo, "Idempotency-Key", "k1")
	again := b.do("POST", executionsPath, `{"parameters":{"b":[2],"a":1},"action_ref":"core.echo"}`, "Idempotency-Key", "k1")
	if first.status != 201 || again.status != 200 || again.json["id"] != first.json["id"] || again.json["existed"] != true {
		t.Errorf("first %+v, again %+v", first, again)
	}
	other := b.do("POST", executionsPath, `{"action_ref": "core.echo", "parameters": {"a": 2}}`, "Idempotency-Key", "k1")
	if other.status != 422 || other.json["type"] != typeKeyReused {
		t.Errorf("another body under the same key: %+v", other)
	}
	if a := b.do("POST", executionsPath, `{"action_ref": "core.other"}`, "Idempotency-Key", "k1"); a.status != 201 {
		t.Errorf("the same key for another action: %+v", a)
	}
	for _, key := range []string{"", "a b", "ü", strings.Repeat("x", 256)} {
		if a := b.do("POST", executionsPath, echo, "Idempotency-Key", key); a.status != 400 || !strings.Contains(a.text, `"field":"Idempotency-Key"`) {
			t.Errorf("key %q: %+v", key, a)
		}
	}
	if a := b.do("POST", executionsPath, `{"action_ref": "core.echo", "idempotency_key": "x"}`); a.status != 400 {
		t.Errorf("a key in the body of a single execution: %+v", a)
	}
}

func TestMalformedBodiesAreRefusedWithPosition(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)
	for body, want := range map[string]string{
		"":                        `"field":"","line":1,"column":1,"detail":"the body is empty; send a JSON object"`,
		`{"action_ref": "core`:    `"line":1,"column":21,"detail":"is not JSON: the body ends in the middle"`,
		"{\n  'a': 1}":            `"line":2,"column":3,"detail":"is not JSON: invalid character '\\'' at start of value"`,
		`{} {}`:                   `"line":1,"column":4,"detail":"is not JSON: something follows after the object"`,
		`[1]`:                     `"detail":"must be a JSON object, is a list"`,
		"{\"action_ref\": \"\xff": `"line":1,"column":17,"detail":"is not UTF-8 text"`,
		"{\n \"action_reff\": 1}": `"field":"/action_reff","line":2,"column":2,"detail":"unknown field \"action_reff\"","allowed":["action_ref","parameters","worker_id","parent","timeout_seconds","dispatch_timeout_seconds","max_retries"],"nearest":"action_ref"`,
		`{"action_ref": "core.echo", "action_ref": "core.echo"}`: `"field":"/action_ref","line":1,"column":29,"detail":"duplicate field"`,
		`{"action_ref": 7}`:                                       `"field":"/action_ref","line":1,"column":16,"detail":"must be a string, is a number"`,
		`{"parameters": {}}`:                                      `"field":"/action_ref","line":1,"column":1,"detail":"is missing: name the action to run"`,
		`{"action_ref": "core.echo", "parameters": [1]}`:          `"field":"/parameters","line":1,"column":43,"detail":"must be an object, is a list"`,
		`{"action_ref": "core.echo", "parameters": ` + deep + `}`: `nested deeper than 64 levels`,
		`{"action_ref": "a b", "a/b~": 1}`:                        `"field":"/a~1b~0"`,
		"{\"ü\": 1,   \"action_ref\":true}":                       `"field":"/action_ref","line":1,"column":25,"detail":"must be a string, is a boolean"`,
	} {
		b := setup(t, nil)
		if a := b.do("POST", executionsPath, body); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%q:\n%d %s\nwant %s", body, a.status, a.text, want)
		}
		if b.store.calls > 0 {
			t.Errorf("%q reached the database", body)
		}
	}
	b := setup(t, nil)
	large := `{"action_ref": "core.echo", "parameters": {"a": "` + strings.Repeat("x", maxBody) + `"}}`
	if a := b.do("POST", executionsPath, large); a.status != 413 {
		t.Errorf("a body above the limit: %d", a.status)
	}
	large = `{"action_ref": "core.echo", "parameters": {"a": "` + strings.Repeat("x", maxParameters) + `"}}`
	if a := b.do("POST", executionsPath, large); a.status != 400 || !strings.Contains(a.text, "/parameters") {
		t.Errorf("parameters above the limit: %d %s", a.status, a.text)
	}
}

func TestInvalidRequestsAreRefusedWithProblems(t *testing.T) {
	b := setup(t, nil)
	for _, r := range []struct {
		method, path, body string
		headers            []string
		status             int
		problem            string
	}{
		{"POST", executionsPath, `{"action_ref": "core.ecko"}`, nil, 422, typeUnknownAction},
		{"POST", executionsPath, echo, []string{"Content-Type", "text/plain"}, 415, typeMediaType},
		{"POST", executionsPath, echo, []string{"Sec-Fetch-Site", "cross-site"}, 403, typeCrossOrigin},
		{"PUT", executionsPath, "", nil, 405, typeMethod},
		{"GET", executionsPath + "/1/cancel", "", nil, 405, typeMethod},
		{"POST", executionsPath + "/1/cancel", "", nil, 404, typeNotFound},
		{"POST", executionsPath + "/1/retry", "", nil, 404, typeNotFound},
		{"GET", executionsPath + "/1/chain", "", nil, 404, typeNotFound},
		{"GET", executionsPath + "/1/transitions", "", nil, 404, typeNotFound},
		{"POST", executionsPath, `{"action_ref": "core.echo", "parent": 9}`, nil, 422, typeUnknownParent},
		{"POST", "/api/v1/actions", `{"ref": "x", "runtime": "noop", "concurrency": 0}`, nil, 400, typeBadRequest},
		{"DELETE", executionsPath + "/1", "", nil, 405, typeMethod},
		{"GET", executionsPath + "/1", "", nil, 404, typeNotFound},
		{"GET", executionsPath + "/one", "", nil, 404, typeNotFound},
		{"GET", executionsPath + "/99999999999999999999", "", nil, 404, typeNotFound},
		{"GET", "/api/v2", "", nil, 404, typeNotFound},
		{"POST", "/api/v1/actions", `{"ref": "x", "runtime": "shel"}`, nil, 422, typeInvalidAction},
		{"POST", "/api/v1/actions", `{"ref": "x", "timeout_seconds": 1.5}`, nil, 400, typeBadRequest},
	} {
		if a := b.do(r.method, r.path, r.body, r.headers...); a.status != r.status || a.json["type"] != r.problem || a.json["status"] != float64(r.status) {
			t.Errorf("%s %s: %d %s, want %d %s", r.method, r.path, a.status, a.text, r.status, r.problem)
		}
	}
	if a := b.do("DELETE", executionsPath, ""); a.header.Get("Allow") != "GET, POST" {
		t.Errorf("Allow is %q", a.header.Get("Allow"))
	}
	if len(b.store.rows) > 0 {
		t.Errorf("something was created: %+v", b.store.rows)
	}
}

func TestActionsAreListed(t *testing.T) {
	b := setup(t, nil)
	for _, ref := range []string{"b", "a", "c"} {
		b.do("POST", "/api/v1/actions", `{"ref": "list.`+ref+`", "runtime": "noop", "timeout_seconds": 9}`)
	}
	refs := func(a answer) (all []string) {
		list, _ := a.json["actions"].([]any)
		for _, one := range list {
			all = append(all, fmt.Sprint(one.(map[string]any)["ref"]))
		}
		return all
	}
	first := b.do("GET", "/api/v1/actions?after=list&limit=2", "")
	if got := refs(first); !slices.Equal(got, []string{"list.a", "list.b"}) || first.json["after"] != "list.b" {
		t.Errorf("the first page: %s", first.text)
	}
	if last := b.do("GET", "/api/v1/actions?after=list.b&limit=2", ""); !slices.Equal(refs(last), []string{"list.c"}) || last.json["after"] != nil {
		t.Errorf("the last page: %s", last.text)
	}
	if one := b.do("GET", "/api/v1/actions/list.b", ""); one.status != 200 || one.json["ref"] != "list.b" || one.json["timeout_seconds"] != 9.0 {
		t.Errorf("one: %d %s", one.status, one.text)
	}
	for path, want := range map[string]int{
		"/api/v1/actions/list.d": 404, "/api/v1/actions/%00": 400, "/api/v1/actions/%ff": 400, "/api/v1/actions/%20": 404, "/api/v1/actions?after=%00": 400, "/api/v1/actions?limit=0": 400, "/api/v1/actions?before=a": 400,
	} {
		if a := b.do("GET", path, ""); a.status != want {
			t.Errorf("%s: %d, want %d: %s", path, a.status, want, a.text)
		}
	}
}

func TestActionIsStoredIfValid(t *testing.T) {
	b := setup(t, nil)
	a := b.do("POST", "/api/v1/actions", `{"ref": "core.sleep", "runtime": "shell", "entrypoint": "sleep 1", "timeout_seconds": 9, "dispatch_timeout_seconds": null, "max_retries": 2, "retried_exit_codes": [111, 75], "concurrency": 3}`)
	want := execution.Action{Ref: "core.sleep", Runtime: "shell", Entrypoint: "sleep 1", Timeout: 9 * time.Second, MaxRetries: 2, RetriedExitCodes: execution.NewExitCodes(75, 111), Concurrency: 3}
	if a.status != 200 || b.store.actions["core.sleep"] != want || !strings.Contains(a.text, `"retried_exit_codes":[75,111]`) {
		t.Errorf("%d %s; stored %+v", a.status, a.text, b.store.actions["core.sleep"])
	}
	a = b.do("POST", "/api/v1/actions", "{\"ref\": \"x\", \"runtime\": \"noop\",\n \"dispatch_timeout_seconds\": 181}")
	if a.status != 422 || !strings.Contains(a.text, `"field":"/dispatch_timeout_seconds","line":2,"column":30,"detail":"is 181, must not be longer`) {
		t.Errorf("a dispatch timeout above the queue's: %d %s", a.status, a.text)
	}
	for codes, at := range map[string]string{
		"75":                                   `"field":"/retried_exit_codes","line":1,"column":52,"detail":"must be a list, is a number"`,
		"[1,0]":                                `"field":"/retried_exit_codes/1","line":1,"column":55,"detail":"must be a whole number from 1 to 255"`,
		"[" + strings.Repeat("1,", 255) + "1]": `"field":"/retried_exit_codes","line":1,"column":52,"detail":"must have at most 255 exit codes"`,
	} {
		a := b.do("POST", "/api/v1/actions", `{"ref": "x", "runtime":"noop","retried_exit_codes":`+codes+`}`)
		if a.status != 400 || !strings.Contains(a.text, at) {
			t.Errorf("exit codes %.20s: %d %s", codes, a.status, a.text)
		}
	}
}

func TestBatchAnswersEachItemSeparately(t *testing.T) {
	b := setup(t, func(o *Options) { o.Config.Executor.BatchSize = 2 })
	a := b.do("POST", executionsPath+"/batch", `{"executions": [
		{"action_ref": "core.echo", "idempotency_key": "k1"},
		{"action_ref": "core.none"},
		{"action_ref": "core.echo", "idempotency_key": "k1"},
		{"action_ref": "core.echo", "idempotency_key": "k1", "parameters": {"other": true}},
		{"action_ref": "core.echo"},
		{"action_ref": "core.echo"}]}`)
	if a.status != 200 {
		t.Fatal(a.text)
	}
	var statuses, ids []any
	for _, r := range a.json["results"].([]any) {
		result := r.(map[string]any)
		statuses = append(statuses, result["status"])
		if e, ok := result["execution"].(map[string]any); ok {
			ids = append(ids, e["id"])
		}
	}
	if fmt.Sprint(statuses) != "[201 422 200 422 201 201]" || fmt.Sprint(ids) != "[1 1 2 3]" || len(b.store.rows) != 3 {
		t.Errorf("statuses %v, ids %v, %d rows", statuses, ids, len(b.store.rows))
	}
	for body, want := range map[string]string{
		`{}`:                `"field":"/executions"`,
		`{"executions":[]}`: `"is empty"`,
		`{"executions":{}}`: `"must be a list, is an object"`,
		"{\"executions\":[{\"action_ref\":\"core.echo\"},\n{\"action\":1},3]}": `"field":"/executions/1/action","line":2,"column":2`,
		`{"executions":[{"action_ref":"core.echo","idempotency_key":""}]}`:     `"field":"/executions/0/idempotency_key"`,
	} {
		if a := b.do("POST", executionsPath+"/batch", body); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.text, want)
		}
	}
	many := `{"executions":[` + strings.TrimSuffix(strings.Repeat(`{"action_ref":"core.echo"},`, maxBatchItems+1), ",") + `]}`
	if a := b.do("POST", executionsPath+"/batch", many); a.status != 413 || len(b.store.rows) != 3 {
		t.Errorf("a batch above the limit: %d, %d rows", a.status, len(b.store.rows))
	}
}

// If the database fails for one piece of a batch, the other pieces are still written.
func TestFailedPieceDoesNotAffectOthers(t *testing.T) {
	b := setup(t, func(o *Options) { o.Config.Executor.BatchSize = 1 })
	b.store.fails = []error{nil, store.ErrUnavailable}
	a := b.do("POST", executionsPath+"/batch", `{"executions":[{"action_ref":"core.echo"},{"action_ref":"core.echo"},{"action_ref":"core.echo"}]}`)
	var statuses []any
	for _, r := range a.json["results"].([]any) {
		statuses = append(statuses, r.(map[string]any)["status"])
	}
	if fmt.Sprint(statuses) != "[201 503 201]" || len(b.store.rows) != 2 {
		t.Errorf("statuses %v, %d rows", statuses, len(b.store.rows))
	}
}

func TestDatabaseErrorsBecomeProblems(t *testing.T) {
	b := setup(t, nil)
	for _, r := range []struct {
		err     error
		headers []string
		status  int
		problem string
		rows    int
	}{
		{store.ErrUnavailable, nil, 503, typeUnavailable, 0},
		{fmt.Errorf("commit: %w", store.ErrUnknownOutcome), nil, 503, typeOutcomeUnknown, 1},
		// With a key, the server repeats the write and finds the row that its first attempt created.
		{store.ErrUnknownOutcome, []string{"Idempotency-Key", "k"}, 200, "", 2},
		{store.ErrUnavailable, []string{"Idempotency-Key", "l"}, 201, "", 3},
		{fmt.Errorf("no such column"), nil, 500, typeInternal, 3},
	} {
		b.store.fails = []error{r.err}
		a := b.do("POST", executionsPath, echo, r.headers...)
		if problem, _ := a.json["type"].(string); a.status != r.status || problem != r.problem || len(b.store.rows) != r.rows {
			t.Errorf("%v %v: %d %s, %d rows; want %+v", r.err, r.headers, a.status, a.text, len(b.store.rows), r)
		}
		if strings.Contains(a.text, "column") {
			t.Errorf("the response reveals database details: %s", a.text)
		}
	}
	b.store.fails = []error{store.ErrUnavailable}
	if a := b.do("GET", executionsPath+"/1", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("reading: %+v", a)
	}
}

func TestRequestsWithoutValidTokenAreRefused(t *testing.T) {
	b := setup(t, func(o *Options) { o.Tokens = defaultToken("secret") })
	for header, status := range map[string]int{"": 401, "Bearer": 401, "Bearer secre": 401, "Basic secret": 401, "Bearer secret": 404, "bearer secret": 404} {
		if a := b.do("GET", executionsPath+"/1", "", "Authorization", header); a.status != status || status == 401 && a.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("Authorization %q: %d, want %d", header, a.status, status)
		}
	}
	// Other spellings of a path, and other places for a token, do not bypass the check.
	before := b.store.calls
	for _, path := range []string{
		"//api/v1/executions", "/api/v1//executions", "/playbooks/../api/v1/executions", "/metrics/../api/v1/executions", executionsPath + "?token=secret",
	} {
		r, w := localRequest(http.MethodGet, path, http.NoBody), httptest.NewRecorder()
		r.Header.Set("Cookie", "token=secret")
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		if b.Handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized && w.Code != http.StatusTemporaryRedirect || b.store.calls != before {
			t.Errorf("%s without a token: %d %s", path, w.Code, w.Body)
		}
	}
	if a := b.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("/healthz without a token: %d", a.status)
	}
}

func TestReadinessReportsFailingChecks(t *testing.T) {
	b := setup(t, nil)
	if a := b.do("GET", "/healthz", ""); a.status != 200 {
		t.Errorf("/healthz: %d", a.status)
	}
	if a := b.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.text, `"broker":"no session`) || !strings.Contains(a.text, `"database":"ok"`) {
		t.Errorf("/readyz without a broker: %d %s", a.status, a.text)
	}
	b = setup(t, func(o *Options) { o.Checks = o.Checks[:1] })
	if a := b.do("GET", "/readyz", ""); a.status != 200 {
		t.Errorf("/readyz: %d %s", a.status, a.text)
	}
	b.store.fails = []error{store.ErrUnavailable}
	if a := b.do("GET", "/readyz", ""); a.status != 503 || !strings.Contains(a.text, `"database":"not reachable"`) {
		t.Errorf("/readyz without a database: %d %s", a.status, a.text)
	}
}

func TestPanicIsAnsweredWithProblem(t *testing.T) {
	b := setup(t, func(o *Options) {
		o.Checks = []Check{{"broken", func(context.Context) error { panic("oh") }}}
	})
	if a := b.do("GET", "/readyz", ""); a.status != 500 || a.json["type"] != typeInternal {
		t.Errorf("%d %s", a.status, a.text)
	}
}

// After a stop, a request in progress finishes, and no new one is accepted.
func TestServeFinishesRequestsInProgress(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, leave := make(chan bool), make(chan bool)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "done")
	})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, h, slog.New(slog.DiscardHandler), time.Minute) }()
	got := make(chan string, 1)
	go func() {
		r, err := http.Get("http://" + l.Addr().String()) //nolint:noctx // the test ends with the server
		if err != nil {
			got <- err.Error()
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		got <- string(text)
	}()
	<-entered
	stop()
	select {
	case err := <-served:
		t.Fatalf("Serve returned %v with a request in progress", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	if text := <-got; text != "done" {
		t.Errorf("the request got %q", text)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func FuzzCreate(f *testing.F) {
	for _, seed := range []string{
		"", "{}", echo, "[", `{"action_ref": "core.echo", "parameters": null}`, `{"a": {"b": [1, "\ud800", 1e999]}}`, `{"action_ref":"core.echo","x":[[[]]]}`,
		"{\"action_ref\"\t:\r\n\"core.echo\"}", `{"action_ref":"core.echo","action_ref":1}`, "\xef\xbb\xbf{}", `{"":"","":""}`, `{"executions":[{"action_ref":"core.echo","idempotency_key":"k"}]}`,
	} {
		f.Add(seed, "key")
	}
	f.Fuzz(func(t *testing.T, text, key string) {
		b := setup(t, nil)
		for _, path := range []string{executionsPath, executionsPath + "/batch", "/api/v1/actions"} {
			a := b.do("POST", path, text, "Idempotency-Key", key)
			if !slices.Contains([]int{200, 201, 400, 413, 422}, a.status) {
				t.Errorf("%s: %d %s", path, a.status, a.text)
			}
			list, _ := a.json["errors"].([]any)
			for _, e := range list {
				line, _ := e.(map[string]any)["line"].(float64)
				if lines := strings.Count(text, "\n") + 1; int(line) > lines {
					t.Errorf("%s: a mistake in line %v of %d: %s", path, line, lines, a.text)
				}
			}
		}
	})
}
