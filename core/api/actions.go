package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// actionView is an action in responses.
type actionView struct {
	newActionView
	// PutBy is the name of the token with which the action was last put.
	PutBy *string `json:"put_by"`
}

// newActionView is an action in requests.
type newActionView struct {
	Ref                    string `json:"ref"`
	Runtime                string `json:"runtime"`
	Entrypoint             string `json:"entrypoint"`
	TimeoutSeconds         *int64 `json:"timeout_seconds"`
	DispatchTimeoutSeconds *int64 `json:"dispatch_timeout_seconds"`
	MaxRetries             int    `json:"max_retries"`
	// RetriedExitCodes are the exit codes of temporary failures; empty if the action declares none.
	RetriedExitCodes []int16 `json:"retried_exit_codes"`
	// Concurrency is the maximum number of executions in flight, null for no limit.
	Concurrency *int64 `json:"concurrency"`
}

// putAction serves POST /api/v1/actions: it creates an action, or replaces the action of that name.
// Existing executions keep the action as it was when they were created.
func (s *Server) putAction(w http.ResponseWriter, r *http.Request) *Problem {
	data, problem := readBody(w, r, maxBody)
	if problem != nil {
		return problem
	}
	b, ok := parseBody(r.Context(), data)
	var a execution.Action
	var root value
	var fields map[string]value
	if ok {
		a, root, fields = readAction(b)
		ok = b.close()
	}
	if !ok {
		return b.mistakesProblem("The body is not an action.")
	}
	for _, p := range s.Config.ValidateAction(a) {
		key := p.Key
		if key == "name" {
			key = "ref"
		}
		at := root.at
		if f, ok := fields[key]; ok {
			at = f.at
		}
		b.refuseAt("/"+key, at, p.Why)
	}
	if len(b.mistakes) > 0 {
		locateMistakes(data, b.mistakes)
		return &Problem{
			Type: typeInvalidAction, Title: "The action makes no sense", Status: http.StatusUnprocessableEntity,
			Detail: "The body can be read, but what it says can't be run.", Errors: b.mistakes,
		}
	}
	a.PutBy = actorName(r)
	ctx, cancel := s.statementContext(r)
	defer cancel()
	if err := s.Store.PutActions(ctx, []execution.Action{a}); err != nil {
		return s.storeProblem(r, err, harmless)
	}
	return respondJSON(w, http.StatusOK, viewAction(&a))
}

func viewAction(a *execution.Action) actionView {
	return actionView{newActionView: newActionView{
		Ref: a.Ref, Runtime: a.Runtime, Entrypoint: a.Entrypoint, MaxRetries: a.MaxRetries,
		RetriedExitCodes: a.RetriedExitCodes.List(),
		TimeoutSeconds:   numberOrNil(int64(a.Timeout / time.Second)), DispatchTimeoutSeconds: numberOrNil(int64(a.DispatchTimeout / time.Second)),
		Concurrency: numberOrNil(int64(a.Concurrency)),
	}, PutBy: textOrNil(a.PutBy)}
}

// listActions serves GET /api/v1/actions?after=REF&limit=N, by name.
func (s *Server) listActions(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.ActionQuery
	return servePage(s, w, r, pageSpec{"actions", "after", []parameter{{"after", actionName(&q.After)}}, defaultPage, nil}, func(ctx context.Context, limit int) ([]execution.Action, error) {
		q.Limit = limit
		return s.Store.Actions(ctx, q)
	}, func(a *execution.Action) any { return viewAction(a) }, func(last *execution.Action) any { return last.Ref })
}

// getAction serves GET /api/v1/actions/{ref}.
func (s *Server) getAction(w http.ResponseWriter, r *http.Request) *Problem {
	ref := r.PathValue("ref")
	missing := notFound(fmt.Sprintf("No action is called %q. GET /api/v1/actions lists them.", yamlfile.Cut(ref)))
	if ref == "" || len(ref) > maxActionRef {
		return missing
	}
	ctx, cancel := s.statementContext(r)
	defer cancel()
	found, err := s.Store.Actions(ctx, store.ActionQuery{Ref: ref, Limit: 1})
	switch {
	case err != nil:
		return s.storeProblem(r, err, harmless)
	case len(found) == 0:
		return missing
	}
	return respondJSON(w, http.StatusOK, viewAction(&found[0]))
}

func readAction(b *body) (a execution.Action, root value, fields map[string]value) {
	root, fields = b.readObject("", []string{"ref", "runtime", "entrypoint", "timeout_seconds", "dispatch_timeout_seconds", "max_retries", "retried_exit_codes", "concurrency"}, "", nil)
	text := func(key string) (s string) {
		if f, there := fields[key]; there {
			s, _ = b.readText(f)
		}
		return s
	}
	longest := int64(yamlfile.MaxDuration / time.Second)
	a.Ref, a.Runtime, a.Entrypoint = text("ref"), text("runtime"), text("entrypoint")
	a.Timeout = time.Duration(b.readIntegerField(fields, "timeout_seconds", 1, longest, true)) * time.Second
	a.DispatchTimeout = time.Duration(b.readIntegerField(fields, "dispatch_timeout_seconds", 1, longest, true)) * time.Second
	a.MaxRetries = int(b.readIntegerField(fields, "max_retries", 0, config.MaxActionRetries, false))
	a.Concurrency = int(b.readIntegerField(fields, "concurrency", 1, config.MaxActionConcurrency, true))
	if f, there := fields["retried_exit_codes"]; there && f.raw[0] != 'n' {
		a.RetriedExitCodes = readExitCodes(b, f)
	}
	return a, root, fields
}

func readExitCodes(b *body, f value) execution.ExitCodes {
	codes, n, ok := b.readIntegers(f, execution.MaxExitCode, execution.MaxExitCode)
	if ok && n > execution.MaxExitCode {
		b.refuseAt(f.pointer, f.at, fmt.Sprintf("must have at most %d exit codes", execution.MaxExitCode))
	}
	return execution.NewExitCodes(codes...)
}
