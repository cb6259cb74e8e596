package cluster

import (
	"net/http"
	"testing"
)

// Every client that can reach a port of this machine may crash processes. Pages of other sites must
// not be able to, whatever their browser sends.
func TestTheControlPortAnswersNoPageOfAnotherSite(t *testing.T) {
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
		{"/processes/worker-1/resume", "", "", http.StatusNotFound}, // the answer that there is no such process
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
