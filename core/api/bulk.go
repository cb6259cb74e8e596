package api

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// Counts, retries and cancellations by filter work in steps, from the newest execution to the oldest. A step
// scans the primary key downwards, at most bulkWindows × listWindow ids. So with a narrow filter a step may
// find nothing although more executions follow. The statuses between requested and the terminal ones have
// short indexes and need no window. No index has the times: idBounds searches for the ids that match a
// filter's creation times.

// executionCount is the response to a count and to a dry run.
type executionCount struct {
	Count int          `json:"count"`
	More  bool         `json:"more"`
	Next  execution.ID `json:"next"`
}

// bulkResult is the response to one step of a command.
type bulkResult struct {
	Done    int            `json:"done"`
	Refused map[string]int `json:"refused"`
	More    bool           `json:"more"`
	Next    execution.ID   `json:"next"`
}

// The reasons why a command can refuse a selected execution.
const (
	refusedCompleted      = "completed"
	refusedNotEnded       = "not_ended"
	refusedAboutToRetry   = "about_to_retry"
	refusedLaterAttempt   = "later_attempt"
	refusedAlreadyRetried = "already_retried"
	refusedUnknownAction  = "unknown_action"
	refusedUnknownWorker  = "unknown_worker"
	refusedEnded          = "ended"
	refusedCanceling      = "already_canceling"
	refusedGone           = "gone"
	refusedUnreadable     = "unreadable"
)

// countExecutions serves GET
// /api/v1/executions/count?action_ref=R&status=S&failure_reason=F&created_from=T&created_to=T&ended_from=T&ended_to=T&before=ID.
func (s *Server) countExecutions(w http.ResponseWriter, r *http.Request) *Problem {
	var f executionFilter
	problem := readQuery(r, append(f.queryParameters(), parameter{"before", readID(&f.query.Before)}))
	if problem == nil {
		problem = f.checkFilter("")
	}
	if problem != nil {
		return problem
	}
	return s.serveBulk(w, r, f.query, nil)
}

// retryExecutions serves POST /api/v1/executions/retry: one step of a retry by filter.
func (s *Server) retryExecutions(w http.ResponseWriter, r *http.Request) *Problem {
	return s.serveCommand(w, r, s.retryListed)
}

// cancelExecutions serves POST /api/v1/executions/cancel: one step of a cancellation by filter.
func (s *Server) cancelExecutions(w http.ResponseWriter, r *http.Request) *Problem {
	return s.serveCommand(w, r, s.cancelListed)
}

func (s *Server) serveCommand(w http.ResponseWriter, r *http.Request, command bulkCommand) *Problem {
	q, dryRun, problem := readCommand(w, r)
	if problem != nil {
		return problem
	}
	if dryRun {
		command = nil
	}
	return s.serveBulk(w, r, q, command)
}

// bulkCommand applies a command to listed executions, in order, and records the outcome in the result. It
// returns the number of handled rows: at least one, and all of them unless the step takes too long.
type bulkCommand func(ctx context.Context, r *http.Request, rows []store.Listed, result *bulkResult) (handled int, err error)

// serveBulk answers a request by filter. A nil command only counts.
func (s *Server) serveBulk(w http.ResponseWriter, r *http.Request, q store.ExecutionQuery, command bulkCommand) *Problem {
	leave, problem := s.gates.bulk.takePlace(r.Context())
	if problem != nil {
		return problem
	}
	defer leave()
	if command == nil {
		// One extra row shows whether there are more than mostCounted.
		q.OnlyIDs, q.Limit = true, mostCounted+1
	}
	rows, next, left, err := s.selectExecutions(r, q)
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	if command == nil {
		if len(rows) > mostCounted {
			rows, next, left = rows[:mostCounted], rows[mostCounted-1].ID, true
		}
		return respondJSON(w, http.StatusOK, executionCount{Count: len(rows), More: left, Next: next})
	}
	ctx, cancel := context.WithTimeout(r.Context(), bulkStepTime)
	defer cancel()
	result := bulkResult{Refused: map[string]int{}, More: left, Next: next}
	handled, err := command(ctx, r, rows, &result)
	if err != nil {
		return s.storeProblem(r, err, repeatableStep)
	}
	if handled < len(rows) {
		result.More, result.Next = true, rows[handled-1].ID
	}
	return respondJSON(w, http.StatusOK, result)
}

// executionFilter selects executions; it is read from a query or from a body.
type executionFilter struct {
	query store.ExecutionQuery
	given bool
}

// queryParameters returns the fields of a filter; all are texts.
func (e *executionFilter) queryParameters() []parameter {
	q := &e.query
	all := []parameter{
		{"action_ref", func(text string) error {
			if q.ActionRef = text; text == "" || len(text) > maxActionRef || strings.ContainsRune(text, 0) {
				return fmt.Errorf("it must be the name of an action, of 1 to %d characters; leave it out for any", maxActionRef)
			}
			return nil
		}},
		{"status", oneOf(&q.Status, statusNames(), execution.ParseStatus)},
		{"failure_reason", oneOf(&q.Reason, execution.Reasons(), execution.ParseReason)},
		{"created_from", readMoment(&q.Created.From)},
		{"created_to", readMoment(&q.Created.To)},
		{"ended_from", readMoment(&q.Ended.From)},
		{"ended_to", readMoment(&q.Ended.To)},
	}
	for i := range all {
		read := all[i].read
		all[i].read = func(text string) error { e.given = true; return read(text) }
	}
	return all
}

// checkFilter refuses a filter that has no field, or a period that ends before it begins. prefix is put
// before the names of fields in the mistakes.
func (e *executionFilter) checkFilter(prefix string) *Problem {
	if !e.given {
		var names []string
		for _, p := range e.queryParameters() {
			names = append(names, p.name)
		}
		return badRequest("The request does not say which executions. Give at least one of " + strings.Join(names, ", ") + ".")
	}
	var mistakes []FieldError
	order := func(name string, p store.Period) {
		if !p.From.IsZero() && !p.To.IsZero() && !p.From.Before(p.To) {
			mistakes = append(mistakes, FieldError{Field: prefix + name + "_to", Detail: "must be later than " + name + "_from"})
		}
	}
	order("created", e.query.Created)
	order("ended", e.query.Ended)
	if len(mistakes) > 0 {
		return badRequest("The filter can't be used.", mistakes...)
	}
	return nil
}

// oneOf returns a reader that accepts one of the given names.
func oneOf[T any](into *T, names []string, parse func(string) (T, error)) func(string) error {
	return func(text string) (err error) {
		if !slices.Contains(names, text) {
			return fmt.Errorf("it must be one of %s; leave it out for any", strings.Join(names, ", "))
		}
		*into, err = parse(text)
		return err
	}
}

// statusNames returns the names of all statuses.
func statusNames() (names []string) {
	for s := execution.None + 1; int(s) < execution.Statuses; s++ {
		names = append(names, s.String())
	}
	return names
}

func readMoment(into *time.Time) func(string) error {
	return func(text string) error {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil || at.IsZero() {
			return fmt.Errorf("it must be a time with its zone, such as 2026-01-31T14:30:00Z")
		}
		*into = at
		return nil
	}
}

// readCommand reads the body of a command by filter.
func readCommand(w http.ResponseWriter, r *http.Request) (q store.ExecutionQuery, dryRun bool, problem *Problem) {
	var filter executionFilter
	filter.query.Limit = largestBulk // without a body
	parameters := filter.queryParameters()
	var allowed []string
	for _, p := range parameters {
		allowed = append(allowed, p.name)
	}
	problem = optionalBody(w, r, append(allowed, "before", "limit", "dry_run"), func(b *body, fields map[string]value) {
		for _, p := range parameters {
			f, given := fields[p.name]
			if !given {
				continue
			}
			if text, ok := b.readText(f); ok {
				if err := p.read(text); err != nil {
					b.refuseAt(f.pointer, f.at, fmt.Sprintf("can't be used: %q: %v", yamlfile.Cut(text), err))
				}
			}
		}
		filter.query.Before = execution.ID(b.readIntegerField(fields, "before", 1, math.MaxInt64, false))
		filter.query.Limit = cmp.Or(int(b.readIntegerField(fields, "limit", 1, largestBulk, false)), largestBulk)
		if f, given := fields["dry_run"]; given {
			if dryRun = f.raw[0] == 't'; f.kindName() != "a boolean" {
				b.refuseAt(f.pointer, f.at, "must be true or false, is "+f.kindName())
			}
		}
	})
	if problem == nil {
		problem = filter.checkFilter("/")
	}
	return filter.query, dryRun, problem
}

// selectExecutions returns the next executions that a filter selects, newest first, at most q.Limit.
// next is the position of the next step, and more reports whether there may be more executions.
func (s *Server) selectExecutions(r *http.Request, q store.ExecutionQuery) (rows []store.Listed, next execution.ID, more bool, err error) {
	floor, top, err := s.idBounds(r, &q)
	held := q.Status > execution.Requested && !q.Status.Terminal()
	limit := q.Limit
	for windows := 0; err == nil && windows < bulkWindows && top-1 > floor && len(rows) < limit; windows++ {
		q.Before, q.After, q.Limit = top, max(top-1-listWindow, floor), limit-len(rows)
		if held {
			q.After = floor
		}
		var page []store.Listed
		if page, err = s.readListed(r, q); err != nil {
			break
		}
		rows = append(rows, page...)
		if top = q.After + 1; len(page) == q.Limit {
			top = page[len(page)-1].ID
		}
	}
	return rows, top, top-1 > floor, err
}

// idBounds returns the range of ids that a filter can still select: above floor and below top.
func (s *Server) idBounds(r *http.Request, q *store.ExecutionQuery) (floor, top execution.ID, err error) {
	newest, err := s.readListed(r, store.ExecutionQuery{Limit: 1})
	if err != nil || len(newest) == 0 {
		return 0, 1, err
	}
	top = newest[0].ID + 1
	if !q.Created.From.IsZero() {
		if floor, _, err = s.searchCreated(r, newest[0].ID, q.Created.From.Add(-idDisorder)); err != nil {
			return 0, 1, err
		}
	}
	to := q.Created.To
	if to.IsZero() || !q.Ended.To.IsZero() && q.Ended.To.Before(to) {
		// An execution that ended before Ended.To was also created before it.
		to = q.Ended.To
	}
	switch {
	case q.Before != 0:
		top = min(top, q.Before)
	case !to.IsZero():
		_, last, err := s.searchCreated(r, newest[0].ID, to.Add(idDisorder))
		if err != nil {
			return 0, 1, err
		}
		top = last + 1
	}
	return floor, top, nil
}

// searchCreated finds, by binary search, the last execution that was created before moment: it reads one row
// for each bit of the newest id. The execution's id is between low and high, which differ only if rows
// between them can't be read.
func (s *Server) searchCreated(r *http.Request, newest execution.ID, moment time.Time) (low, high execution.ID, err error) {
	high = newest
	for low < high {
		middle := high - (high-low)/2
		rows, err := s.readListed(r, store.ExecutionQuery{Before: middle + 1, Limit: 1})
		switch {
		case err != nil:
			return 0, 0, err
		case len(rows) > 0 && rows[0].Unreadable != "":
			return low, high, nil
		case len(rows) == 0 || rows[0].Created.Before(moment):
			low = middle
		default:
			high = max(low, rows[0].ID-1)
		}
	}
	return low, high, nil
}

// retryListed retries executions as retryExecution does, but each chain once: the new execution's idempotency
// key belongs to the chain, not to the caller, and lasts for execution.KeyLifetime.
func (s *Server) retryListed(ctx context.Context, r *http.Request, rows []store.Listed, result *bulkResult) (handled int, err error) {
	bytes := 0
	for piece := range slices.Chunk(rows, bulkPiece) {
		if handled > 0 && (ctx.Err() != nil || bytes > maxBatchBody) {
			break
		}
		var ids []execution.ID
		for i := range piece {
			refused, err := s.retryRefusal(r, &piece[i])
			if err != nil {
				return handled, err
			}
			if refused == "" {
				ids = append(ids, piece[i].ID)
			} else {
				result.Refused[refused]++
			}
		}
		n, err := s.retryLast(ctx, r, ids, result)
		if err != nil {
			return handled, err
		}
		bytes += n
		handled += len(piece)
	}
	return handled, nil
}

// retryRefusal returns the reason why an execution can't be retried, empty if it can. The answer stays valid:
// an end is final, and once it is handled, no row joins the chain.
func (s *Server) retryRefusal(r *http.Request, row *store.Listed) (string, error) {
	if row.Unreadable != "" {
		return refusedUnreadable, nil
	}
	if refused, _ := notRetriable(&row.Execution); refused != "" {
		return refused, nil
	}
	if !row.Retriable() {
		return "", nil
	}
	// Another attempt may have followed. Then only the last row of the chain is retried.
	ctx, cancel := s.statementContext(r)
	defer cancel()
	chain, err := s.Store.Chain(ctx, row.ID)
	if err == nil && len(chain) > 0 && chain[len(chain)-1].ID != row.ID {
		return refusedLaterAttempt, nil
	}
	return "", err
}

// retryLast creates a new execution for each given one, which must be the last of its chain. It returns the
// size of their parameters.
func (s *Server) retryLast(ctx context.Context, r *http.Request, ids []execution.ID, result *bulkResult) (bytes int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	rows, err := s.readListed(r, store.ExecutionQuery{IDs: ids, WithParameters: true})
	if err != nil {
		return 0, err
	}
	if gone := len(ids) - len(rows); gone > 0 {
		result.Refused[refusedGone] += gone
	}
	var firsts []execution.ID
	for i := range rows {
		if rows[i].Original != 0 {
			firsts = append(firsts, rows[i].Original)
		}
	}
	asked, err := s.findLimits(r, firsts)
	if err != nil {
		return 0, err
	}
	var requests []submitRequest
	for i := range rows {
		row := &rows[i]
		if row.Unreadable != "" {
			result.Refused[refusedUnreadable]++
			continue
		}
		item := repetitionOf(&row.Execution)
		if limits, found := asked[row.Original]; found {
			item.Limits = limits
		}
		item.Actor = actorName(r)
		// The two spaces make the key different from every client's key.
		item.IdempotencyKey = fmt.Sprintf("%s  retry/%d", item.ActionRef, row.Chain())
		requests = append(requests, submitRequest{item: item})
		bytes += len(item.Parameters)
	}
	for len(requests) > 0 {
		n := s.nextPieceSize(requests)
		items := make([]store.NewExecution, n)
		for i := range items {
			items[i] = requests[i].item
		}
		requests = requests[n:]
		made, err := s.Submitter.Submit(ctx, items)
		if err != nil {
			return bytes, err
		}
		for _, m := range made {
			switch {
			case m.UnknownAction:
				result.Refused[refusedUnknownAction]++
			case m.UnknownWorker:
				result.Refused[refusedUnknownWorker]++
			case m.Existed:
				result.Refused[refusedAlreadyRetried]++
			default:
				result.Done++
			}
		}
	}
	return bytes, nil
}

// cancelListed cancels executions as cancelExecution does. It skips executions that are already being
// cancelled. It refuses an execution that has ended: later attempts of its chain are separate executions.
func (s *Server) cancelListed(ctx context.Context, r *http.Request, rows []store.Listed, result *bulkResult) (handled int, err error) {
	for i := range rows {
		if i > 0 && ctx.Err() != nil {
			return i, nil
		}
		row := &rows[i]
		switch {
		case row.Unreadable != "":
			result.Refused[refusedUnreadable]++
			continue
		case row.Status.Terminal() && !row.OrchestratedAt.IsZero():
			result.Refused[refusedEnded]++
			continue
		case row.Status == execution.Canceling:
			result.Refused[refusedCanceling]++
			continue
		}
		answer, err := s.Submitter.Cancel(ctx, row.ID, actorName(r))
		switch {
		case err != nil:
			return i, err
		case answer.Row.ID == 0:
			result.Refused[refusedGone]++
		case !answer.Applied:
			result.Refused[refusedEnded]++
		default:
			result.Done++
		}
	}
	return len(rows), nil
}
