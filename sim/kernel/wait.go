package kernel

import (
	"context"
	"time"
)

type waitState uint8

const (
	waitPending waitState = iota
	waitDone
	waitTimeout // AwaitFor's time was over
	waitContext // the context ended first
)

// wait is pooled. Its generation increases whenever it is released, so that a late Done finds
// nothing.
type wait struct {
	gen    uint64
	task   *Task
	state  waitState
	parked bool

	// While its task is parked, the wait is in the list of its context.
	ctx        *kernelContext
	prev, next *wait
}

// Wait is the handle of a one-shot wait of one task. It is a value; every holder of a copy may call Done.
// The zero Wait stands for a wait that has ended.
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

// Done ends the wait and wakes its task if it is parked. It returns false if there is nothing left to wake:
// the wait has ended or was abandoned, or its task is dead.
func (wa Wait) Done() bool {
	if wa.w == nil || wa.w.gen != wa.gen {
		return false
	}
	wa.w.task.k.CheckAlive()
	return wa.resolveAs(waitDone)
}

// Pending reports whether Done would wake a task, now or at Await.
func (wa Wait) Pending() bool {
	return wa.w != nil && wa.w.gen == wa.gen && wa.w.state == waitPending && wa.w.task.isAlive()
}

func (t *Task) isAlive() bool { return !t.ended && t.process.state == processAlive }

func (wa Wait) resolveAs(outcome waitState) bool {
	if !wa.Pending() {
		return false
	}
	w := wa.w
	w.state = outcome
	if w.ctx != nil {
		w.ctx.dropWait(w)
	}
	if t := w.task; t != t.k.running && t.strand != t.k.strand {
		t.strand = t.k.joinStrands(t.strand, t.k.strand)
	}
	if w.parked {
		w.parked = false
		w.task.k.makeRunnable(w.task)
	}
	return true
}

// returnToPool returns the wait to the pool and invalidates its handles.
func (w *wait) returnToPool() {
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
func (wa Wait) Abandon() {
	if wa.w != nil && wa.w.gen == wa.gen && !wa.w.parked {
		wa.w.returnToPool()
	}
}

// Await parks the current task, which must own the wait, until Done or until ctx ends. It returns nil if
// Done came first, even before Await, else ctx.Err(). Either way, the wait ends.
func (wa Wait) Await(ctx context.Context) error {
	_, err := wa.AwaitFor(ctx, maxDuration)
	return err
}

// AwaitFor is like Await with a time limit on the process's monotonic clock: it returns true if Done came
// first, and false if d was over first. The longest Duration means no limit.
func (wa Wait) AwaitFor(ctx context.Context, d time.Duration) (bool, error) {
	w := wa.w
	if w == nil || w.gen != wa.gen {
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
			w.returnToPool()
			return false, ctx.Err()
		}
		t.parkOn(wa, kc, d)
	} else if t.crashNext {
		t.crashNext = false
		k.crashFired = true
		t.process.Crash()
	}
	outcome := w.state
	w.returnToPool()
	if outcome == waitContext {
		t.crashNext = false // the outcome that the crash should hide from this call never arrives
		return false, ctx.Err()
	}
	return outcome == waitDone, nil
}

func (t *Task) parkOn(h Wait, kc *kernelContext, d time.Duration) {
	w := h.w
	var limit Timer
	if d != maxDuration {
		limit = t.k.armTimer(t.process, d, nil, h)
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

// resumedDone reports whether the task is about to resume with the awaited outcome (a Yield counts), and
// not because its context ended.
func (t *Task) resumedDone() bool { return t.wait == nil || t.wait.state != waitContext }
