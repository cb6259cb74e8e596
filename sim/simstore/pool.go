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

// pool is a pool of connections as core/store/postgres has it: pool.go there says why it does what it does. What takes
// a round trip there takes one here: a ping, the connecting, the first statement over a connection. Round trips that
// nothing can disturb are part of the call that they go before, so that they cost no steps.
type pool struct {
	c    *Client
	size int
	ping time.Duration

	// idle are the connections that nobody uses, the one that was used last at the end. taken is how many others there
	// are: those that are in use or being made. waiting are those who wait for a place, the oldest first.
	idle    []*connection
	taken   int
	waiting []kernel.Wait
	// suspect is when a call last ended without an answer: what was used before that is asked first.
	suspect time.Duration
	// thrown is when every connection was last thrown away, refusing when a new one was last as read-only as those.
	thrown, refusing time.Duration
}

// connection is one of a pool.
type connection struct {
	number, session uint64
	made, used      time.Duration
	fresh, asked    bool
}

const (
	// idleUnasked is how long a connection may have been idle to be used without a ping.
	idleUnasked = time.Second
	// askedAgain is how long after a new connection that may not write none is made to ask again.
	askedAgain = time.Second
	// connectTimeout bounds an attempt to connect.
	connectTimeout = 5 * time.Second
	// tripsOfConnect are those of TCP and of a password that is never sent (SCRAM).
	tripsOfConnect = 4
	// retransmit is how soon after the end of what keeps a packet back it is sent again.
	retransmit = 250 * time.Millisecond
	// never is before every moment of a run.
	never = -1
)

func (c *Client) newPool(size int, ping time.Duration) *pool {
	return &pool{c: c, size: size, ping: ping, suspect: never, thrown: never, refusing: never}
}

// trips is how many round trips it takes to make a connection ready for a statement.
func (cn *connection) trips() int {
	n := 0
	if cn.fresh {
		n++ // the statement is prepared
	}
	if cn.asked {
		n++
	}
	cn.fresh, cn.asked = false, false
	return n
}

// acquire returns a connection that is thought to be well, because it was used lately or, where it may ask, is asked
// first. What may not ask is sent twice instead: over a silent connection, which is not worth a step here, and then over
// the one that is returned.
func (p *pool) acquire(ctx context.Context, ask bool) (*connection, error) {
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
		case p.gone(cn):
		case ask && k.Now()-cn.used <= idleUnasked && cn.used > p.suspect:
			return cn, nil
		case !ask && !p.c.path.Silent(cn.number):
			return cn, nil
		case !p.c.path.Troubled(cn.number):
			cn.asked = true
			return cn, nil
		case p.answers(ctx, cn):
			return cn, nil
		default:
			if err := ctx.Err(); err != nil {
				p.leave()
				return nil, err
			}
		}
	}
	return p.connect(ctx)
}

// gone says that a connection has ended, and that its pool knows.
func (p *pool) gone(cn *connection) bool {
	return cn.session != p.c.db.session || cn.made < p.thrown || cn.made <= p.c.db.retired || p.c.path.Broken(cn.number)
}

// release gives a connection back. One over which no answer came is closed.
func (p *pool) release(cn *connection, err error) {
	now := p.c.db.k.Now()
	if err != nil {
		p.suspect = now
	} else if !p.gone(cn) {
		cn.used = now
		p.idle = append(p.idle, cn)
	}
	p.leave()
}

// leave gives a place in the pool to who waits for one.
func (p *pool) leave() {
	for len(p.waiting) > 0 {
		next := p.waiting[0]
		p.waiting = p.waiting[1:]
		if next.Done() {
			return
		}
	}
	p.taken--
}

// dial is a connection that is being made. Nobody who gives up stops it.
type dial struct {
	p     *pool
	wait  kernel.Wait
	until time.Duration
	// beside says that it is made to see whether it can be made, and not for the pool.
	beside bool

	over bool
	made *connection
	err  error
}

func (p *pool) dial(w kernel.Wait, beside bool) *dial {
	k := p.c.db.k
	d := &dial{p: p, wait: w, until: k.Now() + connectTimeout, beside: beside}
	k.AfterEvent(min(connectTimeout, p.c.path.Trips(tripsOfConnect)), d)
	return d
}

// Fire is the moment at which the server answers, if it does.
func (d *dial) Fire() {
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
	if d.wait.Done() || d.beside {
		return
	}
	// Nobody waits for it any more.
	if d.made != nil {
		d.p.idle = append(d.p.idle, d.made)
	}
	d.p.leave()
}

var errConnect = fmt.Errorf("connecting: %w", context.DeadlineExceeded)

// connect makes a connection.
func (p *pool) connect(ctx context.Context) (*connection, error) {
	d := p.dial(p.c.db.k.NewWait(), false)
	if err := d.wait.Await(ctx); err != nil {
		return nil, err
	}
	if d.err != nil {
		p.leave()
	}
	return d.made, d.err
}

// ping is a question to a connection whose way is disturbed.
type ping struct {
	p      *pool
	cn     *connection
	wait   kernel.Wait
	over   bool
	closed bool
}

// Fire is the moment at which the answer comes, if nothing keeps it back.
func (g *ping) Fire() {
	switch {
	case g.closed:
	case g.p.gone(g.cn):
		g.closed = true
		g.wait.Done()
	case !g.p.c.path.Answers(g.cn.number):
		g.p.c.db.k.AfterEvent(retransmit, g)
	default:
		g.over = true
		g.wait.Done()
	}
}

// answers asks a connection whether its server is still there.
func (p *pool) answers(ctx context.Context, cn *connection) bool {
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
	for beside := p.dial(g.wait, true); ; g.wait = k.NewWait() {
		if beside != nil {
			beside.wait = g.wait
		}
		if err := g.wait.Await(ctx); err != nil || g.over || g.closed {
			return g.over
		}
		if beside.err == nil {
			p.throwAway(cn)
			return false
		}
		beside = nil // nobody answers new connections either: this one may yet
	}
}

// moved says, to whoever was refused a write over a connection, that its server is not the primary any more, and that the
// pool makes connections to the new one from now on.
func (p *pool) moved(ctx context.Context, cn *connection) bool {
	db := p.c.db
	switch {
	case p.c.keepsDemoted:
		return false
	case cn.made < p.thrown:
		return true
	case p.refusing != never && db.k.Now()-p.refusing < askedAgain:
		return false
	}
	d := p.dial(db.k.NewWait(), true)
	if err := d.wait.Await(ctx); err != nil {
		return false
	}
	if d.err != nil || db.readOnly != "" {
		p.refusing = db.k.Now()
		return false
	}
	p.throwAway(cn)
	return true
}

// throwAway throws every connection away.
func (p *pool) throwAway(cn *connection) {
	if cn.made >= p.thrown {
		p.thrown = p.c.db.k.Now()
		p.idle = p.idle[:0]
	}
}
