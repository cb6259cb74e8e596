package api

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// submitRequest is a client's request for one execution.
type submitRequest struct {
	item store.NewExecution
	// key is the idempotency key as the client wrote it.
	key string
	// position is its index in a batch.
	position int
	// refused is the refusal of its limits; nil if the configuration allows them.
	refused *Problem
}

// submissionFields are the fields of a requested execution.
var submissionFields = []string{
	"action_ref", "parameters", "worker_id", "parent", execution.LimitTimeout, execution.LimitDispatchTimeout, execution.LimitRetries,
}

// keyScope returns the stored form of a key: prefixed with action and caller, because it is unique per action
// and caller. Neither an action's name nor a key has a space.
func (c *caller) keyScope(ref, key string) string {
	if key == "" {
		return ""
	}
	return ref + c.scope + " " + key
}

// clientKey returns a stored key as the client wrote it.
func clientKey(stored string) string { return stored[strings.LastIndexByte(stored, ' ')+1:] }

// readSubmission reads the next execution in the body.
func (s *Server) readSubmission(b *body, pointer string, allowed []string) submitRequest {
	before := len(b.mistakes)
	var sub submitRequest
	root, fields := b.readObject(pointer, allowed, "", nil)
	if f, ok := fields["action_ref"]; ok {
		sub.item.ActionRef, ok = b.readText(f)
		if ref := sub.item.ActionRef; ok && (ref == "" || len(ref) > maxActionRef || strings.ContainsFunc(ref, func(c rune) bool { return c <= ' ' || c == 0x7f })) {
			b.refuseAt(f.pointer, f.at, fmt.Sprintf("must be the name of an action, such as core.echo, at most %d characters", maxActionRef))
		}
	} else if len(b.mistakes) == before {
		b.refuseAt(pointer+"/action_ref", root.at, "is missing: name the action to run")
	}
	sub.item.Parameters = []byte("{}")
	if f, ok := fields["parameters"]; ok {
		switch {
		case f.raw[0] != '{':
			b.refuseAt(f.pointer, f.at, "must be an object, is "+f.kindName())
		case len(f.raw) > maxParameters:
			b.refuseAt(f.pointer, f.at, fmt.Sprintf("has %d bytes, may have %d", len(f.raw), maxParameters))
		default:
			if at := tooDeep(f.raw, maxJSONDepth-strings.Count(f.pointer, "/")); at >= 0 {
				b.refuseAt(f.pointer, f.at+at, fmt.Sprintf("the body is nested deeper than %d levels", maxJSONDepth))
			}
			sub.item.Parameters = f.raw
		}
	}
	sub.item.Pinned = execution.WorkerID(b.readIntegerField(fields, "worker_id", 1, math.MaxInt64, false))
	sub.item.Parent = execution.ID(b.readIntegerField(fields, "parent", 1, math.MaxInt64, false))
	s.readLimits(b, fields, &sub)
	if f, ok := fields["idempotency_key"]; ok {
		if sub.key, ok = b.readText(f); ok {
			if why := badKey(sub.key); why != "" {
				b.refuseAt(f.pointer, f.at, why)
			}
		}
	}
	return sub
}

// readLimits reads the limits that override the action's; null keeps the action's.
func (s *Server) readLimits(b *body, fields map[string]value, sub *submitRequest) {
	before := len(b.mistakes)
	l := &sub.item.Limits
	longest := int64(yamlfile.MaxDuration / time.Second)
	l.Timeout = time.Duration(b.readIntegerField(fields, execution.LimitTimeout, 1, longest, true)) * time.Second
	l.DispatchTimeout = time.Duration(b.readIntegerField(fields, execution.LimitDispatchTimeout, 1, longest, true)) * time.Second
	l.MaxRetries = int(b.readIntegerField(fields, execution.LimitRetries, 0, config.MaxActionRetries, true))
	if f, there := fields[execution.LimitRetries]; there {
		l.OwnRetries = f.kindName() != "null"
	}
	if len(b.mistakes) > before {
		return
	}
	var wrong []FieldError
	for _, p := range s.Config.ValidateLimits(*l) {
		f := fields[p.Key]
		wrong = append(wrong, FieldError{Field: f.pointer, at: f.at, placed: true, Detail: p.Why})
	}
	if len(wrong) > 0 {
		sub.refused = &Problem{
			Type: typeInvalidLimits, Title: "The execution's limits make no sense", Status: http.StatusUnprocessableEntity,
			Detail: "The body can be read, but the executor's configuration does not allow what it asks for.", Errors: wrong,
		}
	}
}

// badKey returns the reason why an idempotency key can't be used.
func badKey(key string) string {
	if key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Sprintf("must be 1 to %d letters, digits and punctuation marks of ASCII, without spaces", maxIdempotencyKey)
	}
	return ""
}

// headerKey reads the header Idempotency-Key. It returns a problem if the key can't be used.
func headerKey(r *http.Request) (string, *Problem) {
	const header = "Idempotency-Key"
	keys := r.Header.Values(header)
	if len(keys) == 0 {
		return "", nil
	}
	why := badKey(keys[0])
	if len(keys) > 1 {
		why = "is sent twice"
	}
	if why != "" {
		return "", badRequest("The header "+header+" can't be used.", FieldError{Field: header, Detail: why})
	}
	return keys[0], nil
}

// createExecution serves POST /api/v1/executions.
func (s *Server) createExecution(w http.ResponseWriter, r *http.Request) *Problem {
	data, problem := readBody(w, r, maxBody)
	if problem != nil {
		return problem
	}
	key, problem := headerKey(r)
	if problem != nil {
		return problem
	}
	b, ok := parseBody(r.Context(), data)
	var sub submitRequest
	if ok {
		sub = s.readSubmission(b, "", submissionFields)
		ok = b.close()
	}
	if !ok {
		return b.mistakesProblem("The body is not an execution.")
	}
	sub.key = key
	if sub.refused != nil {
		locateMistakes(data, sub.refused.Errors)
		return sub.refused
	}
	result := s.submitExecutions(r, []submitRequest{sub}, newComparison())[0]
	if result.problem != nil {
		return result.problem
	}
	w.Header().Set("Location", result.created.Location)
	return respondJSON(w, result.httpStatus(), result.created)
}

// getExecution serves GET /api/v1/executions/{id}.
func (s *Server) getExecution(w http.ResponseWriter, r *http.Request) *Problem {
	id, problem := pathExecutionID(r)
	if problem != nil {
		return problem
	}
	rows, err := s.readExecutions(r, []execution.ID{id})
	switch {
	case err != nil:
		return s.storeProblem(r, err, harmless)
	case len(rows) == 0:
		return noExecution(id)
	}
	return respondJSON(w, http.StatusOK, s.viewExecution(&rows[0]))
}

// pathExecutionID returns the id of the execution that a path names.
func pathExecutionID(r *http.Request) (execution.ID, *Problem) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, notFound(fmt.Sprintf("No execution is called %q: an id is a whole number from 1.", yamlfile.Cut(text)))
	}
	return execution.ID(id), nil
}

// errNoExecution means that a list was requested for an unknown execution.
var errNoExecution = errors.New("there is no such execution")

func noExecution(id execution.ID) *Problem {
	return notFound(fmt.Sprintf("There is no execution %d.", id))
}

// readExecutions reads rows within StatementTimeout.
func (s *Server) readExecutions(r *http.Request, ids []execution.ID) ([]execution.Execution, error) {
	ctx, cancel := s.statementContext(r)
	defer cancel()
	return s.Store.Executions(ctx, ids)
}
