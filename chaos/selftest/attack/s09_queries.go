//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"strings"
	"time"
)

// notText sends bytes that are not UTF-8 in place of strings.
func notText(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	for _, path := range []string{
		"/api/v1/executions?action_ref=%ff", "/api/v1/executions?status=%ff", "/api/v1/actions?after=%ff", "/api/v1/actions/%ff",
		"/api/v1/changes?action_ref=%ff", "/api/v1/changes?after=%ff", "/api/v1/workers/%ff", "/api/v1/executions/%ff",
		"/api/v1/dead-letters?open=%ff", "/api/v1/dead-letters/summary?by=%ff", "/api/v1/observations?part=%ff", "/api/v1/actions/%00",
	} {
		s.refused(ctx, r, path)
	}
	return nil
}

// semicolons sends queries of which a lenient parser would lose a part.
func semicolons(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	for _, path := range []string{
		"/api/v1/executions?worker_id=1;select%201", "/api/v1/executions?a=1;b=2", "/api/v1/executions?status=failed;limit=1", "/api/v1/executions?status=%zz",
		"/api/v1/changes?action_ref=a;b", "/api/v1/dead-letters?open=true;x", "/api/v1/actions?limit=1;", "/api/v1/observations?worker=1;2",
	} {
		s.refused(ctx, r, path)
	}
	return nil
}

// refused asks for a path that must be refused as the client's mistake.
func (s *system) refused(ctx context.Context, r *result, path string) {
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	a := s.get(within, path)
	r.expect("GET "+strings.TrimPrefix(path, "/api/v1"), a.String(), "400 or 404", a.status == http.StatusBadRequest || a.status == http.StatusNotFound)
}

// encodings sends bodies with a wrong content type or encoding.
func encodings(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	body := []byte(`{"ref":"attack.encoded","runtime":"noop","entrypoint":"","max_retries":0}`)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(body) // into memory
	_ = z.Close()
	for _, c := range []struct {
		what, kind, encoding string
		body                 []byte
		accepted             bool
	}{
		{"charset=utf-8", "application/json; charset=utf-8", "", body, true},
		{`charset="UTF-8"`, `application/json; charset="UTF-8"`, "", body, true},
		{"charset=utf-16", "application/json; charset=utf-16", "", body, false},
		{"charset=iso-8859-1", "application/json; charset=iso-8859-1", "", body, false},
		{"Content-Encoding: gzip, plain body", "application/json", "gzip", body, false},
		{"Content-Encoding: gzip, packed body", "application/json", "gzip", packed.Bytes(), false},
		{"Content-Encoding: br", "application/json", "br", body, false},
		{"Content-Encoding: identity", "application/json", "identity", body, true},
	} {
		header := http.Header{"Content-Type": {c.kind}}
		if c.encoding != "" {
			header.Set("Content-Encoding", c.encoding)
		}
		a := s.ask(ctx, http.MethodPost, "/api/v1/actions", c.body, header)
		if c.accepted {
			r.expect(c.what, a.String(), "200", a.status == http.StatusOK)
			continue
		}
		r.expect(c.what, a.String(), "415", a.status == http.StatusUnsupportedMediaType)
	}
	return nil
}
