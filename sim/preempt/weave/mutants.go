package weave

import (
	"fmt"
	"strings"
)

const (
	registry    = "core/worker/registry.go"
	waiting     = "core/worker/waiting.go"
	client      = "core/broker/client.go"
	hints       = "core/executor/hints.go"
	notifier    = "core/broker/notifier.go"
	sessionFile = "core/worker/session.go"
	scheduler   = "core/executor/scheduler.go"
	unreadFile  = "core/unread/unread.go"
)

// Mutants are locks that are missing, released too early, or taken twice around what has to be one step.
var Mutants = []Mutant{
	between("registry-adds-in-two-steps", registry, "r.mu", `
	e = &entry{key: key, beat: r.beat,`),
	unlocked("registry-removes-without-its-lock", registry, "r.mu", `
func (r *registry) remove(e *entry, now time.Duration) {
	r.mu.Lock()
	if len(r.entries) >= r.capacity {
		r.fullUntil = now
	}
	for i := range r.entries {
		if r.entries[i] == e {
			r.entries = append(r.entries[:i], r.entries[i+1:]...)
			break
		}
	}
	r.mu.Unlock()
`),
	{
		Name: "registry-connects-a-run-without-its-lock", File: registry,
		Old: "	r.mu.Lock()\n	defer r.mu.Unlock()\n	e.run = run\n	return e.why != execution.NoReason\n",
		New: "	if preempt.Planted(\"registry-connects-a-run-without-its-lock\") {\n		ended = e.why != execution.NoReason\n		e.run = run\n		return ended\n	}\n" +
			"	r.mu.Lock()\n	defer r.mu.Unlock()\n	e.run = run\n	return e.why != execution.NoReason\n",
	},
	between("registry-beats-in-two-steps", registry, "r.mu", `
	held = make([]execution.Key, len(r.entries))`),
	between("session-admits-in-two-steps", waiting, "t.mu", `
	t.waiting = append(t.waiting[:0], t.waiting[1:]...)
	return first, e, left`),
	between("client-looks-and-waits-in-two-steps", client, "c.mu", `
		if !open {
			c.waiting = append(c.waiting, arrived)`),
	{
		Name: "hints-are-taken-without-their-lock", File: hints,
		Old: "	h.mu.Lock()\n	defer h.mu.Unlock()\n	held := h.held\n	h.held, h.spare = h.spare, nil\n",
		New: "	if preempt.Planted(\"hints-are-taken-without-their-lock\") {\n		held := h.held\n		h.held, h.spare = h.spare, nil\n		return held\n	}\n" +
			"	h.mu.Lock()\n	defer h.mu.Unlock()\n	held := h.held\n	h.held, h.spare = h.spare, nil\n",
	},
	between("notifier-takes-in-two-steps", notifier, "n.mu", `
		n.pending[t] = changes[count:]`),
	between("session-ends-in-two-steps", sessionFile, "t.mu", `
	if first {
		t.over = why`),
	between("scheduler-forgets-a-moment-in-two-steps", scheduler, "s.mu", `
		s.next = host.Forever`),
	between("unreadable-messages-are-taken-in-two-steps", unreadFile, "k.mu", `
	k.held = slices.Delete(k.held, 0, n)`),
}

// between releases a lock for a moment before a piece of the source: what was one step becomes two.
func between(name, file, lock, before string) Mutant {
	return Mutant{Name: name, File: file, Old: before, New: fmt.Sprintf("\n	if preempt.Planted(%q) {\n		%s.Unlock()\n		%s.Lock()\n	}%s", name, lock, lock, before)}
}

// unlocked leaves a lock out of a piece of the source.
func unlocked(name, file, lock, piece string) Mutant {
	text := piece
	for _, call := range []string{lock + ".Lock()", lock + ".Unlock()"} {
		text = strings.ReplaceAll(text, call, fmt.Sprintf("if !preempt.Planted(%q) {\n		%s\n	}", name, call))
	}
	return Mutant{Name: name, File: file, Old: piece, New: text}
}
