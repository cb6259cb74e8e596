//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// handMadeRows writes rows into the database that no daemon would write, and reads them through the
// API.
func handMadeRows(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.odd", unoffered, "none", 60); err != nil {
		return err
	}
	for _, value := range []string{`[1]`, `"a string"`, `7`, `null`, `{"error":5,"message":[],"failed_by":{}}`} {
		id, err := s.create(ctx, "attack.odd", 0)
		if err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, "update execution set result = $2::json where id = $1", id, value); err != nil {
			return err
		}
		s.readable(ctx, r, "result "+value, fmt.Sprintf("/api/v1/executions/%d", id), "/api/v1/executions?action_ref=attack.odd", fmt.Sprintf("/api/v1/executions/%d/chain", id))
		if err := s.forgetOdd(ctx); err != nil {
			return err
		}
	}
	for _, value := range []string{`[1]`, `"a string"`, `null`} {
		id, err := s.create(ctx, "attack.odd", 0)
		if err != nil {
			return err
		}
		if _, err := s.db.Exec(ctx, "update execution set parameters = $2::json where id = $1", id, value); err != nil {
			return err
		}
		s.readable(ctx, r, "parameters "+value, fmt.Sprintf("/api/v1/executions/%d", id), "/api/v1/executions?action_ref=attack.odd")
		if err := s.forgetOdd(ctx); err != nil {
			return err
		}
	}
	for _, value := range []string{`"many"`, `[]`, `{"health":7}`, `{"health":{"total_executions":"many"}}`, `{"health":{"last_failure":"yesterday"}}`, `{"health":{"average_execution_time_ms":[]}}`, `null`} {
		if _, err := s.db.Exec(ctx, "update worker_incarnation set capabilities = $1::jsonb", value); err != nil {
			return err
		}
		s.readable(ctx, r, "capabilities "+value, "/api/v1/workers", "/api/v1/workers/name:worker-1")
	}
	if _, err := s.db.Exec(ctx, "update worker_incarnation set capabilities = '{}'"); err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, `insert into dead_letter (queue, reason, x_death, body, outcome, received_at) values ('q', 'odd', '"no list"', '\xff00', 'odd', now())`); err != nil {
		return err
	}
	s.readable(ctx, r, "a dead letter of another kind", "/api/v1/dead-letters", "/api/v1/dead-letters/summary")
	return nil
}

// forgetOdd removes the rows, so that the next ones are judged alone.
func (s *system) forgetOdd(ctx context.Context) error {
	_, err := s.db.Exec(ctx, "delete from execution where action_ref = 'attack.odd'")
	return err
}

// readable asks for paths that must answer.
func (s *system) readable(ctx context.Context, r *result, what string, paths ...string) {
	ok := true
	var seen []string
	for _, path := range paths {
		a := s.get(ctx, path)
		seen = append(seen, a.String())
		told := unreadableRow(a)
		if told != "" {
			seen[len(seen)-1] += " (told: " + told + ")"
		}
		ok = ok && (a.status == http.StatusOK || told != "")
	}
	r.expect(what+": the row and the lists with it", strings.Join(seen, " "), "200, or 500 that says which row and why", ok)
}

// unreadableRow is the answer's reason why a row can't be read; empty if it gives none.
func unreadableRow(a answer) string {
	var problem struct {
		Type   string `json:"type"`
		Detail string `json:"detail"`
	}
	if a.status != http.StatusInternalServerError || json.Unmarshal(a.head, &problem) != nil || problem.Type != "urn:handoff:problem:unreadable-row" {
		return ""
	}
	return problem.Detail
}
