package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestQueuesWithADeliveryLimitAreToldAndMakeNoExecutorUnready(t *testing.T) {
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

func TestWhatIsolationLacksIsToldAndMakesNoWorkerUnready(t *testing.T) {
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
