package simnet

import (
	"time"

	"handoff/sim/kernel"
)

// link carries messages from one node to another.
type link struct {
	n       *Network
	process string // the end that is not a server
	latency *kernel.Stream
	faults  *kernel.Stream

	cuts   []string // names of the faults that cut it, one entry for each cut
	slows  []slowdown
	resets []reset
	narrow []slowdown
	// free is the time at which a narrow link finishes its latest message.
	free time.Duration
	held []heldContent // in the order in which the cut stopped them

	silences []silence
	// broken is the number of the latest connection that a silence has broken.
	broken uint64
}

// silence loses everything that is sent over the connections numbered up to last.
type silence struct {
	fault string
	last  uint64
	// lost is the content that was lost, in order.
	lost []lostContent
}

// lostContent is content that a silence has lost.
type lostContent interface{ breakConnection() }

type slowdown struct {
	fault  string
	lo, hi time.Duration
}

type reset struct {
	fault      string
	perMillion uint64
}

// heldContent is content that waits at a cut.
type heldContent interface{ resumeAfterHeal() }

func (n *Network) linkBetween(from, to string) *link {
	name := linkName{from, to}
	l := n.links[name]
	if l == nil {
		process := from
		if _, server := n.servers[from]; server {
			process = to
		}
		l = &link{
			n:       n,
			process: process,
			latency: n.k.Stream("net/latency/" + from + ">" + to),
			faults:  n.k.Stream("net/fault/" + from + ">" + to),
		}
		n.links[name] = l
	}
	return l
}

// Cut stops everything from one node to another, but not in the other direction. Cuts are counted:
// a second one with the same name needs a second Heal.
func (n *Network) Cut(from, to, fault string) {
	l := n.linkBetween(from, to)
	l.cuts = append(l.cuts, fault)
}

// Heal removes one cut of that name; it does nothing if there is none. When it was the link's last cut, held
// content is delivered late or lost.
func (n *Network) Heal(from, to, fault string) {
	l := n.linkBetween(from, to)
	for i := len(l.cuts) - 1; i >= 0; i-- {
		if l.cuts[i] == fault {
			l.cuts = append(l.cuts[:i], l.cuts[i+1:]...)
			break
		}
	}
	if l.isCut() {
		return
	}
	held := l.held
	l.held = nil
	for _, h := range held {
		h.resumeAfterHeal()
	}
}

// Silence loses everything sent from one node to another over the existing connections, as when another
// machine has taken over the receiver's address: neither end closes the connections, and new connections
// work.
func (n *Network) Silence(from, to, fault string) {
	l := n.linkBetween(from, to)
	l.silences = append(l.silences, silence{fault: fault, last: n.connections})
}

// EndSilence ends the silence of that name: the silent connections break.
func (n *Network) EndSilence(from, to, fault string) {
	l := n.linkBetween(from, to)
	for i := range l.silences {
		if s := l.silences[i]; s.fault == fault {
			l.silences = append(l.silences[:i], l.silences[i+1:]...)
			l.broken = max(l.broken, s.last)
			for _, lost := range s.lost {
				lost.breakConnection()
			}
			return
		}
	}
}

// isSilent reports whether a silence loses the content of a connection.
func (l *link) isSilent(connection uint64) bool {
	for i := range l.silences {
		if connection <= l.silences[i].last {
			return true
		}
	}
	return false
}

// loseIfSilent loses content that is sent over a silent connection, and reports whether it did.
func (l *link) loseIfSilent(connection uint64, what lostContent) bool {
	if len(l.silences) == 0 || !l.isSilent(connection) {
		return false
	}
	l.touchSilences(connection)
	for i := range l.silences {
		if s := &l.silences[i]; connection <= s.last {
			s.lost = append(s.lost, what)
			break
		}
	}
	return true
}

func (l *link) touchSilences(connection uint64) {
	for i := range l.silences {
		if s := &l.silences[i]; connection <= s.last {
			l.n.Touch(Touched{Fault: s.fault, Process: l.process})
		}
	}
}

// IsCut reports whether a cut holds everything from one node to another.
func (n *Network) IsCut(from, to string) bool { return n.linkBetween(from, to).isCut() }

// SetSlow adds a time drawn from [lo, hi] to each delay from one node to another. It replaces an
// earlier one of the same name; a hi of zero removes it.
func (n *Network) SetSlow(from, to string, lo, hi time.Duration, fault string) {
	l := n.linkBetween(from, to)
	l.slows = withSlowdown(l.slows, slowdown{fault: fault, lo: lo, hi: hi})
}

// SetNarrow makes the link from one node to another carry one message at a time; each keeps it busy
// for a time drawn from [lo, hi]. It replaces an earlier one of the same name; a hi of zero removes
// it.
func (n *Network) SetNarrow(from, to string, lo, hi time.Duration, fault string) {
	l := n.linkBetween(from, to)
	l.narrow = withSlowdown(l.narrow, slowdown{fault: fault, lo: lo, hi: hi})
	if len(l.narrow) == 0 {
		l.free = 0
	}
}

// withSlowdown returns the list in which s replaces the entry with its name, or in which that entry is
// missing if s adds no time.
func withSlowdown(list []slowdown, s slowdown) []slowdown {
	for i := range list {
		if list[i].fault == s.fault {
			list = append(list[:i], list[i+1:]...)
			break
		}
	}
	if s.hi > 0 {
		list = append(list, s)
	}
	return list
}

// SetReset breaks the connections of a share of the calls and stream frames between two nodes, in parts per
// million. It replaces an earlier one of the same name; zero removes it.
func (n *Network) SetReset(a, b string, perMillion uint64, fault string) {
	n.linkBetween(a, b).setReset(perMillion, fault)
	if a != b {
		n.linkBetween(b, a).setReset(perMillion, fault)
	}
}

func (l *link) setReset(perMillion uint64, fault string) {
	for i, r := range l.resets {
		if r.fault == fault {
			l.resets = append(l.resets[:i], l.resets[i+1:]...)
			break
		}
	}
	if perMillion > 0 {
		l.resets = append(l.resets, reset{fault: fault, perMillion: perMillion})
	}
}

func (l *link) isCut() bool { return len(l.cuts) > 0 }

// holdContent keeps h until the link heals.
func (l *link) holdContent(h heldContent) {
	l.touchCuts()
	l.held = append(l.held, h)
}

func (l *link) touchCuts() {
	for _, fault := range l.cuts {
		l.n.Touch(Touched{Fault: fault, Process: l.process})
	}
}

// drawDelay draws how long one leg that begins now takes.
func (l *link) drawDelay() time.Duration { return l.drawDelayAfter(0) }

// drawDelayAfter draws how long one leg that begins after wait takes.
func (l *link) drawDelayAfter(wait time.Duration) time.Duration {
	d := l.latency.Duration(l.n.lo, l.n.hi)
	for _, s := range l.slows {
		d += l.faults.Duration(s.lo, s.hi)
		l.n.Touch(Touched{Fault: s.fault, Process: l.process})
	}
	for _, s := range l.narrow {
		now := l.n.k.Now() + wait
		l.free = max(l.free, now) + l.faults.Duration(s.lo, s.hi)
		d += l.free - now
		l.n.Touch(Touched{Fault: s.fault, Process: l.process})
	}
	return d
}

// drawHealDelay draws how long after the link's healing held content arrives.
func (l *link) drawHealDelay() time.Duration { return l.drawDelay() + l.faults.Duration(0, retransmit) }

// drawBreak draws whether the current message breaks its connection.
func (l *link) drawBreak() bool {
	broken := false
	for _, r := range l.resets {
		if l.faults.Chance(r.perMillion) {
			l.n.Touch(Touched{Fault: r.fault, Process: l.process})
			broken = true
		}
	}
	return broken
}

// drawCoin draws false, the default, or true.
func (l *link) drawCoin() bool { return l.faults.Uint64N(2) == 1 }
