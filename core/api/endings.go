package api

import (
	"context"
	"fmt"
	"net/http"

	"handoff/core/execution"
	"handoff/core/store"
)

// cancelExecution serves POST /api/v1/executions/{id}/cancel. It cancels the whole chain. It answers
// 202 with the chain's last row, or 409 if the chain has ended. Repeating it is harmless.
func (s *Server) cancelExecution(w http.ResponseWriter, r *http.Request) *Problem {
	id, problem := pathExecutionID(r)
	if problem == nil {
		problem = noBody(w, r)
	}
	if problem != nil {
		return problem
	}
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	answer, err := s.Submitter.Cancel(ctx, id, actorName(r))
	switch {
	case err != nil:
		return s.storeProblem(r, err, harmless)
	case answer.Row.ID == 0:
		return noExecution(id)
	case !answer.Applied:
		return &Problem{
			Type: typeEnded, Title: "The execution has ended", Status: http.StatusConflict,
			Detail: fmt.Sprintf("Execution %d, the last of its chain, is %v. What has ended is not cancelled.", answer.Row.ID, answer.Row.Status),
		}
	}
	w.Header().Set("Location", executionPath(answer.Row.ID))
	return respondJSON(w, http.StatusAccepted, s.viewExecution(&answer.Row))
}

// retryExecution serves POST /api/v1/executions/{id}/retry. It repeats an execution that has ended without
// completing, with the same parameters, the same pin and the limits of the original request. It answers 201
// with a new execution outside the chain: a chain's retries are counted and bounded, and workflow children
// follow its end. With an Idempotency-Key, repeating it is harmless.
func (s *Server) retryExecution(w http.ResponseWriter, r *http.Request) *Problem {
	problem := noBody(w, r)
	key := ""
	if problem == nil {
		key, problem = headerKey(r)
	}
	if problem != nil {
		return problem
	}
	chain, problem := s.readChain(r)
	if problem != nil {
		return problem
	}
	// The chain above was read without parameters, which a retry needs.
	rows, err := s.readExecutions(r, []execution.ID{chain[len(chain)-1].ID})
	if err == nil && len(rows) == 0 {
		err = errNoExecution
	}
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	last := &rows[0]
	if refused, why := notRetriable(last); refused != "" {
		return &Problem{Type: typeNotRetriable, Title: "The execution can't be retried", Status: http.StatusConflict, Detail: why}
	}
	item := repetitionOf(last)
	item.Limits = chain[0].Limits // not a later row's: free retries raise them
	result := s.submitExecutions(r, []submitRequest{{
		item: item, key: key,
	}}, newComparison())[0]
	if result.problem != nil {
		return result.problem
	}
	w.Header().Set("Location", result.created.Location)
	return respondJSON(w, result.httpStatus(), result.created)
}

// repetitionOf returns the request that repeats an execution: with the action's current definition, and with
// the original request's parameters, pinned worker and limits.
func repetitionOf(e *execution.Execution) store.NewExecution {
	return store.NewExecution{ActionRef: e.Action.Ref, Parameters: e.Parameters, Pinned: e.Pinned, Limits: e.Limits}
}

// findLimits returns the limits of executions by id. It leaves out rows that are deleted or unreadable. A
// chain's first row has the limits of the request; free retries have raised those of later rows.
func (s *Server) findLimits(r *http.Request, ids []execution.ID) (map[execution.ID]execution.Limits, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := s.readListed(r, store.ExecutionQuery{IDs: ids})
	limits := make(map[execution.ID]execution.Limits, len(rows))
	for i := range rows {
		if rows[i].Unreadable == "" {
			limits[rows[i].ID] = rows[i].Limits
		}
	}
	return limits, err
}

// notRetriable returns why the last row of a chain can't be retried: a reason, empty if it can be, and a text
// for the client.
func notRetriable(last *execution.Execution) (refused, why string) {
	switch {
	case last.Status == execution.Completed:
		return refusedCompleted, fmt.Sprintf("Execution %d has completed. To run its action again, create an execution.", last.ID)
	case !last.Status.Terminal():
		return refusedNotEnded, fmt.Sprintf("Execution %d, the last of its chain, is %v: it has not ended.", last.ID, last.Status)
	case last.OrchestratedAt.IsZero() && last.FailureReason.Retriable() && (last.RetryCount < last.Action.MaxRetries || last.MayBeFree()):
		return refusedAboutToRetry, fmt.Sprintf("Execution %d has just ended as %v and is about to be retried by itself.", last.ID, last.Status)
	}
	return "", ""
}
