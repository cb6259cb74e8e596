package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
)

// This file judges hints where they are sent, as a part of invariant 26 (docs/queues.md, "Messages"). At the broker nobody
// sees what its sender knew: which outcome it was told, and what else it had to tell. Only the simulated world shows it; see
// Conduct.

// Open is a session of the broker, as far as a rule wants to know of it.
type Open interface{ Closed() bool }

// published is what is known of what processes have sent.
type published struct {
	// untaken are the hints that the broker has not taken, and of which another attempt may come or is under way.
	untaken []untaken
	// last is the last message of hints of each process, type and worker.
	last map[sentTo]lastSent
}

// untaken is a message of hints that the broker has not taken.
type untaken struct {
	id, process string
	over        Open
	at          time.Duration
	attempts    int
	// unseen says that it had an attempt over a session that has ended: others may have come without one.
	unseen bool
	// waits says that another attempt has to come, and that nothing excuses that it does not.
	waits bool
}

type sentTo struct {
	process, key string
}

// lastSent is when a message was sent first, and how many changes it told of.
type lastSent struct {
	at   time.Duration
	size int
}

// hintPause is more than the pause between two attempts of a hint, which grows from a tenth of a second, and heldBack more
// than the time from a change to the moment at which its writer has its hint ready, and than all pauses together. A hint of
// which no other attempt was seen for untakenFor is forgotten: its sender has given up without a session.
const (
	hintPause  = 500 * time.Millisecond
	heldBack   = 2 * time.Second
	untakenFor = time.Minute
)

// publishing judges a message of hints that a process is about to send.
func (c *hintChecker) publishing(process string, m *broker.Message, now time.Duration) {
	c.s.judged(c.i)
	id := m.Envelope.MessageID
	// A second process of one name has that name in front of its own.
	if source, _, named := strings.Cut(id, "/"); !named || source != process && !strings.HasPrefix(process, source+" ") {
		c.s.violate(c.i, 0, "%s sends a hint with the id %q, which does not begin with its name: nobody can tell whose it is", process, id)
	}
	for i := range c.untaken {
		if u := &c.untaken[i]; u.id == id && u.process == process {
			u.waits = false
			return
		}
	}
	c.full(process, m, now)
}

// full judges that a message which is not full leaves nothing of its type, and for the same worker, that its sender has known
// of for a while: a message for each change is work for the broker and for everybody who listens.
func (c *hintChecker) full(process string, m *broker.Message, now time.Duration) {
	const hinders = standsStill | itsClock | toDatabase | databaseFails | hasTwin
	to := sentTo{process, m.RoutingKey}
	before, any := c.last[to]
	bit := uint8(1) << m.Envelope.Type
	for _, told := range m.Envelope.Changes {
		n := c.committed(change{told.Key.ID, told.Key.Epoch, told.To})
		if n == nil || n.process != process || n.told&bit != 0 {
			continue
		}
		n.told |= bit
		from := c.s.recovered(n.at)
		if !any || before.size >= hintSize || n.at+heldBack >= before.at || c.s.ledger.struck(hinders, process, 0, from) || c.s.roads.of(process).wrong.since(from) {
			continue
		}
		c.s.violate(c.i, n.id, "%s sends %q with execution %d, epoch %d, which it made %v at %v, and had sent one with %d changes at %v that was not full; %d go into one",
			process, m.RoutingKey, n.id, n.epoch, n.to, n.at, before.size, before.at, hintSize)
	}
	if c.last == nil {
		c.last = make(map[sentTo]lastSent)
	}
	c.last[to] = lastSent{now, len(m.Envelope.Changes)}
}

// outcome notes what the sender of hints was told. A hint that may have arrived is not sent again, and none after the last
// attempt.
func (c *hintChecker) outcome(process string, over Open, m *broker.Message, o broker.Outcome, now time.Duration) {
	id := m.Envelope.MessageID
	at := slices.IndexFunc(c.untaken, func(u untaken) bool { return u.id == id && u.process == process })
	taken := o == broker.Confirmed || o == broker.Unknown
	switch {
	case at < 0 && taken:
		return
	case at < 0:
		c.untaken = append(c.untaken, untaken{id: id, process: process})
		at = len(c.untaken) - 1
	case taken || c.untaken[at].attempts == hintAttempts-1:
		c.untaken = slices.Delete(c.untaken, at, at+1)
		return
	}
	u := &c.untaken[at]
	u.unseen = u.unseen || u.over != nil && u.over.Closed()
	u.over, u.at, u.attempts, u.waits = over, now, u.attempts+1, !u.unseen
	c.s.wake(now + c.s.untriedWithin() + time.Nanosecond)
}

// untriedWithin is within which time another attempt of a hint has to come.
func (s *Suite) untriedWithin() time.Duration { return s.prompt() + hintPause }

// untried judges hints that the broker did not take and that nobody has sent again in time. Without a session an attempt is
// not seen. The attempts of a hint stay counted while one of them is under way, however late its answer comes, and where a
// fault excuses that the next one is late.
func (c *hintChecker) untried(now time.Duration) {
	const hinders = standsStill | itsClock | hasTwin | toBroker | brokerFails
	if len(c.untaken) == 0 {
		return
	}
	within := c.s.untriedWithin()
	for i := range c.untaken {
		u := &c.untaken[i]
		if !u.waits || now-u.at <= within {
			continue
		}
		u.waits = false
		if p := c.s.roads.byName[u.process]; u.over.Closed() || p == nil || !p.up || p.stopping || c.s.ledger.struck(hinders, u.process, 0, u.at) {
			continue
		}
		c.s.judged(c.i)
		c.s.violate(c.i, 0, "%s was told at %v that the broker did not take its hint %s, attempt %d, and has not sent it again within %v; %d attempts are made",
			u.process, u.at, u.id, u.attempts, within, hintAttempts)
	}
	c.untaken = slices.DeleteFunc(c.untaken, func(u untaken) bool {
		p := c.s.roads.byName[u.process]
		return p == nil || !p.up || now-u.at > untakenFor && !c.s.ledger.struck(standsStill, u.process, 0, u.at)
	})
}
