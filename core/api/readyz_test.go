package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"handoff/core/store"
)

func TestDeliveryLimitKeepsExecutorReady(t *testing.T) {
	for want, queues := range map[string][]string{
		`"delivery_limit":"ok"`: nil, "lifts it: attune.dlx.queue, attune.executor.completed. Set the policy": {"attune.dlx.queue", "attune.executor.completed"},
	} {
		w := httptest.NewRecorder()
		ReadyHandler([]Check{LimitCheck(func() []string { return queues })})(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), `"ready"`) {
			t.Errorf("%d, %s, want %s", w.Code, w.Body, want)
		}
	}
}

func TestMissingIsolationKeepsWorkerReady(t *testing.T) {
	isolation := map[string]any{"holds": []string{"a"}, "missing": map[string]string{"b": "c"}}
	for _, c := range []struct {
		h    http.Handler
		want string
	}{
		{HealthHandler(nil, http.NotFoundHandler(), isolation), `"isolation":{"holds":["a"],"missing":{"b":"c"}}`},
		{HealthHandler(nil, http.NotFoundHandler()), `"checks":{}}`},
	} {
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != http.StatusOK || !strings.Contains(strings.Join(strings.Fields(w.Body.String()), ""), c.want) {
			t.Errorf("%d, %s, want %s", w.Code, w.Body, c.want)
		}
	}
}

// Rows that a newer program wrote are reported, and the process stays ready. A schema that this
// program can't work with makes it unready.
func TestReadinessReportsNewerRowsAndSchemas(t *testing.T) {
	skew := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, c := range []struct {
		check Check
		code  int
		want  string
	}{
		{UnreadableCheck(func() string { return "" }), 200, `"unreadable_rows":"ok"`},
		{UnreadableCheck(func() string { return "1 executions and 0 workers are left alone" }), 200, `"unreadable_rows":"1 executions and 0 workers are left alone"`},
		{SchemaCheck(skew(nil)), 200, `"schema":"ok"`},
		{SchemaCheck(skew(store.ErrUnavailable)), 200, `"schema":"ok"`},
		{SchemaCheck(skew(errors.New("the database's schema is at version 13"))), 503, `"schema":"the database's schema is at version 13"`},
	} {
		w := httptest.NewRecorder()
		ReadyHandler([]Check{c.check})(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%d, %s, want %d, %s", w.Code, w.Body, c.code, c.want)
		}
	}
}
