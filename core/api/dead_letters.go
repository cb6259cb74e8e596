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

// deadLetterView is a dead letter as the API shows it. A body that is not text is shown in base64.
type deadLetterView struct {
	listedLetterView
	XDeath     json.RawMessage `json:"x_death"`
	Body       *string         `json:"body"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// listedLetterView is a dead letter as lists show it: without the fields that may be large.
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
		ID: d.ID, Execution: number(int64(d.Key.ID)), Epoch: number(int64(d.Key.Epoch)), Queue: d.Queue, Reason: d.Reason, ActionRef: name(d.ActionRef), Worker: number(int64(d.Worker)), WorkerName: s.nameOf(d.Worker),
		BodyBytes: number(int64(d.BodyBytes)), Outcome: d.Outcome, Open: d.Open, ReceivedAt: moment(d.ReceivedAt), HandledAt: moment(d.HandledAt), HandledBy: name(d.HandledBy),
	}
}

func (s *Server) viewDeadLetter(d *store.StoredDeadLetter) deadLetterView {
	v := deadLetterView{listedLetterView: s.viewListedLetter(d), XDeath: d.XDeath}
	if utf8.Valid(d.Body) {
		v.Body = name(string(d.Body))
	} else {
		v.BodyBase64 = d.Body
	}
	return v
}

// listDeadLetters is GET /api/v1/dead-letters?open=true&before=ID&limit=N, newest first.
func (s *Server) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	var q store.DeadLetterQuery
	servePage(s, w, r, list{"dead_letters", "before", []parameter{
		{"open", func(text string) (err error) { q.Open, err = strconv.ParseBool(text); return err }},
		{"before", number64(&q.Before)},
	}, defaultPage, nil}, func(ctx context.Context, limit int) ([]store.StoredDeadLetter, error) {
		q.Limit = limit
		return s.Store.DeadLetters(ctx, q)
	}, func(d *store.StoredDeadLetter) any { return s.viewListedLetter(d) }, func(last *store.StoredDeadLetter) any { return last.ID })
}

// statement bounds one database call.
func (s *Server) statement(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.Context(), s.Config.Executor.StatementTimeout)
}

// deadLetter reads the dead letter that the path names, or answers that there is none.
func (s *Server) deadLetter(w http.ResponseWriter, r *http.Request) (d store.StoredDeadLetter, ok bool) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		notFound(fmt.Sprintf("No dead letter is called %q: an id is a whole number from 1.", yamlfile.Cut(text))).write(w)
		return d, false
	}
	ctx, cancel := s.statement(r)
	defer cancel()
	d, known, err := s.Store.DeadLetter(ctx, id)
	switch {
	case err != nil:
		s.storeProblem(r, err, harmless).write(w)
		return d, false
	case !known:
		notFound(fmt.Sprintf("There is no dead letter %d; they are kept for dead_letter.ttl_ms.", id)).write(w)
		return d, false
	}
	return d, true
}

// getDeadLetter is GET /api/v1/dead-letters/{id}.
func (s *Server) getDeadLetter(w http.ResponseWriter, r *http.Request) {
	if d, ok := s.deadLetter(w, r); ok {
		writeJSON(w, "application/json", http.StatusOK, s.viewDeadLetter(&d))
	}
}

// outcomeDiscarded is the outcome of a discarded dead letter.
const outcomeDiscarded = "discarded"

// discardDeadLetter is POST /api/v1/dead-letters/{id}/discard: an operator has looked at it and
// wants nothing done. Repeating it is harmless.
func (s *Server) discardDeadLetter(w http.ResponseWriter, r *http.Request) {
	d, ok := s.deadLetter(w, r)
	if !ok {
		return
	}
	if !d.Open && d.Outcome != outcomeDiscarded {
		(&Problem{
			Type: typeSettled, Title: "The dead letter has been dealt with", Status: http.StatusConflict,
			Detail: fmt.Sprintf("What was done: %s.", d.Outcome),
		}).write(w)
		return
	}
	if !s.settle(w, r, d.ID, outcomeDiscarded) {
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Server) settle(w http.ResponseWriter, r *http.Request, id int64, outcome string) bool {
	ctx, cancel := s.statement(r)
	defer cancel()
	if _, err := s.Store.SettleDeadLetter(ctx, id, outcome, actor(r)); err != nil {
		s.storeProblem(r, err, harmless).write(w)
		return false
	}
	return true
}

// replayed is the response to a replay.
type replayed struct {
	Outcome   string       `json:"outcome"`
	Execution execution.ID `json:"execution"`
	Location  string       `json:"location"`
}

// replayDeadLetter is POST /api/v1/dead-letters/{id}/replay. It dispatches a waiting execution
// anew, or creates a new execution for one that has ended. Repeating it is harmless: the epoch
// guards the dispatch, and the new execution has a key that belongs to the dead letter.
func (s *Server) replayDeadLetter(w http.ResponseWriter, r *http.Request) {
	d, ok := s.deadLetter(w, r)
	if !ok {
		return
	}
	refuse := func(why string) {
		(&Problem{Type: typeNotReplayable, Title: "The dead letter can't be replayed", Status: http.StatusConflict, Detail: why}).write(w)
	}
	if d.Key.ID == 0 {
		refuse("It names no execution: its body could not be read. Discard it.")
		return
	}
	rows, err := s.executions(r, []execution.ID{d.Key.ID})
	if err != nil {
		s.storeProblem(r, err, harmless).write(w)
		return
	}
	if len(rows) == 0 {
		refuse(fmt.Sprintf("There is no execution %d.", d.Key.ID))
		return
	}
	row := &rows[0]
	out := replayed{Execution: row.ID, Location: location(row.ID)}
	switch {
	case row.Status.Terminal():
		id, problem := s.again(r, row, d.ID)
		if problem != nil {
			problem.write(w)
			return
		}
		out = replayed{Outcome: fmt.Sprintf("replayed as execution %d", id), Execution: id, Location: location(id)}
	case row.Status == execution.Scheduled && row.Epoch == d.Key.Epoch:
		if problem := s.dispatchAgain(r, row); problem != nil {
			problem.write(w)
			return
		}
		out.Outcome = "replayed: it is dispatched again"
	case row.Status.Claimed():
		refuse(fmt.Sprintf("Execution %d is %v: a worker runs it, so there is nothing to replay.", row.ID, row.Status))
		return
	default:
		out.Outcome = fmt.Sprintf("nothing to replay: execution %d has been dispatched anew or waits to be", row.ID)
	}
	if s.settle(w, r, d.ID, out.Outcome) {
		w.Header().Set("Location", out.Location)
		writeJSON(w, "application/json", http.StatusAccepted, out)
	}
}

// again creates the execution that replays a dead letter of an ended one, once.
func (s *Server) again(r *http.Request, row *execution.Execution, letter int64) (execution.ID, *Problem) {
	item := sameAgain(row)
	if row.Original != 0 {
		asked, err := s.findLimits(r, []execution.ID{row.Original})
		if err != nil {
			return 0, s.storeProblem(r, err, harmless)
		}
		if limits, found := asked[row.Original]; found {
			item.Limits = limits
		}
	}
	item.Actor = actor(r)
	// The two spaces keep the key apart from every key of a client.
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

// dispatchAgain takes back the epoch whose message died. If another part took it back meanwhile,
// the effect is the same.
func (s *Server) dispatchAgain(r *http.Request, row *execution.Execution) *Problem {
	ctx, cancel := s.statement(r)
	defer cancel()
	_, err := s.Store.Reclaim(ctx, []store.Reclaim{{
		Key: row.Key(), Cause: store.DeadLettered, By: execution.DeadLetterHandler, Reason: execution.QueueTimeout, Policy: config.Reschedule,
		Actor: actor(r),
	}})
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	s.Submitter.AnnounceWork(execution.Key{ID: row.ID})
	return nil
}
