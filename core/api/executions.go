package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// maxParameters bounds what one execution carries: it goes through a message, and to the action.
const maxParameters = 256 << 10

// maxIdempotencyKey bounds a key.
const maxIdempotencyKey = 255

// submission is one execution that a client asks for.
type submission struct {
	item store.NewExecution
	// key is the idempotency key as the client wrote it.
	key string
	// position is where a batch has it.
	position int
	// refused says what is wrong with its limits under the configuration; nil for nothing.
	refused *Problem
}

// submissionFields are the fields of an execution that a client asks for.
var submissionFields = []string{
	"action_ref", "parameters", "worker_id", "parent", execution.LimitTimeout, execution.LimitDispatchTimeout, execution.LimitRetries,
}

// keyScope is a key with what it is unique in: the action and the caller. Neither an action's name nor a key has a space.
func (c *caller) keyScope(ref, key string) string {
	if key == "" {
		return ""
	}
	return ref + c.scope + " " + key
}

// clientKey is the key as the client wrote it.
func clientKey(stored string) string { return stored[strings.LastIndexByte(stored, ' ')+1:] }

// readSubmission reads the fields of one execution.
func (s *Server) readSubmission(b *body, v value, allowed []string) (submission, bool) {
	before := len(b.mistakes)
	var sub submission
	fields, _ := b.object(v, allowed)
	if f, ok := fields["action_ref"]; ok {
		sub.item.ActionRef, ok = b.text(f)
		if ok && (sub.item.ActionRef == "" || strings.ContainsFunc(sub.item.ActionRef, func(c rune) bool { return c <= ' ' || c == 0x7f })) {
			b.refuse(f.pointer, f.at, "must be the name of an action, such as core.echo")
		}
	} else if len(b.mistakes) == before {
		b.refuse(v.pointer+"/action_ref", v.at, "is missing: name the action to run")
	}
	sub.item.Parameters = []byte("{}")
	if f, ok := fields["parameters"]; ok {
		switch {
		case f.raw[0] != '{':
			b.refuse(f.pointer, f.at, "must be an object, is "+f.kind())
		case len(f.raw) > maxParameters:
			b.refuse(f.pointer, f.at, fmt.Sprintf("has %d bytes, may have %d", len(f.raw), maxParameters))
		default:
			sub.item.Parameters = append([]byte(nil), f.raw...)
		}
	}
	if f, ok := fields["worker_id"]; ok {
		if id, good := b.integer(f, 1, math.MaxInt64, false); good {
			sub.item.Pinned = execution.WorkerID(id)
		}
	}
	if f, ok := fields["parent"]; ok {
		if id, good := b.integer(f, 1, math.MaxInt64, false); good {
			sub.item.Parent = execution.ID(id)
		}
	}
	s.readLimits(b, fields, &sub)
	if f, ok := fields["idempotency_key"]; ok {
		if sub.key, ok = b.text(f); ok {
			if why := badKey(sub.key); why != "" {
				b.refuse(f.pointer, f.at, why)
			}
		}
	}
	return sub, len(b.mistakes) == before
}

// readLimits reads what the request sets in place of what the action says; null is the action's.
func (s *Server) readLimits(b *body, fields map[string]value, sub *submission) {
	before := len(b.mistakes)
	l := &sub.item.Limits
	whole := func(key string, least, most int64) (n int64) {
		if f, there := fields[key]; there {
			n, _ = b.integer(f, least, most, true)
		}
		return n
	}
	longest := int64(yamlfile.MaxDuration / time.Second)
	l.Timeout = time.Duration(whole(execution.LimitTimeout, 1, longest)) * time.Second
	l.DispatchTimeout = time.Duration(whole(execution.LimitDispatchTimeout, 1, longest)) * time.Second
	l.MaxRetries = int(whole(execution.LimitRetries, 0, config.MaxActionRetries))
	if f, there := fields[execution.LimitRetries]; there {
		l.OwnRetries = f.kind() != "null"
	}
	if len(b.mistakes) > before {
		return
	}
	var wrong []FieldError
	for _, p := range s.Config.ValidateLimits(*l) {
		f := fields[p.Key]
		line, column := position(b.data, f.at)
		wrong = append(wrong, FieldError{Field: f.pointer, Line: line, Column: column, Detail: p.Why})
	}
	if len(wrong) > 0 {
		sub.refused = &Problem{
			Type: typeInvalidLimits, Title: "The execution's limits make no sense", Status: http.StatusUnprocessableEntity,
			Detail: "The body can be read, but the executor's configuration does not allow what it asks for.", Errors: wrong,
		}
	}
}

// badKey says what is wrong with an idempotency key.
func badKey(key string) string {
	if key == "" || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return fmt.Sprintf("must be 1 to %d letters, digits and punctuation marks of ASCII, without spaces", maxIdempotencyKey)
	}
	return ""
}

// headerKey reads the header Idempotency-Key; a problem if it can't be one.
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

// created is what is answered for an accepted execution.
type created struct {
	ID        execution.ID `json:"id"`
	ActionRef string       `json:"action_ref"`
	Status    string       `json:"status"`
	Epoch     int64        `json:"epoch"`
	// Existed says that the idempotency key had created it before.
	Existed  bool   `json:"existed"`
	Location string `json:"location"`
}

func location(id execution.ID) string {
	return "/api/v1/executions/" + strconv.FormatInt(int64(id), 10)
}

// outcome is what became of one submission.
type outcome struct {
	created *created
	problem *Problem
}

func (o outcome) status() int {
	switch {
	case o.problem != nil:
		return o.problem.Status
	case o.created.Existed:
		return http.StatusOK
	}
	return http.StatusCreated
}

// submit creates executions, and returns what became of each. Accepted means committed.
func (s *Server) submit(r *http.Request, submissions []submission) []outcome {
	out := make([]outcome, len(submissions))
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	items := make([]store.NewExecution, len(submissions))
	keys := allKeyed
	for i, sub := range submissions {
		items[i] = sub.item
		items[i].Actor = actor(r)
		items[i].IdempotencyKey = callerOf(r).keyScope(sub.item.ActionRef, sub.key)
		if sub.key == "" {
			keys = someUnkeyed
		}
	}
	fail := func(err error, keys keyed) []outcome {
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
	// What existed is read, to tell a repetition from another request under a used key; and a child, which may
	// have been skipped at once.
	var wanted []execution.ID
	for i, m := range made {
		if m.ID != 0 && (m.Existed || items[i].Parent != 0) {
			wanted = append(wanted, m.ID, items[i].Parent)
		}
	}
	rows := map[execution.ID]execution.Execution{}
	if len(wanted) > 0 {
		list, err := s.executions(r, wanted)
		if err != nil {
			return fail(err, keys)
		}
		for _, row := range list {
			rows[row.ID] = row
		}
	}
	for i, m := range made {
		out[i] = judge(submissions[i], m, rows)
	}
	return out
}

func judge(sub submission, m store.Created, rows map[execution.ID]execution.Execution) outcome {
	ref := sub.item.ActionRef
	if m.UnknownAction {
		return outcome{problem: &Problem{
			Type: typeUnknownAction, Title: "There is no such action", Status: http.StatusUnprocessableEntity,
			Detail: fmt.Sprintf("No action is called %q. Actions are created with POST /api/v1/actions, or from the executor's action files.", ref),
			Errors: []FieldError{{Field: "/action_ref", Detail: "is not the name of an action"}},
		}}
	}
	if m.UnknownWorker {
		return outcome{problem: &Problem{
			Type: typeUnknownWorker, Title: "There is no such worker", Status: http.StatusUnprocessableEntity,
			Detail: fmt.Sprintf("No worker has the number %d. GET /api/v1/workers lists them; without worker_id any fitting worker is taken.", sub.item.Pinned),
			Errors: []FieldError{{Field: "/worker_id", Detail: "is not the number of a worker"}},
		}}
	}
	if m.UnknownParent {
		return outcome{problem: &Problem{
			Type: typeUnknownParent, Title: "There is no such parent", Status: http.StatusUnprocessableEntity,
			Detail: fmt.Sprintf("There is no execution %d that this one could follow.", sub.item.Parent),
			Errors: []FieldError{{Field: "/parent", Detail: "is not the number of an execution"}},
		}}
	}
	c := &created{ID: m.ID, ActionRef: ref, Status: execution.Requested.String(), Existed: m.Existed, Location: location(m.ID)}
	row, ok := rows[m.ID]
	if !ok {
		return outcome{created: c}
	}
	if parent := rows[sub.item.Parent]; m.Existed &&
		(row.Action.Ref != ref || row.Pinned != sub.item.Pinned || row.Parent != parent.Chain() || row.Limits != sub.item.Limits || !sameJSON(row.Parameters, sub.item.Parameters)) {
		return outcome{problem: keyReused(sub.key, m.ID)}
	}
	c.Status, c.Epoch = row.Status.String(), int64(row.Epoch)
	return outcome{created: c}
}

func keyReused(key string, by execution.ID) *Problem {
	return &Problem{
		Type: typeKeyReused, Title: "The idempotency key was used for something else", Status: http.StatusUnprocessableEntity,
		Detail: fmt.Sprintf("The key %q created execution %d with other parameters or limits. Use a new key for a new execution.", key, by),
	}
}

// createExecution is POST /api/v1/executions.
func (s *Server) createExecution(w http.ResponseWriter, r *http.Request) {
	data, problem := read(w, r, maxBody)
	if problem != nil {
		problem.write(w)
		return
	}
	key, problem := headerKey(r)
	if problem != nil {
		problem.write(w)
		return
	}
	b, root, ok := parseBody(data)
	var sub submission
	if ok {
		sub, ok = s.readSubmission(b, root, submissionFields)
	}
	if !ok {
		badRequest("The body is not an execution.", b.mistakes...).write(w)
		return
	}
	sub.key = key
	if sub.refused != nil {
		sub.refused.write(w)
		return
	}
	result := s.submit(r, []submission{sub})[0]
	if result.problem != nil {
		result.problem.write(w)
		return
	}
	w.Header().Set("Location", result.created.Location)
	writeJSON(w, "application/json", result.status(), result.created)
}

// batchResult is what became of one item of a batch.
type batchResult struct {
	// Status is what the item alone would have been answered with.
	Status    int      `json:"status"`
	Execution *created `json:"execution,omitempty"`
	Problem   *Problem `json:"problem,omitempty"`
}

// createBatch is POST /api/v1/executions/batch: 200 with a result for each item, in their order. A
// batch that can't be read is refused as a whole.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) {
	data, problem := read(w, r, maxBatchBody)
	if problem != nil {
		problem.write(w)
		return
	}
	b, submissions, ok := s.readBatch(data)
	if !ok {
		badRequest("The body is not a batch of executions.", b.mistakes...).write(w)
		return
	}
	if len(submissions) > maxBatchItems {
		tooLarge(fmt.Sprintf("A batch may have %d items, this one has %d.", maxBatchItems, len(submissions))).write(w)
		return
	}
	results := s.submitBatch(r, submissions)
	writeJSON(w, "application/json", http.StatusOK, struct {
		Results []batchResult `json:"results"`
	}{results})
}

func (s *Server) readBatch(data []byte) (*body, []submission, bool) {
	b, root, ok := parseBody(data)
	if !ok {
		return b, nil, false
	}
	fields, ok := b.object(root, []string{"executions"})
	if !ok {
		return b, nil, false
	}
	list, ok := fields["executions"]
	if !ok {
		b.refuse("/executions", root.at, "is missing: list the executions to create")
		return b, nil, false
	}
	items, ok := b.items(list)
	if ok && len(items) == 0 {
		b.refuse(list.pointer, list.at, "is empty")
		return b, nil, false
	}
	submissions := make([]submission, len(items))
	for i, item := range items {
		// A thousand times the same mistake helps nobody.
		if len(b.mistakes) >= 100 {
			return b, nil, false
		}
		sub, good := s.readSubmission(b, item, append(slices.Clone(submissionFields), "idempotency_key"))
		sub.position = i
		submissions[i] = sub
		ok = ok && good
	}
	return b, submissions, ok
}

// submitBatch submits in pieces that the database likes. An item that repeats the key of an earlier
// one is that one again: no statement is asked to create one key twice.
func (s *Server) submitBatch(r *http.Request, submissions []submission) []batchResult {
	outcomes := make([]outcome, len(submissions))
	first := map[string]int{}
	var distinct []submission
	var repeated []submission
	for _, sub := range submissions {
		if sub.refused != nil {
			outcomes[sub.position] = outcome{problem: sub.refused}
			continue
		}
		scoped := callerOf(r).keyScope(sub.item.ActionRef, sub.key)
		if _, seen := first[scoped]; seen && scoped != "" {
			repeated = append(repeated, sub)
			continue
		}
		first[scoped] = sub.position
		distinct = append(distinct, sub)
	}
	size := max(1, s.Config.Executor.BatchSize)
	for len(distinct) > 0 {
		piece := distinct[:min(size, len(distinct))]
		distinct = distinct[len(piece):]
		for i, o := range s.submit(r, piece) {
			outcomes[piece[i].position] = o
		}
	}
	for _, sub := range repeated {
		at := first[callerOf(r).keyScope(sub.item.ActionRef, sub.key)]
		o := outcomes[at]
		if o.problem == nil {
			again := *o.created
			again.Existed = true
			o.created = &again
			if one := &submissions[at].item; one.Pinned != sub.item.Pinned || one.Parent != sub.item.Parent || one.Limits != sub.item.Limits || !sameJSON(one.Parameters, sub.item.Parameters) {
				o = outcome{problem: keyReused(sub.key, again.ID)}
			}
		}
		outcomes[sub.position] = o
	}
	results := make([]batchResult, len(outcomes))
	for i, o := range outcomes {
		results[i] = batchResult{Status: o.status(), Execution: o.created, Problem: o.problem}
	}
	return results
}

// getExecution is GET /api/v1/executions/{id}.
func (s *Server) getExecution(w http.ResponseWriter, r *http.Request) {
	if row, ok := s.execution(w, r); ok {
		writeJSON(w, "application/json", http.StatusOK, view(&row))
	}
}

// named is the number of the execution that a path names.
func named(r *http.Request) (execution.ID, *Problem) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return 0, notFound(fmt.Sprintf("No execution is called %q: an id is a whole number from 1.", yamlfile.Cut(text)))
	}
	return execution.ID(id), nil
}

func noExecution(id execution.ID) *Problem {
	return notFound(fmt.Sprintf("There is no execution %d.", id))
}

// execution reads the one that the path names, or answers that there is none.
func (s *Server) execution(w http.ResponseWriter, r *http.Request) (row execution.Execution, ok bool) {
	id, problem := named(r)
	if problem != nil {
		problem.write(w)
		return row, false
	}
	rows, err := s.executions(r, []execution.ID{id})
	switch {
	case err != nil:
		s.storeProblem(r, err, harmless).write(w)
		return row, false
	case len(rows) == 0:
		noExecution(id).write(w)
		return row, false
	}
	return rows[0], true
}

// executions reads rows, bounded like every database call.
func (s *Server) executions(r *http.Request, ids []execution.ID) ([]execution.Execution, error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.Config.Executor.StatementTimeout)
	defer cancel()
	return s.Store.Executions(ctx, ids)
}
