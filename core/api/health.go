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

// checkTimeout bounds one check of /readyz, because clients have timeouts too.
const checkTimeout = 2 * time.Second

// serveHealthz reports that the process is up. It ignores the servers: a restart would not repair a database.
func serveHealthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, "application/json", http.StatusOK, map[string]string{"status": "up"})
}

// serveReadyz reports whether the process can do its work, and lists the failing checks if it can't.
func (s *Server) serveReadyz(w http.ResponseWriter, r *http.Request) { ReadyHandler(s.Checks)(w, r) }

// Remark is the result of a passed check that still has something to report.
type Remark string

// Error returns the text of the remark.
func (r Remark) Error() string { return string(r) }

// ReadyHandler answers 200 if all checks pass, otherwise 503 with the failing ones. It also shows remarks
// and, if given, the isolation of actions. Missing isolation does not make a worker unready.
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

// HealthHandler serves only a worker's /healthz, /readyz and /metrics. It accepts every client and every
// Host: no request can change anything here, and executors and Prometheus may use any name.
func HealthHandler(checks []Check, metrics http.Handler, isolation ...any) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/healthz", methods{http.MethodGet: openEndpoint(serveHealthz)})
	mux.Handle("/readyz", methods{http.MethodGet: openEndpoint(ReadyHandler(checks, isolation...))})
	mux.Handle("/metrics", metrics)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		notFound("There are /healthz, /readyz and /metrics.").writeTo(w)
	})
	return mux
}

// DatabaseCheck queries the database for a row that does not exist.
func DatabaseCheck(s store.Reader) Check {
	return Check{"database", func(ctx context.Context) error {
		if _, err := s.Executions(ctx, []execution.ID{-1}); err != nil {
			// The error may contain addresses, so it is only in the log.
			return errors.New("not reachable")
		}
		return nil
	}}
}

// BrokerCheck passes if a message could be published now.
func BrokerCheck(ready func() bool) Check {
	return Check{"broker", func(context.Context) error {
		if !ready() {
			return errors.New("no session, or the broker holds publishers back")
		}
		return nil
	}}
}

// LimitCheck reports queues with an unwanted delivery limit as a Remark.
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

// UnreadableCheck reports rows that this program can't read as a Remark. unreadable describes them, empty for
// none.
func UnreadableCheck(unreadable func() string) Check {
	return Check{"unreadable_rows", func(context.Context) error {
		if why := unreadable(); why != "" {
			return Remark(why)
		}
		return nil
	}}
}

// SchemaCheck fails if this program can't work with the database's schema: a newer program may have migrated
// it.
func SchemaCheck(ready func(ctx context.Context) error) Check {
	return Check{"schema", func(ctx context.Context) error {
		err := ready(ctx)
		if store.Retriable(err) {
			// DatabaseCheck reports this.
			return nil
		}
		return err
	}}
}

// StartingHandler answers until a process is ready for requests. It serves the playbooks, because operators
// may need them when the executor can't reach its database.
func StartingHandler(playbooks http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/playbooks/", playbooks)
	mux.Handle("/healthz", methods{http.MethodGet: openEndpoint(serveHealthz)})
	mux.Handle("/readyz", methods{http.MethodGet: openEndpoint(ReadyHandler([]Check{{"database", func(context.Context) error {
		return errors.New("not connected yet")
	}}}))})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		serviceUnavailable("The executor is starting", "Nothing was changed. Send the request again.", 2).writeTo(w)
	})
	return mux
}
