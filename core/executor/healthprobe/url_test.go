package healthprobe_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"handoff/core/api"
	"handoff/core/executor"
	"handoff/core/executor/healthprobe"
	"handoff/core/host/daemon"
)

func TestURLNamesReachableHost(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:41234":   "http://127.0.0.1:41234/readyz#loopback-here",
		"[::1]:41234":       "http://[::1]:41234/readyz#loopback-here",
		"0.0.0.0:8081":      "http://machine:8081/readyz",
		"[::]:8081":         "http://machine:8081/readyz",
		"10.1.2.3:8081":     "http://10.1.2.3:8081/readyz",
		"not an address":    "",
		"localhost:8081":    "http://localhost:8081/readyz#loopback-here",
		"worker-7.lan:8081": "http://worker-7.lan:8081/readyz",
	} {
		if got := healthprobe.URL(address, "machine", "here"); got != want {
			t.Errorf("%s is registered as %q, want %q", address, got, want)
		}
	}
}

// An executor on another machine makes no request: on its own machine, another process may listen on that
// port, or none.
func TestLoopbackEndpointIsProbedOnlyLocally(t *testing.T) {
	worker := httptest.NewServer(api.HealthHandler(nil, http.NotFoundHandler()))
	url := healthprobe.URL(strings.TrimPrefix(worker.URL, "http://"), "machine", "there")
	if err := healthprobe.New("there").Probe(t.Context(), url); err != nil {
		t.Errorf("on the same machine: %v", err)
	}
	if err := healthprobe.New("here").Probe(t.Context(), url); !errors.Is(err, executor.ErrElsewhere) {
		t.Errorf("on another machine: %v", err)
	}
	worker.Close()
	if err := healthprobe.New("there").Probe(t.Context(), url); err == nil || errors.Is(err, executor.ErrElsewhere) {
		t.Errorf("a worker that is gone from the same machine: %v", err)
	}
	// A configured URL is used as it is.
	if err := healthprobe.New("here").Probe(t.Context(), worker.URL+"/readyz"); err == nil || errors.Is(err, executor.ErrElsewhere) {
		t.Errorf("a URL that an operator named: %v", err)
	}
	if first, second := daemon.LoopbackName(), daemon.LoopbackName(); first == "" || first != second {
		t.Errorf("this loopback network is called %q and %q", daemon.LoopbackName(), daemon.LoopbackName())
	}
}
