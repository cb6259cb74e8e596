package weave

import (
	"fmt"
	"regexp"
)

const (
	registry = "core/worker/registry.go"
	waiting  = "core/worker/waiting.go"
	client   = "core/broker/client.go"
	hints    = "core/executor/hints.go"
)

// Mutants returns mutants in which a lock is missing, is released too early, or is released and reacquired
// within one step. An ordinary run detects none of them.
func Mutants() []Mutant {
	return []Mutant{
		// A task removes a row of the registry by an index that another task has made stale.
		withoutLock("registry-removes-without-its-lock", registry, "r.mu", `
	r.mu.Lock()
	if r.takenSlots() >= r.capacity {
		r.fullUntil = now
	}
	for _, e := range gone {
		i := slices.IndexFunc(r.entries, func(h heldEntry) bool { return h.entry == e })
		if i < 0 {
			continue
		}
		r.entries = slices.Delete(r.entries, i, i+1)
		doubles = append(doubles, e.takeDoubles()...)
		if e.refused {
			r.refused--
		}
	}
	r.mu.Unlock()
`),
		// A task assigns the run of an action to its registry entry while another task ends that entry.
		withoutLock("registry-connects-a-run-without-its-lock", registry, "r.mu", `
	r.mu.Lock()
	defer r.mu.Unlock()
	e.run = run
`),
		// Two tasks give a slot to the same delivery, and then both remove a delivery.
		splitLock("session-admits-in-two-steps", waiting, "s.mu", `
		s.waiting = append(s.waiting[:0], s.waiting[len(taken):]...)
		return taken, nil, 0`),
		// A session that opens between the check and the wait wakes no task, so the consumer stays deaf
		// permanently.
		splitLock("client-looks-and-waits-in-two-steps", client, "c.mu", `
		if !open {
			c.waiting = append(c.waiting, arrived)`),
		// A hint that arrives between reading and replacing the list is lost, and its message is never
		// acknowledged.
		withoutLock("hints-are-taken-without-their-lock", hints, "h.mu", `
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held
	h.held, h.spare = h.spare, nil
`),
	}
}

// splitLock returns a mutant that briefly releases a lock before a piece of the source, so that one step
// becomes two.
func splitLock(name, file, lock, before string) Mutant {
	return Mutant{Name: name, File: file, Old: before, New: fmt.Sprintf("\n	if woven.Planted(%q) {\n		%s.Unlock()\n		%s.Lock()\n	}%s", name, lock, lock, before)}
}

// withoutLock returns a mutant that removes a lock from a piece of the source.
func withoutLock(name, file, lock, piece string) Mutant {
	calls := regexp.MustCompile(`(?m)^\t((?:defer )?` + regexp.QuoteMeta(lock) + `\.(?:Lock|Unlock)\(\))$`)
	text := calls.ReplaceAllString(piece, fmt.Sprintf("\tif !woven.Planted(%q) {\n\t\t$1\n\t}", name))
	return Mutant{Name: name, File: file, Old: piece, New: text}
}
