//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"
)

// hostileBody is one whose refusal may cost more than it should.
type hostileBody struct {
	what, path string
	text       []byte
	// leaves says that the client hangs up after so long; 0 for one that waits for the answer.
	leaves time.Duration
}

// patience is how long a client of these bodies waits for its answer.
const patience = 4 * time.Second

// unoffered is a runtime that no worker of an attack offers: what needs it waits.
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

func text(parts ...string) []byte { return []byte(strings.Join(parts, "")) }

func listOf(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+",", n), ",")
}

func hostileBodies() []hostileBody {
	wide := text(`{"executions":[{"action_ref":"attack.none",`, listOf(`"x":1`, 1_300_000), `}]}`)
	return []hostileBody{
		{what: "60,000 unknown fields, 0.7 MB", path: onePath, text: unknownFields(60_000)},
		{what: "300,000 unknown fields in one item of a batch, 3 MB", path: batchPath, text: text(`{"executions":[`, string(unknownFields(300_000)), `]}`)},
		{what: "1.3 million fields, 7.8 MB", path: batchPath, text: wide},
		{what: "the same, the client leaves after 1 s", path: batchPath, text: wide, leaves: time.Second},
		{what: "the same, the client leaves at once", path: batchPath, text: wide, leaves: time.Millisecond},
		{what: "1,000 items with a mistake each", path: batchPath, text: text(`{"executions":[`, listOf(`{"action_ref":"attack.none","colour":1}`, 1000), `]}`)},
		{what: "1,000 items, 100 unknown fields each", path: batchPath, text: text(`{"executions":[`, listOf(`{`+listOf(`"x":1`, 100)+`}`, 1000), `]}`)},
		{what: "10 field names of 100 KB", path: onePath, text: text(`{`, listOf(`"`+strings.Repeat("n", 100_000)+`":1`, 10), `}`)},
		{what: "a field name of 1 MB with escapes", path: onePath, text: text(`{"`, strings.Repeat(`\u00e9`, 170_000), `":1}`)},
		{what: "the name of an action of 1 MB", path: onePath, text: text(`{"action_ref":"`, strings.Repeat("a", 1_000_000), `"}`)},
		{what: "nested 500,000 deep", path: onePath, text: text(strings.Repeat("[", 500_000), strings.Repeat("]", 500_000))},
		{what: "parameters nested 60 deep, 250 KB", path: onePath, text: text(`{"action_ref":"attack.none","parameters":`, strings.Repeat(`{"a":`, 60), `[`, listOf("[[]]", 50_000), `]`, strings.Repeat("}", 60), "}")},
		{what: "a number of 1 MB", path: onePath, text: text(`{"action_ref":"attack.none","timeout_seconds":`, strings.Repeat("9", 1_000_000), `}`)},
		{what: "1 MB of line breaks, then a mistake", path: onePath, text: text(`{`, strings.Repeat("\n", 1_000_000), `"x":1}`)},
		{what: "1,000 items of 7.8 KB of parameters", path: batchPath, text: text(`{"executions":[`, listOf(`{"action_ref":"attack.none","parameters":{"p":"`+strings.Repeat("p", 7_700)+`"}}`, 1000), `]}`)},
		{what: "1,000 good items of 7.8 KB of parameters", path: batchPath, text: text(`{"executions":[`, listOf(`{"action_ref":"attack.waits","parameters":{"p":"`+strings.Repeat("p", 7_700)+`"}}`, 1000), `]}`)},
		{what: "dead letters to discard, 100,000 ids", path: "/api/v1/dead-letters/discard", text: text(`{"ids":[`, listOf("1234567", 100_000), `]}`)},
	}
}

func costlyBodies(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.waits", unoffered, "none", 60); err != nil {
		return err
	}
	longest := 0
	for _, b := range hostileBodies() {
		listed, err := s.feed(ctx, r, b)
		if err != nil {
			return err
		}
		longest = max(longest, listed)
	}
	r.count("mistakes in one answer", longest, mistakesListed)
	return s.restartExecutor(ctx)
}

// feed sends one body and measures what it cost. It returns how many mistakes the answer lists.
func (s *system) feed(ctx context.Context, r *result, b hostileBody) (listed int, err error) {
	p := pid(s.executor)
	if err := resetPeak(p); err != nil {
		return 0, err
	}
	before, memory := processor(p), memoryOf(p, "VmRSS")
	if b.leaves > 0 {
		if err := s.leave(ctx, b); err != nil {
			return 0, err
		}
		before = processor(p)
		pause(ctx, 4*time.Second)
		used := processor(p) - before
		r.duration(b.what+": processor time after that", used, requestProcessor)
		if used > requestProcessor {
			return 0, s.restartExecutor(ctx)
		}
		return 0, nil
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	a := s.ask(waiting, "POST", b.path, b.text, nil)
	cancel()
	used := processor(p) - before
	shown := a.String()
	if a.err == nil {
		shown += ", " + shownBytes(a.bytes)
	}
	r.duration(fmt.Sprintf("%s (%s): processor time", b.what, shown), used, requestProcessor)
	if added := memoryOf(p, "VmHWM") - memory; added > requestMemory/4 {
		r.memory(b.what+": memory added", added, requestMemory)
	}
	if a.err != nil && a.status == 0 {
		return 0, s.restartExecutor(ctx) // it is still at it
	}
	var problem struct {
		Errors []json.RawMessage `json:"errors"`
	}
	listed = bytes.Count(a.head, []byte(`"detail"`)) - 1
	if json.Unmarshal(a.head, &problem) == nil {
		listed = len(problem.Errors)
	}
	return max(0, listed), nil
}

// leave sends a body and hangs up.
func (s *system) leave(ctx context.Context, b hostileBody) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(s.api, "http://"))
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience)) // a new connection has one
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", b.path, strings.TrimPrefix(s.api, "http://"), len(b.text))
	// Whoever refuses early may have closed the connection already.
	_, _ = conn.Write(append([]byte(head), b.text...))
	_ = conn.SetReadDeadline(time.Now().Add(b.leaves))
	_, _ = conn.Read(make([]byte, 1))
	return nil
}
