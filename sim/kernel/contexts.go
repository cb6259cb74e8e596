package kernel

import (
	"context"
	"time"
)

// kernelContext is a context that the kernel sees: ending it wakes the tasks that are parked under
// it. It has no channel, because a task that waits on a channel is out of the kernel's sight.
type kernelContext struct {
	k           *Kernel
	parent      context.Context
	up          *kernelContext // nearest kernel context above, nil when none or when it has ended
	err         error
	deadline    time.Time
	hasDeadline bool
	timer       Timer
	maker       Maker // nil when nobody wants to know

	firstChild, lastChild *kernelContext // by creation
	prev, next            *kernelContext
	firstWait, lastWait   *wait // by parking
}

// Deadline returns the deadline on the wall clock of the process as it was when the context was made;
// the context itself goes by the monotonic clock.
func (c *kernelContext) Deadline() (time.Time, bool) { return c.deadline, c.hasDeadline }

// Done panics: nothing that runs in the kernel may wait on a channel.
func (c *kernelContext) Done() <-chan struct{} {
	if c.k.probing {
		c.k.probed = c
		return nil
	}
	panic("kernel: Done of a simulated context: nothing may wait on a channel here; " +
		"use the waits, timeouts and cancellation of host.Host")
}

// Err returns nil, or why the context has ended.
func (c *kernelContext) Err() error { return c.err }

// Value asks the parent.
func (c *kernelContext) Value(key any) any { return c.parent.Value(key) }

// Fire is the timeout.
func (c *kernelContext) Fire() { c.cancel(context.DeadlineExceeded) }

// contextOf returns the kernel context that ends ctx, or nil when nothing ends it. A wrapper passes
// Done on to the context that it wraps, and one that shields from cancellation does not; so asking
// for Done finds the right one in either case.
func (k *Kernel) contextOf(ctx context.Context) *kernelContext {
	if c, ok := ctx.(*kernelContext); ok && c.k == k {
		return c
	}
	if ctx == context.Background() {
		return nil
	}
	k.probing, k.probed = true, nil
	foreign := ctx.Done() //detlint:ok asks which context it is, waits for nothing
	k.probing = false
	if foreign != nil {
		panic("kernel: a context that the kernel can't see; use host.Host's WithCancel and WithTimeout")
	}
	return k.probed
}

// WithCancel returns a child of parent that ends when cancel is called or parent ends.
func (k *Kernel) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	k.CheckAlive()
	c := k.newContext(parent)
	return c, c.cancelFunc()
}

// WithTimeout returns a child of parent that ends also after d, with DeadlineExceeded. d is measured
// on the monotonic clock of the current process, in kernel context on true time. The longest
// Duration means no timeout.
func (k *Kernel) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	var p *Process
	if k.current != nil {
		p = k.current.process
	}
	return k.withTimeout(parent, p, d)
}

// WithTimeout is the kernel's WithTimeout, on the clock of this process whoever calls it.
func (p *Process) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return p.k.withTimeout(parent, p, d)
}

func (k *Kernel) withTimeout(parent context.Context, p *Process, d time.Duration) (context.Context, context.CancelFunc) {
	k.CheckAlive()
	c := k.newContext(parent)
	if d == maxDuration {
		return c, c.cancelFunc()
	}
	var deadline time.Time
	if p != nil {
		deadline = p.clock.Wall().Add(d)
	} else {
		deadline = k.start.Add(k.now + d)
	}
	if !c.hasDeadline || deadline.Before(c.deadline) {
		c.deadline, c.hasDeadline = deadline, true
	}
	switch {
	case c.err != nil:
	case d <= 0:
		c.cancel(context.DeadlineExceeded)
	default:
		c.timer = k.arm(p, d, c, Wait{})
	}
	return c, c.cancelFunc()
}

// contextBlock is how many contexts are allocated together. Nearly every call has one of its own, which can't
// be pooled, because its holder may ask it for its error at any time; and nearly all live for one call.
const contextBlock = 16

func (k *Kernel) newContext(parent context.Context) *kernelContext {
	if len(k.contexts) == 0 {
		k.contexts = make([]kernelContext, contextBlock)
	}
	c := &k.contexts[0]
	k.contexts = k.contexts[1:]
	c.k, c.parent = k, parent
	c.deadline, c.hasDeadline = parent.Deadline()
	up := k.contextOf(parent)
	switch {
	case up == nil:
	case up.err != nil:
		c.err = up.err
	default:
		c.up = up
		c.prev = up.lastChild
		if up.lastChild != nil {
			up.lastChild.next = c
		} else {
			up.firstChild = c
		}
		up.lastChild = c
	}
	return c
}

// Maker is who has made a context and is told when it is ended by hand, the first time and before anything comes of it.
type Maker interface{ Ended(ctx context.Context) }

// Watch has m told of the end of a context of the kernel. It costs no object, as another CancelFunc would.
func Watch(ctx context.Context, m Maker) { ctx.(*kernelContext).maker = m }

func (c *kernelContext) cancelFunc() context.CancelFunc {
	return func() {
		if m := c.maker; m != nil {
			c.maker = nil
			m.Ended(c)
		}
		c.k.CheckAlive()
		c.cancel(context.Canceled)
	}
}

// cancel ends the context: first those who wait under it are woken, in the order in which they
// parked, then its children end, in the order of their creation.
func (c *kernelContext) cancel(err error) {
	if c.err != nil {
		return
	}
	c.err = err
	if t := c.timer; t.t != nil && t.t.gen == t.gen {
		c.k.disarm(t.t)
	}
	if c.up != nil {
		c.up.dropChild(c)
		c.up = nil
	}
	for w := c.firstWait; w != nil; w = c.firstWait {
		Wait{w: w, gen: w.gen}.resolve(waitContext)
	}
	for child := c.firstChild; child != nil; child = c.firstChild {
		child.cancel(err)
	}
}

func (c *kernelContext) dropChild(child *kernelContext) {
	if child.prev != nil {
		child.prev.next = child.next
	} else {
		c.firstChild = child.next
	}
	if child.next != nil {
		child.next.prev = child.prev
	} else {
		c.lastChild = child.prev
	}
	child.prev, child.next = nil, nil
}

func (c *kernelContext) addWait(w *wait) {
	w.ctx = c
	w.prev, w.next = c.lastWait, nil
	if c.lastWait != nil {
		c.lastWait.next = w
	} else {
		c.firstWait = w
	}
	c.lastWait = w
}

func (c *kernelContext) dropWait(w *wait) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		c.firstWait = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		c.lastWait = w.prev
	}
	w.ctx, w.prev, w.next = nil, nil, nil
}
