package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// fuzzTargets lists the endpoints; FuzzEndpoints takes an index into it.
var fuzzTargets = []string{
	"GET /api/v1/executions", "POST /api/v1/executions", "POST /api/v1/executions/batch", "GET /api/v1/executions/1", "GET /api/v1/executions/1/transitions",
	"GET /api/v1/executions/1/chain", "POST /api/v1/executions/1/cancel", "POST /api/v1/executions/1/retry", "GET /api/v1/actions", "POST /api/v1/actions",
	"GET /api/v1/actions/core.echo", "GET /api/v1/changes", "GET /api/v1/openapi.yaml", "GET /api/v1/dead-letters", "GET /api/v1/dead-letters/summary",
	"POST /api/v1/dead-letters/discard", "GET /api/v1/dead-letters/1", "POST /api/v1/dead-letters/1/replay", "POST /api/v1/dead-letters/1/discard",
	"GET /api/v1/observations", "GET /api/v1/workers", "GET /api/v1/workers/1", "POST /api/v1/workers/1/cordon", "POST /api/v1/workers/1/uncordon",
	"POST /api/v1/workers/1/drain", "GET /healthz", "GET /readyz", "GET /metrics", "GET /playbooks/dlq_rate",
	"GET /api/v1/executions/count", "POST /api/v1/executions/retry", "POST /api/v1/executions/cancel",
}

// FuzzEndpoints sends arbitrary requests to any endpoint. The server must not fail, the response must be
// bounded, and a refusal must be a problem.
func FuzzEndpoints(f *testing.F) {
	for i := range fuzzTargets {
		for _, seed := range []struct{ tail, header, body string }{
			{"", "", ""},
			{"?limit=2&before=1&after=0&open=true&window=1h&every=1s&by=reason&status=failed", "k", "{}"},
			{"?limit=1;select%201&a=%ff&%00=%", "1-1", `{"reason":"\u0000","ids":[1,-1,1e9],"older_than_seconds":0}`},
			{"/%ff/../%00", "\xff", `{"executions":[{"action_ref":"core.echo","idempotency_key":"k"},{"action_ref":"core.echo","idempotency_key":"k","parameters":{"a":1}},null]}`},
			{"?status=failed&created_from=2001-09-09T01:46:40Z&ended_to=x", "k", `{"status":"requested","created_to":"2001-09-09T01:46:41Z","before":9,"limit":1,"dry_run":false}`},
			{"?after=9-9", "k", `{"action_ref":"core.echo","parameters":{"a":[1,"\ud800",1e999]},"timeout_seconds":1,"worker_id":1,"parent":1}`},
			{"", "k", `{"ref":"x","runtime":"shell","entrypoint":"e","concurrency":0,"ref":"x"}`},
		} {
			f.Add(uint8(i), seed.tail, seed.header, seed.body)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, tail, header, body string) {
		asked := fuzzTargets[int(which)%len(fuzzTargets)]
		method, path, _ := strings.Cut(asked, " ")
		r, err := http.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		// Parse path and query as a server does. An invalid URL would not reach any handler.
		u, err := r.URL.Parse(path + tail)
		if err != nil || !strings.HasPrefix(u.Path, path) {
			return
		}
		// Streams end only when the server stops.
		stop := make(chan struct{})
		close(stop)
		r = r.WithContext(context.WithValue(t.Context(), stoppingKey{}, (<-chan struct{})(stop)))
		r.URL = u
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", header)
		r.Header.Set("Last-Event-ID", header)
		db := newStore()
		stored(2, `{"a":1}`)(db)
		w := &deadlineRecorder{httptest.NewRecorder()}
		whole(t, db).ServeHTTP(w, r)
		expectDocumented(t, &exchange{method: method, target: path + tail, sent: r.Header, body: []byte(body), status: w.Code, got: w.Header(), answer: w.Body.Bytes()})
		if w.Code >= 500 && asked != "GET /readyz" {
			t.Errorf("%s%s: %d %s", asked, tail, w.Code, w.Body)
		}
		if w.Code >= 400 && asked != "GET /readyz" && !strings.HasPrefix(path, "/playbooks/") {
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Type == "" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s%s: the response with status %d is not a problem: %s", asked, tail, w.Code, w.Body)
			}
		}
		if n := w.Body.Len(); n > mostAnswer || w.Code >= 400 && n > mostProblem {
			t.Errorf("%s%s: %d bytes with status %d", asked, tail, n, w.Code)
		}
		if kind := w.Header().Get("Content-Type"); kind == "application/json" && !json.Valid(bytes.TrimSpace(w.Body.Bytes())) {
			t.Errorf("%s%s: not JSON: %s", asked, tail, w.Body)
		}
	})
}

// deadlineRecorder is a response recorder that accepts write deadlines, which streams need.
type deadlineRecorder struct{ *httptest.ResponseRecorder }

func (*deadlineRecorder) SetWriteDeadline(time.Time) error { return nil }
