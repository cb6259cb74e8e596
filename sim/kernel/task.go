package kernel

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"time"
)

// Task is a coroutine of a process.
type Task struct {
	k          *Kernel
	process    *Process
	id         uint64
	name       string
	fn         func()
	ended      bool
	killing    bool // stop is in progress: the next yield returns false
	crashNext  bool // see Point
	strand     Strand
	coro       *coroutine
	wait       *wait // the wait on which it is parked
	joiners    []Wait
	prev, next *Task
	held       Held
	// Noted belongs to an observer of the task; the kernel neither reads nor writes it.
	Noted Noted
}

// Held counts the contexts that a task has made and whose CancelFunc it has not called. Only contexts passed
// to Kernel.Watch count. A context whose timeout has passed still counts.
type Held struct {
	// Limited and Plain count the contexts with and without a time limit.
	Limited, Plain int
	// Ended is the last context with a time limit that was ended by its CancelFunc, or nil. EndedAt is the
	// time of that.
	Ended   context.Context
	EndedAt time.Duration
}

// Noted holds an observer's notes about a task.
type Noted struct {
	// Over is the last context whose end interrupted a wait of the task, so that the task knows of that end.
	// OverAt is the time of that.
	Over   context.Context
	OverAt time.Duration
	// Waited is the time at which the task last began to wait.
	Waited time.Duration
}

// Held returns the number of contexts that the task holds.
func (t *Task) Held() Held { return t.held }

// Holds reports whether ctx is one of the contexts with a time limit that the task holds (Held).
func (t *Task) Holds(ctx context.Context) bool {
	c, ours := ctx.(*kernelContext)
	return ours && c.maker == t && c.limited
}

// ID returns a number that is unique among the tasks of the run; tasks are numbered in the order in which
// they were started.
func (t *Task) ID() uint64 { return t.id }

// Name returns the name that the task was started under.
func (t *Task) Name() string { return t.name }

// Process returns the process that the task belongs to.
func (t *Task) Process() *Process { return t.process }

// Ended reports whether the task has returned or was ended by a crash.
func (t *Task) Ended() bool { return t.ended }

// Join parks the current task until t has ended. It returns nil, or ctx.Err() if ctx ends first.
func (t *Task) Join(ctx context.Context) error {
	t.k.CheckAlive()
	if t.ended {
		return nil
	}
	w := t.k.NewWait()
	t.joiners = append(t.joiners, w)
	err := w.Await(ctx)
	if err != nil {
		for i, j := range t.joiners {
			if j == w {
				t.joiners = append(t.joiners[:i], t.joiners[i+1:]...)
				break
			}
		}
	}
	return err
}

// Panic is a panic of a task, with its place. It means that the program failed, not the kernel.
type Panic struct {
	Process string
	Task    string
	Value   any
	Stack   []byte // the stack of the panicking task
	Step    uint64
	Time    time.Duration // true virtual time
}

// Error returns the place and time of the panic and its value, without the stack.
func (p *Panic) Error() string {
	return fmt.Sprintf("panic in %s/%s at step %d, time %s: %v", p.Process, p.Task, p.Step, p.Time, p.Value)
}

// coroutine runs tasks, one after the other. When a task has returned, the coroutine is kept for the next
// task, which saves creating another coroutine and growing its stack.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	task  *Task
}

func (k *Kernel) takeCoroutine() *coroutine {
	if n := len(k.coroPool); n > 0 {
		c := k.coroPool[n-1]
		k.coroPool[n-1] = nil
		k.coroPool = k.coroPool[:n-1]
		return c
	}
	c := &coroutine{}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		growStack(0)
		for {
			c.task.runToEnd()
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// stackReserve is the stack size, in bytes, that suffices for most tasks of the core. A coroutine that
// reserves it at once, while its stack is empty, grows its stack once. Otherwise the runtime copies the
// filled stack several times, which took an eighth of a short run. Twice as much would save the deepest
// tasks another copy, but cost a run with a thousand tasks more, because its stacks are new memory.
const stackReserve = 3 << 10

// growStack grows the stack of a coroutine to its final size.
//
//go:noinline
func growStack(i int) byte {
	if i == 0 {
		return 0 // the stack has grown at the call, and nothing needs clearing
	}
	var place [stackReserve]byte
	place[i] = 1
	return place[len(place)-1-i]
}

// runToEnd runs a task on its coroutine until it ends.
func (t *Task) runToEnd() {
	defer t.recordEnd()
	t.fn()
}

// recordEnd is the outermost deferred function of a task; it runs however the task ends.
func (t *Task) recordEnd() {
	k := t.k
	value := recover()
	t.ended = true
	if value == nil {
		return
	}
	if k.current != t {
		// A function in kernel context, which ran on top of this task, has panicked. That is not the
		// program's fault, so the panic propagates to the caller of Run.
		panic(value)
	}
	if k.failure == nil {
		k.failure = &Panic{
			Process: t.process.name, Task: t.name, Value: value, Stack: debug.Stack(),
			Step: k.step, Time: k.now,
		}
		if k.opts.OnPanic != nil {
			k.opts.OnPanic(k.failure)
		}
	}
}

// switchTo lets t run until it parks or ends.
func (k *Kernel) switchTo(t *Task) {
	if t.coro == nil {
		t.coro = k.takeCoroutine()
		t.coro.task = t
	}
	k.current, k.running, k.strand = t, t, t.strand
	t.coro.next()
	k.current, k.running, t.strand = nil, nil, k.strand
	switch {
	case t.ended:
		c := t.coro
		t.coro = nil
		c.task = nil
		k.coroPool = append(k.coroPool, c)
		k.taskEnded(t)
	case t.process.state == processCrashed:
		k.killTask(t)
	}
}

// park gives up control until the kernel switches back. If the task is ended instead, park does not
// return.
func (t *Task) park() {
	if !t.coro.yield(struct{}{}) {
		runtime.Goexit()
	}
}

// makeRunnable queues t, or keeps it in the stalled list of its process while that is stalled.
func (k *Kernel) makeRunnable(t *Task) {
	if t.process.isStalled() {
		t.process.stalled = append(t.process.stalled, t)
		return
	}
	k.queue.push(t)
}

// mustCurrent returns the current task. It panics without one, because only a task may block.
func (k *Kernel) mustCurrent(call string) *Task {
	if k.current == nil {
		panic("kernel: " + call + " outside of a task: kernel context must not block")
	}
	return k.current
}

// Yield moves the current task behind all other runnable tasks.
func (k *Kernel) Yield() {
	k.CheckAlive()
	t := k.mustCurrent("Yield")
	k.makeRunnable(t)
	t.park()
}

// yieldIfStalled parks a task inside the call with which it paused or froze its own process.
func (k *Kernel) yieldIfStalled() {
	if k.current != nil && k.current.process.isStalled() {
		k.Yield()
	}
}

// taskEnded handles the end of a task, however it ended.
func (k *Kernel) taskEnded(t *Task) {
	t.ended = true
	t.fn = nil
	p := t.process
	if t.prev != nil {
		t.prev.next = t.next
	} else {
		p.first = t.next
	}
	if t.next != nil {
		t.next.prev = t.prev
	} else {
		p.last = t.prev
	}
	t.prev, t.next = nil, nil
	for _, w := range t.joiners {
		w.resolveAs(waitDone)
	}
	t.joiners = nil
	if p.first == nil && !k.closed {
		p.endProcess()
	}
}
