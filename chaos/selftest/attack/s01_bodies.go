//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// hostile is a request whose refusal may cost more than it should.
type hostile struct {
	what string
	// n is its size. The attack halves it until the request is accepted, so that size limits alone
	// stop nothing.
	n int
	// of makes the path and the body of a request of this size. A request without a body is a
	// query.
	of func(n int) (path string, body []byte)
	// leave says that there is also a client that hangs up.
	leave bool
}

// patience is how long a client of these requests waits for its answer.
const patience = 4 * time.Second

// unoffered is a runtime that no worker of an attack offers, so that executions that need it wait.
const unoffered = "node"

const (
	onePath   = "/api/v1/executions"
	batchPath = "/api/v1/executions/batch"
)

func unknownFields(n int) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"x%d":1`, i)
	}
	b.WriteByte('}')
	return b.Bytes()
}

func manyParameters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "x%d=1&", i)
	}
	return b.String()
}

func text(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

func listOf(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

// one, batch and query say where a body or a query goes.
func one(body func(n int) []byte) func(int) (string, []byte) {
	return func(n int) (string, []byte) { return onePath, body(n) }
}

// batch makes a batch of n items.
func batch(item string) func(int) (string, []byte) {
	return func(n int) (string, []byte) { return batchPath, text(`{"executions":[`, listOf(item, n), `]}`) }
}

func query(parameters func(n int) string) func(int) (string, []byte) {
	return func(n int) (string, []byte) { return onePath + "?" + parameters(n), nil }
}

func repeated(word string) func(int) string {
	return func(n int) string { return strings.Repeat(word, n) }
}

func hostiles() []hostile {
	const deep = 60 // less nested than bodies that are refused for their depth
	return []hostile{
		{what: "unknown fields", n: 60_000, of: one(unknownFields)},
		{what: "unknown fields in one item of a batch", n: 300_000, of: func(n int) (string, []byte) {
			return batchPath, text(`{"executions":[`, string(unknownFields(n)), `]}`)
		}},
		{what: "times the same field in one item of a batch", n: 1_300_000, leave: true, of: func(n int) (string, []byte) {
			return batchPath, text(`{"executions":[{"action_ref":"attack.none",`, listOf(`"x":1`, n), `}]}`)
		}},
		{what: "items with a mistake each", n: 1000, of: batch(`{"action_ref":"attack.none","colour":1}`)},
		{what: "items with 100 unknown fields each", n: 1000, of: batch(`{` + listOf(`"x":1`, 100) + `}`)},
		{what: "field names of 100 KB", n: 10, of: one(func(n int) []byte { return text(`{`, listOf(`"`+strings.Repeat("n", 100_000)+`":1`, n), `}`) })},
		{what: "escapes in a field's name", n: 170_000, of: one(func(n int) []byte { return text(`{"`, strings.Repeat(`\u00e9`, n), `":1}`) })},
		{what: "characters in an action's name", n: 1_000_000, of: one(func(n int) []byte { return text(`{"action_ref":"`, strings.Repeat("a", n), `"}`) })},
		{what: "lists in each other", n: 500_000, of: one(func(n int) []byte { return text(strings.Repeat("[", n), strings.Repeat("]", n)) })},
		{what: "lists in parameters 60 deep", n: 50_000, of: one(func(n int) []byte {
			return text(`{"action_ref":"attack.none","parameters":`, strings.Repeat(`{"a":`, deep), `[`, listOf("[[]]", n), `]`, strings.Repeat("}", deep), "}")
		})},
		{what: "digits in a number", n: 1_000_000, of: one(func(n int) []byte {
			return text(`{"action_ref":"attack.none","timeout_seconds":`, strings.Repeat("9", n), `}`)
		})},
		{what: "line breaks before a mistake", n: 1_000_000, of: one(func(n int) []byte { return text(`{`, strings.Repeat("\n", n), `"x":1}`) })},
		{what: "items of 7.8 KB for an unknown action", n: 1000, of: batch(`{"action_ref":"attack.none","parameters":{"p":"` + strings.Repeat("p", 7_700) + `"}}`)},
		{what: "good items of 7.8 KB", n: 1000, of: batch(`{"action_ref":"attack.waits","parameters":{"p":"` + strings.Repeat("p", 7_700) + `"}}`)},
		{what: "good items without parameters", n: 1000, of: batch(`{"action_ref":"attack.waits"}`)},
		{what: "good items of 250 KB", n: 30, of: batch(`{"action_ref":"attack.waits","parameters":{"p":"` + strings.Repeat("p", 250_000) + `"}}`)},
		{what: "ids of dead letters to discard", n: 100_000, of: func(n int) (string, []byte) {
			return "/api/v1/dead-letters/discard", text(`{"ids":[`, listOf("1234567", n), `]}`)
		}},
		{what: "unknown parameters of a query", n: 90_000, of: query(manyParameters)},
		{what: "times one parameter of a query", n: 90_000, of: query(repeated("limit=1&"))},
		{what: "characters in a filter", n: 900_000, of: query(func(n int) string { return "action_ref=" + strings.Repeat("a", n) })},
	}
}

func costlyRequests(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.waits", unoffered, "none", 60); err != nil {
		return err
	}
	longest := 0
	for _, h := range hostiles() {
		listed, err := s.feed(ctx, r, h)
		if err != nil {
			return err
		}
		longest = max(longest, listed)
	}
	r.count("mistakes in one answer", longest, mistakesListed)
	return s.restartExecutor(ctx)
}

// feed sends a request and measures its cost, then smaller ones until one is accepted. It returns
// how many mistakes the answer lists.
func (s *system) feed(ctx context.Context, r *result, h hostile) (listed int, err error) {
	for n := h.n; ctx.Err() == nil; n /= 2 {
		path, body := h.of(n)
		a, err := s.cost(ctx, r, fmt.Sprintf("%d %s, %s", n, h.what, shownBytes(int64(max(len(body), len(path))))), path, body)
		if err != nil {
			return 0, err
		}
		if a.tooLarge() && n > 1 {
			continue
		}
		if h.leave {
			for _, after := range []time.Duration{time.Second, time.Millisecond} {
				if err := s.leave(ctx, r, path, body, after); err != nil {
					return 0, err
				}
			}
		}
		var problem struct {
			Errors []json.RawMessage `json:"errors"`
		}
		if json.Unmarshal(a.head, &problem) == nil {
			return len(problem.Errors), nil
		}
		return max(0, bytes.Count(a.head, []byte(`"detail"`))-1), nil
	}
	return 0, ctx.Err()
}

// tooLarge says that a request was refused for its size alone. Some servers answer that and hang up
// before the client has sent everything.
func (a answer) tooLarge() bool {
	return a.status == http.StatusRequestEntityTooLarge || a.status == http.StatusRequestHeaderFieldsTooLarge ||
		a.status == http.StatusRequestURITooLong || a.status == 0 && a.took < patience/2 && !errors.Is(a.err, syscall.ECONNREFUSED)
}

// cost measures the cost of one request. It restarts an executor that still works on it when the
// client's patience is over.
func (s *system) cost(ctx context.Context, r *result, what, path string, body []byte) (answer, error) {
	p := pid(s.executor)
	if err := resetPeak(p); err != nil {
		return answer{}, err
	}
	before, memory := processor(p), memoryOf(p, "VmRSS")
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := s.ask(waiting, method, path, body, nil)
	shown := a.String()
	if a.err == nil {
		shown += ", " + shownBytes(a.bytes)
	}
	used := processor(p) - before
	if a.tooLarge() && used <= requestProcessor {
		return a, ctx.Err() // a smaller one follows
	}
	r.duration(fmt.Sprintf("%s (%s): processor time", what, shown), used, requestProcessor)
	if added := memoryOf(p, "VmHWM") - memory; added > requestMemory/4 {
		r.memory(what+": memory added", added, requestMemory)
	}
	if a.status == 0 && !a.tooLarge() {
		return a, s.restartExecutor(ctx)
	}
	return a, ctx.Err()
}

// leave sends a body, hangs up after a while, and checks how the executor goes on.
func (s *system) leave(ctx context.Context, r *result, path string, body []byte, after time.Duration) error {
	p := pid(s.executor)
	if err := s.hangUp(ctx, path, body, after); err != nil {
		return err
	}
	before := processor(p)
	pause(ctx, 4*time.Second)
	used := processor(p) - before
	r.duration(fmt.Sprintf("the same, the client leaves after %s: processor time after that", shownDuration(after)), used, requestProcessor)
	if used > requestProcessor {
		return s.restartExecutor(ctx)
	}
	return nil
}

// hangUp sends a body and closes the connection.
func (s *system) hangUp(ctx context.Context, path string, body []byte, after time.Duration) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.api, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // a new connection has one
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, strings.TrimPrefix(s.api, "http://"), len(body))
	// A server that refuses early may have closed the connection already.
	_, _ = conn.Write(append([]byte(head), body...))
	_ = conn.SetReadDeadline(time.Now().Add(after))
	_, _ = conn.Read(make([]byte, 1))
	return nil
}
