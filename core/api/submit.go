package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"handoff/core/execution"
	"handoff/core/store"
)

// createdView is the response for an accepted execution.
type createdView struct {
	ID        execution.ID `json:"id"`
	ActionRef string       `json:"action_ref"`
	Status    string       `json:"status"`
	Epoch     int64        `json:"epoch"`
	// Existed reports whether an earlier request with the idempotency key created the execution.
	Existed  bool   `json:"existed"`
	Location string `json:"location"`
}

func executionPath(id execution.ID) string {
	return "/api/v1/executions/" + strconv.FormatInt(int64(id), 10)
}

// outcome is the result of one submission.
type outcome struct {
	created *createdView
	problem *Problem
}

func (o outcome) httpStatus() int {
	switch {
	case o.problem != nil:
		return o.problem.Status
	case o.created.Existed:
		return http.StatusOK
	}
	return http.StatusCreated
}

// submitExecutions creates executions and returns the result of each. An accepted execution is committed.
func (s *Server) submitExecutions(r *http.Request, submissions []submitRequest, c *comparison) []outcome {
	out := make([]outcome, len(submissions))
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	items := make([]store.NewExecution, len(submissions))
	keys := allKeyed
	for i, sub := range submissions {
		items[i] = sub.item
		items[i].Actor = actorName(r)
		items[i].IdempotencyKey = callerOf(r).keyScope(sub.item.ActionRef, sub.key)
		if sub.key == "" {
			keys = someUnkeyed
		}
	}
	fail := func(err error, keys repeatEffect) []outcome {
		p := s.storeProblem(r, err, keys)
		for i := range out {
			out[i] = outcome{problem: p}
		}
		return out
	}
	made, err := s.Submitter.Submit(ctx, items)
	if err != nil {
		return fail(err, keys)
	}
	rows, err := s.readExisting(r, items, made, c)
	if err != nil {
		return fail(err, keys)
	}
	for i, m := range made {
		out[i] = judgeSubmission(submissions[i], m, rows)
	}
	return out
}

// comparison compares the parameters of requests that have the same key. Parameters of equal bytes are equal.
// Others are compared by meaning, as long as left is large enough.
type comparison struct {
	// left is the number of bytes that may still be compared by meaning.
	left int
}

func newComparison() *comparison { return &comparison{left: maxCompared} }

// sameness is the result of comparing the parameters of two requests.
type sameness uint8

const (
	different sameness = iota
	alike
	notCompared
)

func (c *comparison) compareParameters(x, y []byte) sameness {
	if !bytes.Equal(x, y) {
		if c.left < len(x)+len(y) {
			return notCompared
		}
		c.left -= len(x) + len(y)
		if !sameJSON(x, y) {
			return different
		}
	}
	return alike
}

// knownRow is a row that a submission may repeat, or that is its parent.
type knownRow struct {
	store.Listed
	parameters sameness
}

// readExisting reads the executions that already existed, to distinguish a repetition from another request
// with a used key. It also reads children, which may have been skipped at creation, and their parents. It
// reads parameters only if their bytes differ and comparison still allows it.
func (s *Server) readExisting(r *http.Request, items []store.NewExecution, made []store.Created, c *comparison) (map[execution.ID]*knownRow, error) {
	var wanted []execution.ID
	for i, m := range made {
		if m.ID != 0 && (m.Existed || items[i].Parent != 0) {
			wanted = append(wanted, m.ID, items[i].Parent)
		}
	}
	rows := map[execution.ID]*knownRow{}
	if len(wanted) == 0 {
		return rows, nil
	}
	list, err := s.readListed(r, store.ExecutionQuery{IDs: wanted, Digests: true})
	if err != nil {
		return nil, err
	}
	for i := range list {
		rows[list[i].ID] = &knownRow{Listed: list[i], parameters: alike}
	}
	differs, left := map[execution.ID][]byte{}, c.left
	for i, m := range made {
		row, ok := rows[m.ID]
		if !ok || !m.Existed || row.Digest == sha256.Sum256(items[i].Parameters) {
			continue
		}
		row.parameters = notCompared
		if size := row.Size + len(items[i].Parameters); size <= left {
			left -= size
			differs[m.ID] = items[i].Parameters
		}
	}
	if len(differs) == 0 {
		return rows, nil
	}
	list, err = s.readListed(r, store.ExecutionQuery{IDs: slices.Sorted(maps.Keys(differs)), WithParameters: true})
	if err != nil {
		return nil, err
	}
	for i := range list {
		rows[list[i].ID].parameters = c.compareParameters(list[i].Parameters, differs[list[i].ID])
	}
	return rows, nil
}

// readListed reads rows within StatementTimeout, without the fields that may be large.
func (s *Server) readListed(r *http.Request, q store.ExecutionQuery) ([]store.Listed, error) {
	ctx, cancel := s.statementContext(r)
	defer cancel()
	return s.Store.List(ctx, q)
}

func judgeSubmission(sub submitRequest, m store.Created, rows map[execution.ID]*knownRow) outcome {
	ref := sub.item.ActionRef
	if m.UnknownAction {
		return unknownReference(typeUnknownAction, "There is no such action", FieldError{Field: "/action_ref", Detail: "is not the name of an action"},
			fmt.Sprintf("No action is called %q. Actions are created with POST /api/v1/actions, or from the executor's action files.", ref))
	}
	if m.UnknownWorker {
		return unknownReference(typeUnknownWorker, "There is no such worker", FieldError{Field: "/worker_id", Detail: "is not the number of a worker"},
			fmt.Sprintf("No worker has the number %d. GET /api/v1/workers lists them; without worker_id any fitting worker is taken.", sub.item.Pinned))
	}
	if m.UnknownParent {
		return unknownReference(typeUnknownParent, "There is no such parent", FieldError{Field: "/parent", Detail: "is not the number of an execution"},
			fmt.Sprintf("There is no execution %d that this one could follow.", sub.item.Parent))
	}
	c := &createdView{ID: m.ID, ActionRef: ref, Status: execution.Requested.String(), Existed: m.Existed, Location: executionPath(m.ID)}
	row, ok := rows[m.ID]
	if !ok {
		return outcome{created: c}
	}
	if row.Unreadable != "" {
		return outcome{problem: unreadableRow(fmt.Sprintf("Execution %d, which the key created, can't be read: %s.", m.ID, row.Unreadable))}
	}
	if m.Existed {
		var parent execution.ID
		if p := rows[sub.item.Parent]; p != nil {
			parent = p.Chain()
		}
		if row.Action.Ref != ref || row.Pinned != sub.item.Pinned || row.Parent != parent || row.Limits != sub.item.Limits {
			return outcome{problem: keyReused(sub.key, m.ID)}
		}
		if problem := repetitionProblem(row.parameters, sub.key, m.ID); problem != nil {
			return outcome{problem: problem}
		}
	}
	c.Status, c.Epoch = row.Status.String(), int64(row.Epoch)
	return outcome{created: c}
}

// unknownReference refuses a submission that refers to something that does not exist.
func unknownReference(kind, title string, field FieldError, detail string) outcome {
	return outcome{problem: &Problem{Type: kind, Title: title, Status: http.StatusUnprocessableEntity, Detail: detail, Errors: []FieldError{field}}}
}

func keyReused(key string, by execution.ID) *Problem {
	return &Problem{
		Type: typeKeyReused, Title: "The idempotency key was used for something else", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("The key %q created execution %d with other parameters or limits. Use a new key for a new execution.", key, by),
	}
}

// repetitionProblem returns the refusal of a reused key when the limits are equal; nil if the parameters are
// also equal.
func repetitionProblem(parameters sameness, key string, by execution.ID) *Problem {
	switch parameters {
	case alike:
		return nil
	case notCompared:
		return tooLarge(fmt.Sprintf("The key %q created execution %d, with parameters of other bytes. Whether they mean the same was not compared: one request "+
			"compares at most %d bytes. Send the same bytes as before, or send this execution in a request of its own.", key, by, maxCompared))
	default:
		return keyReused(key, by)
	}
}
