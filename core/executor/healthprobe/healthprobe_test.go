package healthprobe_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"handoff/core/api"
	"handoff/core/executor/healthprobe"
)

// If a worker is up but not ready, the probe of /readyz fails and the probe of /healthz succeeds. Any status
// other than 200, or no answer, is an error.
func TestProbeAcceptsOnlyStatusOK(t *testing.T) {
	worker := httptest.NewServer(api.HealthHandler([]api.Check{{Name: "consumer", Run: func(context.Context) error { return errors.New("deaf") }}}, http.NotFoundHandler()))
	defer worker.Close()
	release := make(chan struct{})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, worker.URL+"/healthz", http.StatusFound)
		case "/hangs":
			<-release
		default:
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	}))
	defer other.Close()
	defer close(release)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()

	p := healthprobe.New("here")
	if err := p.Probe(t.Context(), worker.URL+"/healthz"); err != nil {
		t.Error(err)
	}
	for _, url := range []string{worker.URL + "/readyz", other.URL + "/healthz", other.URL + "/moved", gone.URL + "/healthz", "::"} {
		if err := p.Probe(t.Context(), url); err == nil {
			t.Errorf("%s answers as if a worker lived there", url)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := p.Probe(ended, other.URL+"/hangs"); !errors.Is(err, context.Canceled) {
		t.Errorf("a probe whose time is over: %v", err)
	}
}
