package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"unicode/utf8"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// deadLetterView is a dead letter in responses. A body that is not text is in base64.
type deadLetterView struct {
	listedLetterView
	XDeath     json.RawMessage `json:"x_death"`
	Body       *string         `json:"body"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// listedLetterView is a dead letter in lists: without the fields that may be large.
type listedLetterView struct {
	ID         int64   `json:"id"`
	Execution  *int64  `json:"execution"`
	Epoch      *int64  `json:"epoch"`
	Queue      string  `json:"queue"`
	Reason     string  `json:"reason"`
	ActionRef  *string `json:"action_ref"`
	Worker     *int64  `json:"worker"`
	WorkerName *string `json:"worker_name"`
	BodyBytes  *int64  `json:"body_bytes"`
	Outcome    string  `json:"outcome"`
	Open       bool    `json:"open"`
	ReceivedAt *string `json:"received_at"`
	HandledAt  *string `json:"handled_at"`
	HandledBy  *string `json:"handled_by"`
}

func (s *Server) viewListedLetter(d *store.StoredDeadLetter) listedLetterView {
	return listedLetterView{
		ID: d.ID, Execution: numberOrNil(int64(d.Key.ID)), Epoch: numberOrNil(int64(d.Key.Epoch)), Queue: d.Queue, Reason: d.Reason, ActionRef: textOrNil(d.ActionRef), Worker: numberOrNil(int64(d.Worker)), WorkerName: s.nameOf(d.Worker),
		BodyBytes: numberOrNil(int64(d.BodyBytes)), Outcome: d.Outcome, Open: d.Open, ReceivedAt: timeOrNil(d.ReceivedAt), HandledAt: timeOrNil(d.HandledAt), HandledBy: textOrNil(d.HandledBy),
	}
}

func (s *Server) viewDeadLetter(d *store.StoredDeadLetter) deadLetterView {
	v := deadLetterView{listedLetterView: s.viewListedLetter(d), XDeath: d.XDeath}
	if utf8.Valid(d.Body) {
		v.Body = textOrNil(string(d.Body))
	} else {
		v.BodyBase64 = d.Body
	}
	return v
}

// listDeadLetters serves GET /api/v1/dead-letters?open=true&before=ID&limit=N, newest first.
func (s *Server) listDeadLetters(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.DeadLetterQuery
	return servePage(s, w, r, pageSpec{"dead_letters", "before", []parameter{
		{"open", func(text string) (err error) { q.Open, err = strconv.ParseBool(text); return err }},
		{"before", readID(&q.Before)},
	}, defaultPage, nil}, func(ctx context.Context, limit int) ([]store.StoredDeadLetter, error) {
		q.Limit = limit
		return s.Store.DeadLetters(ctx, q)
	}, func(d *store.StoredDeadLetter) any { return s.viewListedLetter(d) }, func(last *store.StoredDeadLetter) any { return last.ID })
}

// statementContext returns a context for one database call, with StatementTimeout.
func (s *Server) statementContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), s.Config.Executor.StatementTimeout)
}

// deadLetter reads the dead letter that the path names.
func (s *Server) deadLetter(r *http.Request) (d store.StoredDeadLetter, problem *Problem) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return d, notFound(fmt.Sprintf("No dead letter is called %q: an id is a whole number from 1.", yamlfile.Cut(text)))
	}
	ctx, cancel := s.statementContext(r)
	defer cancel()
	d, known, err := s.Store.DeadLetter(ctx, id)
	switch {
	case err != nil:
		return d, s.storeProblem(r, err, harmless)
	case !known:
		return d, notFound(fmt.Sprintf("There is no dead letter %d; they are kept for dead_letter.ttl_ms.", id))
	}
	return d, nil
}

// getDeadLetter serves GET /api/v1/dead-letters/{id}.
func (s *Server) getDeadLetter(w http.ResponseWriter, r *http.Request) *Problem {
	d, problem := s.deadLetter(r)
	if problem != nil {
		return problem
	}
	return respondJSON(w, http.StatusOK, s.viewDeadLetter(&d))
}

// outcomeDiscarded is the outcome of a discarded dead letter.
const outcomeDiscarded = "discarded"

// discardDeadLetter serves POST /api/v1/dead-letters/{id}/discard: it closes a dead letter without any action.
// Repeating it is harmless.
func (s *Server) discardDeadLetter(w http.ResponseWriter, r *http.Request) *Problem {
	d, problem := s.deadLetter(r)
	if problem != nil {
		return problem
	}
	if !d.Open && d.Outcome != outcomeDiscarded {
		return &Problem{
			Type: typeSettled, Title: "The dead letter has been dealt with", Status: http.StatusConflict,
			Detail: fmt.Sprintf("What was done: %s.", d.Outcome),
		}
	}
	if problem := s.settleDeadLetter(r, d.ID, outcomeDiscarded); problem != nil {
		return problem
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) settleDeadLetter(r *http.Request, id int64, outcome string) *Problem {
	ctx, cancel := s.statementContext(r)
	defer cancel()
	if _, err := s.Store.SettleDeadLetter(ctx, id, outcome, actorName(r)); err != nil {
		return s.storeProblem(r, err, harmless)
	}
	return nil
}

// replayView is the response to a replay.
type replayView struct {
	Outcome   string       `json:"outcome"`
	Execution execution.ID `json:"execution"`
	Location  string       `json:"location"`
}

// replayDeadLetter serves POST /api/v1/dead-letters/{id}/replay. It redispatches a waiting execution, or creates
// a new execution for one that has ended. Repeating it is harmless: the epoch guards the dispatch, and the
// new execution's key belongs to the dead letter.
func (s *Server) replayDeadLetter(w http.ResponseWriter, r *http.Request) *Problem {
	d, problem := s.deadLetter(r)
	if problem != nil {
		return problem
	}
	refuse := func(why string) *Problem {
		return &Problem{Type: typeNotReplayable, Title: "The dead letter can't be replayed", Status: http.StatusConflict, Detail: why}
	}
	if d.Key.ID == 0 {
		return refuse("It names no execution: its body could not be read. Discard it.")
	}
	rows, err := s.readExecutions(r, []execution.ID{d.Key.ID})
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	if len(rows) == 0 {
		return refuse(fmt.Sprintf("There is no execution %d.", d.Key.ID))
	}
	row := &rows[0]
	out := replayView{Execution: row.ID, Location: executionPath(row.ID)}
	switch {
	case row.Status.Terminal():
		id, problem := s.createReplay(r, row, d.ID)
		if problem != nil {
			return problem
		}
		out = replayView{Outcome: fmt.Sprintf("replayed as execution %d", id), Execution: id, Location: executionPath(id)}
	case row.Status == execution.Scheduled && row.Epoch == d.Key.Epoch:
		if problem := s.reclaimDispatch(r, row); problem != nil {
			return problem
		}
		out.Outcome = "replayed: it is dispatched again"
	case row.Status.Claimed():
		return refuse(fmt.Sprintf("Execution %d is %v: a worker runs it, so there is nothing to replay.", row.ID, row.Status))
	default:
		out.Outcome = fmt.Sprintf("nothing to replay: execution %d has been dispatched anew or waits to be", row.ID)
	}
	if problem := s.settleDeadLetter(r, d.ID, out.Outcome); problem != nil {
		return problem
	}
	w.Header().Set("Location", out.Location)
	return respondJSON(w, http.StatusAccepted, out)
}

// createReplay creates the execution that replays the dead letter of an ended execution. A repeated call
// creates no second one.
func (s *Server) createReplay(r *http.Request, row *execution.Execution, letter int64) (execution.ID, *Problem) {
	item := repetitionOf(row)
	if row.Original != 0 {
		asked, err := s.findLimits(r, []execution.ID{row.Original})
		if err != nil {
			return 0, s.storeProblem(r, err, harmless)
		}
		if limits, found := asked[row.Original]; found {
			item.Limits = limits
		}
	}
	item.Actor = actorName(r)
	// The two spaces make the key different from every client's key.
	item.IdempotencyKey = fmt.Sprintf("%s  dead-letter/%d", item.ActionRef, letter)
	ctx, cancel := context.WithTimeout(r.Context(), submitTimeout)
	defer cancel()
	made, err := s.Submitter.Submit(ctx, []store.NewExecution{item})
	switch {
	case err != nil:
		return 0, s.storeProblem(r, err, harmless)
	case made[0].UnknownAction:
		return 0, &Problem{
			Type: typeUnknownAction, Title: "There is no such action", Status: http.StatusUnprocessableEntity,
			Detail: fmt.Sprintf("The action %q of the execution does not exist any more.", item.ActionRef),
		}
	}
	return made[0].ID, nil
}

// reclaimDispatch reclaims the execution at the epoch whose dispatch message died. If another part reclaims
// it first, the effect is the same.
func (s *Server) reclaimDispatch(r *http.Request, row *execution.Execution) *Problem {
	ctx, cancel := s.statementContext(r)
	defer cancel()
	_, err := s.Store.Reclaim(ctx, []store.Reclaim{{
		Key: row.Key(), Cause: store.DeadLettered, By: execution.DeadLetterHandler, Reason: execution.QueueTimeout, Policy: config.Reschedule,
		Actor: actorName(r),
	}})
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	s.Submitter.AnnounceWork(execution.Key{ID: row.ID})
	return nil
}
