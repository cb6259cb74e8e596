package api

import (
	"cmp"
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

// deadLetterGroupView is a group of the summary.
type deadLetterGroupView struct {
	From      *string `json:"from"`
	Reason    *string `json:"reason"`
	ActionRef *string `json:"action_ref"`
	Worker    *int64  `json:"worker"`
	// WorkerName is null if the worker's name is not known.
	WorkerName *string `json:"worker_name"`

	Count int `json:"count"`
}

// deadLetterSummaryView is the response with a summary of dead letters.
type deadLetterSummaryView struct {
	Since  *string               `json:"since"`
	Until  *string               `json:"until"`
	Total  int                   `json:"total"`
	Groups []deadLetterGroupView `json:"groups"`
	More   bool                  `json:"more"`
}

// summarizeDeadLetters serves GET
// /api/v1/dead-letters/summary?window=24h&every=1h&by=reason,action,worker&limit=N.
func (s *Server) summarizeDeadLetters(w http.ResponseWriter, r *http.Request) *Problem {
	q := store.DeadLetterSummaryQuery{Window: defaultWindow, ByReason: true, ByAction: true, ByWorker: true, Limit: defaultPage}
	problem := readQuery(r, []parameter{
		{"window", readSpan(&q.Window, time.Second, longestWindow)},
		{"every", readSpan(&q.Every, time.Second, longestWindow)},
		{"by", groupedBy(&q)},
		{"limit", pageSize(&q.Limit)},
	})
	if problem == nil && q.Every > 0 && q.Window/q.Every > mostPeriods {
		problem = badRequest("The query can't be used.", FieldError{
			Field: "every", Detail: fmt.Sprintf("splits %v into more than %d periods; take a longer one, or a shorter window", q.Window, mostPeriods),
		})
	}
	if problem != nil {
		return problem
	}
	ctx, cancel := s.statementContext(r)
	defer cancel()
	found, err := s.Store.SummarizeDeadLetters(ctx, q)
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	v := deadLetterSummaryView{Since: timeOrNil(found.Since), Until: timeOrNil(found.Until), Total: found.Total, More: found.More, Groups: []deadLetterGroupView{}}
	for _, g := range found.Groups {
		v.Groups = append(v.Groups, deadLetterGroupView{
			From: timeOrNil(g.From), Reason: textOrNil(g.Reason), ActionRef: textOrNil(g.ActionRef), Worker: numberOrNil(int64(g.Worker)), WorkerName: s.nameOf(g.Worker), Count: g.Count,
		})
	}
	return respondJSON(w, http.StatusOK, v)
}

// readSpan returns a reader of a duration such as 90m.
func readSpan(into *time.Duration, least, most time.Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < least || d > most {
			return fmt.Errorf("it must be a duration such as 90m, from %v to %v", least, most)
		}
		*into = d
		return nil
	}
}

// groupedBy returns a reader of the fields that a summary groups by.
func groupedBy(q *store.DeadLetterSummaryQuery) func(string) error {
	return func(text string) error {
		q.ByReason, q.ByAction, q.ByWorker = false, false, false
		for part := range strings.SplitSeq(text, ",") {
			switch part {
			case "reason":
				q.ByReason = true
			case "action":
				q.ByAction = true
			case "worker":
				q.ByWorker = true
			default:
				return fmt.Errorf("it must be a list of reason, action and worker, with commas between them")
			}
		}
		return nil
	}
}

// discardView is the response to a bulk discard.
type discardView struct {
	Discarded int   `json:"discarded"`
	More      bool  `json:"more"`
	Next      int64 `json:"next"`
}

// discardDeadLetters serves POST /api/v1/dead-letters/discard: it closes the dead letters that a filter
// selects among the next open ones. Repeating it is harmless.
func (s *Server) discardDeadLetters(w http.ResponseWriter, r *http.Request) *Problem {
	d, problem := readDiscard(w, r)
	if problem != nil {
		return problem
	}
	d.Actor = actorName(r)
	ctx, cancel := s.statementContext(r)
	defer cancel()
	done, err := s.Store.DiscardDeadLetters(ctx, d, outcomeDiscarded)
	if err != nil {
		return s.storeProblem(r, err, harmless)
	}
	return respondJSON(w, http.StatusOK, discardView{Discarded: done.Closed, More: done.More, Next: done.Next})
}

// discardFilters returns the filters of a bulk discard. At least one is required, so that an empty body does
// not close everything.
func discardFilters() []string {
	return []string{"ids", "reason", "queue", "action_ref", "worker", "older_than_seconds"}
}

func readDiscard(w http.ResponseWriter, r *http.Request) (d store.DeadLetterDiscard, problem *Problem) {
	d.Limit = defaultDiscard
	selects := false
	problem = optionalBody(w, r, append(discardFilters(), "after", "limit"), func(b *body, fields map[string]value) {
		for _, name := range discardFilters() {
			_, given := fields[name]
			selects = selects || given
		}
		text := func(name string, into *string) {
			if f, given := fields[name]; given {
				text, ok := b.readText(f)
				if *into = text; ok && (text == "" || strings.ContainsRune(text, 0)) {
					b.refuseAt(f.pointer, f.at, "must be the "+name+" of a dead letter; leave it out for any")
				}
			}
		}
		text("reason", &d.Reason)
		text("queue", &d.Queue)
		text("action_ref", &d.ActionRef)
		d.Worker = execution.WorkerID(b.readIntegerField(fields, "worker", 1, math.MaxInt64, false))
		d.OlderThan = time.Duration(b.readIntegerField(fields, "older_than_seconds", 0, int64(yamlfile.MaxDuration/time.Second), false)) * time.Second
		d.After = b.readIntegerField(fields, "after", 0, math.MaxInt64, false)
		d.Limit = cmp.Or(int(b.readIntegerField(fields, "limit", 1, largestDiscard, false)), defaultDiscard)
		if f, given := fields["ids"]; given {
			d.IDs = readIDs(b, f)
		}
	})
	if problem == nil && !selects {
		problem = badRequest("The body does not say what to discard. Give at least one of " + strings.Join(discardFilters(), ", ") +
			`; {"older_than_seconds": 0} means all.`)
	}
	return d, problem
}

// readIDs reads a list of ids in the body; it stops after largestDiscard of them.
func readIDs(b *body, f value) []int64 {
	ids, n, ok := b.readIntegers(f, largestDiscard, math.MaxInt64)
	if ok && (n == 0 || n > largestDiscard) {
		b.refuseAt(f.pointer, f.at, fmt.Sprintf("must have from 1 to %d ids", largestDiscard))
	}
	slices.Sort(ids)
	return ids
}
