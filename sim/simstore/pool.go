package simstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// pool models a pool of connections of core/store/postgres; pool.go there gives the reasons.
// Everything that takes a round trip there takes one here: a ping, connecting, the first statement
// over a connection. Round trips that nothing can disturb are part of the call that follows them,
// so that they cost no steps.
type pool struct {
	c    *Client
	size int
	ping time.Duration

	// idle holds the unused connections, the most recently used last. taken is the number of others, in use
	// or being made. waiting are the calls that wait for a place, the oldest first.
	idle    []*connection
	taken   int
	waiting []kernel.Wait
	// suspectAt is the time at which a call last ended without an answer: connections used before that are
	// pinged first.
	suspectAt time.Duration
	// discardedAt is the time at which all connections were last discarded. readOnlyAt is the time at which a new
	// connection was last read-only like the old ones.
	discardedAt, readOnlyAt time.Duration
}

// connection is a connection of the pool.
type connection struct {
	number, session uint64
	made, used      time.Duration
	fresh, asked    bool
}

const (
	// maxIdleUnpinged is the longest idle time after which a connection is still used without a ping.
	maxIdleUnpinged = time.Second
	// writableRecheck is the minimum interval between a test connection that turned out to be read-only and
	// the next.
	writableRecheck = time.Second
	// connectTimeout bounds an attempt to connect.
	connectTimeout = 5 * time.Second
	// tripsOfConnect is the number of round trips of TCP and of password authentication by SCRAM.
	tripsOfConnect = 4
	// retransmit is how long after the end of an obstacle a packet that it held back is resent.
	retransmit = 250 * time.Millisecond
	// never is a time before the start of a run.
	never = -1
)

func (c *Client) newPool(size int, ping time.Duration) *pool {
	return &pool{c: c, size: size, ping: ping, suspectAt: never, discardedAt: never, readOnlyAt: never}
}

// setupTrips returns the number of round trips that make a connection ready for a statement.
func (c *connection) setupTrips() int {
	n := 0
	if c.fresh {
		n++ // the statement must be prepared
	}
	if c.asked {
		n++
	}
	c.fresh, c.asked = false, false
	return n
}

// acquireConnection returns a connection that probably works, because it was used recently or, if ask is
// true, was pinged first. A heartbeat must not ping and is sent twice instead: over a silent connection,
// which costs no step here, and then over the returned one.
func (p *pool) acquireConnection(ctx context.Context, ask bool) (*connection, error) {
	k := p.c.db.k
	k.CheckAlive()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.taken == p.size {
		w := k.NewWait()
		p.waiting = append(p.waiting, w)
		if err := w.Await(ctx); err != nil {
			p.waiting = slices.DeleteFunc(p.waiting, func(other kernel.Wait) bool { return other == w })
			return nil, err
		}
	} else {
		p.taken++
	}
	for n := len(p.idle); n > 0; n = len(p.idle) {
		cn := p.idle[n-1]
		p.idle = p.idle[:n-1]
		switch {
		case p.hasEnded(cn):
		case ask && k.Now()-cn.used <= maxIdleUnpinged && cn.used > p.suspectAt:
			return cn, nil
		case !ask && !p.c.path.Silent(cn.number):
			return cn, nil
		case !p.c.path.Troubled(cn.number):
			cn.asked = true
			return cn, nil
		case p.answersPing(ctx, cn):
			return cn, nil
		default:
			if err := ctx.Err(); err != nil {
				p.freePlace()
				return nil, err
			}
		}
	}
	return p.makeConnection(ctx)
}

// hasEnded reports whether a connection has ended and its pool knows this.
func (p *pool) hasEnded(cn *connection) bool {
	return cn.session != p.c.db.session || cn.made < p.discardedAt || cn.made <= p.c.db.retired || p.c.path.Broken(cn.number)
}

// releaseConnection returns a connection to the pool. If no answer came over it, it is closed.
func (p *pool) releaseConnection(cn *connection, err error) {
	now := p.c.db.k.Now()
	if err != nil {
		p.suspectAt = now
	} else if !p.hasEnded(cn) {
		cn.used = now
		p.idle = append(p.idle, cn)
	}
	p.freePlace()
}

// freePlace passes a place in the pool to the next call that waits for one.
func (p *pool) freePlace() {
	for len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		if next.Done() {
			return
		}
	}
	p.taken--
}

// dialAttempt is an attempt to connect to the server. It continues even if its caller gives up.
type dialAttempt struct {
	p     *pool
	wait  kernel.Wait
	until time.Duration
	// testOnly reports whether the connection is made only to test the server, not for the pool.
	testOnly bool

	over bool
	made *connection
	err  error
}

func (p *pool) startDial(w kernel.Wait, beside bool) *dialAttempt {
	k := p.c.db.k
	d := &dialAttempt{p: p, wait: w, until: k.Now() + connectTimeout, testOnly: beside}
	k.AfterEvent(min(connectTimeout, p.c.path.Trips(tripsOfConnect)), d)
	return d
}

// Fire runs when the server would answer.
func (d *dialAttempt) Fire() {
	db := d.p.c.db
	now := db.k.Now()
	switch {
	case !db.net.ServerUp(Server):
		d.err = simnet.ErrRefused
	case now >= d.until:
		d.p.c.path.Answers(simnet.NoConnection)
		d.err = errConnect
	case !d.p.c.path.Answers(simnet.NoConnection):
		db.k.AfterEvent(min(retransmit, d.until-now), d)
		return
	case db.noConnections != "":
		db.net.Touch(simnet.Touched{Fault: db.noConnections, Process: d.p.c.p.Name()})
		d.err = errNoConnections
	default:
		d.made = &connection{number: d.p.c.path.Connect(), session: db.session, made: now, used: now, fresh: true}
	}
	d.over = true
	if d.wait.Done() || d.testOnly {
		return
	}
	// The caller has stopped waiting, so the connection becomes idle.
	if d.made != nil {
		d.p.idle = append(d.p.idle, d.made)
	}
	d.p.freePlace()
}

var errConnect = fmt.Errorf("connecting: %w", context.DeadlineExceeded)

// makeConnection makes a connection for the pool.
func (p *pool) makeConnection(ctx context.Context) (*connection, error) {
	d := p.startDial(p.c.db.k.NewWait(), false)
	if err := d.wait.Await(ctx); err != nil {
		return nil, err
	}
	if d.err != nil {
		p.freePlace()
	}
	return d.made, d.err
}

// ping is a test of a connection whose path is disturbed.
type ping struct {
	p      *pool
	cn     *connection
	wait   kernel.Wait
	over   bool
	closed bool
}

// Fire runs when the answer would come if nothing held it back.
func (pi *ping) Fire() {
	switch {
	case pi.closed:
	case pi.p.hasEnded(pi.cn):
		pi.closed = true
		pi.wait.Done()
	case !pi.p.c.path.Answers(pi.cn.number):
		pi.p.c.db.k.AfterEvent(retransmit, pi)
	default:
		pi.over = true
		pi.wait.Done()
	}
}

// answersPing reports whether the server at the other end of a connection answers.
func (p *pool) answersPing(ctx context.Context, cn *connection) bool {
	k := p.c.db.k
	g := &ping{p: p, cn: cn, wait: k.NewWait()}
	defer func() { g.closed = true }()
	k.AfterEvent(p.c.path.Trips(1), g)
	patience := time.Duration(math.MaxInt64)
	if p.ping > 0 {
		patience = p.ping
	}
	if known, err := g.wait.AwaitFor(ctx, patience); err != nil || known {
		return g.over
	}
	g.wait = k.NewWait()
	for beside := p.startDial(g.wait, true); ; g.wait = k.NewWait() {
		if beside != nil {
			beside.wait = g.wait
		}
		if err := g.wait.Await(ctx); err != nil || g.over || g.closed {
			return g.over
		}
		if beside.err == nil {
			p.discardAll(cn)
			return false
		}
		beside = nil // the new connection failed too, so the silence does not show that this connection is dead
	}
}

// moveToPrimary handles the refusal of a write over a connection. It returns true if the connection's server
// is no longer the primary and the pool now connects to the new one.
func (p *pool) moveToPrimary(ctx context.Context, cn *connection) bool {
	db := p.c.db
	switch {
	case p.c.keepsDemoted:
		return false
	case cn.made < p.discardedAt:
		return true
	case p.readOnlyAt != never && db.k.Now()-p.readOnlyAt < writableRecheck:
		return false
	}
	d := p.startDial(db.k.NewWait(), true)
	if err := d.wait.Await(ctx); err != nil {
		return false
	}
	if d.err != nil || db.readOnly != "" {
		p.readOnlyAt = db.k.Now()
		return false
	}
	p.discardAll(cn)
	return true
}

// discardAll discards all connections.
func (p *pool) discardAll(cn *connection) {
	if cn.made >= p.discardedAt {
		p.discardedAt = p.c.db.k.Now()
		p.idle = p.idle[:0]
	}
}
