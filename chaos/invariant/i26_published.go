package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
)

// This file is the part of invariant 26 that judges hints when they are sent (docs/queues.md, "Messages").
// The history doesn't show what the sender knew: the outcomes of its publishes, and the other changes that it
// had to report. Only the simulated world reports this; see Conduct.

// Open is the part of a broker session that a rule needs to know.
type Open interface {
	Closed() bool
	// Usable returns when its process could first publish over the session.
	Usable() time.Duration
}

// senderState records the hints that processes have sent.
type senderState struct {
	// unaccepted holds the hints that the broker has not accepted. Another attempt may follow or is under
	// way.
	unaccepted []unacceptedHint
	// last describes the last message with hints on each route.
	last map[hintRoute]lastSent
}

// unacceptedHint is a message with hints that the broker has not accepted.
type unacceptedHint struct {
	id, process string
	over        Open
	at          time.Duration
	attempts    int
	// unseen reports whether the count may lack attempts that the sender made without a session: an attempt
	// was made over a session that has ended, or the first known attempt over a session that had just opened.
	unseen bool
	// waits reports whether another attempt must follow and nothing excuses its absence.
	waits bool
}

type hintRoute struct {
	process, key string
}

// lastSent holds when a message was first sent, and its number of changes.
type lastSent struct {
	at   time.Duration
	size int
}

// hintPause is longer than the pause between two attempts of a hint, which grows from 0.1 s. heldBack is
// longer than the time from a change until its hint is ready, and longer than all pauses together. A hint
// without another attempt for unacceptedFor is forgotten, because its sender has given up without a session.
const (
	hintPause     = 500 * time.Millisecond
	heldBack      = 2 * time.Second
	unacceptedFor = time.Minute
)

// judgePublishing judges a message with hints that a process is about to send.
func (hc *hintChecker) judgePublishing(process string, m *broker.Message, now time.Duration) {
	hc.s.countOccasion(hc.i)
	id := m.Envelope.MessageID
	// A twin's name begins with the name of its original, and its hints' ids contain the original's name.
	if source, _, named := strings.Cut(id, "/"); !named || source != process && !strings.HasPrefix(process, source+" ") {
		hc.s.recordViolation(hc.i, 0, "%s sends a hint with the id %q, which does not begin with its name: nobody can tell whose it is", process, id)
	}
	for i := range hc.unaccepted {
		if u := &hc.unaccepted[i]; u.id == id && u.process == process {
			u.waits = false
			return
		}
	}
	hc.judgeFullness(process, m, now)
}

// judgeFullness requires that a message that is not full contains every change, of its type and for its
// worker, that its sender has known for a while. One message per change would be extra work for the broker
// and every receiver.
func (hc *hintChecker) judgeFullness(process string, m *broker.Message, now time.Duration) {
	const hinders = standsStill | itsClock | toDatabase | databaseFails | hasTwin
	to := hintRoute{process, m.RoutingKey}
	before, any := hc.last[to]
	bit := uint8(1) << m.Envelope.Type
	for _, told := range m.Envelope.Changes {
		n := hc.findChange(statusChange{told.Key.ID, told.Key.Epoch, told.To})
		if n == nil || n.process != process || n.sentTypes&bit != 0 {
			continue
		}
		n.sentTypes |= bit
		from := hc.s.recoveryStart(n.at)
		if !any || before.size >= hintSize || n.at+heldBack >= before.at || hc.s.ledger.hasStruck(hinders, process, 0, from) || hc.s.roads.roadOf(process).wrong.presentSince(from) {
			continue
		}
		hc.s.recordViolation(hc.i, n.id, "%s sends %q with execution %d, epoch %d, which it made %v at %v: this change belonged in the previous %q, which had only %d changes when it was sent at %v; a message holds %d",
			process, m.RoutingKey, n.id, n.epoch, n.to, n.at, m.RoutingKey, before.size, before.at, hintSize)
	}
	if hc.last == nil {
		hc.last = make(map[hintRoute]lastSent)
	}
	hc.last[to] = lastSent{now, len(m.Envelope.Changes)}
}

// noteOutcome records the broker's answer to a message with hints. A hint that may have arrived is not
// repeated, nor is a hint after its last attempt.
func (hc *hintChecker) noteOutcome(process string, over Open, m *broker.Message, o broker.Outcome, now time.Duration) {
	id := m.Envelope.MessageID
	at := slices.IndexFunc(hc.unaccepted, func(u unacceptedHint) bool { return u.id == id && u.process == process })
	taken := o == broker.Confirmed || o == broker.Unknown
	switch {
	case at < 0 && taken:
		return
	case at < 0:
		// Attempts without a session are at most a pause apart, unless their process is halted.
		young := over.Usable()+heldBack >= now || hc.s.ledger.hasStruck(standsStill, process, 0, now-heldBack)
		hc.unaccepted = append(hc.unaccepted, unacceptedHint{id: id, process: process, unseen: young})
		at = len(hc.unaccepted) - 1
	case taken || hc.unaccepted[at].attempts == hintAttempts-1:
		hc.unaccepted = slices.Delete(hc.unaccepted, at, at+1)
		return
	}
	u := &hc.unaccepted[at]
	u.unseen = u.unseen || u.over != nil && u.over.Closed()
	u.over, u.at, u.attempts, u.waits = over, now, u.attempts+1, !u.unseen
	hc.s.wakeAt(now + hc.s.hintRetryBound() + time.Nanosecond)
}

// hintRetryBound returns the time within which another attempt of a hint must follow.
func (s *Suite) hintRetryBound() time.Duration { return s.promptBound() + hintPause }

// judgeUnrepeatedHints judges hints that the broker did not accept and that their sender has not repeated in
// time. Attempts without a session are not reported, so a sender that had no session shortly before may have
// made its last attempt. The number of attempts is kept while an attempt is under way, however late its
// answer, and while a fault excuses a late next attempt.
func (hc *hintChecker) judgeUnrepeatedHints(now time.Duration) {
	const hinders = standsStill | itsClock | hasTwin | toBroker | brokerFails
	if len(hc.unaccepted) == 0 {
		return
	}
	within := hc.s.hintRetryBound()
	for i := range hc.unaccepted {
		u := &hc.unaccepted[i]
		if !u.waits || now-u.at <= within {
			continue
		}
		u.waits = false
		if p := hc.s.roads.byName[u.process]; u.over.Closed() || p == nil || !p.up || p.stopping || hc.s.ledger.hasStruck(hinders, u.process, 0, u.at) ||
			hc.s.ledger.hasStruck(toBroker|brokerFails, u.process, 0, u.at-heldBack) {
			continue
		}
		hc.s.countOccasion(hc.i)
		hc.s.recordViolation(hc.i, 0, "%s was told at %v that the broker did not take its hint %s, attempt %d, and has not sent it again within %v; a hint gets %d attempts",
			u.process, u.at, u.id, u.attempts, within, hintAttempts)
	}
	hc.unaccepted = slices.DeleteFunc(hc.unaccepted, func(u unacceptedHint) bool {
		p := hc.s.roads.byName[u.process]
		return p == nil || !p.up || now-u.at > unacceptedFor && !hc.s.ledger.hasStruck(standsStill, u.process, 0, u.at)
	})
}
