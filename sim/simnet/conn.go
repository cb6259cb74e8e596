package simnet

import (
	"time"

	"handoff/sim/kernel"
)

// Conn is one connection between a process and a server: two ordered flows of frames. Its methods do not
// block and may be called in tasks and in kernel context. A model that exposes them to the program under
// test must call the kernel's CheckAlive first.
type Conn struct {
	n      *Network
	p      *kernel.Process
	server *server
	number uint64

	toServer, toClient     flow
	clientOpen, serverOpen bool

	onClientClosed, onServerClosed func()
}

// flow is one direction of a connection.
type flow struct {
	conn  *Conn
	link  *link
	toCli bool

	frames []frame // frames before next have left the queue
	next   int
	armed  bool // a timer runs for the oldest frame
	held   bool // the link holds the oldest frame
}

// Frame is a message on a connection: an effect at the receiver, in kernel context.
type Frame interface{ Arrive() }

// FrameFunc is a frame that is a function.
type FrameFunc func()

// Arrive implements Frame.
func (f FrameFunc) Arrive() { f() }

// frame is a frame in transit or, without one, the end of the connection. It arrives at its time,
// or right after the one before it.
type frame struct {
	at     time.Duration
	do     Frame
	strand kernel.Strand // strand of its sender, joined with the strand that released the frame
}

// Stream immediately opens a connection between a process and a running server. It is called in kernel
// context, when a connection request is accepted. The end of the process closes the client's end.
func (n *Network) Stream(p *kernel.Process, serverName string) *Conn {
	s := n.serverNamed(serverName)
	n.connections++
	c := &Conn{n: n, p: p, server: s, number: n.connections, clientOpen: true, serverOpen: true}
	c.toServer = flow{conn: c, link: n.linkBetween(p.Name(), serverName)}
	c.toClient = flow{conn: c, link: n.linkBetween(serverName, p.Name()), toCli: true}
	s.conns = append(s.conns, c)
	if !p.Alive() {
		c.clientOpen = false
		c.toServer.queueFrame(nil)
		return c
	}
	cl := n.clients[p]
	if cl == nil {
		cl = &client{}
		n.clients[p] = cl
		p.OnEnd(func(kernel.EndReason) { n.clientEnded(p) })
	}
	cl.conns = append(cl.conns, c)
	return c
}

// clientEnded closes the connections of an ended process, as its operating system does.
func (n *Network) clientEnded(p *kernel.Process) {
	conns := n.clients[p].conns
	delete(n.clients, p)
	for _, c := range conns {
		c.clientOpen = false
		c.toServer.queueFrame(nil)
	}
}

// OnClientClosed sets a function that runs, in kernel context, when the client's end detects that the
// connection has ended. It does not run after CloseClient or when the process ends.
func (c *Conn) OnClientClosed(fn func()) { c.onClientClosed = fn }

// OnServerClosed sets a function that runs, in kernel context, when the server's end detects that the
// connection has ended. It does not run after CloseServer or when the server goes down.
func (c *Conn) OnServerClosed(fn func()) { c.onServerClosed = fn }

// ClientOpen reports whether the client's end is open, as far as the client knows.
func (c *Conn) ClientOpen() bool { return c.clientOpen }

// ServerOpen reports whether the server's end is open, as far as the server knows.
func (c *Conn) ServerOpen() bool { return c.serverOpen }

// ReachesServer reports whether neither a cut nor a silence would stop a frame that the client sends now.
func (c *Conn) ReachesServer() bool {
	return !c.toServer.link.isCut() && !c.toServer.link.isSilent(c.number)
}

// ReachesClient reports whether neither a cut nor a silence would stop a frame that the server sends now.
func (c *Conn) ReachesClient() bool {
	return !c.toClient.link.isCut() && !c.toClient.link.isSilent(c.number)
}

// TouchServerward reports the cuts and silences from the client to the server as faults that made a
// difference. Use it for missing packets, which no event shows.
func (c *Conn) TouchServerward() { c.toServer.touchFaults() }

// TouchClientward is like TouchServerward, for the other direction.
func (c *Conn) TouchClientward() { c.toClient.touchFaults() }

func (f *flow) touchFaults() {
	f.link.touchCuts()
	f.link.touchSilences(f.conn.number)
}

// SendToServer sends a frame to the server. It does nothing if the client's end is closed. The
// frame does not arrive if the server's end is closed by then.
func (c *Conn) SendToServer(do Frame) {
	if c.clientOpen {
		c.sendFrame(&c.toServer, do)
	}
}

// SendToClient is like SendToServer, in the other direction.
func (c *Conn) SendToClient(do Frame) {
	if c.serverOpen {
		c.sendFrame(&c.toClient, do)
	}
}

// CloseClient closes the client's end. Frames that arrive there from now on are dropped. Frames in transit
// to the server still arrive, and then the server detects the end.
func (c *Conn) CloseClient() {
	if c.clientOpen {
		c.shutClient()
		c.toServer.queueFrame(nil)
	}
}

// CloseServer closes the server's end.
func (c *Conn) CloseServer() {
	if c.serverOpen {
		c.shutServer()
		c.toClient.queueFrame(nil)
	}
}

func (c *Conn) shutClient() {
	c.clientOpen = false
	if cl := c.n.clients[c.p]; cl != nil {
		cl.conns = withoutConn(cl.conns, c)
	}
}

func (c *Conn) shutServer() {
	c.serverOpen = false
	c.server.conns = withoutConn(c.server.conns, c)
}

func withoutConn(conns []*Conn, c *Conn) []*Conn {
	for i, other := range conns {
		if other == c {
			return append(conns[:i:i], conns[i+1:]...)
		}
	}
	return conns
}

func (c *Conn) sendFrame(f *flow, do Frame) {
	if !f.link.drawBreak() {
		f.queueFrame(do)
		return
	}
	// The frame may have arrived before the connection broke. A separate frame notifies each end of the
	// break, so a cut hides the break only from its end.
	if f.link.drawCoin() {
		f.queueFrame(do)
	}
	c.toServer.queueFrame(nil)
	c.toClient.queueFrame(nil)
}

// queueFrame appends a frame to the queue.
func (f *flow) queueFrame(do Frame) {
	k := f.link.n.k
	f.frames = append(f.frames, frame{at: k.Now() + f.link.drawDelay(), do: do, strand: k.Strand()})
	f.sendOldest()
}

// sendOldest arms the arrival of the oldest frame, unless a fault holds it.
func (f *flow) sendOldest() {
	if f.armed || f.held || f.next == len(f.frames) {
		return
	}
	if f.link.isCut() {
		f.held = true
		f.link.holdContent(f)
		return
	}
	if f.held = f.link.loseIfSilent(f.conn.number, f); f.held {
		return
	}
	f.armed = true
	k := f.link.n.k
	k.AfterEvent(f.frames[f.next].at-k.Now(), f)
}

// Fire handles the arrival of the oldest frame.
func (f *flow) Fire() {
	f.armed = false
	if f.link.isCut() || f.link.isSilent(f.conn.number) {
		f.sendOldest()
		return
	}
	do := f.frames[f.next].do
	k := f.link.n.k
	k.SetStrand(f.frames[f.next].strand)
	f.frames[f.next] = frame{}
	f.next++
	if f.next == len(f.frames) {
		f.frames, f.next = f.frames[:0], 0
	}
	f.deliverFrame(do)
	f.sendOldest()
}

// resumeAfterHeal sends the held frames in order, once TCP has detected the healing.
func (f *flow) resumeAfterHeal() {
	f.held = false
	if f.next == len(f.frames) {
		return
	}
	k, first := f.link.n.k, &f.frames[f.next]
	now := k.Strand()
	k.Meet(first.strand)
	first.at, first.strand = k.Now()+f.link.drawHealDelay(), k.Strand()
	k.SetStrand(now)
	f.sendOldest()
}

// breakConnection drops all frames and notifies both ends of the break.
func (f *flow) breakConnection() {
	f.held = false
	c := f.conn
	for _, way := range []*flow{&c.toServer, &c.toClient} {
		way.frames, way.next = append(way.frames[:0], frame{at: c.n.k.Now() + way.link.drawDelay(), strand: c.n.k.Strand()}), 0
		way.sendOldest()
	}
}

// deliverFrame applies a frame at the receiving end, unless that end is closed.
func (f *flow) deliverFrame(do Frame) {
	c := f.conn
	open, closed := c.serverOpen, c.onServerClosed
	if f.toCli {
		open, closed = c.clientOpen, c.onClientClosed
	}
	switch {
	case !open:
	case do != nil:
		do.Arrive()
	default:
		if f.toCli {
			c.shutClient()
		} else {
			c.shutServer()
		}
		if closed != nil {
			closed()
		}
	}
}
