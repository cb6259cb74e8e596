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

// Who may ask for what:
//
//   - With tokens, every request under /api needs one, and each endpoint one of the rights (see endpoint). The token
//     decides; Host is not looked at, and Origin as net/http's CrossOriginProtection does.
//   - Without, whoever reaches the server may do everything, and hostguard keeps pages of other sites away.
//   - /healthz, /readyz, /metrics and /playbooks need no token. They change nothing, and show states, figures with the
//     names of actions and workers, and pages. On a loopback address without tokens hostguard stands before them, too.

// access is who may ask for what.
type access struct {
	tokens []knownToken
	guard  hostguard.Guard
	// guardsOpen says that hostguard also stands before what needs no token.
	guardsOpen bool
}

// knownToken is a token by its hash, so that neither content nor length shows in the time that a comparison takes.
type knownToken struct {
	hash [sha256.Size]byte
	caller
}

// caller is who sent a request.
type caller struct {
	// name is the name of the token, empty without tokens.
	name string
	// scope stands for the caller in idempotency keys, so that two callers never meet in one key.
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

// callerScope is what stands for a token in the keys of its caller: its name, so that keys outlive a rotation. The token
// of api.token is an exception, because executors that knew no names have stored keys under a hash of it, and in a rolling
// upgrade old and new ones answer the same client. The hash is short, because it tells callers apart and proves nothing;
// no name has a colon, so no two scopes are the same.
func callerScope(t config.Token) string {
	if t.Name == config.DefaultToken {
		sum := sha256.Sum256([]byte("idempotency scope " + t.Token))
		return " " + hex.EncodeToString(sum[:6])
	}
	return " name:" + t.Name
}

// identify returns who sent a request, nil for nobody who is known. Every token is compared, so that the time does not say
// which one was near.
func (a *access) identify(r *http.Request) *caller {
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

// admit returns who sent a request, or why it is not answered.
func (a *access) admit(r *http.Request) (*caller, *Problem) {
	if len(a.tokens) == 0 {
		return &caller{rights: config.RightOperate}, a.guarded(r)
	}
	c := a.identify(r)
	if c == nil {
		return nil, &Problem{
			Type: typeUnauthorized, Title: "The token is missing or wrong", Status: http.StatusUnauthorized,
			Detail: "Send a token of api.token or api.tokens as header: Authorization: Bearer TOKEN.",
		}
	}
	return c, nil
}

// guarded says why hostguard refuses a request.
func (a *access) guarded(r *http.Request) *Problem {
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

// authorized lets requests through that the access admits, and notes who sent them.
func (a *access) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, problem := a.admit(r)
		if problem != nil {
			problem.write(w)
			return
		}
		if line, ok := r.Context().Value(lineKey{}).(*requestLine); ok {
			line.token = c.name
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, c)))
	})
}

// open lets requests through that need no token.
func (a *access) open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.guardsOpen {
			if problem := a.guarded(r); problem != nil {
				problem.write(w)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

type (
	// callerKey finds the *caller in the context of a request.
	callerKey struct{}
	// lineKey finds the *requestLine there.
	lineKey struct{}
)

// requestLine is what the log line of a request says that only its handlers know.
type requestLine struct{ token string }

// callerOf is who sent a request; without a way through authorized, somebody without rights.
func callerOf(r *http.Request) *caller {
	if c, ok := r.Context().Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{}
}

// actor is the name under which the database keeps who asked, empty without tokens.
func actor(r *http.Request) string { return callerOf(r).name }

// noRight is what an endpoint needs that everybody may ask. The zero value of a right is in no token.
const noRight config.Right = "none"

// endpoint is what one method of one path does, and the right that it needs.
type endpoint struct {
	needs  config.Right
	handle http.HandlerFunc
}

func everybody(h http.HandlerFunc) endpoint { return endpoint{noRight, h} }
func reads(h http.HandlerFunc) endpoint     { return endpoint{config.RightRead, h} }
func submits(h http.HandlerFunc) endpoint   { return endpoint{config.RightSubmit, h} }
func operates(h http.HandlerFunc) endpoint  { return endpoint{config.RightOperate, h} }

// ServeHTTP implements http.Handler.
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c := callerOf(r); e.needs != noRight && !c.rights.Includes(e.needs) {
		(&Problem{
			Type: typeForbidden, Title: "The token does not allow this", Status: http.StatusForbidden,
			Detail: fmt.Sprintf("%s %s needs the right %s, and the token %q has the right %s. Use another token, or give this one the right in api.tokens.",
				r.Method, r.URL.Path, e.needs, c.name, c.rights),
		}).write(w)
		return
	}
	e.handle(w, r)
}
