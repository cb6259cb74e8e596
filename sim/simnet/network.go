// Package simnet is the network between simulated processes and servers: messages are delayed, held
// by a cut, or lost with a reset connection, and the sender can't tell which.
//
// # Nodes and links
//
// A node is a name: of a process, or of a server such as "database" or "broker". Between two nodes
// there are two links, one for each direction, and every fault belongs to one direction of one
// pair. Faults have names. A link may have several: it is cut as long as one cut is left, delays
// add up, and ending one fault keeps the others in effect.
//
// # Calls
//
// [Network.Call] is a request and its reply over a pooled connection. The request travels, is applied at
// the server as one atomic step, and the reply travels back. The caller can't observe everything that
// happened:
//
//	nil           applied, and the reply came
//	ErrRefused    no server was there when the request arrived: certainly not applied
//	ErrReset      the connection broke: applied or not
//	ctx.Err()     no reply in time: applied, not applied, or applied later
//
// A request that meets a cut is held, as TCP holds it. When the link heals, it is delivered late and
// applied, even if its caller has given up, or it is lost with its connection. A caller that still waits
// then gets the reply or ErrReset. A held reply likewise arrives late or is lost.
//
// A call goes over one connection of its caller's pool. A silence loses everything sent over the
// connections that exist when it begins, in both directions: their callers get no reply until it ends, and
// then ErrReset.
//
// A server that hangs accepts requests and applies them when it resumes.
//
// A server that goes down loses requests that it has not applied: a request in transit ends in ErrReset,
// and a reply in transit arrives or turns into ErrReset.
//
// # Streams
//
// [Conn] is one long-lived connection. Its frames keep their order in each direction and are neither lost
// nor doubled while it lives; a cut holds them all. Its end also travels as a frame, so a cut hides that
// the peer is gone.
//
// # Evidence
//
// Every fault that makes a difference reports it (OnTouch), so that a fault without effect can be
// distinguished from one that was survived.
//
// # Choices
//
// Each link draws from two streams: "net/latency/FROM>TO" for delays and "net/fault/FROM>TO" for the
// effects of faults. A draw of 0 is the default: the shortest delay, no reset, a late but successful
// delivery.
package simnet

import (
	"errors"
	"time"

	"handoff/sim/kernel"
)

// Errors of calls. A call can also end without a reply with its context's error.
var (
	// ErrRefused: the server was down when the request arrived; it was not applied.
	ErrRefused = errors.New("connection refused")
	// ErrReset: the connection broke; whether the request was applied can't be known.
	ErrReset = errors.New("connection reset")
)

// Default bounds of the latency of one leg.
const (
	DefaultLatencyLow  = 200 * time.Microsecond
	DefaultLatencyHigh = 2 * time.Millisecond
)

// retransmit is the longest time that TCP, with its backed-off retransmissions, takes to detect that a link
// has healed.
const retransmit = time.Second

// Network joins the nodes of one kernel.
type Network struct {
	k       *kernel.Kernel
	lo, hi  time.Duration
	touched func(Touched)

	// No code ranges over these maps, so their order can't affect a run.
	links   map[linkName]*link
	servers map[string]*server
	clients map[*kernel.Process]*client

	pool []*call
	// connections numbers the connections, from 1.
	connections uint64
}

type linkName struct{ from, to string }

// server is the listening end.
type server struct {
	up bool
	// generation counts how often the server has gone down; messages to an earlier generation are lost.
	generation uint64
	// hangs is the fault that keeps the server from answering, or "". waiting are the calls that have arrived
	// since.
	hangs   string
	waiting []*call
	conns   []*Conn // connections whose server end is open, oldest first
	onDown  []func()
}

// client holds the open connections of a process, as its operating system knows them.
type client struct {
	conns []*Conn // connections whose client end is open, oldest first
}

// New returns a network without faults in which every server is up.
func New(k *kernel.Kernel) *Network {
	return &Network{
		k:       k,
		lo:      DefaultLatencyLow,
		hi:      DefaultLatencyHigh,
		links:   make(map[linkName]*link),
		servers: make(map[string]*server),
		clients: make(map[*kernel.Process]*client),
	}
}

// SetLatency sets the inclusive bounds of each leg's delay.
func (n *Network) SetLatency(lo, hi time.Duration) { n.lo, n.hi = lo, hi }

// OnTouch sets a function that is called when a fault made a difference. It is called once for each
// packet and fault, in kernel context or in a task, and must not call back into the network.
func (n *Network) OnTouch(fn func(Touched)) { n.touched = fn }

// Touched is the evidence that a fault made a difference: the fault, and what it affected. Fields that do
// not apply are zero.
type Touched struct {
	Fault string
	// Process is the process to which the link, call or statement belongs. Queue and Message, with its Type
	// on the wire, are the broker's.
	Process, Queue string
	Message        uint64
	Type           uint8
}

// Touch reports that a fault made a difference, for models that inject their own faults. An empty name is
// ignored.
func (n *Network) Touch(t Touched) {
	if n.touched != nil && t.Fault != "" {
		n.touched(t)
	}
}

// SetServer takes a server up or down. Going down breaks its connections: the server's ends are closed at
// once and without a callback, because the caller knows; a frame notifies the clients. It does nothing if
// the state does not change.
func (n *Network) SetServer(name string, up bool) {
	s := n.serverNamed(name)
	if s.up == up {
		return
	}
	s.up = up
	if up {
		return
	}
	s.generation++
	conns := s.conns
	s.conns = nil
	for _, c := range conns {
		c.serverOpen = false
		c.toClient.queueFrame(nil)
	}
	for _, fn := range s.onDown {
		fn()
	}
}

// SetHang makes a server accept every call and answer none, for the fault of that name. The empty name ends
// the hang: then all waiting calls are applied, in order, even if their callers have given up. It does not
// affect streams ([Conn]).
func (n *Network) SetHang(name, fault string) {
	s := n.serverNamed(name)
	s.hangs = fault
	if fault != "" {
		return
	}
	waiting := s.waiting
	s.waiting = nil
	now := n.k.Strand()
	for _, c := range waiting {
		n.k.Meet(c.strand)
		c.arriveAtServer()
		n.k.SetStrand(now)
	}
}

// ServerUp reports whether a server is up. Servers are up until they are taken down.
func (n *Network) ServerUp(name string) bool { return n.serverNamed(name).up }

// OnServerDown registers a callback for when a server goes down. Callbacks run in the order of
// their registration, after the connections were broken.
func (n *Network) OnServerDown(name string, fn func()) {
	s := n.serverNamed(name)
	s.onDown = append(s.onDown, fn)
}

func (n *Network) serverNamed(name string) *server {
	s := n.servers[name]
	if s == nil {
		s = &server{up: true}
		n.servers[name] = s
	}
	return s
}
