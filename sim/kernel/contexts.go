package kernel

import (
	"context"
	"time"
)

// kernelContext is a context that the kernel manages: its end wakes the tasks that are parked under it. It
// has no channel, because the kernel can't see a task that waits on a channel.
type kernelContext struct {
	k           *Kernel
	parent      context.Context
	up          *kernelContext // nearest kernel context above; nil if there is none or it has ended
	err         error
	deadline    time.Duration // on the wall clock, counted from the kernel's start
	hasDeadline bool
	timer       Timer
	limited     bool
	maker       *Task              // the task that holds it (Watch), or nil
	end         context.CancelFunc // made when it is first needed

	firstChild, lastChild *kernelContext // by creation
	prev, next            *kernelContext
	firstWait, lastWait   *wait // by parking
}

// Deadline returns the deadline by the process's wall clock as it was set when the context was made. The
// context itself uses the monotonic clock.
func (kc *kernelContext) Deadline() (time.Time, bool) {
	if !kc.hasDeadline {
		return time.Time{}, false
	}
	return kc.k.start.Add(kc.deadline), true
}

// Done panics: nothing that runs in the kernel may wait on a channel.
func (kc *kernelContext) Done() <-chan struct{} {
	if kc.k.probing {
		kc.k.probed = kc
		return nil
	}
	panic("kernel: Done of a simulated context: nothing may wait on a channel here; " +
		"use the waits, timeouts and cancellation of host.Host")
}

// Err returns nil, or the reason why the context has ended.
func (kc *kernelContext) Err() error { return kc.err }

// Value returns the parent's value.
func (kc *kernelContext) Value(key any) any { return kc.parent.Value(key) }

// Fire ends the context when its timeout expires.
func (kc *kernelContext) Fire() { kc.cancel(context.DeadlineExceeded) }

// contextOf returns the kernel context that ends ctx, or nil if nothing ends it. It calls Done,
// because a wrapper passes Done on to the context that it wraps, and a wrapper that shields from
// cancellation does not. So Done finds the right context in either case.
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
		panic("kernel: the kernel can't see when this context ends; " +
			"make it with WithCancel or WithTimeout of host.Host, not with package context")
	}
	return k.probed
}

// WithCancel returns a child of parent that ends when cancel is called or parent ends.
func (k *Kernel) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	k.CheckAlive()
	c := k.newContext(parent)
	return c, c.cancelFunc()
}

// WithTimeout returns a child of parent that also ends after d, with DeadlineExceeded. d is measured on the
// monotonic clock of the current process, in kernel context on true time. The longest Duration means no
// timeout.
func (k *Kernel) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	var p *Process
	if k.current != nil {
		p = k.current.process
	}
	return k.withTimeout(parent, p, d)
}

// WithTimeout is like Kernel.WithTimeout, but always uses the clock of this process.
func (p *Process) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return p.k.withTimeout(parent, p, d)
}

func (k *Kernel) withTimeout(parent context.Context, p *Process, d time.Duration) (context.Context, context.CancelFunc) {
	k.CheckAlive()
	c := k.newContext(parent)
	if d == maxDuration {
		return c, c.cancelFunc()
	}
	now := k.now
	if p != nil {
		now = p.clock.wallReading()
	}
	if deadline := addSaturated(now, d); !c.hasDeadline || deadline < c.deadline {
		c.deadline, c.hasDeadline = deadline, true
	}
	switch {
	case c.err != nil:
	case d <= 0:
		c.cancel(context.DeadlineExceeded)
	default:
		c.timer = k.armTimer(p, d, c, Wait{})
	}
	return c, c.cancelFunc()
}

func (k *Kernel) newContext(parent context.Context) *kernelContext {
	c := k.arena.takeContext()
	c.k, c.parent = k, parent
	if above, ours := parent.(*kernelContext); ours && above.k == k {
		c.deadline, c.hasDeadline = above.deadline, above.hasDeadline
	} else if deadline, has := parent.Deadline(); has {
		c.deadline, c.hasDeadline = deadline.Sub(k.start), true
	}
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

// Watch counts ctx among the contexts that the current task holds (Task.Held), until its CancelFunc is
// called. ctx must be a context of the kernel that the task has just made. Outside a task Watch does
// nothing. limited reports whether the context has its own time limit.
func (k *Kernel) Watch(ctx context.Context, limited bool) {
	t := k.current
	if t == nil {
		return
	}
	c := ctx.(*kernelContext)
	if c.maker, c.limited = t, limited; limited {
		t.held.Limited++
	} else {
		t.held.Plain++
	}
}

func (kc *kernelContext) cancelFunc() context.CancelFunc {
	if kc.end == nil {
		kc.end = kc.endExplicitly
	}
	return kc.end
}

func (kc *kernelContext) endExplicitly() {
	if t := kc.maker; t != nil {
		if kc.maker = nil; kc.limited {
			t.held.Limited--
			t.held.Ended, t.held.EndedAt = kc, kc.k.now
		} else {
			t.held.Plain--
		}
	}
	kc.k.CheckAlive()
	kc.cancel(context.Canceled)
}

// cancel ends the context. First it wakes the tasks that wait under it, in the order in which they
// parked, then it ends its children, in the order of their creation.
func (kc *kernelContext) cancel(err error) {
	if kc.err != nil {
		return
	}
	kc.err = err
	if t := kc.timer; t.t != nil && t.t.gen == t.gen {
		kc.k.disarmTimer(t.t)
	}
	if kc.up != nil {
		kc.up.dropChild(kc)
		kc.up = nil
	}
	for w := kc.firstWait; w != nil; w = kc.firstWait {
		Wait{w: w, gen: w.gen}.resolveAs(waitContext)
	}
	for child := kc.firstChild; child != nil; child = kc.firstChild {
		child.cancel(err)
	}
}

func (kc *kernelContext) dropChild(child *kernelContext) {
	if child.prev != nil {
		child.prev.next = child.next
	} else {
		kc.firstChild = child.next
	}
	if child.next != nil {
		child.next.prev = child.prev
	} else {
		kc.lastChild = child.prev
	}
	child.prev, child.next = nil, nil
}

func (kc *kernelContext) addWait(w *wait) {
	w.ctx = kc
	w.prev, w.next = kc.lastWait, nil
	if kc.lastWait != nil {
		kc.lastWait.next = w
	} else {
		kc.firstWait = w
	}
	kc.lastWait = w
}

func (kc *kernelContext) dropWait(w *wait) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		kc.firstWait = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		kc.lastWait = w.prev
	}
	w.ctx, w.prev, w.next = nil, nil, nil
}
