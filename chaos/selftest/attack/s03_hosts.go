//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"handoff/chaos/servers"
)

// rebound has the headers of a request from a page whose host name was made to resolve to this
// machine.
type rebound struct {
	what   string
	header http.Header
	// absolute writes the foreign name into the request line, as to a proxy.
	absolute bool
}

func rebinding(port string) []rebound {
	foreign := "evil.example:" + port
	page := func(host string) http.Header {
		return http.Header{"Host": {host}, "Origin": {"http://" + host}, "Sec-Fetch-Site": {"same-origin"}, "User-Agent": {"Mozilla/5.0"}}
	}
	forwarded := page(foreign)
	forwarded.Set("X-Forwarded-Host", "127.0.0.1:"+port)
	forwarded.Set("Forwarded", "host=127.0.0.1:"+port)
	plain := http.Header{"Host": {foreign}}
	crossed := http.Header{"Host": {"127.0.0.1:" + port}, "Origin": {"http://" + foreign}}
	return []rebound{
		{what: "foreign Host and Origin that agree", header: page(foreign)},
		{what: "the same without Sec-Fetch-Site", header: http.Header{"Host": {foreign}, "Origin": {"http://" + foreign}}},
		{what: "foreign Host, no Origin", header: plain},
		{what: "foreign Host, X-Forwarded-Host of this machine", header: forwarded},
		{what: "a name that begins with 127.0.0.1", header: page("127.0.0.1.evil.example:" + port)},
		{what: "localhost with a foreign domain", header: page("localhost.evil.example:" + port)},
		{what: "foreign name in the request line", header: page(foreign), absolute: true},
		{what: "foreign Origin alone", header: crossed},
		{what: "Origin null", header: http.Header{"Host": {"127.0.0.1:" + port}, "Origin": {"null"}}},
	}
}

// knock sends a request unchanged and returns the answer.
func knock(ctx context.Context, address, method, path string, body []byte, b rebound) answer {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return answer{err: err}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second)) // a new connection has one
	target, host := path, b.header.Get("Host")
	if b.absolute {
		target = "http://" + host + path
	}
	var head strings.Builder
	fmt.Fprintf(&head, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n", method, target, host, len(body))
	for name, values := range b.header {
		if name != "Host" {
			fmt.Fprintf(&head, "%s: %s\r\n", name, values[0])
		}
	}
	head.WriteString("\r\n")
	if _, err := conn.Write(append([]byte(head.String()), body...)); err != nil {
		return answer{err: err}
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	return answer{status: response.StatusCode}
}

// foreignHosts sends requests to the API and the control port of `chaos up`, as a page of another
// site would.
func foreignHosts(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	api, control, err := s.chaosUp(ctx)
	if err != nil {
		return err
	}
	for _, door := range []struct {
		name, address, path string
		body                any
	}{
		{"API, POST /actions", api, "/api/v1/actions", fields{"ref": "attack.rebound", "runtime": "shell", "entrypoint": "true", "max_retries": 0}},
		{"API, POST /executions", api, "/api/v1/executions", fields{"action_ref": "core.echo"}},
		{"control port, POST /processes/worker-1/resume", control, "/processes/worker-1/resume", nil},
		{"control port, POST /reset", control, "/reset", nil},
	} {
		body, err := json.Marshal(door.body)
		if err != nil {
			return err
		}
		_, port, _ := net.SplitHostPort(door.address)
		accepted, seen := 0, map[string]int{}
		for _, b := range rebinding(port) {
			a := knock(ctx, door.address, http.MethodPost, door.path, body, b)
			seen[a.String()]++
			if a.status < 300 {
				accepted++
				r.tell(door.name+", accepted", "%s", b.what)
			}
		}
		r.count(fmt.Sprintf("%s: accepted of %d (%s)", door.name, len(rebinding(port)), strings.TrimPrefix(fmt.Sprint(seen), "map")), accepted, 0)
		// A client with the right host still gets in.
		for _, host := range []string{"127.0.0.1:" + port, "localhost:" + port} {
			a := knock(ctx, door.address, http.MethodPost, door.path, body, rebound{header: http.Header{"Host": {host}}})
			r.expect(door.name+" as "+host[:strings.IndexByte(host, ':')], a.String(), "2xx", a.status >= 200 && a.status < 300)
		}
	}
	return nil
}

var addressLine = regexp.MustCompile(`(?m)^  (API|control) +(http://\S+)`)

// chaosUp runs this build's `chaos up` beside this system and returns the hosts of its API and of
// its control port. It ends with this system.
func (s *system) chaosUp(ctx context.Context) (api, control string, err error) {
	name := "up-" + word()
	p, err := s.Servers.Spawn(servers.Program{
		Name: name, Path: filepath.Join(s.lab.bin, "chaos"), Args: []string{"up", "--workers", "1"},
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.Getenv("TMPDIR")},
	})
	if err != nil {
		return "", "", err
	}
	s.ups = append(s.ups, p)
	found := map[string]string{}
	until(ctx, 60*time.Second, func() bool {
		text, _ := os.ReadFile(p.Log())
		for _, m := range addressLine.FindAllStringSubmatch(string(text), -1) {
			if u, err := url.Parse(m[2]); err == nil {
				found[m[1]] = u.Host
			}
		}
		return len(found) == 2 || !p.Running()
	})
	if len(found) != 2 {
		return "", "", fmt.Errorf("`chaos up` did not come up; see %s", p.Log())
	}
	return found["API"], found["control"], nil
}
