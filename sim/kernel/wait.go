package kernel

import (
	"context"
	"time"
)

type waitState uint8

const (
	waitPending waitState = iota
	waitDone
	waitTimeout // AwaitFor's time was up
	waitContext // the context ended first
)

// wait is pooled. Its generation increases whenever it is released, so that a late Done finds
// nothing.
type wait struct {
	gen    uint64
	task   *Task
	state  waitState
	parked bool

	// While the wait is parked, it is in the list of its context.
	ctx        *kernelContext
	prev, next *wait
}

// Wait is the handle of a one-shot wait of one task. It is a value; every holder of a copy may call
// Done. The zero Wait stands for a wait that is over.
type Wait struct {
	w   *wait
	gen uint64
}

// NewWait returns a wait for the current task.
func (k *Kernel) NewWait() Wait {
	k.CheckAlive()
	t := k.mustCurrent("NewWait")
	var w *wait
	if n := len(k.waitPool); n > 0 {
		w = k.waitPool[n-1]
		k.waitPool = k.waitPool[:n-1]
	} else {
		w = &wait{}
	}
	w.task = t
	w.state = waitPending
	return Wait{w: w, gen: w.gen}
}

// Done ends the wait and wakes its task if it is parked. It returns false if there is nothing to
// wake any more: the wait was ended or abandoned, or its task is dead.
func (h Wait) Done() bool {
	if h.w == nil || h.w.gen != h.gen {
		return false
	}
	h.w.task.k.CheckAlive()
	return h.resolve(waitDone)
}

// Pending reports whether Done would wake a task, now or at Await.
func (h Wait) Pending() bool {
	return h.w != nil && h.w.gen == h.gen && h.w.state == waitPending && h.w.task.alive()
}

func (t *Task) alive() bool { return !t.ended && t.process.state == processAlive }

func (h Wait) resolve(outcome waitState) bool {
	if !h.Pending() {
		return false
	}
	w := h.w
	w.state = outcome
	if w.ctx != nil {
		w.ctx.dropWait(w)
	}
	if t := w.task; t != t.k.running && t.strand != t.k.strand {
		t.strand = t.k.meet(t.strand, t.k.strand)
	}
	if w.parked {
		w.parked = false
		w.task.k.makeRunnable(w.task)
	}
	return true
}

// release returns the wait to the pool and invalidates its handles.
func (w *wait) release() {
	k := w.task.k
	if w.ctx != nil {
		w.ctx.dropWait(w)
	}
	w.gen++
	w.task = nil
	w.parked = false
	k.waitPool = append(k.waitPool, w)
}

// Abandon ends the wait without awaiting it. A later Done returns false.
func (h Wait) Abandon() {
	if h.w != nil && h.w.gen == h.gen && !h.w.parked {
		h.w.release()
	}
}

// Await parks the current task, which must own the wait, until Done or until ctx ends. It returns
// nil if Done came first, even before Await, else ctx.Err(). Either way the wait is over.
func (h Wait) Await(ctx context.Context) error {
	_, err := h.AwaitFor(ctx, maxDuration)
	return err
}

// AwaitFor is Await with a limit on the process's monotonic clock: true if Done came first, false
// if d was over first. The longest Duration means no limit.
func (h Wait) AwaitFor(ctx context.Context, d time.Duration) (bool, error) {
	w := h.w
	if w == nil || w.gen != h.gen {
		panic("kernel: Await of a wait that is over")
	}
	t := w.task
	k := t.k
	k.CheckAlive()
	if k.current != t {
		panic("kernel: Await by another task than the wait's own")
	}
	kc := k.contextOf(ctx)
	if w.state == waitPending {
		if kc != nil && kc.err != nil {
			t.crashNext = false
			w.release()
			return false, ctx.Err()
		}
		t.parkOn(h, kc, d)
	} else if t.crashNext {
		t.crashNext = false
		k.crashFired = true
		t.process.Crash()
	}
	outcome := w.state
	w.release()
	if outcome == waitContext {
		t.crashNext = false // the outcome that the crash was to hide from this call never comes
		return false, ctx.Err()
	}
	return outcome == waitDone, nil
}

func (t *Task) parkOn(h Wait, kc *kernelContext, d time.Duration) {
	w := h.w
	var limit Timer
	if d != maxDuration {
		limit = t.k.arm(t.process, d, nil, h)
	}
	if kc != nil {
		kc.addWait(w)
	}
	w.parked = true
	t.wait = w
	t.park()
	t.wait = nil
	limit.Stop()
}

// resumedDone reports whether the task is about to resume with the outcome that it waited for (a
// Yield counts), and not because its context ended.
func (t *Task) resumedDone() bool { return t.wait == nil || t.wait.state != waitContext }
