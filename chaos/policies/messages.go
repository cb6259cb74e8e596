package policies

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"handoff/chaos/oracle"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// topology asks what an executor and a worker declare at the broker, for a drawn configuration and
// a drawn worker.
func (a *asker) topology() {
	r := oracle.Defaults(pick(a, config.Hardened, config.Documented)).MessageQueue.RabbitMQ
	r.QueueType, r.DeadLetter.Enabled = pick(a, "quorum", "classic"), !a.oneIn(4)
	if a.oneIn(2) {
		r.WorkerQueueTTLMS, r.DeadLetter.Exchange = int64(a.number(1, 1_000_000)), "other.dlx"
	}
	id := execution.WorkerID(pick(a, 1, 7, 9, 10, 35, 36, 99, 1<<40, a.number(1, 1000)))
	a.declares("an executor", a.core.Executors(r), oracle.ExecutorTopology(&r))
	a.declares(fmt.Sprintf("worker %d", id), a.core.Workers(r, id), oracle.WorkerTopology(&r, id))
}

// declares compares two topologies, in any order of their parts.
func (a *asker) declares(who string, t broker.Topology, right oracle.Topology) {
	var declared, due []string
	for _, e := range t.Exchanges {
		declared = append(declared, exchange(e.Name, string(e.Kind)))
	}
	for _, q := range t.Queues {
		declared = append(declared, fmt.Sprintf("the %s queue %s with the TTL %v, dead letter exchange %q, expiry %v, keeping what comes back: %v", q.Type, q.Name, q.TTL, q.DeadLetterExchange, q.Expires, q.KeepsReturned))
	}
	for _, b := range t.Bindings {
		declared = append(declared, binding(b.Exchange, b.Pattern, b.Queue))
	}
	for _, e := range right.Exchanges {
		due = append(due, exchange(e.Name, e.Kind))
	}
	for _, q := range right.Queues {
		due = append(due, fmt.Sprintf("the %s queue %s with the TTL %v, dead letter exchange %q, expiry 0s, keeping what comes back: %v", q.Type, q.Name, q.TTL, q.DeadLetterExchange, q.KeepsReturned))
	}
	for _, b := range right.Bindings {
		due = append(due, binding(b.Exchange, b.Key, b.Queue))
	}
	a.Asked++
	for _, one := range due {
		if !slices.Contains(declared, one) {
			a.wrong(queues, "%s has to declare %s, and declares %s", who, one, strings.Join(declared, "; "))
			return
		}
	}
	if len(declared) != len(due) {
		a.wrong(queues, "%s has to declare %s, and declares %s", who, strings.Join(due, "; "), strings.Join(declared, "; "))
	}
}

func exchange(name, kind string) string { return fmt.Sprintf("the exchange %s (%s)", name, kind) }

func binding(exchange, key, queue string) string {
	return fmt.Sprintf("the binding of %q at %s to %s", key, exchange, queue)
}

// The limits of a stored dead letter, in bytes (docs/contract.md, "Numbers that no key changes").
const (
	longestBody    = 16 << 10
	longestName    = 255
	longestOutcome = 500
)

// deadLetters asks how foreign texts are stored: within the bound, without a byte that a database
// refuses, and complete except for a character that the bound cuts through.
func (a *asker) deadLetters() {
	queue, outcome := a.text(longestName), a.text(longestOutcome)
	kept := a.core.Bounded(store.DeadLetter{Queue: queue, Outcome: outcome})
	a.cut("the queue", queue, kept.Queue, longestName)
	a.cut("the outcome", outcome, kept.Outcome, longestOutcome)
	if a.oneIn(4) {
		n := a.near(longestBody)
		kept = a.core.Bounded(store.DeadLetter{Body: make([]byte, n)})
		expect(a, len(kept.Body), min(n, longestBody), contract, "how many bytes of a dead letter's body of %d bytes are kept", n)
		expect(a, kept.BodyBytes, n, contract, "the recorded length of a dead letter's body of %d bytes", n)
	}
}

// text draws a text whose length is near a bound, with characters of one to four bytes, and at
// times bytes that are not a character.
func (a *asker) text(bound int) string {
	var b strings.Builder
	if a.oneIn(2) {
		b.WriteString(pick(a, "\xff", "\x00", "\xe2\x82", "ok\xc0"))
	}
	end := max(0, bound+a.number(-6, 3))
	b.WriteString(strings.Repeat("a", max(0, end-b.Len()-a.number(0, 4))))
	for range 4 {
		b.WriteString(pick(a, "a", "ü", "€", "😀"))
	}
	return b.String()
}

func (a *asker) cut(what, text, kept string, bound int) {
	a.Asked++
	cleaned := func(text string) string {
		return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
	}
	if len(text) <= bound {
		if kept != cleaned(text) {
			a.wrong(queues, "the stored %s of the text %q, %d bytes: the contract says the whole text, the core says %q", what, text, len(text), kept)
		}
		return
	}
	least := bound - utf8.UTFMax
	if utf8.ValidString(text) {
		for least = bound; !utf8.RuneStart(text[least]); least-- {
		}
	}
	for n := least; n <= bound; n++ {
		if kept == cleaned(text[:n]) {
			return
		}
	}
	a.wrong(queues, "the stored %s of the text %q, %d bytes: the contract says the first %d bytes without a character that they cut through, the core says %q, %d bytes", what, text, len(text), bound, kept, len(kept))
}
