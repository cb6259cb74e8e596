// Package api serves the HTTP API: requests that create, cancel and show executions.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/submission"
)

// Options configure a Server.
type Options struct {
	Submitter *submission.Submitter
	Store     store.API
	Config    config.Config
	// Tokens are the accepted tokens. Every request under /api must carry one; without tokens there is no
	// check.
	Tokens []config.Token
	// AllowedHosts are additional names of the server, for requests without a token; see hostguard.
	AllowedHosts []string
	// Loopback reports whether only this machine can reach the server.
	Loopback bool
	// Checks are the checks of /readyz.
	Checks []Check
	// Metrics serves /metrics; nil disables it.
	Metrics http.Handler
	// Playbooks serves /playbooks/; nil disables it.
	Playbooks http.Handler
	Log       *slog.Logger
	// WorkerName returns a worker's name, which responses show alongside its id; empty if it is not known
	// yet. It must not block. nil for no names.
	WorkerName func(execution.WorkerID) string
}

// Check is one condition for the process to be ready.
type Check struct {
	Name string
	// Run returns the reason why the condition does not hold, nil if it holds.
	Run func(ctx context.Context) error
}

// Server answers the HTTP API.
type Server struct {
	Options
	access  access
	streams streams
	gates   gates
	handler http.Handler
}

// NewServer returns a server; Serve serves its Handler.
func NewServer(o Options) *Server {
	s := &Server{Options: o, access: newAccess(&o), streams: newStreams(), gates: newGates()}
	mux := http.NewServeMux()
	for path, m := range s.routes() {
		mux.Handle(path, s.access.authorizedHandler(s.admissionHandler(path, m)))
	}
	mux.Handle("/healthz", s.access.openHandler(methods{http.MethodGet: openEndpoint(serveHealthz)}))
	mux.Handle("/readyz", s.access.openHandler(s.admissionHandler("/readyz", methods{http.MethodGet: openEndpoint(s.serveReadyz)})))
	if o.Metrics != nil {
		mux.Handle("/metrics", s.access.openHandler(o.Metrics))
	}
	if o.Playbooks != nil {
		mux.Handle("/playbooks/", s.access.openHandler(o.Playbooks))
	}
	mux.Handle("/", s.access.openHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		notFound(fmt.Sprintf("There is nothing at %s.", yamlfile.Cut(r.URL.Path))).writeTo(w)
	})))
	// A web page in a browser must not get access to an API that trusts every program on its machine.
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		crossOrigin("The request came from a page of another site.").writeTo(w)
	}))
	s.handler = Logged(s.Log, origin.Handler(mux))
	return s
}

// routes returns the endpoints of the API by path and method. Each path has one handler, because ServeMux
// answers a wrong method with its own text.
func (s *Server) routes() map[string]methods {
	return map[string]methods{
		"/api/v1/executions":                  {http.MethodPost: submitEndpoint(s.createExecution), http.MethodGet: readEndpoint(s.listExecutions)},
		"/api/v1/executions/batch":            {http.MethodPost: submitEndpoint(s.createBatch)},
		"/api/v1/executions/count":            {http.MethodGet: readEndpoint(s.countExecutions)},
		"/api/v1/executions/retry":            {http.MethodPost: submitEndpoint(s.retryExecutions)},
		"/api/v1/executions/cancel":           {http.MethodPost: submitEndpoint(s.cancelExecutions)},
		"/api/v1/executions/{id}":             {http.MethodGet: readEndpoint(s.getExecution)},
		"/api/v1/executions/{id}/transitions": {http.MethodGet: readEndpoint(s.getTransitions)},
		"/api/v1/executions/{id}/chain":       {http.MethodGet: readEndpoint(s.getChain)},
		"/api/v1/executions/{id}/cancel":      {http.MethodPost: submitEndpoint(s.cancelExecution)},
		"/api/v1/executions/{id}/retry":       {http.MethodPost: submitEndpoint(s.retryExecution)},
		"/api/v1/actions":                     {http.MethodPost: operateEndpoint(s.putAction), http.MethodGet: readEndpoint(s.listActions)},
		"/api/v1/actions/{ref}":               {http.MethodGet: readEndpoint(s.getAction)},
		"/api/v1/changes":                     {http.MethodGet: readEndpoint(s.streamChanges)},
		"/api/v1/openapi.yaml":                {http.MethodGet: readEndpoint(s.getOpenAPI)},

		"/api/v1/dead-letters":              {http.MethodGet: readEndpoint(s.listDeadLetters)},
		"/api/v1/dead-letters/summary":      {http.MethodGet: readEndpoint(s.summarizeDeadLetters)},
		"/api/v1/dead-letters/discard":      {http.MethodPost: operateEndpoint(s.discardDeadLetters)},
		"/api/v1/dead-letters/{id}":         {http.MethodGet: readEndpoint(s.getDeadLetter)},
		"/api/v1/dead-letters/{id}/replay":  {http.MethodPost: operateEndpoint(s.replayDeadLetter)},
		"/api/v1/dead-letters/{id}/discard": {http.MethodPost: operateEndpoint(s.discardDeadLetter)},
		"/api/v1/observations":              {http.MethodGet: readEndpoint(s.listObservations)},
		"/api/v1/workers":                   {http.MethodGet: readEndpoint(s.listWorkers)},
		"/api/v1/workers/{id}":              {http.MethodGet: readEndpoint(s.getWorker)},
		"/api/v1/workers/{id}/cordon":       {http.MethodPost: operateEndpoint(s.cordonWorker)},
		"/api/v1/workers/{id}/uncordon":     {http.MethodPost: operateEndpoint(s.uncordonWorker)},
		"/api/v1/workers/{id}/drain":        {http.MethodPost: operateEndpoint(s.drainWorker)},
	}
}

// Handler returns the handler of all endpoints.
func (s *Server) Handler() http.Handler { return s.handler }

// methods are the endpoints of a path, by method.
type methods map[string]endpoint

func (m methods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if e, ok := m[method]; ok {
		e.ServeHTTP(w, r)
		return
	}
	allowed := slices.Sorted(maps.Keys(m))
	(&Problem{
		Type: typeMethod, Title: "The method is not allowed here", Status: http.StatusMethodNotAllowed,
		Detail: fmt.Sprintf("%s answers %s.", r.URL.Path, strings.Join(allowed, " and ")), allow: strings.Join(allowed, ", "),
	}).writeTo(w)
}

// repeatEffect is the effect of repeating a request.
type repeatEffect uint8

const (
	// harmless: the request reads, or sets a value.
	harmless repeatEffect = iota
	// allKeyed: everything that it creates has an idempotency key.
	allKeyed
	// someUnkeyed: repeating the request can create executions twice.
	someUnkeyed
	// repeatableStep: the step may be partly done; repeating the request completes it.
	repeatableStep
)

// storeProblem translates the error of a database call for the client. The details of errors that the client
// can't act on are only in the log.
func (s *Server) storeProblem(r *http.Request, err error, keys repeatEffect) *Problem {
	if errors.Is(err, errNoExecution) {
		return notFound("There is no such execution.")
	}
	s.Log.LogAttrs(r.Context(), slog.LevelError, "request failed at the database",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("error", err))
	switch {
	case errors.Is(err, store.ErrUnreadable):
		return unreadableRow(fmt.Sprintf("%v. Somebody wrote it by hand, or a newer version of this program did: correct the row in the database, or ask a newer executor.", err))
	case isTransient(err) && keys == allKeyed:
		return databaseAway("Whether the request was accepted is not known. Send it again with the same Idempotency-Key: it will not be accepted twice.")
	case errors.Is(err, store.ErrUnknownOutcome) && keys == someUnkeyed:
		return &Problem{
			Type: typeOutcomeUnknown, Title: "Nobody knows whether it was accepted", Status: http.StatusServiceUnavailable,
			Detail: "The database did not answer. The execution may exist: sending the request again may create it twice. Requests with an Idempotency-Key can be repeated.",
		}
	case isTransient(err) && keys == repeatableStep:
		return databaseAway("Part of the step may be done. Send the same request again: nothing is done twice.")
	case isTransient(err):
		return databaseAway("Nothing was changed. Send the request again.")
	}
	return internalError()
}

// isTransient reports whether the same call may succeed later.
func isTransient(err error) bool {
	return store.Retriable(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// stoppingKey is the context key of the channel that is closed when the server stops. Only streams use it.
type stoppingKey struct{}

// Serve answers requests on a listener until ctx ends. Then it waits at most drain for requests in progress.
// It returns nil after a stop.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, drain time.Duration) error {
	server := &http.Server{
		Handler: h,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), stoppingKey{}, ctx.Done())
		},
		ConnContext:       withConnection,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      2 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serving HTTP: %w", err)
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close()
		log.LogAttrs(ctx, slog.LevelWarn, "requests under way were broken off", slog.Any("error", err))
	}
	return nil
}

// Logged logs every request and turns a panic into a problem.
func Logged(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		out, line := &responseRecorder{ResponseWriter: w}, &requestLine{}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					panic(p)
				}
				log.LogAttrs(r.Context(), slog.LevelError, "panic in a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				if out.status == 0 {
					internalError().writeTo(out)
				}
			}
			level := slog.LevelInfo
			switch {
			case out.status >= http.StatusInternalServerError:
				level = slog.LevelWarn
			case strings.HasSuffix(r.URL.Path, "z"), r.URL.Path == "/metrics": // the probes, every few seconds
				level = slog.LevelDebug
			}
			attrs := []slog.Attr{
				slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", out.status),
				slog.Int64("bytes", out.bytes), slog.String("took", time.Since(began).Round(time.Microsecond).String()), slog.String("remote", r.RemoteAddr),
			}
			if line.token != "" {
				attrs = append(attrs, slog.String("token", line.token))
			}
			log.LogAttrs(r.Context(), level, "request", attrs...)
		}()
		next.ServeHTTP(out, r.WithContext(context.WithValue(r.Context(), lineKey{}, line)))
	})
}

// responseRecorder records the status and size of a response.
type responseRecorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *responseRecorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *responseRecorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the connection.
func (r *responseRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
