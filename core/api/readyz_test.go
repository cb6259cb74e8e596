package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

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
