package simnet

import (
	"context"
	"math"
	"time"

	"handoff/sim/kernel"
)

// phase is the state of a call.
type phase uint8

const (
	requestUnderWay phase = iota
	requestHeld
	replyUnderWay
	replyHeld
)

// call is one request and its reply. Calls are pooled: a call is reusable when its packets are gone and its
// caller has returned.
type call struct {
	n       *Network
	forth   *link
	back    *link
	server  *server
	apply   Frame
	wait    kernel.Wait
	err     error // error in the reply
	phase   phase
	refusal bool   // the server was down when the request was sent
	sent    uint64 // the server's generation when the request was sent
	applied uint64 // the generation when the reply was sent

	// broken reports whether a reset was drawn, and brokenAfter whether the server applies the request
	// first.
	broken      bool
	brokenAfter bool

	// connection is the number of the call's connection. trips is the number of round trips that precede it.
	connection uint64
	trips      int
	strand     kernel.Strand // strand of the held packet
	packets    bool          // a packet is still in transit
	caller     bool          // the caller still waits
}

// Path is the pair of links between one process and one server. A client that makes many calls keeps one,
// so that calls need not look up their links.
type Path struct {
	n           *Network
	p           *kernel.Process
	to          string
	server      *server // nil until the first call
	forth, back *link
}

// Path returns the path from a process to a server.
func (n *Network) Path(p *kernel.Process, server string) *Path { return &Path{n: n, p: p, to: server} }

// Call makes one request to a server and waits for its reply. apply runs in kernel context at the
// server, at most once, and possibly after Call has returned; it must not block. The package
// comment explains the errors. The call is a yield point, before the request is sent.
func (n *Network) Call(ctx context.Context, p *kernel.Process, server string, apply func()) error {
	w := n.Path(p, server)
	return w.Call(ctx, FrameFunc(apply), w.Connect(), 0)
}

// lookUpLinks looks up the links and the server of the path, once.
func (pa *Path) lookUpLinks() {
	if pa.server == nil {
		pa.server = pa.n.serverNamed(pa.to)
		pa.forth = pa.n.linkBetween(pa.p.Name(), pa.to)
		pa.back = pa.n.linkBetween(pa.to, pa.p.Name())
	}
}

// Connect makes a new connection and returns its number.
func (pa *Path) Connect() (connection uint64) {
	pa.n.connections++
	return pa.n.connections
}

// Broken reports whether a silence has broken the connection and has ended.
func (pa *Path) Broken(connection uint64) bool {
	pa.lookUpLinks()
	return connection <= max(pa.forth.broken, pa.back.broken)
}

// Silent reports whether a connection is silent.
func (pa *Path) Silent(connection uint64) bool {
	pa.lookUpLinks()
	return pa.forth.isSilent(connection) || pa.back.isSilent(connection)
}

// Troubled reports whether a fault of the link or the server may delay replies on a connection.
func (pa *Path) Troubled(connection uint64) bool {
	pa.lookUpLinks()
	return pa.server.hangs != "" || !pa.server.up || pa.forth.isTroubled(connection) || pa.back.isTroubled(connection)
}

func (l *link) isTroubled(connection uint64) bool {
	return len(l.cuts)+len(l.slows)+len(l.narrow) > 0 || len(l.silences) > 0 && l.isSilent(connection)
}

// Trips draws the duration of n round trips.
func (pa *Path) Trips(n int) (d time.Duration) {
	pa.lookUpLinks()
	for range n {
		d += pa.forth.drawDelayAfter(d)
		d += pa.back.drawDelayAfter(d)
	}
	return d
}

// Answers reports whether a message that has arrived over a connection would be answered now. If a fault
// prevents this, it touches the fault. For a new connection, pass NoConnection.
func (pa *Path) Answers(connection uint64) bool {
	pa.lookUpLinks()
	if !pa.forth.isCut() && !pa.back.isCut() && pa.server.hangs == "" && !pa.forth.isSilent(connection) && !pa.back.isSilent(connection) {
		return true
	}
	pa.forth.touchCuts()
	pa.back.touchCuts()
	pa.forth.touchSilences(connection)
	pa.back.touchSilences(connection)
	pa.n.Touch(Touched{Fault: pa.server.hangs, Process: pa.p.Name()})
	return false
}

// NoConnection is the number of a connection that does not exist yet.
const NoConnection = math.MaxUint64

// Call is like Network.Call on this path, over one connection; the arrival of the request applies it. trips
// is the number of preceding round trips: those of the same call that apply nothing, and those that prepare
// the connection.
func (pa *Path) Call(ctx context.Context, apply Frame, connection uint64, trips int) error {
	n := pa.n
	n.k.CheckAlive()
	n.k.Point()
	if err := ctx.Err(); err != nil {
		return err
	}
	pa.lookUpLinks()
	c := n.takeCall()
	c.connection, c.trips = connection, trips
	c.forth, c.back, c.server = pa.forth, pa.back, pa.server
	c.apply = apply
	c.wait = n.k.NewWait()
	c.sent = c.server.generation
	c.refusal = !c.server.up
	c.packets, c.caller = true, true
	if c.broken = c.forth.drawBreak(); c.broken {
		c.brokenAfter = c.forth.drawCoin()
	}
	c.sendRequest()
	err := c.wait.Await(ctx)
	if err == nil {
		err = c.err
	}
	c.caller = false
	c.freeIfDone()
	return err
}

func (n *Network) takeCall() *call {
	if last := len(n.pool) - 1; last >= 0 {
		c := n.pool[last]
		n.pool = n.pool[:last]
		return c
	}
	return &call{n: n}
}

// freeIfDone returns the call to the pool if neither a packet nor the caller uses it any more. A crashed
// caller never releases its call; the garbage collector frees it.
func (c *call) freeIfDone() {
	if c.packets || c.caller {
		return
	}
	*c = call{n: c.n}
	c.n.pool = append(c.n.pool, c)
}

func (c *call) sendRequest() {
	c.strand = c.n.k.Strand()
	if c.forth.isCut() {
		c.phase = requestHeld
		c.forth.holdContent(c)
		return
	}
	if c.forth.loseIfSilent(c.connection, c) {
		return
	}
	c.phase = requestUnderWay
	d := c.forth.drawDelay()
	for range c.trips {
		d += c.back.drawDelayAfter(d)
		d += c.forth.drawDelayAfter(d)
	}
	c.n.k.AfterEvent(d, c)
}

// breakConnection reports to the caller that the connection is broken.
func (c *call) breakConnection() {
	defer c.n.k.SetStrand(c.n.k.Strand())
	c.n.k.Meet(c.strand)
	c.err, c.apply = ErrReset, nil
	c.phase = replyUnderWay
	c.n.k.AfterEvent(c.back.drawDelay(), c)
}

// Fire handles the arrival of the packet in transit.
func (c *call) Fire() {
	c.strand = c.n.k.Strand()
	switch c.phase {
	case requestUnderWay:
		if c.forth.isCut() {
			c.phase = requestHeld
			c.forth.holdContent(c)
			return
		}
		if c.forth.loseIfSilent(c.connection, c) {
			return
		}
		c.arriveAtServer()
	case replyUnderWay:
		if c.back.isCut() {
			c.phase = replyHeld
			c.back.holdContent(c)
			return
		}
		if c.back.loseIfSilent(c.connection, c) {
			return
		}
		c.deliverReply()
	}
}

// resumeAfterHeal draws the fate of a held packet.
func (c *call) resumeAfterHeal() {
	defer c.n.k.SetStrand(c.n.k.Strand())
	c.n.k.Meet(c.strand)
	if c.phase == replyHeld {
		if c.back.drawCoin() {
			c.err = ErrReset
		}
		c.phase = replyUnderWay
		c.n.k.AfterEvent(c.back.drawHealDelay(), c)
		return
	}
	switch c.forth.faults.Uint64N(3) {
	case 0: // the retransmission arrives and the connection survives
	case 1:
		c.broken, c.brokenAfter = true, true
	default:
		c.broken, c.brokenAfter = true, false
	}
	c.phase = requestUnderWay
	c.n.k.AfterEvent(c.forth.drawHealDelay(), c)
}

// arriveAtServer handles the request's arrival at the server.
func (c *call) arriveAtServer() {
	if c.server.hangs != "" && c.server.up {
		c.n.Touch(Touched{Fault: c.server.hangs, Process: c.forth.process})
		c.server.waiting = append(c.server.waiting, c)
		return
	}
	switch {
	case c.refusal && !c.server.up:
		c.sendReply(ErrRefused)
	case !c.refusal && c.server.generation != c.sent:
		c.sendReply(ErrReset) // the server instance that the request was sent to is gone
	case c.broken && !c.brokenAfter:
		c.sendReply(ErrReset)
	default:
		c.apply.Arrive()
		if c.broken {
			c.sendReply(ErrReset)
		} else {
			c.sendReply(nil)
		}
	}
}

func (c *call) sendReply(err error) {
	c.strand = c.n.k.Strand()
	c.err = err
	c.apply = nil
	c.applied = c.server.generation
	if c.back.isCut() {
		c.phase = replyHeld
		c.back.holdContent(c)
		return
	}
	c.phase = replyUnderWay
	c.n.k.AfterEvent(c.back.drawDelay(), c)
}

// deliverReply handles the arrival of the reply at the caller, which may have returned.
func (c *call) deliverReply() {
	if c.err == nil && c.server.generation != c.applied && c.back.drawCoin() {
		c.err = ErrReset // the server went down before it sent the reply
	}
	c.wait.Done()
	c.packets = false
	c.freeIfDone()
}
