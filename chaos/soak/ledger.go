package soak

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Ledger checks the accepted requests of a soak: each request becomes one execution, and each execution ends.
// It needs two bits for each request, and more only for executions that have not ended. It is not safe for
// concurrent use.
type Ledger struct {
	created, ended bitSet
	alive          map[execution.ID]openChain
	// Rows counts created rows. Ends counts chains by their last status.
	Rows int
	Ends map[execution.Status]int
	// Created counts the requests that became an execution. Ended counts the ones whose chain has ended.
	// Retries counts the later rows of chains.
	Created, Ended, Retries int
	// Started and Stopped count processes of actions, from the shims' journals.
	Started, Stopped int
	// twice describes the first request that became two executions, or the first row that belongs to no
	// request.
	twice   string
	latency []float64
}

// openChain is a chain that has not ended.
type openChain struct {
	number int
	since  time.Duration
}

// bitSet is a set of non-negative numbers.
type bitSet []uint64

func (b *bitSet) setBit(n int) (again bool) {
	for len(*b) <= n/64 {
		*b = append(*b, 0)
	}
	again = (*b)[n/64]&(1<<(n%64)) != 0
	(*b)[n/64] |= 1 << (n % 64)
	return again
}

func (b bitSet) hasBit(n int) bool { return n/64 < len(b) && b[n/64]&(1<<(n%64)) != 0 }

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{alive: make(map[execution.ID]openChain), Ends: make(map[execution.Status]int)}
}

// Number returns a request's number from its stored idempotency key, and false if the key is not from a soak.
func Number(key string) (int, bool) {
	_, digits, ours := strings.Cut(key, KeyPrefix)
	n, err := strconv.Atoi(digits)
	return n, ours && err == nil && n >= 0
}

// Observe implements history.Sink.
func (l *Ledger) Observe(e *history.Event) {
	switch e.Kind {
	case history.Created:
		l.Rows++
		if e.Count > 0 {
			l.Retries++
			return
		}
		n, ours := Number(e.Key)
		if !ours {
			l.recordMismatch("execution %d has the idempotency key %q, which nobody sent", e.Execution, e.Key)
			return
		}
		if l.created.setBit(n) {
			l.recordMismatch("request %d became a second execution, %d", n, e.Execution)
			return
		}
		l.Created++
		l.alive[e.Chain] = openChain{n, e.At}
	case history.Orchestrated:
		o, known := l.alive[e.Chain]
		if !known || e.Related != 0 {
			return
		}
		delete(l.alive, e.Chain)
		l.ended.setBit(o.number)
		l.Ended++
		l.Ends[e.From]++
		l.latency = append(l.latency, (e.At - o.since).Seconds())
	case history.ActionStarted:
		l.Started++
	case history.ActionEnded:
		l.Stopped++
	default:
	}
}

func (l *Ledger) recordMismatch(format string, args ...any) {
	if l.twice == "" {
		l.twice = fmt.Sprintf(format, args...)
	}
}

// Open returns the number of executions that have not ended.
func (l *Ledger) Open() int { return len(l.alive) }

// Latencies returns the times from creation to end, in seconds, of executions that have ended since the last
// call.
func (l *Ledger) Latencies() []float64 {
	taken := l.latency
	l.latency = nil
	return taken
}

// Balance compares the ledger with the responses that clients received. sent is the number of requests,
// numbered from 0; accepted reports whether a request was answered with an execution. It returns the
// differences.
func (l *Ledger) Balance(sent int, accepted func(int) bool) (wrong []string) {
	if l.twice != "" {
		wrong = append(wrong, l.twice)
	}
	lost, first, unended, still := 0, -1, 0, -1
	for n := range sent {
		switch {
		case accepted(n) && !l.created.hasBit(n):
			if lost++; first < 0 {
				first = n
			}
		case l.created.hasBit(n) && !l.ended.hasBit(n):
			if unended++; still < 0 {
				still = n
			}
		}
	}
	if lost > 0 {
		wrong = append(wrong, fmt.Sprintf("%d requests were answered with an execution that the database never had, the first is request %d", lost, first))
	}
	if unended > 0 {
		wrong = append(wrong, fmt.Sprintf("%d executions were accepted and have not ended, the first is that of request %d", unended, still))
	}
	return wrong
}

// Accepted is the set of the numbers of requests that were answered with an execution. The zero value is
// empty. It is not safe for concurrent use.
type Accepted struct {
	is bitSet
	// N is the size of the set.
	N int
}

// Add adds a number.
func (a *Accepted) Add(n int) {
	if !a.is.setBit(n) {
		a.N++
	}
}

// Has reports whether a number was accepted.
func (a *Accepted) Has(n int) bool { return a.is.hasBit(n) }
