//go:build linux

package main

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// openPaths are those that need no token by design.
var openPaths = []string{"/healthz", "/readyz", "/metrics", "/playbooks/"}

// withoutToken sends requests without a token, or with a wrong one, to an executor that requires
// one.
func withoutToken(ctx context.Context, l *lab, r *result) error {
	token := secretPrefix + word()
	s, err := l.up(ctx, map[string]string{"HANDOFF_API_TOKEN": token})
	if err != nil {
		return err
	}
	defer func() { _ = s.close() }() // it holds nothing
	ask := func(method, path string, header http.Header) answer {
		request := *s
		request.token = ""
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return request.ask(within, method, path, nil, header)
	}
	let := 0
	tried := 0
	for _, path := range []string{
		"/api/v1/executions", "/api/v1/executions/1", "/api/v1/executions/1/chain", "/api/v1/executions/1/transitions", "/api/v1/actions", "/api/v1/actions/a",
		"/api/v1/workers", "/api/v1/workers/1", "/api/v1/dead-letters", "/api/v1/dead-letters/summary", "/api/v1/dead-letters/1", "/api/v1/observations", "/api/v1/changes",
		"//api/v1/executions", "/api/v1//executions", "/playbooks/../api/v1/executions", "/metrics/../api/v1/executions", "/api/v1/executions?token=" + token[:8],
	} {
		for _, header := range []http.Header{nil, {"Authorization": {"Bearer"}}, {"Authorization": {"Bearer "}}, {"Authorization": {"Bearer x"}}, {"Authorization": {"Basic " + token}}, {"Cookie": {"token=" + token}}, {"X-Forwarded-For": {"127.0.0.1"}}} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				tried++
				if a := ask(method, path, header); a.status < 300 && a.err == nil {
					let++
					r.tell("let in", "%s %s %v", method, path, header)
				}
			}
		}
	}
	r.count("requests without the token that the API answers, of "+strconv.Itoa(tried), let, 0)
	leaked := 0
	for _, path := range openPaths {
		a := ask(http.MethodGet, path, nil)
		r.tell("GET "+path+" without the token", "%v, %s", a, shownBytes(a.bytes))
		if strings.Contains(string(a.head), token) || strings.Contains(string(a.head), "postgres://") {
			leaked++
		}
	}
	log, err := os.ReadFile(s.executor.Instance().Log())
	if err != nil {
		return err
	}
	r.count("token in the executor's log", strings.Count(string(log), token), 0)
	r.count("open pages that show the token or an address of the database", leaked, 0)
	a := s.get(ctx, "/api/v1/executions")
	r.expect("with the token", a.String(), "200", a.status == http.StatusOK)
	return nil
}
