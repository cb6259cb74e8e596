package kernel

import (
	"runtime"
	"slices"
	"strings"
)

// Crash ends the process: each of its tasks ends at the yield point that it has reached. Their deferred
// functions run inside this call, oldest task first, with every effect suppressed. Crash may be called in
// kernel context and by any task; a task of this process does not return from it. The crash of a frozen
// process thaws its machine, as a reset does. The crash of an ended process does nothing.
func (p *Process) Crash() {
	k := p.k
	k.CheckAlive()
	if p.state != processAlive {
		return
	}
	p.state = processCrashed
	p.stalled = nil
	k.queue.extractTasks(p, nil)
	if p.machine.frozen {
		p.machine.unfreeze()
	}
	for t := p.first; t != nil; {
		next := t.next
		if t != k.running { // the process's task is below this call on the stack
			k.killTask(t)
		}
		t = next
	}
	if p.first == nil {
		p.endProcess()
	}
	k.CheckAlive()
}

// killTask ends a task that is at a yield point or has not run yet.
func (k *Kernel) killTask(t *Task) {
	if t.ended {
		return
	}
	if t.wait != nil {
		t.wait.returnToPool()
		t.wait = nil
	}
	if c := t.coro; c != nil {
		current := k.current
		k.current = t
		t.killing = true
		go func() { //detlint:ok the throw-away goroutine that an ending task needs; the kernel waits for it
			// stop ends this goroutine with the same Goexit that ended the task.
			defer func() { k.stopped <- struct{}{} }() //detlint:ok the throw-away goroutine that an ending task needs; the kernel waits for it
			c.stop()
		}()
		<-k.stopped //detlint:ok the throw-away goroutine that an ending task needs; the kernel waits for it
		k.current = current
		t.coro = nil
	}
	k.taskEnded(t)
}

// Dying reports whether the current task is being ended by a crash or by Close.
func (k *Kernel) Dying() bool {
	return k.current != nil && k.current.process.state == processCrashed
}

// CheckAlive must be the first call of every function with an effect outside the calling task. If that task
// is dying, CheckAlive does not return, and the task's next deferred function runs.
func (k *Kernel) CheckAlive() {
	if k.current != nil && k.current.process.state == processCrashed {
		k.endCurrent()
	}
}

func (k *Kernel) endCurrent() {
	t := k.current
	if !t.killing {
		// The process was crashed while this task ran. Goexit would continue into the caller of Run,
		// so the kernel must stop the coroutine from outside.
		t.park()
	}
	runtime.Goexit()
}

// CrashPoint identifies a yield point of a process: its N-th (from 1), counted by process name,
// across restarts.
type CrashPoint struct {
	Process string
	N       uint64

	// After selects the phase of the crash. False: the process dies inside Point, before the call has any
	// effect. True: it dies when the wait after this Point would resume with its outcome. Then the effect has
	// happened, but the caller never observes it. A call that does not wait, or whose context ends first, has
	// no such moment, so nothing crashes.
	After bool
}

// PausePoint pauses a process at one of its yield points, before the call has any effect. It is
// like a CrashPoint for a process that later continues as if nothing had happened.
type PausePoint struct {
	Process string
	N       uint64
	// Do is called at that point. It must pause the process and schedule its resumption.
	Do func(p *Process)
}

type pointCounter struct {
	process string
	n       uint64
}

func (k *Kernel) pointCounterFor(process string) *pointCounter {
	c := k.points[process]
	if c == nil {
		c = &pointCounter{process: process}
		k.points[process] = c
	}
	return c
}

// Point counts a yield point of the current process, and crashes or pauses the process if Options.CrashAt
// or Options.PauseAt names this point. Models call it at the very start of every call that may block,
// before any effect, even if the call then does not block.
func (k *Kernel) Point() {
	k.CheckAlive()
	t := k.mustCurrent("Point")
	t.crashNext = false
	c := t.process.points
	c.n++
	if at := k.opts.PauseAt; at != nil && c == k.pausePoint && c.n == at.N {
		at.Do(t.process)
		return
	}
	if c != k.crashPoint || c.n != k.opts.CrashAt.N {
		return
	}
	if k.opts.CrashAt.After {
		t.crashNext = true
		return
	}
	k.crashFired = true
	t.process.Crash()
}

// CrashFired reports whether the crash of Options.CrashAt has happened.
func (k *Kernel) CrashFired() bool { return k.crashFired }

// PointCount is the number of yield points that the instances of a process have passed.
type PointCount struct {
	Process string
	N       uint64
}

// Points returns the counts of all processes, sorted by name.
func (k *Kernel) Points() []PointCount {
	counts := make([]PointCount, 0, len(k.points))
	for _, c := range k.points { //detlint:ok sorted below
		counts = append(counts, PointCount{Process: c.process, N: c.n})
	}
	slices.SortFunc(counts, func(a, b PointCount) int { return strings.Compare(a.Process, b.Process) })
	return counts
}
