package invariant

import (
	"hash"
	"hash/fnv"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
)

// acceptedOnce returns invariant 16 (defect D9). A client that got no answer must be able to repeat its
// request. A key that is reused after 24 hours must create a new execution: if the client gets the old
// execution, nothing runs for its request.
func acceptedOnce() *Invariant {
	i := &Invariant{
		Number: 16, Name: "accepted once",
		Statement: "Of all requests with one idempotency key within 24 hours, one creates an execution. After that the key can be used again.",
		Needs:     []history.Kind{history.Created},
	}
	i.make = func(s *Suite) checker {
		return &keyChecker{i: i, s: s, recent: make(map[keyHash]struct{}), hash: fnv.New64a()}
	}
	return i
}

// keyGeneration is half the lifetime of a key. The checker remembers the keys of the current and the previous
// generation, so it remembers each key for half a day to a day.
const keyGeneration = oracle.KeyLifetime / 2

// keyHash replaces a key, because keys may be long and every execution of the last day has one.
type keyHash [8]byte

type keyChecker struct {
	i              *Invariant
	s              *Suite
	generation     time.Duration
	recent, before map[keyHash]struct{}

	hash hash.Hash
	text []byte
}

// observedKinds implements selective.
func (k *keyChecker) observedKinds() []history.Kind {
	return []history.Kind{history.KeyKnown, history.Created}
}

func (k *keyChecker) observeEvent(e *history.Event, _ *life) {
	if e.Kind == history.KeyKnown {
		k.judgeKnownKey(e)
	}
	if e.Kind != history.Created || e.Key == "" {
		return
	}
	if now := k.s.databaseTime(e.At) / keyGeneration; now > k.generation {
		k.before = nil
		if now == k.generation+1 {
			k.before = k.recent
		}
		k.recent, k.generation = make(map[keyHash]struct{}), now
	}
	k.text = append(k.text[:0], e.Key...)
	k.hash.Reset()
	_, _ = k.hash.Write(k.text)
	key := keyHash(k.hash.Sum(k.text[:0]))
	k.s.countOccasion(k.i)
	_, young := k.recent[key]
	_, old := k.before[key]
	if young || old {
		k.s.recordViolation(k.i, e.Execution, "execution %d was created by %s under the key %q, under which another one had been created", e.Execution, e.Process, e.Key)
	}
	k.recent[key] = struct{}{}
}

// judgeKnownKey judges an answer that names an existing execution. When the answer arrives, the execution is
// a little older than when the database gave the answer.
func (k *keyChecker) judgeKnownKey(e *history.Event) {
	k.s.countOccasion(k.i)
	if e.Due >= oracle.KeyLifetime+k.s.bounds.Slack {
		k.s.recordViolation(k.i, e.Execution, "a request under the idempotency key %q was answered with execution %d, which was created %v before: a key can be used again after %v",
			e.Key, e.Execution, e.Due, oracle.KeyLifetime)
	}
}

func (k *keyChecker) endRun(bool) {}
