package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// The sizes of a page of a list.
const (
	defaultPage = 50
	largestPage = 500
)

// parameter is one that a query may have, and how it is read.
type parameter struct {
	name string
	read func(text string) error
}

// readQuery reads the query of a list. Unknown and doubled parameters are refused, as everywhere.
func readQuery(r *http.Request, known []parameter) *Problem {
	values := r.URL.Query()
	var mistakes []FieldError
	var names []string
	for _, p := range known {
		names = append(names, p.name)
		switch given := values[p.name]; {
		case len(given) > 1:
			mistakes = append(mistakes, FieldError{Field: p.name, Detail: "stands twice"})
		case len(given) == 1:
			if err := p.read(given[0]); err != nil {
				mistakes = append(mistakes, FieldError{Field: p.name, Detail: fmt.Sprintf("can't be used: %q: %v", yamlfile.Cut(given[0]), err)})
			}
		}
		delete(values, p.name)
	}
	var unknown []string
	for name := range values {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		mistakes = append(mistakes, FieldError{Field: yamlfile.Cut(name), Detail: "is not known here", Allowed: names, Nearest: yamlfile.Nearest(name, names)})
	}
	if len(mistakes) > 0 {
		return badRequest("The query can't be used.", mistakes...)
	}
	return nil
}

// number64 reads the number of something.
func number64[T ~int64](into *T) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("it must be a whole number from 1")
		}
		*into = T(n)
		return nil
	}
}

// actionName reads the name of an action; PostgreSQL's texts have no NUL.
func actionName(into *string) func(string) error {
	return func(text string) error {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("no name of an action has that in it")
		}
		*into = text
		return nil
	}
}

func pageSize(into *int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > largestPage {
			return fmt.Errorf("it must be a whole number from 1 to %d", largestPage)
		}
		*into = n
		return nil
	}
}

// servePage answers a list: it reads the query, takes a page from the store and shows it. last is what the next page
// begins behind, nil when there is none.
func servePage[Row, View any](s *Server, w http.ResponseWriter, r *http.Request, known []parameter,
	find func(ctx context.Context, limit int) ([]Row, error), view func(*Row) View, answer func(page []View, last *Row) any,
) {
	limit := defaultPage
	if problem := readQuery(r, append(known, parameter{"limit", pageSize(&limit)})); problem != nil {
		problem.write(w)
		return
	}
	ctx, cancel := s.statement(r)
	defer cancel()
	rows, err := find(ctx, limit)
	if err != nil {
		s.storeProblem(r, err, harmless).write(w)
		return
	}
	page := make([]View, len(rows))
	for i := range rows {
		page[i] = view(&rows[i])
	}
	var last *Row
	if len(rows) == limit {
		last = &rows[limit-1]
	}
	writeJSON(w, "application/json", http.StatusOK, answer(page, last))
}

// listExecutions is GET /api/v1/executions?status=S&action_ref=R&worker_id=N&parent=N&before=ID&limit=N, newest first.
func (s *Server) listExecutions(w http.ResponseWriter, r *http.Request) {
	var q store.ExecutionQuery
	servePage(s, w, r, []parameter{
		{"status", func(text string) (err error) { q.Status, err = execution.ParseStatus(text); return err }},
		{"action_ref", actionName(&q.ActionRef)},
		{"worker_id", number64(&q.Worker)},
		{"parent", number64(&q.Parent)},
		{"before", number64(&q.Before)},
	}, func(ctx context.Context, limit int) ([]execution.Execution, error) {
		q.Limit = limit
		return s.Store.List(ctx, q)
	}, view, func(page []executionView, last *execution.Execution) any {
		answer := struct {
			Executions []executionView `json:"executions"`
			// Before is the cursor of the next page, null for the last.
			Before *int64 `json:"before"`
		}{Executions: page}
		if last != nil {
			answer.Before = number(int64(last.ID))
		}
		return answer
	})
}

func views(rows []execution.Execution) []executionView {
	all := make([]executionView, len(rows))
	for i := range rows {
		all[i] = view(&rows[i])
	}
	return all
}

// chain reads the chain of the execution that the path names, or answers that there is none.
func (s *Server) chain(w http.ResponseWriter, r *http.Request) ([]execution.Execution, bool) {
	id, problem := named(r)
	if problem != nil {
		problem.write(w)
		return nil, false
	}
	ctx, cancel := s.statement(r)
	defer cancel()
	chain, err := s.Store.Chain(ctx, id)
	switch {
	case err != nil:
		s.storeProblem(r, err, harmless).write(w)
		return nil, false
	case len(chain) == 0:
		noExecution(id).write(w)
		return nil, false
	}
	return chain, true
}

// getChain is GET /api/v1/executions/{id}/chain: the first row of the chain, then its retries.
func (s *Server) getChain(w http.ResponseWriter, r *http.Request) {
	if chain, ok := s.chain(w, r); ok {
		writeJSON(w, "application/json", http.StatusOK, map[string]any{"executions": views(chain)})
	}
}

// transitionView is a line of the audit as the API shows it.
type transitionView struct {
	From        *string `json:"from"`
	To          string  `json:"to"`
	Epoch       int64   `json:"epoch"`
	Writer      string  `json:"writer"`
	WriterIncar *int64  `json:"writer_incarnation"`
	Worker      *int64  `json:"worker"`
	Incarnation *int64  `json:"incarnation"`
	Reason      *string `json:"reason"`
	Actor       *string `json:"actor"`
	At          *string `json:"at"`
}

// getTransitions is GET /api/v1/executions/{id}/transitions: who has changed its status, oldest first.
func (s *Server) getTransitions(w http.ResponseWriter, r *http.Request) {
	row, ok := s.execution(w, r)
	if !ok {
		return
	}
	ctx, cancel := s.statement(r)
	defer cancel()
	all, err := s.Store.Transitions(ctx, row.ID)
	if err != nil {
		s.storeProblem(r, err, harmless).write(w)
		return
	}
	shown := make([]transitionView, len(all))
	for i := range all {
		shown[i] = viewTransition(&all[i])
	}
	writeJSON(w, "application/json", http.StatusOK, map[string]any{"transitions": shown})
}

func viewTransition(t *store.Transition) transitionView {
	v := transitionView{
		To: t.To.String(), Epoch: int64(t.Epoch), Writer: t.By.String(), WriterIncar: number(int64(t.Writer)), Worker: number(int64(t.Worker)),
		Incarnation: number(int64(t.Incarnation)), Reason: name(t.Reason.String()), Actor: name(t.Actor), At: moment(t.At),
	}
	if t.From != execution.None {
		v.From = name(t.From.String())
	}
	return v
}
