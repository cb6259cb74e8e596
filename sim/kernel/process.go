package kernel

import "time"

type processState uint8

const (
	processAlive processState = iota
	processCrashed
	processEnded
)

// EndReason is the reason why a process ended.
type EndReason uint8

// The reasons.
const (
	Exited  EndReason = iota + 1 // its last task returned
	Crashed                      // Crash ended it
)

// String returns the reason as a lower-case word.
func (e EndReason) String() string {
	switch e {
	case Exited:
		return "exited"
	case Crashed:
		return "crashed"
	}
	return "unknown"
}

// Process is a set of tasks that live and die together, on a machine with clocks. The process's
// name identifies the machine: a process started under the name of an earlier one runs on the same
// machine, so faults of its clock survive a restart.
type Process struct {
	k       *Kernel
	name    string
	state   processState
	paused  bool
	machine *machine
	clock   Clock
	points  *pointCounter

	first, last *Task // by creation
	stalled     []*Task
	onEnd       []func(EndReason)
}

// NewProcess starts a process without tasks. It exits when its last task has returned; a process
// that has had no task yet stays alive. If its machine is frozen, it starts frozen.
func (k *Kernel) NewProcess(name string) *Process {
	k.CheckAlive()
	if k.closed {
		panic("kernel: NewProcess after Close")
	}
	m := k.machines[name]
	if m == nil {
		m = &machine{k: k}
		k.machines[name] = m
	}
	k.starts[name]++
	p := &Process{k: k, name: name, machine: m, points: k.pointCounterFor(name)}
	p.clock = Clock{m: m, origin: monotonicOrigin(name, k.starts[name])}
	m.processes = append(m.processes, p)
	k.processes = append(k.processes, p)
	return p
}

// Name returns the name that the process was started under.
func (p *Process) Name() string { return p.name }

// Kernel returns the kernel that the process runs in.
func (p *Process) Kernel() *Kernel { return p.k }

// Alive reports whether the process has neither crashed nor exited. Paused and frozen processes are alive.
func (p *Process) Alive() bool { return p.state == processAlive }

// Paused reports whether the process is between Pause and Resume.
func (p *Process) Paused() bool { return p.paused }

// Frozen reports whether the process's machine is between Freeze and Thaw.
func (p *Process) Frozen() bool { return p.machine.frozen }

// Clock returns the clocks of the process.
func (p *Process) Clock() *Clock { return &p.clock }

// OnEnd registers a callback for the end of the process. Callbacks run in kernel context, in the
// order of registration, after the last task has ended; they may start a successor.
func (p *Process) OnEnd(fn func(EndReason)) { p.onEnd = append(p.onEnd, fn) }

// Go starts a task, which runs when the scheduler picks it. In an ended process it starts nothing
// and returns a task that has ended already.
func (p *Process) Go(name string, fn func()) *Task {
	k := p.k
	k.CheckAlive()
	k.taskSeq++
	t := &Task{k: k, process: p, id: k.taskSeq, name: name, fn: fn, strand: k.strand}
	if p.state != processAlive {
		t.ended = true
		return t
	}
	t.prev = p.last
	if p.last != nil {
		p.last.next = t
	} else {
		p.first = t
	}
	p.last = t
	k.makeRunnable(t)
	return t
}

// Pause suspends the process, like SIGSTOP: the scheduler no longer picks its tasks. Both its clocks keep
// running, its timers fire and replies reach it. At Resume, it therefore finds everything that became due
// meanwhile, in order. A task that pauses its own process stops inside the call.
func (p *Process) Pause() {
	p.k.CheckAlive()
	if p.paused || p.state != processAlive {
		return
	}
	p.paused = true
	p.stallTasks()
	p.k.yieldIfStalled()
}

// Resume ends a pause, like SIGCONT.
func (p *Process) Resume() {
	p.k.CheckAlive()
	p.paused = false
	p.unstallTasks()
}

// Freeze stops the machine of the process, as when a virtual machine is suspended. The scheduler does not
// pick its tasks, and its monotonic clock and its timers stop. The wall clock also stops, and after Thaw it
// lags by the length of the freeze, as on a guest without clock correction. Every process of the same name
// is on that machine. A task that freezes its own machine stops inside the call.
func (p *Process) Freeze() {
	p.k.CheckAlive()
	if p.machine.frozen || p.state != processAlive {
		return
	}
	p.machine.freeze()
	for _, q := range p.machine.processes {
		q.stallTasks()
	}
	p.k.yieldIfStalled()
}

// Thaw lets the machine continue. A timer that had d left at Freeze still has d left.
func (p *Process) Thaw() {
	p.k.CheckAlive()
	if !p.machine.frozen {
		return
	}
	p.machine.unfreeze()
}

// AfterMonotonic runs fn in kernel context when the process's monotonic clock has advanced by d. It
// follows drift and freezes exactly, fires while the process is paused, and never fires after the
// process has ended.
func (p *Process) AfterMonotonic(d time.Duration, fn func()) Timer {
	p.k.CheckAlive()
	return p.k.armTimer(p, d, funcEvent(fn), Wait{})
}

func (p *Process) isStalled() bool { return p.paused || p.machine.frozen }

func (p *Process) stallTasks() { p.stalled = p.k.queue.extractTasks(p, p.stalled) }

func (p *Process) unstallTasks() {
	if p.isStalled() {
		return
	}
	for _, t := range p.stalled {
		p.k.queue.push(t)
	}
	p.stalled = nil
}

// endProcess ends the process if it has no tasks left.
func (p *Process) endProcess() {
	if p.state == processEnded {
		return
	}
	reason := Exited
	if p.state == processCrashed {
		reason = Crashed
	}
	k := p.k
	p.state = processEnded
	p.paused = false
	k.dropTimers(p)
	k.processes = withoutProcess(k.processes, p)
	p.machine.processes = withoutProcess(p.machine.processes, p)
	current := k.current
	k.current = nil
	for _, fn := range p.onEnd {
		fn(reason)
	}
	k.current = current
}

func withoutProcess(list []*Process, p *Process) []*Process {
	for i, q := range list {
		if q == p {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}
