package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"handoff/core/config/yamlfile"
)

// gate lets a bounded number of requests of one class through at a time.
type gate struct {
	// what is the name of the class in refusals.
	what    string
	places  chan struct{}
	waiting atomic.Int64
	// patience is how long a request waits for a place.
	patience time.Duration
}

func newGate(what string, places int) *gate {
	return &gate{what: what, places: make(chan struct{}, places), patience: placeWait}
}

// takePlace waits for a place; requests get places in the order of their arrival. It returns a function that
// releases the place, or the refusal.
func (g *gate) takePlace(ctx context.Context) (leave func(), problem *Problem) {
	leave = func() { <-g.places }
	select {
	case g.places <- struct{}{}:
		return leave, nil
	default:
	}
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) <= queueOfRequests {
		select {
		case g.places <- struct{}{}:
			return leave, nil
		case <-time.After(g.patience):
		case <-ctx.Done():
		}
	}
	return nil, serviceUnavailable("Too many requests at once",
		fmt.Sprintf("This executor is busy with all the %s that it does at once (%d). Nothing was changed. Send the request again, or to another executor.", g.what, cap(g.places)), 1)
}

// gates are the classes of requests.
//
// bulk is for requests by filter, which scan tables as lists do. Such a request takes a place in bulk once
// its body is read, in addition to a place in its own class.
type gates struct{ lists, reads, writes, large, probes, bulk *gate }

func newGates() gates {
	return gates{
		lists: newGate("lists", placesOfLists), reads: newGate("reading requests", placesOfReads), writes: newGate("writing requests", placesOfWrites),
		large: newGate("requests with large bodies", placesOfLarge), probes: newGate("probes", placesOfReads),
		bulk: newGate("requests by filter", placesOfBulk),
	}
}

// isList reports whether an endpoint reads a list. The stream of changes does not count: it has its own
// places.
func isList(path string) bool {
	switch path {
	case "/api/v1/executions", "/api/v1/executions/{id}/transitions", "/api/v1/executions/{id}/chain", "/api/v1/actions", "/api/v1/dead-letters",
		"/api/v1/dead-letters/summary", "/api/v1/observations", "/api/v1/workers":
		return true
	}
	return false
}

// gateFor returns the gate that a request must pass, or nil for a stream, which has its own limit.
func (g *gates) gateFor(path string, r *http.Request) *gate {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case path == "/api/v1/changes":
		return nil
	case path == "/readyz":
		return g.probes
	case r.ContentLength < 0 || r.ContentLength > smallBody:
		return g.large
	case reads && isList(path):
		return g.lists
	case reads:
		return g.reads
	}
	return g.writes
}

// admissionHandler passes on a request once its texts are valid and a place of its class is free. It reads a
// small body before it takes the place, so that a client that sends slowly holds no place.
func (s *Server) admissionHandler(path string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if problem := checkTexts(r); problem != nil {
			problem.writeTo(w)
			return
		}
		g := s.gates.gateFor(path, r)
		if g == nil {
			next.ServeHTTP(w, r)
			return
		}
		if g == s.gates.large {
			// A client that holds one of these places must send at a reasonable pace.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(largeBodyWait))
		} else if r.ContentLength > 0 {
			data := make([]byte, r.ContentLength)
			if _, err := io.ReadFull(r.Body, data); err != nil {
				incompleteBody().writeTo(w)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(data))
		}
		leave, problem := g.takePlace(r.Context())
		if problem != nil {
			problem.writeTo(w)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

// checkTexts refuses a request with invalid texts, so that neither a handler nor the database gets them.
func checkTexts(r *http.Request) *Problem {
	if why := badText(r.URL.Path); why != "" {
		return badRequest("The path can't be used.", FieldError{Field: "path", Detail: why})
	}
	for _, header := range []string{"Idempotency-Key", "Last-Event-ID"} {
		for _, text := range r.Header.Values(header) {
			if why := badText(text); why != "" {
				return badRequest("The header "+header+" can't be used.", FieldError{Field: header, Detail: why})
			}
		}
	}
	if strings.Count(r.URL.RawQuery, "&") >= maxParameterCount {
		return badRequest(fmt.Sprintf("The query has more than %d parameters.", maxParameterCount))
	}
	var mistakes []FieldError
	for pair := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if why := badPair(pair); why != "" {
			name, _, _ := strings.Cut(pair, "=")
			mistakes = append(mistakes, FieldError{Field: yamlfile.Cut(strings.ToValidUTF8(name, "?")), Detail: why})
		}
	}
	if len(mistakes) > 0 {
		return badRequest("The query can't be read.", mistakes...)
	}
	return nil
}

// badPair returns the reason why a query parameter is invalid, empty if it is valid.
func badPair(pair string) string {
	values, err := url.ParseQuery(pair)
	if err != nil {
		return err.Error() + "; write %3B for a semicolon and %25 for a percent sign"
	}
	for name, all := range values {
		for _, text := range append(all, name) {
			if why := badText(text); why != "" {
				return why
			}
		}
	}
	return ""
}

// badText returns the reason why a text is invalid, with the position, from 1, of the first bad byte.
func badText(text string) string {
	if at := strings.IndexByte(text, 0); at >= 0 {
		return fmt.Sprintf("has a NUL as byte %d, which no text of the database has", at+1)
	}
	if !utf8.ValidString(text) {
		return fmt.Sprintf("is not UTF-8 text from byte %d on", invalidUTF8([]byte(text))+1)
	}
	return ""
}

// shareCounter counts the shares of a limited resource that each client address holds, so that no client
// holds all of them.
type shareCounter struct {
	mu   sync.Mutex
	held map[string]int
}

// takeShare takes a share for the client that sent the request. It returns a function that releases it, or
// false if the client already has `most`.
func (s *shareCounter) takeShare(r *http.Request, most int) (leave func(), ok bool) {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[client] >= most {
		return nil, false
	}
	if s.held == nil {
		s.held = map[string]int{}
	}
	s.held[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[client]--; s.held[client] == 0 {
			delete(s.held, client)
		}
	}, true
}
