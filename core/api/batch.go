package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// batchResult is the result of one item of a batch.
type batchResult struct {
	// Status is the HTTP status that the item would have received as a single request.
	Status    int          `json:"status"`
	Execution *createdView `json:"execution,omitempty"`
	Problem   *Problem     `json:"problem,omitempty"`
}

// createBatch serves POST /api/v1/executions/batch. It answers 200 with a result for each item, in order. It
// refuses the whole batch if the body can't be read.
func (s *Server) createBatch(w http.ResponseWriter, r *http.Request) *Problem {
	data, problem := readBody(w, r, maxBatchBody)
	if problem != nil {
		return problem
	}
	b, submissions, n := s.readBatch(r.Context(), data)
	switch {
	case n > maxBatchItems:
		return tooLarge(fmt.Sprintf("A batch may have %d items, this one has more.", maxBatchItems))
	case !b.close():
		return b.mistakesProblem("The body is not a batch of executions.")
	}
	var refused [][]FieldError
	for i := range submissions {
		if p := submissions[i].refused; p != nil {
			refused = append(refused, p.Errors)
		}
	}
	locateMistakes(data, refused...)
	results, ok := s.submitBatch(r, submissions)
	if !ok {
		return nil // the client has disconnected
	}
	return respondJSON(w, http.StatusOK, struct {
		Results []batchResult `json:"results"`
	}{results})
}

// readBatch reads at most maxBatchItems submissions and returns their number. If the batch has more, n is
// maxBatchItems + 1, and reading ends there.
func (s *Server) readBatch(ctx context.Context, data []byte) (b *body, submissions []submitRequest, n int) {
	b, ok := parseBody(ctx, data)
	if !ok {
		return b, nil, 0
	}
	allowed := append(slices.Clone(submissionFields), "idempotency_key")
	root, fields := b.readObject("", []string{"executions"}, "executions", func(pointer string) {
		var at int
		at, n, ok = b.readItems(pointer, maxBatchItems, func(pointer string) {
			sub := s.readSubmission(b, pointer, allowed)
			sub.position = len(submissions)
			submissions = append(submissions, sub)
		})
		if ok && n == 0 {
			b.refuseAt(pointer, at, "is empty")
		}
		if n > maxBatchItems {
			b.ended = true
		}
	})
	if _, given := fields["executions"]; !given && len(b.mistakes) == 0 {
		b.refuseAt("/executions", root.at, "is missing: list the executions to create")
	}
	return b, submissions, n
}

// submitBatch submits the batch in pieces of a size that the database handles well. An item that repeats the
// key of an earlier item gets that item's result, so no statement creates one key twice.
//
// If the client has disconnected, it returns false and does not send the remaining pieces.
func (s *Server) submitBatch(r *http.Request, submissions []submitRequest) ([]batchResult, bool) {
	compared := newComparison()
	outcomes := make([]outcome, len(submissions))
	first := map[string]int{}
	var distinct []submitRequest
	var repeated []submitRequest
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
	for len(distinct) > 0 {
		if r.Context().Err() != nil {
			return nil, false
		}
		piece := distinct[:s.nextPieceSize(distinct)]
		distinct = distinct[len(piece):]
		for i, o := range s.submitExecutions(r, piece, compared) {
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
			one := &submissions[at].item
			if one.Pinned != sub.item.Pinned || one.Parent != sub.item.Parent || one.Limits != sub.item.Limits {
				o = outcome{problem: keyReused(sub.key, again.ID)}
			} else if problem := repetitionProblem(compared.compareParameters(one.Parameters, sub.item.Parameters), sub.key, again.ID); problem != nil {
				o = outcome{problem: problem}
			}
		}
		outcomes[sub.position] = o
	}
	results := make([]batchResult, len(outcomes))
	for i, o := range outcomes {
		results[i] = batchResult{Status: o.httpStatus(), Execution: o.created, Problem: o.problem}
	}
	return results, true
}

// nextPieceSize returns how many of the next submissions the next statement includes.
func (s *Server) nextPieceSize(next []submitRequest) int {
	bytes := 0
	for n := range next {
		bytes += len(next[n].item.Parameters)
		if n > 0 && (n >= s.Config.Executor.BatchSize || bytes > maxPiece) {
			return n
		}
	}
	return len(next)
}
