package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// checkTimeout bounds one check of /readyz: whoever asks has a timeout of its own.
const checkTimeout = 2 * time.Second

// healthz says that the process is up, and nothing of its surroundings: restarting it would not
// bring a database back.
func healthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, "application/json", http.StatusOK, map[string]string{"status": "up"})
}

// readyz says whether the process can do its work, and what is missing if it can't.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) { ReadyHandler(s.Checks)(w, r) }

// Remark is what a check returns that found something to be told, and nothing that keeps the process from its work.
type Remark string

// Error is the text of the remark.
func (r Remark) Error() string { return string(r) }

// ReadyHandler answers 200 when all checks pass, else 503 with what is missing. What is only remarked is told. The
// isolation of actions, if it is not nil, is told beside them: what it lacks is no reason to send no work.
func ReadyHandler(checks []Check, isolation ...any) http.HandlerFunc {
	type answer struct {
		Status    string            `json:"status"`
		Checks    map[string]string `json:"checks"`
		Isolation any               `json:"isolation,omitempty"`
	}
	return func(w http.ResponseWriter, r *http.Request) {
		a, status := answer{Status: "ready", Checks: map[string]string{}}, http.StatusOK
		if len(isolation) > 0 {
			a.Isolation = isolation[0]
		}
		for _, c := range checks {
			ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
			err := c.Run(ctx)
			cancel()
			a.Checks[c.Name] = "ok"
			if remark, ok := errors.AsType[Remark](err); ok {
				a.Checks[c.Name] = string(remark)
			} else if err != nil {
				a.Status, status = "not ready", http.StatusServiceUnavailable
				a.Checks[c.Name] = err.Error()
			}
		}
		writeJSON(w, "application/json", status, a)
	}
}

// HealthHandler is /healthz, /readyz and /metrics alone, for a worker, whose /readyz tells the isolation of its actions. It
// answers everybody under every name: there is nothing here that a request could change, and executors and Prometheus ask
// by whichever name they have.
func HealthHandler(checks []Check, metrics http.Handler, isolation ...any) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", methods{http.MethodGet: everybody(healthz)})
	mux.Handle("/readyz", methods{http.MethodGet: everybody(ReadyHandler(checks, isolation...))})
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		notFound("There are /healthz, /readyz and /metrics.").write(w)
	})
	return mux
}

// DatabaseCheck asks the database for a row that does not exist.
func DatabaseCheck(s store.Reader) Check {
	return Check{"database", func(ctx context.Context) error {
		if _, err := s.Executions(ctx, []execution.ID{-1}); err != nil {
			// The text may name addresses; who has to know finds them in the log.
			return errors.New("not reachable")
		}
		return nil
	}}
}

// BrokerCheck asks whether a publish would be taken.
func BrokerCheck(ready func() bool) Check {
	return Check{"broker", func(context.Context) error {
		if !ready() {
			return errors.New("no session, or the broker holds publishers back")
		}
		return nil
	}}
}

// LimitCheck remarks on queues that have a delivery limit and should have none.
func LimitCheck(limited func() []string) Check {
	return Check{"delivery_limit", func(context.Context) error {
		queues := limited()
		if len(queues) == 0 {
			return nil
		}
		return Remark("declared by an older release, with RabbitMQ's limit of 20 returns, after which a message is gone, unless a policy " +
			"that clients can't see lifts it: " + strings.Join(queues, ", ") + ". Set the policy of docs/queues.md, or delete the queues while they are empty")
	}}
}

// UnreadableCheck remarks on rows that this program can't read, in the words of unreadable; empty for none.
func UnreadableCheck(unreadable func() string) Check {
	return Check{"unreadable_rows", func(context.Context) error {
		if why := unreadable(); why != "" {
			return Remark(why)
		}
		return nil
	}}
}

// SchemaCheck asks whether the schema of the database is still one that this program can work with: a newer one may have
// migrated it meanwhile.
func SchemaCheck(ready func(ctx context.Context) error) Check {
	return Check{"schema", func(ctx context.Context) error {
		err := ready(ctx)
		if store.Retriable(err) {
			// The check of the database tells.
			return nil
		}
		return err
	}}
}

// StartingHandler answers while a process is not ready for requests yet. It serves the playbooks: whoever was woken
// may need them just because the executor can't reach its database.
func StartingHandler(playbooks http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/playbooks/", playbooks)
	mux.Handle("/healthz", methods{http.MethodGet: everybody(healthz)})
	mux.Handle("/readyz", methods{http.MethodGet: everybody(ReadyHandler([]Check{{"database", func(context.Context) error {
		return errors.New("not connected yet")
	}}}))})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		(&Problem{
			Type: typeUnavailable, Title: "The executor is starting", Status: http.StatusServiceUnavailable,
			Detail: "Nothing was changed. Send the request again.", retryAfter: 2,
		}).write(w)
	})
	return mux
}
