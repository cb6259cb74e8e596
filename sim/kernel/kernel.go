package kernel

import (
	"math"
	"sync/atomic"
	"time"
)

const maxDuration = time.Duration(math.MaxInt64)

// Options configure a run. The zero value is a run with the random chooser of seed 0, without
// limits and faults.
type Options struct {
	// Chooser makes every choice. Nil means NewRandom(0).
	Chooser Chooser

	// MaxSteps ends Run once the kernel has made this many steps in total; 0 means no limit. A program that
	// keeps sleeping for no time never lets time move, so a search should set a limit.
	MaxSteps uint64

	// StepsAtOnce returns the largest number of steps at the same virtual time; nil means no limit. The
	// kernel calls it repeatedly, so the limit may depend on the amount of work. It first does so after
	// 16,384 steps at one moment, so a lower limit takes effect only after that. Run ends when the limit is
	// exceeded by 4,096 steps: these show which task spins (Spun).
	StepsAtOnce func() uint64

	// Interrupted is called every few steps. If it returns true, Run ends, at a step that depends on real
	// time. Nil means never. Only Run's goroutine calls it, but it may read shared data of other
	// goroutines.
	Interrupted func() bool

	// Start is the reading of a wall clock without faults at virtual time 0. The zero time means
	// 2026-01-01 00:00 UTC.
	Start time.Time

	// TimeIsChoice adds "let time pass to the next timer" as the last alternative to the runnable tasks.
	// Without it, time moves only when no task is runnable.
	TimeIsChoice bool

	// CrashAt crashes one process at one of its yield points; nil for no crash.
	CrashAt *CrashPoint
	// PauseAt pauses one process at one of its yield points; nil for no pause.
	PauseAt *PausePoint

	// OnStep is called at every step, after the choice and before the step: with the task that is
	// switched to, or with nil when a timer fires. It may only read from the kernel.
	OnStep func(t *Task)

	// Meet joins two strands: it returns the strand of whatever both have led to. If it is nil, the run keeps
	// no strands. See Strand.
	Meet func(a, b Strand) Strand

	// OnPanic is called with the first panic of a task, on the panicking stack.
	OnPanic func(p *Panic)
}

// Kernel is one run. It is not safe for use by several goroutines.
type Kernel struct {
	opts     Options
	maxSteps uint64
	start    time.Time

	now     time.Duration
	step    uint64
	spin    spinCount
	horizon time.Duration

	queue     runQueue
	timers    timers
	timerSeq  uint64
	timerPool []*timer
	waitPool  []*wait
	coroPool  []*coroutine
	arena     *arena
	taskSeq   uint64

	current *Task // the task whose code runs; nil in kernel context
	running *Task // the task whose coroutine the loop has switched into; below current on the stack
	strand  Strand

	processes []*Process // processes that have not ended, by creation
	machines  map[string]*machine
	starts    map[string]uint64
	streams   map[string]*Stream
	streamSeq uint64
	schedule  *Stream

	points     map[string]*pointCounter
	crashPoint *pointCounter // the counter of CrashAt's process, or nil
	pausePoint *pointCounter // and of PauseAt's
	crashFired bool

	failure *Panic
	inRun   bool
	closed  bool
	stopped chan struct{}

	probing bool           // Done notes its context in probed, see contextOf
	probed  *kernelContext // the context whose Done was called while probing

	progress atomic.Uint64 // for the watchdog
	active   atomic.Bool   // for the watchdog
}

// New returns a kernel at virtual time 0 without processes. The caller must close it.
func New(opts Options) *Kernel {
	if opts.Chooser == nil {
		opts.Chooser = NewRandom(0)
	}
	k := &Kernel{
		opts:     opts,
		maxSteps: opts.MaxSteps,
		start:    opts.Start,
		machines: make(map[string]*machine),
		starts:   make(map[string]uint64),
		streams:  make(map[string]*Stream),
		points:   make(map[string]*pointCounter),
		stopped:  make(chan struct{}), //detlint:ok never waited on
		arena:    takeArena(),
	}
	if k.maxSteps == 0 {
		k.maxSteps = math.MaxUint64
	}
	if k.start.IsZero() {
		k.start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if b, wants := opts.Chooser.(kernelBinder); wants {
		b.bindKernel(k)
	}
	k.schedule = k.Stream("kernel/schedule")
	if p := opts.PauseAt; p != nil {
		k.pausePoint = k.pointCounterFor(p.Process)
	}
	if c := opts.CrashAt; c != nil {
		k.crashPoint = k.pointCounterFor(c.Process)
	}
	return k
}

// Now returns the true virtual time since the start. No process can see it; clocks show it with
// their faults.
func (k *Kernel) Now() time.Duration { return k.now }

// Step returns the number of steps so far, including the current one.
func (k *Kernel) Step() uint64 { return k.step }

// Current returns the task whose code runs, or nil in kernel context. While a task dies, it returns
// that task.
func (k *Kernel) Current() *Task { return k.current }

// Failure returns the first panic of a task, or nil.
func (k *Kernel) Failure() *Panic { return k.failure }

// Stream returns the stream of choices with that label; the same label gives the same stream.
func (k *Kernel) Stream(label string) *Stream {
	if s := k.streams[label]; s != nil {
		return s
	}
	s := NewStream(k.opts.Chooser, label)
	s.id = k.streamSeq
	k.streamSeq++
	k.streams[label] = s
	return s
}

// Stop is the reason why Run returned.
type Stop uint8

// The reasons. Run may be called again to continue after StopDone, StopHorizon (with a later
// horizon), StopInterrupted, and StopIdle (if something was started in between). After the others it
// makes no further step.
const (
	StopDone        Stop = iota + 1 // done returned true
	StopHorizon                     // the next event is beyond the horizon; Now is the horizon
	StopMaxSteps                    // Options.MaxSteps steps were made
	StopIdle                        // no task is runnable and no timer is armed, so nothing more can happen
	StopPanic                       // a task panicked; Failure returns the panic and its place
	StopSpin                        // Options.StepsAtOnce was exceeded; Spun returns the task
	StopInterrupted                 // Options.Interrupted was true
)

// String returns the reason as a lower-case word.
func (s Stop) String() string {
	switch s {
	case StopDone:
		return "done"
	case StopHorizon:
		return "horizon"
	case StopMaxSteps:
		return "max-steps"
	case StopIdle:
		return "idle"
	case StopPanic:
		return "panic"
	case StopSpin:
		return "spin"
	case StopInterrupted:
		return "interrupted"
	}
	return "unknown"
}

// Run makes steps until done returns true (called before every step; nil means never), until virtual time
// would pass the horizon (counted from the kernel's start, not from now), until MaxSteps, until nothing is
// left to do, or until a task panics; Stop lists all reasons. Tasks of paused and frozen processes, and
// timers of frozen machines, do not count as work.
func (k *Kernel) Run(done func() bool, horizon time.Duration) Stop {
	if k.closed {
		panic("kernel: Run after Close")
	}
	if k.inRun {
		panic("kernel: Run inside Run")
	}
	k.inRun = true
	k.horizon = horizon
	k.progress.Add(1)
	k.active.Store(true)
	defer func() {
		k.active.Store(false)
		k.inRun = false
	}()
	for {
		switch {
		case k.failure != nil:
			return StopPanic
		case done != nil && done():
			return StopDone
		case k.step >= k.maxSteps:
			return StopMaxSteps
		case k.spin.steps >= spinLook && k.isSpinning():
			return StopSpin
		case k.step&63 == 0 && k.opts.Interrupted != nil && k.opts.Interrupted():
			return StopInterrupted
		}
		if stop := k.makeStep(); stop != 0 {
			return stop
		}
	}
}

// makeStep makes one step, or returns the reason why it can't.
func (k *Kernel) makeStep() Stop {
	n := uint64(k.queue.len())
	timer := k.timers.len() > 0 && k.timers.firstSlot().at <= k.horizon
	alternatives := n
	if timer && k.opts.TimeIsChoice {
		alternatives++
	}
	if n == 0 {
		if timer {
			k.beginStep(nil)
			k.fireTimer()
			return 0
		}
		if k.timers.len() == 0 {
			return StopIdle
		}
		if k.horizon > k.now {
			k.now = k.horizon
		}
		return StopHorizon
	}
	i := k.schedule.Uint64N(alternatives)
	if i == n {
		k.beginStep(nil)
		k.fireTimer()
		return 0
	}
	t := k.queue.removeAt(int(i))
	k.beginStep(t)
	if t.crashNext && t.resumedDone() {
		t.crashNext = false
		k.crashFired = true
		t.process.Crash()
		return 0
	}
	k.switchTo(t)
	return 0
}

func (k *Kernel) beginStep(t *Task) {
	k.step++
	if k.now != k.spin.at {
		k.spin = spinCount{at: k.now}
	}
	k.spin.steps++
	if k.spin.tasks != nil {
		k.spin.tasks[spinnerName(t)]++
	}
	if k.step&63 == 0 {
		k.progress.Add(1)
	}
	if k.opts.OnStep != nil {
		k.opts.OnStep(t)
	}
}

// Runnable returns the i-th alternative while the chooser chooses on the stream "kernel/schedule": a task,
// or nil for letting time pass.
func (k *Kernel) Runnable(i uint64) *Task {
	if i >= uint64(k.queue.len()) {
		return nil
	}
	return k.queue.taskAt(int(i))
}

// NextTimer returns the time at which the next timer is due, and false if none is armed.
func (k *Kernel) NextTimer() (time.Duration, bool) {
	if k.timers.len() == 0 {
		return 0, false
	}
	return k.timers.firstSlot().at, true
}

// Close ends every task, with all effects suppressed and without OnEnd callbacks. Afterwards no
// goroutine of the kernel is left, except perhaps the one that ended the last task, on its last
// instruction. A second call does nothing.
func (k *Kernel) Close() {
	if k.closed {
		return
	}
	// running is stale if a task left Run by runtime.Goexit (as t.FailNow does).
	if k.running != nil && !k.running.ended {
		panic("kernel: Close inside a task")
	}
	k.closed = true
	k.current, k.running = nil, nil
	for _, p := range k.processes {
		p.state = processCrashed
		p.stalled = nil
	}
	k.queue.clear()
	for _, p := range k.processes {
		for t := p.first; t != nil; {
			next := t.next
			k.killTask(t)
			t = next
		}
	}
	for _, c := range k.coroPool {
		c.stop() // an idle coroutine returns without Goexit
	}
	k.processes, k.coroPool, k.timers, k.timerPool, k.waitPool = nil, nil, timers{}, nil, nil
	k.arena.returnToPool()
	k.arena = nil
}
