package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	"handoff/core/api/hostguard"
	"handoff/core/config"
)

// Access rules:
//
//   - With tokens, every request under /api needs one, and each endpoint needs one of the rights
//     (see endpoint). Only the token counts. Host is not checked; Origin is checked only by net/http's
//     CrossOriginProtection.
//   - Without tokens, every client that reaches the server may do everything, and hostguard keeps
//     pages of other sites away.
//   - /healthz, /readyz, /metrics and /playbooks need no token. They change nothing. They show
//     states, figures with the names of actions and workers, and pages. On a loopback address
//     without tokens, hostguard protects them, too.

// access authenticates the senders of requests.
type access struct {
	tokens []knownToken
	guard  hostguard.Guard
	// guardsOpen reports whether hostguard also protects the paths that need no token.
	guardsOpen bool
}

// knownToken holds a token as a hash, so that the time of a comparison reveals neither its content
// nor its length.
type knownToken struct {
	hash [sha256.Size]byte
	caller
}

// caller is the sender of a request.
type caller struct {
	// name is the name of the token, empty without tokens.
	name string
	// scope is a part of the caller's stored idempotency keys, so that they never equal another caller's
	// keys.
	scope  string
	rights config.Right
}

func newAccess(o *Options) access {
	a := access{
		guard: hostguard.Guard{Hosts: o.AllowedHosts, More: "Send requests there, or set a token (api.token, api.tokens), or list the host in api.allowed_hosts."},
	}
	for _, t := range o.Tokens {
		c := caller{name: t.Name, scope: callerScope(t), rights: t.Rights}
		a.tokens = append(a.tokens, knownToken{sha256.Sum256([]byte(t.Token)), c})
		if t.OldToken != "" {
			a.tokens = append(a.tokens, knownToken{sha256.Sum256([]byte(t.OldToken)), c})
		}
	}
	a.guardsOpen = o.Loopback && len(a.tokens) == 0
	return a
}

// callerScope returns the scope of a token's idempotency keys. It is the token's name, so that keys stay
// valid when a token is rotated. The token of api.token is an exception: older executors, which had no names,
// stored keys under a hash of it. During a rolling upgrade old and new executors answer the same client. The
// hash may be short, because it only distinguishes callers. No name has a colon, so no two scopes are equal.
func callerScope(t config.Token) string {
	if t.Name == config.DefaultToken {
		sum := sha256.Sum256([]byte("idempotency scope " + t.Token))
		return " " + hex.EncodeToString(sum[:6])
	}
	return " name:" + t.Name
}

// identifyCaller returns the sender of a request, or nil if no token matches. It compares every token, so
// that the time does not reveal which one was close.
func (a *access) identifyCaller(r *http.Request) *caller {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sent := sha256.Sum256([]byte(strings.TrimSpace(token)))
	var found *caller
	for i := range a.tokens {
		if subtle.ConstantTimeCompare(sent[:], a.tokens[i].hash[:]) == 1 {
			found = &a.tokens[i].caller
		}
	}
	if !strings.EqualFold(scheme, "Bearer") {
		return nil
	}
	return found
}

// admitCaller returns the sender of a request, or the reason for refusing it.
func (a *access) admitCaller(r *http.Request) (*caller, *Problem) {
	if len(a.tokens) == 0 {
		return &caller{rights: config.RightOperate}, a.hostProblem(r)
	}
	c := a.identifyCaller(r)
	if c == nil {
		return nil, &Problem{
			Type: typeUnauthorized, Title: "The token is missing or wrong", Status: http.StatusUnauthorized,
			Detail: "Send a token of api.token or api.tokens as header: Authorization: Bearer TOKEN.",
		}
	}
	return c, nil
}

// hostProblem returns the reason why hostguard refuses a request.
func (a *access) hostProblem(r *http.Request) *Problem {
	refusal := a.guard.Check(r)
	switch {
	case refusal == nil:
		return nil
	case refusal.Foreign:
		return &Problem{Type: typeForeignHost, Title: "The request was not sent to this server", Status: http.StatusForbidden, Detail: refusal.Detail}
	}
	return crossOrigin(refusal.Detail)
}

func crossOrigin(detail string) *Problem {
	return &Problem{Type: typeCrossOrigin, Title: "Requests from other sites are refused", Status: http.StatusForbidden, Detail: detail}
}

// authorizedHandler passes on requests that admitCaller accepts, with their sender in the context.
func (a *access) authorizedHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, problem := a.admitCaller(r)
		if problem != nil {
			problem.writeTo(w)
			return
		}
		if line, ok := r.Context().Value(lineKey{}).(*requestLine); ok {
			line.token = c.name
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// openHandler passes on requests that need no token.
func (a *access) openHandler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.guardsOpen {
			if problem := a.hostProblem(r); problem != nil {
				problem.writeTo(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

type (
	// callerKey finds the *caller in the context of a request.
	callerKey struct{}
	// lineKey finds the *requestLine in the context of a request.
	lineKey struct{}
)

// requestLine holds the parts of a request's log line that only its handlers know.
type requestLine struct{ token string }

// callerOf returns the sender of a request. Without authorizedHandler the sender has no rights.
func callerOf(r *http.Request) *caller {
	if c, ok := r.Context().Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{}
}

// actorName returns the name under which the database stores the sender, empty without tokens.
func actorName(r *http.Request) string { return callerOf(r).name }

// noRight marks an endpoint that every client may use. No token has this right.
const noRight config.Right = "none"

// handler answers a request, or returns the problem to send.
type handler func(w http.ResponseWriter, r *http.Request) *Problem

// endpoint is the handler of one method of one path, and the right that it needs.
type endpoint struct {
	needs  config.Right
	handle handler
}

func readEndpoint(h handler) endpoint    { return endpoint{config.RightRead, h} }
func submitEndpoint(h handler) endpoint  { return endpoint{config.RightSubmit, h} }
func operateEndpoint(h handler) endpoint { return endpoint{config.RightOperate, h} }

func openEndpoint(h http.HandlerFunc) endpoint {
	return endpoint{noRight, func(w http.ResponseWriter, r *http.Request) *Problem { h(w, r); return nil }}
}

func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := callerOf(r); e.needs != noRight && !c.rights.Includes(e.needs) {
		(&Problem{
			Type: typeForbidden, Title: "The token does not allow this", Status: http.StatusForbidden,
			Detail: fmt.Sprintf("%s %s needs the right %s, and the token %q has the right %s. Use another token, or give this one the right in api.tokens.",
				r.Method, r.URL.Path, e.needs, c.name, c.rights),
		}).writeTo(w)
		return
	}
	if problem := e.handle(w, r); problem != nil {
		problem.writeTo(w)
	}
}
