package hostguard

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestGuardRefusesForeignHosts(t *testing.T) {
	guard := Guard{Hosts: []string{"handoff.example.com", "10.1.2.3"}}
	for host, answered := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "localhost.": true, "localhost.:8080": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.9.8.7:1": true, "[::1]:8080": true, "[::1]": true, "::1": true, "[::ffff:127.0.0.1]:80": true,
		"192.0.2.7:8080": true, "[::ffff:192.0.2.7]:8080": true, // where the connection arrived
		"handoff.example.com": true, "Handoff.Example.com.:443": true, "10.1.2.3:9": true,
		"":                                    false, // HTTP/1.0
		"evil.example":                        false,
		"evil.example:8080":                   false,
		"localhost.evil.example":              false,
		"localhost.evil.example:8080":         false,
		"127.0.0.1.evil.example":              false,
		"xlocalhost":                          false,
		"127.0.0.1@evil.example":              false,
		"evil.example#127.0.0.1":              false,
		"handoff.example.com.evil":            false,
		"192.0.2.8:8080":                      false,
		"0.0.0.0:8080":                        false,
		"[::]:8080":                           false,
		"2130706433":                          false,
		"localhost:80:80":                     false,
		"localhost:http":                      false,
		"[localhost]":                         true, // no browser sends it, and it can't name another host
		"[::1":                                false,
		"localhost\x00.evil.example":          false,
		"localhost, evil.example":             false,
		"lоcalhost":                           false, // a Cyrillic o
		"localhost..":                         false,
		"evil.example, localhost":             false,
		strings.Repeat("a", 300) + ".example": false,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Host = host
		r.Header.Set("X-Forwarded-Host", "localhost")
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 8080}))
		refusal := guard.Check(r)
		if (refusal == nil) != answered || refusal != nil && (!refusal.Foreign || !strings.Contains(refusal.Detail, "handoff.example.com")) {
			t.Errorf("Host %q: %+v, want an answer: %v", host, refusal, answered)
		}
	}
}

func TestGuardRefusesForeignPages(t *testing.T) {
	for _, c := range []struct {
		method, host, origin, site string
		answered                   bool
	}{
		{"POST", "localhost:8080", "", "", true}, // not a browser
		{"POST", "localhost:8080", "http://localhost:8080", "same-origin", true},
		{"POST", "LOCALHOST:8080", "http://localhost:8080", "", true},
		{"POST", "localhost", "https://localhost", "same-origin", true}, // behind a proxy with TLS
		{"POST", "localhost:443", "https://localhost", "", true},
		{"GET", "localhost:8080", "http://localhost:8080", "", true},
		{"GET", "localhost:8080", "", "cross-site", true}, // a link on another page; it can't read the answer
		{"GET", "localhost:8080", "http://evil.example", "", false},
		{"GET", "localhost:8080", "http://evil.example", "cross-site", false}, // EventSource
		{"OPTIONS", "localhost:8080", "http://evil.example", "cross-site", false},
		{"POST", "localhost:8080", "http://evil.example", "cross-site", false},
		{"POST", "localhost:8080", "http://localhost:9090", "same-site", false}, // another server of this machine
		{"POST", "localhost:8080", "http://localhost", "", false},
		{"POST", "localhost:8080", "http://127.0.0.1:8080", "", false},
		{"POST", "localhost:8080", "null", "", false},
		{"POST", "localhost:8080", "file://", "", false},
		{"POST", "localhost:8080", "http://localhost:8080.evil.example", "", false},
		{"POST", "localhost:8080", "chrome-extension://localhost:8080", "", false},
		{"POST", "localhost:8080", "", "cross-site", false},
		{"POST", "localhost:8080", "", "same-site", false},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Host = c.host
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if refusal := (Guard{}).Check(r); (refusal == nil) != c.answered || refusal != nil && refusal.Foreign {
			t.Errorf("%+v: %+v", c, refusal)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "localhost"
	r.Header["Origin"] = []string{"http://localhost", "http://evil.example"}
	if (Guard{}).Check(r) == nil {
		t.Error("a request with two origins is answered")
	}
}

// A real server is needed, because net/http determines what Check gets for a request line with a host, or a
// request without a Host header.
func TestGuardChecksRequestsOverConnection(t *testing.T) {
	server := httptest.NewServer(Guard{More: "Set api.token."}.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n":                                   "200",
		"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n":                                "403",
		"GET http://evil.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n":                "403",
		"GET / HTTP/1.0\r\n\r\n":                                                      "403",
		"GET / HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n":             "400",
		"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n": "403",
		"GET / HTTP/1.1\r\n\r\n":                                                      "400",
		"GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: evil.example\r\n\r\n": "200",
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(request))
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		_ = answer.Body.Close()
		_ = conn.Close()
		if !strings.HasPrefix(answer.Status, want) {
			t.Errorf("%q is answered with %s, want %s", request, answer.Status, want)
		}
	}
}
