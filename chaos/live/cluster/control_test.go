package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// recordingServer is a server that records the acts on it.
type recordingServer struct {
	runs  bool
	asked []string
}

func (r *recordingServer) Running() bool { return r.runs }

func (r *recordingServer) Start(context.Context) error { r.runs = true; return r.record("start") }
func (r *recordingServer) Stop() error                 { r.runs = false; return r.record("stop") }
func (r *recordingServer) Kill() error                 { r.runs = false; return r.record("kill") }
func (r *recordingServer) Pause() error                { return r.record("pause") }
func (r *recordingServer) Resume() error               { return r.record("resume") }

func (r *recordingServer) record(what string) error {
	r.asked = append(r.asked, what)
	return nil
}

// The control interface breaks a running server and restarts it. For one that is down, the error names the
// remedy.
func TestServerIsBrokenAndRestarted(t *testing.T) {
	s := &recordingServer{runs: true}
	var said []string
	for _, a := range []Act{Start, Pause, Resume, Stop, Stop, Start, Crash, Crash, Pause, Start, "melt"} {
		if err := actOn(t.Context(), "broker", s, a); err != nil {
			said = append(said, fmt.Sprint(a, ": ", err))
		}
	}
	if want := []string{"pause", "resume", "stop", "start", "kill", "start"}; !slices.Equal(s.asked, want) {
		t.Errorf("done: %q, want %q", s.asked, want)
	}
	if len(said) != 4 || !strings.Contains(said[0], "the broker does not run; chaos inject --undo") || !strings.Contains(said[3], "crash, stop, pause, resume or start") {
		t.Errorf("refused: %q", said)
	}
}

// slowServer is a server that takes long to start, as RabbitMQ does with many queues or on a busy machine.
type slowServer struct{ recordingServer }

func (s *slowServer) Start(context.Context) error {
	time.Sleep(4 * time.Minute) // of synctest's time
	return s.record("started")
}

// A request to start a server returns only when the server answers, even if that takes minutes.
func TestControlWaitsForSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Cluster{links: newLinks()}
		broker := &slowServer{}
		answer := httptest.NewRecorder()
		question := httptest.NewRequest(http.MethodPost, "http://127.0.0.1"+ProcessesPath+"/broker/start", http.NoBody)
		c.controlRoutes(map[string]server{"broker": broker}).ServeHTTP(answer, question)
		if answer.Code != http.StatusOK || !slices.Equal(broker.asked, []string{"started"}) {
			t.Errorf("acts on the broker: %q; response: %d %s", broker.asked, answer.Code, answer.Body)
		}
	})
}

// Every local client may crash processes, but other sites' pages must not, whatever their browser sends.
func TestControlPortRejectsForeignPages(t *testing.T) {
	c := &Cluster{links: newLinks()}
	address, err := c.serveControl()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.links.close() })
	for _, r := range []struct {
		path, host, origin string
		status             int
	}{
		{"/processes/worker-1/resume", "", "", http.StatusNotFound}, // passes the guard, but there is no such process
		{"/processes/worker-1/resume", "localhost:1", "", http.StatusNotFound},
		{"/processes/worker-1/resume", "evil.example", "http://evil.example", http.StatusForbidden},
		{"/processes/worker-1/resume", "evil.example", "", http.StatusForbidden},
		{"/processes/worker-1/resume", "", "http://evil.example", http.StatusForbidden},
		{"/reset", "", "", http.StatusNoContent}, // toxiproxy's own
		{"/reset", "evil.example", "", http.StatusForbidden},
		{"/reset", "", "http://evil.example", http.StatusForbidden},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+r.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = r.host
		if r.origin != "" {
			request.Header.Set("Origin", r.origin)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != r.status {
			t.Errorf("%+v is answered with %d", r, answer.StatusCode)
		}
	}
}
