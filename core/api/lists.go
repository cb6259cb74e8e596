package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// parameter is an allowed query parameter and the function that reads its value.
type parameter struct {
	name string
	read func(text string) error
}

// readQuery reads the query of a request. It refuses unknown and duplicate parameters. checkTexts has already
// checked that the query can be decoded.
func readQuery(r *http.Request, known []parameter) *Problem {
	values := r.URL.Query()
	var mistakes []FieldError
	var names []string
	for _, p := range known {
		names = append(names, p.name)
		switch given := values[p.name]; {
		case len(given) > 1:
			mistakes = append(mistakes, FieldError{Field: p.name, Detail: "duplicate parameter"})
		case len(given) == 1:
			if err := p.read(given[0]); err != nil {
				mistakes = append(mistakes, FieldError{Field: p.name, Detail: fmt.Sprintf("can't be used: %q: %v", yamlfile.Cut(given[0]), err)})
			}
		}
		delete(values, p.name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		mistakes = append(mistakes, FieldError{Field: yamlfile.Cut(name), Detail: "is not known here", Allowed: names, Nearest: yamlfile.Nearest(name, names)})
	}
	if len(mistakes) > 0 {
		return badRequest("The query can't be used.", mistakes...)
	}
	return nil
}

// readID returns a reader of an id.
func readID[T ~int64](into *T) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("it must be a whole number from 1")
		}
		*into = T(n)
		return nil
	}
}

// actionName returns a reader of an action's name.
func actionName(into *string) func(string) error {
	return func(text string) error {
		if len(text) > maxActionRef {
			return fmt.Errorf("a name has at most %d characters", maxActionRef)
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

// pageSpec describes a response with a page of rows.
type pageSpec struct {
	// name is the response's field for the rows. cursor is its field for the position after which the next
	// page begins.
	name, cursor string
	// known are the parameters apart from limit. size is the default of limit.
	known []parameter
	size  int
	// onward returns the cursor after a page that is not full, or nil if that page is the last. onward itself
	// is nil if only the last page may be short.
	onward func() any
}

// servePage answers a list: it reads the query, gets a page from the store and sends as much of it as maxPage
// allows. The cursor is null on the last page.
func servePage[Row any](s *Server, w http.ResponseWriter, r *http.Request, l pageSpec,
	find func(ctx context.Context, limit int) ([]Row, error), view func(*Row) any, cursor func(*Row) any,
) *Problem {
	limit := l.size
	if problem := readQuery(r, append(l.known, parameter{"limit", pageSize(&limit)})); problem != nil {
		return problem
	}
	ctx, cancel := s.statementContext(r)
	defer cancel()
	rows, err := find(ctx, limit)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return tooLong(s.Config.Executor.StatementTimeout)
	}
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	page, shown, err := encodePage(l.name, rows, view)
	var next []byte
	if err == nil {
		var behind any
		if shown > 0 && (shown < len(rows) || len(rows) == limit) {
			behind = cursor(&rows[shown-1])
		} else if l.onward != nil {
			behind = l.onward()
		}
		next, err = json.Marshal(behind)
	}
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	writeBody(w, "application/json", http.StatusOK, fmt.Appendf(page, ",%q:%s}", l.cursor, next))
	return nil
}

// encodePage encodes rows: always the first, and then as many as fit in maxPage. It returns an object without
// its closing brace, and the number of encoded rows.
func encodePage[Row any](name string, rows []Row, view func(*Row) any) (page []byte, shown int, err error) {
	page = fmt.Appendf(nil, "{%q:[", name)
	for i := range rows {
		one, err := json.Marshal(view(&rows[i]))
		if err != nil {
			return nil, 0, err
		}
		if i > 0 && len(page)+len(one) > maxPage {
			break
		}
		if i > 0 {
			page = append(page, ',')
		}
		page, shown = append(page, one...), i+1
	}
	return append(page, ']'), shown, nil
}

// listExecutions serves GET /api/v1/executions?status=S&action_ref=R&worker_id=N&parent=N&before=ID&limit=N,
// newest first.
//
// The statuses between requested and the terminal ones have short indexes. Any other filter scans at most
// listWindow ids. So a page may have fewer rows than its limit, or none, although a next page exists.
func (s *Server) listExecutions(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.ExecutionQuery
	onward := func() any {
		if q.After > q.Parent {
			return q.After + 1
		}
		return nil
	}
	return servePage(s, w, r, pageSpec{"executions", "before", []parameter{
		{"status", func(text string) (err error) { q.Status, err = execution.ParseStatus(text); return err }},
		{"action_ref", actionName(&q.ActionRef)},
		{"worker_id", readID(&q.Worker)},
		{"parent", readID(&q.Parent)},
		{"before", readID(&q.Before)},
	}, defaultPage, onward}, func(ctx context.Context, limit int) ([]store.Listed, error) {
		q.Limit = limit
		held := q.Status > execution.Requested && !q.Status.Terminal()
		if q.Status == execution.None && q.ActionRef == "" && q.Worker == 0 && q.Parent == 0 || held {
			return s.Store.List(ctx, q)
		}
		top := q.Before
		if top == 0 {
			newest, err := s.Store.List(ctx, store.ExecutionQuery{Limit: 1})
			if err != nil || len(newest) == 0 {
				return nil, err
			}
			top = newest[0].ID + 1
		}
		// A child has a greater id than its parent.
		q.After = max(top-1-listWindow, q.Parent, 0)
		return s.Store.List(ctx, q)
	}, s.viewListed(r), func(last *store.Listed) any { return last.ID })
}

// readChain reads the chain of the execution that the path names.
func (s *Server) readChain(r *http.Request) ([]store.Listed, *Problem) {
	id, problem := pathExecutionID(r)
	if problem != nil {
		return nil, problem
	}
	ctx, cancel := s.statementContext(r)
	defer cancel()
	chain, err := s.Store.Chain(ctx, id)
	switch {
	case err != nil:
		return nil, s.storeProblem(r, err, harmless)
	case len(chain) == 0:
		return nil, noExecution(id)
	}
	return chain, nil
}

// getChain serves GET /api/v1/executions/{id}/chain: the first row of the chain, then its retries. It
// is one page: store.MaxChain rows without parameters and results.
func (s *Server) getChain(w http.ResponseWriter, r *http.Request) *Problem {
	chain, problem := s.readChain(r)
	if problem != nil {
		return problem
	}
	page, _, err := encodePage("executions", chain, s.viewListed(r))
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	writeBody(w, "application/json", http.StatusOK, append(page, '}'))
	return nil
}

// transitionView is a line of the audit trail as the API shows it.
type transitionView struct {
	Line        int64   `json:"line"`
	From        *string `json:"from"`
	To          string  `json:"to"`
	Epoch       int64   `json:"epoch"`
	Writer      string  `json:"writer"`
	WriterIncar *int64  `json:"writer_incarnation"`
	Worker      *int64  `json:"worker"`
	WorkerName  *string `json:"worker_name"`
	Incarnation *int64  `json:"incarnation"`
	Reason      *string `json:"reason"`
	Actor       *string `json:"actor"`
	At          *string `json:"at"`
	// Unreadable lists the line's values that this program does not know; their own fields are empty.
	Unreadable string `json:"unreadable,omitempty"`
}

// getTransitions serves GET /api/v1/executions/{id}/transitions?after=LINE&limit=N: the changes of its
// status and who made them, oldest first.
func (s *Server) getTransitions(w http.ResponseWriter, r *http.Request) *Problem {
	id, problem := pathExecutionID(r)
	if problem != nil {
		return problem
	}
	q := store.TransitionQuery{Execution: id}
	return servePage(s, w, r, pageSpec{"transitions", "after", []parameter{{"after", readID(&q.After)}}, largestPage, nil}, func(ctx context.Context, limit int) ([]store.Transition, error) {
		q.Limit = limit
		all, err := s.Store.Transitions(ctx, q)
		if err != nil || len(all) > 0 {
			return all, err
		}
		rows, err := s.Store.List(ctx, store.ExecutionQuery{IDs: []execution.ID{id}})
		if err == nil && len(rows) == 0 {
			err = errNoExecution
		}
		return nil, err
	}, func(t *store.Transition) any { return s.viewTransition(t) }, func(last *store.Transition) any { return last.Line })
}

func (s *Server) viewTransition(t *store.Transition) transitionView {
	v := transitionView{
		Line: t.Line, Unreadable: t.Unknown,
		To: t.To.String(), Epoch: int64(t.Epoch), Writer: t.By.String(), WriterIncar: numberOrNil(int64(t.Writer)), Worker: numberOrNil(int64(t.Worker)),
		WorkerName:  s.nameOf(t.Worker),
		Incarnation: numberOrNil(int64(t.Incarnation)), Reason: textOrNil(t.Reason.String()), Actor: textOrNil(t.Actor), At: timeOrNil(t.At),
	}
	if t.From != execution.None {
		v.From = textOrNil(t.From.String())
	}
	return v
}
