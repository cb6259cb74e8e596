package simnet

import (
	"context"

	"handoff/sim/kernel"
)

// phase is where a call is.
type phase uint8

const (
	requestUnderWay phase = iota
	requestHeld
	replyUnderWay
	replyHeld
)

// call is one request and its reply. Calls are pooled: one is free again when its packets are gone
// and its caller has returned, whichever comes last.
type call struct {
	n       *Network
	forth   *link
	back    *link
	server  *server
	apply   Frame
	wait    kernel.Wait
	err     error // what the reply says
	phase   phase
	refusal bool   // the server was down when the request was sent
	sent    uint64 // the server's generation when the request was sent
	applied uint64 // and when the reply was

	// broken and brokenAfter are a reset that was drawn: before or after the server applied it.
	broken      bool
	brokenAfter bool

	packets bool // something is still under way
	caller  bool // somebody still waits
}

// Path is the way from one process to one server and back. A client that makes many calls keeps one, so that
// no call has to look its links up.
type Path struct {
	n           *Network
	p           *kernel.Process
	to          string
	server      *server // nil until the first call
	forth, back *link
}

// Path returns the way from a process to a server.
func (n *Network) Path(p *kernel.Process, server string) *Path { return &Path{n: n, p: p, to: server} }

// Call makes one request to a server and waits for its reply. apply runs in kernel context at the
// server, at most once, and possibly after Call has returned; it must not block. See the package
// comment for what the errors mean. It is a yield point, before the request is sent.
func (n *Network) Call(ctx context.Context, p *kernel.Process, server string, apply func()) error {
	return n.Path(p, server).Call(ctx, FrameFunc(apply))
}

// Call is Network.Call on this path: the request is applied by its arrival.
func (w *Path) Call(ctx context.Context, apply Frame) error {
	n := w.n
	n.k.CheckAlive()
	n.k.Point()
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.server == nil {
		w.server = n.server(w.to)
		w.forth = n.link(w.p.Name(), w.to)
		w.back = n.link(w.to, w.p.Name())
	}
	c := n.takeCall()
	c.forth, c.back, c.server = w.forth, w.back, w.server
	c.apply = apply
	c.wait = n.k.NewWait()
	c.sent = c.server.generation
	c.refusal = !c.server.up
	c.packets, c.caller = true, true
	if c.broken = c.forth.breaks(); c.broken {
		c.brokenAfter = c.forth.coin()
	}
	c.sendRequest()
	err := c.wait.Await(ctx)
	if err == nil {
		err = c.err
	}
	c.caller = false
	c.release()
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

// release frees the call when nobody holds it any more. A caller that crashed never lets go; the
// garbage collector takes that one.
func (c *call) release() {
	if c.packets || c.caller {
		return
	}
	*c = call{n: c.n}
	c.n.pool = append(c.n.pool, c)
}

func (c *call) sendRequest() {
	if c.forth.cut() {
		c.phase = requestHeld
		c.forth.hold(c)
		return
	}
	c.phase = requestUnderWay
	c.n.k.AfterEvent(c.forth.delay(), c)
}

// Fire is the arrival of the packet that is under way.
func (c *call) Fire() {
	switch c.phase {
	case requestUnderWay:
		if c.forth.cut() {
			c.phase = requestHeld
			c.forth.hold(c)
			return
		}
		c.arrive()
	case replyUnderWay:
		if c.back.cut() {
			c.phase = replyHeld
			c.back.hold(c)
			return
		}
		c.answer()
	}
}

// healed decides what becomes of a packet that was held.
func (c *call) healed() {
	if c.phase == replyHeld {
		if c.back.coin() {
			c.err = ErrReset
		}
		c.phase = replyUnderWay
		c.n.k.AfterEvent(c.back.late(), c)
		return
	}
	switch c.forth.faults.Uint64N(3) {
	case 0: // the retransmission gets through and the connection lives
	case 1:
		c.broken, c.brokenAfter = true, true
	default:
		c.broken, c.brokenAfter = true, false
	}
	c.phase = requestUnderWay
	c.n.k.AfterEvent(c.forth.late(), c)
}

// arrive is the request's arrival at the server.
func (c *call) arrive() {
	switch {
	case c.refusal && !c.server.up:
		c.reply(ErrRefused)
	case !c.refusal && c.server.generation != c.sent:
		c.reply(ErrReset) // the server that it was sent to is gone
	case c.broken && !c.brokenAfter:
		c.reply(ErrReset)
	default:
		c.apply.Arrive()
		if c.broken {
			c.reply(ErrReset)
		} else {
			c.reply(nil)
		}
	}
}

func (c *call) reply(err error) {
	c.err = err
	c.apply = nil
	c.applied = c.server.generation
	if c.back.cut() {
		c.phase = replyHeld
		c.back.hold(c)
		return
	}
	c.phase = replyUnderWay
	c.n.k.AfterEvent(c.back.delay(), c)
}

// answer is the reply's arrival at the caller, who may be gone.
func (c *call) answer() {
	if c.err == nil && c.server.generation != c.applied && c.back.coin() {
		c.err = ErrReset // the server went down before its reply was out
	}
	c.wait.Done()
	c.packets = false
	c.release()
}
