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

// checkTimeout bounds one check of /readyz: clients have a timeout of their own.
const checkTimeout = 2 * time.Second

// serveHealthz says that the process is up, and nothing of its surroundings: a restart would not bring a
// database back.
func serveHealthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, "application/json", http.StatusOK, map[string]string{"status": "up"})
}

// serveReadyz says whether the process can do its work, and lists the failing checks if it can't.
func (s *Server) serveReadyz(w http.ResponseWriter, r *http.Request) { ReadyHandler(s.Checks)(w, r) }

// Remark is an error of a check that found something to report, but nothing that keeps the process
// from its work.
type Remark string

// Error is the text of the remark.
func (r Remark) Error() string { return string(r) }

// ReadyHandler answers 200 if all checks pass, else 503 with the failing ones. It shows remarks,
// too, and the isolation of actions unless that is nil: missing isolation is no reason to send no
// work.
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

// HealthHandler serves only /healthz, /readyz and /metrics, for a worker, whose /readyz shows the
// isolation of its actions. It answers every client under every name: no request can change
// anything here, and executors and Prometheus use whichever name they have.
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

// DatabaseCheck asks the database for a row that does not exist.
func DatabaseCheck(s store.Reader) Check {
	return Check{"database", func(ctx context.Context) error {
		if _, err := s.Executions(ctx, []execution.ID{-1}); err != nil {
			// The error may contain addresses; operators find it in the log.
			return errors.New("not reachable")
		}
		return nil
	}}
}

// BrokerCheck asks whether a publish would go out.
func BrokerCheck(ready func() bool) Check {
	return Check{"broker", func(context.Context) error {
		if !ready() {
			return errors.New("no session, or the broker holds publishers back")
		}
		return nil
	}}
}

// LimitCheck remarks on queues that have a delivery limit although they should not.
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

// UnreadableCheck remarks on rows that this program can't read, as unreadable describes them; empty
// for none.
func UnreadableCheck(unreadable func() string) Check {
	return Check{"unreadable_rows", func(context.Context) error {
		if why := unreadable(); why != "" {
			return Remark(why)
		}
		return nil
	}}
}

// SchemaCheck asks whether this program can still work with the database's schema: a newer program
// may have migrated it meanwhile.
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

// StartingHandler answers while a process is not ready for requests yet. It serves the playbooks,
// because operators may need them exactly when the executor can't reach its database.
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
