package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
)

// workerView is a worker in responses.
type workerView struct {
	ID            int64            `json:"id"`
	Name          string           `json:"name"`
	Incarnation   int64            `json:"incarnation"`
	Runtimes      []string         `json:"runtimes"`
	Capacity      int              `json:"capacity"`
	Load          int              `json:"load"`
	Lifecycle     string           `json:"lifecycle"`
	LeaseValid    bool             `json:"lease_valid"`
	LeaseSeconds  float64          `json:"lease_expires_in_seconds"`
	ConsumerAlive bool             `json:"consumer_alive"`
	Cordoned      bool             `json:"cordoned"`
	CordonReason  *string          `json:"cordon_reason"`
	CordonChanged *string          `json:"cordon_changed_by"`
	HealthURL     *string          `json:"health_url"`
	Capabilities  capabilitiesView `json:"capabilities"`
	// Unreadable describes the part of the row that can't be read; that part is zero in the other fields.
	Unreadable string `json:"unreadable,omitempty"`
}

type capabilitiesView struct {
	Health healthView `json:"health"`
}

// healthView is a worker's health, with the field names of the contract. Derived values follow from this
// executor's configuration.
type healthView struct {
	Status string `json:"status"`
	// LastCheck is the time of the worker's last health report; null before its first heartbeat.
	LastCheck           *string `json:"last_check"`
	ConsecutiveFailures int     `json:"consecutive_failures"`
	TotalExecutions     int     `json:"total_executions"`
	FailedExecutions    int     `json:"failed_executions"`
	FailureRate         float64 `json:"failure_rate"`
	QueueDepth          int     `json:"queue_depth"`
	AverageMS           float64 `json:"average_execution_time_ms"`
}

func viewWorker(w *store.WorkerRow, c config.Config) workerView {
	f := w.Evidence(c.Health.Window)
	h := healthView{
		Status: c.Health.Of(f, w.Queued).String(), ConsecutiveFailures: f.Consecutive, TotalExecutions: f.Total, FailedExecutions: f.Failed,
		LastCheck: timeOrNil(w.LastBeat), QueueDepth: w.Queued, AverageMS: float64(f.Average.Microseconds()) / 1000,
	}
	if f.Total > 0 {
		h.FailureRate = float64(f.Failed) / float64(f.Total)
	}
	return workerView{
		ID: int64(w.ID), Name: w.Name, Incarnation: int64(w.Incarnation), Runtimes: append([]string{}, w.Runtimes...), Capacity: w.Capacity, Load: w.Load,
		Lifecycle: w.Lifecycle.String(), LeaseValid: w.LeaseValid(), LeaseSeconds: (-w.LeaseOverFor).Seconds(), ConsumerAlive: w.ConsumerAlive,
		Cordoned: w.Cordoned, CordonReason: textOrNil(w.CordonReason), CordonChanged: textOrNil(w.CordonChangedBy), HealthURL: textOrNil(w.HealthURL), Capabilities: capabilitiesView{h},
		Unreadable: w.Unreadable,
	}
}

// listWorkers serves GET /api/v1/workers?after=ID&limit=N: all workers, including those that have stopped.
func (s *Server) listWorkers(w http.ResponseWriter, r *http.Request) *Problem {
	var q store.WorkerQuery
	return servePage(s, w, r, pageSpec{"workers", "after", []parameter{{"after", readID(&q.After)}}, largestPage, nil}, func(ctx context.Context, limit int) ([]store.WorkerRow, error) {
		q.Limit = limit
		return s.Store.FindWorkers(ctx, q)
	}, func(row *store.WorkerRow) any {
		if row.Unreadable != "" {
			s.Log.LogAttrs(r.Context(), slog.LevelWarn, "a row can't be read", slog.Int64("worker", int64(row.ID)), slog.String("name", row.Name), slog.String("why", row.Unreadable))
		}
		return viewWorker(row, s.Config)
	}, func(last *store.WorkerRow) any { return last.ID })
}

// getWorker serves GET /api/v1/workers/{id}, by number or by name.
func (s *Server) getWorker(w http.ResponseWriter, r *http.Request) *Problem {
	row, problem := s.findWorker(r)
	if problem != nil {
		return problem
	}
	return respondJSON(w, http.StatusOK, viewWorker(row, s.Config))
}

// cordonWorker serves POST /api/v1/workers/{id}/cordon, uncordonWorker …/uncordon, and drainWorker …/drain. Each
// answers with the worker's new state. Repeating one is harmless.
func (s *Server) cordonWorker(w http.ResponseWriter, r *http.Request) *Problem {
	return s.setCordon(w, r, store.Cordon{On: true})
}

func (s *Server) uncordonWorker(w http.ResponseWriter, r *http.Request) *Problem {
	return s.setCordon(w, r, store.Cordon{})
}

// drainWorker also cordons the worker, so that the next process with this name does not receive the work that
// this one releases.
func (s *Server) drainWorker(w http.ResponseWriter, r *http.Request) *Problem {
	return s.setCordon(w, r, store.Cordon{On: true, Drain: true})
}

func (s *Server) setCordon(w http.ResponseWriter, r *http.Request, c store.Cordon) *Problem {
	var problem *Problem
	if c.Reason, problem = cordonReason(w, r, c.On); problem != nil {
		return problem
	}
	row, problem := s.findWorker(r)
	if problem != nil {
		return problem
	}
	c.Worker, c.Actor = row.ID, actorName(r)
	ctx, cancel := s.statementContext(r)
	defer cancel()
	if _, err := s.Store.SetCordon(ctx, c); err != nil {
		return s.storeProblem(r, err, harmless)
	}
	return s.getWorker(w, r)
}

// cordonReason reads the optional body: {"reason": "why"}. Uncordoning takes no reason.
func cordonReason(w http.ResponseWriter, r *http.Request, takes bool) (string, *Problem) {
	if !takes {
		return "", noBody(w, r)
	}
	reason := ""
	problem := optionalBody(w, r, []string{"reason"}, func(b *body, fields map[string]value) {
		f, there := fields["reason"]
		if !there {
			return
		}
		text, ok := b.readText(f)
		if reason = text; ok && (utf8.RuneCountInString(reason) > maxCordonReason || strings.ContainsRune(reason, 0)) {
			b.refuseAt(f.pointer, f.at, fmt.Sprintf("must be at most %d characters of text", maxCordonReason))
		}
	})
	return reason, problem
}

// byName is the prefix that marks a worker's name in a path, for a name that looks like a number.
const byName = "name:"

// findWorker returns the worker that a path names. Digits are always an id, even if another worker has that
// name. Anything else is a name, with or without the prefix "name:".
func (s *Server) findWorker(r *http.Request) (*store.WorkerRow, *Problem) {
	text := r.PathValue("id")
	q, possible := store.WorkerQuery{Name: text, Limit: 1}, true
	if name, given := strings.CutPrefix(text, byName); given {
		q.Name = name
	} else if strings.Trim(text, "0123456789") == "" {
		id, err := strconv.ParseInt(text, 10, 64)
		q = store.WorkerQuery{ID: execution.WorkerID(id), Limit: 1}
		possible = err == nil && id > 0
	}
	if possible = possible && (q.ID != 0 || q.Name != ""); possible {
		ctx, cancel := s.statementContext(r)
		defer cancel()
		rows, err := s.Store.FindWorkers(ctx, q)
		if err != nil {
			return nil, s.storeProblem(r, err, harmless)
		}
		if len(rows) > 0 {
			return &rows[0], nil
		}
	}
	return nil, notFound(fmt.Sprintf("No worker has the number or the name %q. GET /api/v1/workers lists them; write %s7 for a worker that is called 7.", yamlfile.Cut(text), byName))
}
