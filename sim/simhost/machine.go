package simhost

import (
	"context"
	"errors"
	"strconv"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
	"handoff/core/worker"
	"handoff/sim/kernel"
)

// Behaviour is how a simulated action behaves.
type Behaviour struct {
	// TakesMin and TakesMax bound how long a run lasts, drawn uniformly, or log-uniformly with
	// TakesLog.
	TakesMin, TakesMax time.Duration
	TakesLog           bool
	// FailPerMillion is how many of a million runs fail. A failing run draws one of the exit codes in
	// FailCodes, or fails for FailReason if there are none.
	FailPerMillion uint64
	FailReason     execution.Reason
	FailCodes      []int
	// Retried are the exit codes that the action declares as temporary failures.
	Retried []int
}

// Delays of a machine: to start a subprocess, and until the shim detects that its worker is gone.
const (
	spawnMin, spawnMax = time.Millisecond, 5 * time.Millisecond
	pipeMin, pipeMax   = time.Millisecond, 20 * time.Millisecond
	// obeyMax is the longest time that an action that obeys SIGTERM takes to end.
	obeyMax = 50 * time.Millisecond
	// ignoresTerm is the number of actions in a million that ignore SIGTERM, so that only SIGKILL ends
	// them.
	ignoresTerm = 200_000
)

// Machine is the machine of a worker process. Actions belong to the machine, not to the process. They
// continue while their worker is paused, and after its death until the shim detects it. Only freezing the
// machine stops them.
type Machine struct {
	k    *kernel.Kernel
	sink history.Sink
	// ground is a process without tasks. It owns the machine's clock, so that a crash of the worker does
	// not stop it.
	ground    *kernel.Process
	stream    *kernel.Stream
	behaviour map[string]Behaviour
	actions   []*action
	event     history.Event

	shimless bool
	// Sick machines can't start actions; Asked is called when a worker tries to start one.
	Sick  bool
	Asked func()
}

// NewMachine returns a machine that can run the actions in behaviour, by their ref.
func NewMachine(k *kernel.Kernel, name string, behaviour map[string]Behaviour, sink history.Sink) *Machine {
	return &Machine{k: k, sink: sink, ground: k.NewProcess("machine of " + name), stream: k.Stream("machine/" + name), behaviour: behaviour}
}

// RemoveShims removes the machine's shims, so that only an action itself and its worker can end it.
// Planted mutants use this.
func (m *Machine) RemoveShims() { m.shimless = true }

// Ground returns the process that represents the machine: freezing it freezes the machine's clocks and
// actions.
func (m *Machine) Ground() *kernel.Process { return m.ground }

// Alive returns the number of running actions.
func (m *Machine) Alive() int { return len(m.actions) }

// Runner runs the actions of one worker process on this machine. When the process ends, the shims of its
// actions detect it.
func (m *Machine) Runner(p *kernel.Process) worker.Runner {
	r := &runner{m: m, p: p}
	p.OnEnd(func(kernel.EndReason) { m.ownerEnded(p) })
	return r
}

func (m *Machine) ownerEnded(p *kernel.Process) {
	if m.shimless {
		return
	}
	for _, a := range m.actions {
		if a.owner == p {
			a.armTimer(a.drawStream().Duration(pipeMin, pipeMax), a.killed)
		}
	}
}

var (
	errSick = errors.New("the machine can't start a process")
	errLate = errors.New("the action's shim came up after the fence or the limit and started nothing")
)

type runner struct {
	m *Machine
	p *kernel.Process
}

// action is one running action under its shim.
type action struct {
	m     *Machine
	owner *kernel.Process
	spec  worker.Spec
	fence kernel.Timer
	// killed kills the action from outside. All timers share this function, and hold the action only through
	// the handle.
	killed func()
	timed  *actionHandle
	ended  bool
	exit   worker.Exit
	// failed is the reason of the action's own failure, by the contract; exit.Reason is the core's reason.
	failed execution.Reason
	wait   kernel.Wait
	// strand is the strand of the action's end.
	strand kernel.Strand
}

// actionHandle refers to an action until it ends. The timer of its limit may outlive it by minutes, and
// would keep its memory as long.
type actionHandle struct{ a *action }

func (ah *actionHandle) killAction() {
	if ah.a != nil {
		ah.a.endRun(worker.Exit{Killed: true})
	}
}

// Start implements worker.Runner.
func (r *runner) Start(ctx context.Context, s worker.Spec) (worker.Run, error) {
	m := r.m
	m.k.CheckAlive()
	m.k.Point()
	if m.Sick {
		m.Asked()
		return nil, errSick
	}
	w := m.k.NewWait()
	a := &action{m: m, owner: r.p, spec: s}
	a.timed = &actionHandle{a}
	a.killed = a.timed.killAction
	late := false
	m.ground.AfterMonotonic(a.drawStream().Duration(spawnMin, spawnMax), func() {
		if !r.p.Alive() {
			return
		}
		late = a.owner.Clock().Monotonic() >= min(s.Limit, s.Fence) && !m.shimless
		if !late {
			a.startRun()
		}
		w.Done()
	})
	if err := w.Await(ctx); err != nil {
		return nil, err
	}
	if late {
		return nil, errLate
	}
	return a, nil
}

// drawStream returns the machine's stream for a draw that is named after this run of the action. In a rerun,
// the same run of an action takes equally long, even on another machine or at another time.
func (a *action) drawStream() *kernel.Stream {
	return a.m.stream.About(uint64(a.spec.Key.ID), uint64(a.spec.Key.Epoch))
}

func (a *action) startRun() {
	m := a.m
	m.actions = append(m.actions, a)
	a.emitEvent(history.ActionStarted, execution.None, execution.NoReason, 0)
	b := m.behaviour[a.spec.Action.Ref]
	draw := a.drawStream().Duration
	if b.TakesLog {
		draw = a.drawStream().LogDuration
	}
	takes := draw(b.TakesMin, b.TakesMax)
	exit := worker.Exit{}
	if a.drawStream().Chance(b.FailPerMillion) {
		exit = a.drawFailure(&b)
	}
	a.armTimer(takes, func() { a.endRun(exit) })
	if m.shimless {
		return
	}
	now := a.owner.Clock().Monotonic()
	a.armTimer(nonNegative(a.spec.Limit-now), a.killed)
	a.setFence(a.spec.Fence - now)
}

// drawFailure draws how the action fails: with an exit code if the scenario names one or one stands for the
// reason, else with a reason in words. The core maps the exit code to a reason, as its runner of subprocesses
// does.
func (a *action) drawFailure(b *Behaviour) worker.Exit {
	code := oracle.ExitCodeOf(b.FailReason)
	if n := len(b.FailCodes); n > 0 {
		code = b.FailCodes[a.drawStream().Uint64N(uint64(n))]
	}
	if code == 0 {
		a.failed = b.FailReason
		exit := worker.Exit{Reason: b.FailReason, Message: "the action says: " + b.FailReason.String()}
		if b.FailReason == execution.Unknown {
			exit.Message = "" // the action reports no message
		}
		return exit
	}
	a.failed = oracle.ReasonOf(code, b.Retried)
	return worker.Exit{Reason: worker.ReasonOf(code, a.spec.Action.RetriedExitCodes), Code: code, Message: "exit status " + strconv.Itoa(code)}
}

func (a *action) setFence(in time.Duration) {
	a.fence.Stop()
	a.fence = a.armTimer(nonNegative(in), a.killed)
}

func (a *action) armTimer(d time.Duration, fn func()) kernel.Timer {
	return a.m.ground.AfterMonotonic(d, fn)
}

func (a *action) endRun(exit worker.Exit) {
	if a.ended {
		return
	}
	m := a.m
	a.ended, a.exit = true, exit
	for i := range m.actions {
		if m.actions[i] == a {
			m.actions = append(m.actions[:i], m.actions[i+1:]...)
			break
		}
	}
	a.fence.Stop()
	a.timed.a = nil
	to, why := execution.Completed, execution.NoReason
	switch {
	case exit.Killed:
		to = execution.Cancelled
	case a.failed != execution.NoReason:
		to, why = execution.Failed, a.failed
	}
	a.emitEvent(history.ActionEnded, to, why, exit.Code)
	a.strand = m.k.Strand()
	a.wait.Done()
}

func (a *action) emitEvent(kind history.Kind, to execution.Status, reason execution.Reason, code int) {
	m := a.m
	m.event = history.Event{
		At: m.k.Now(), Step: m.k.Step(), Kind: kind, Process: a.owner.Name(), Execution: a.spec.Key.ID, Epoch: a.spec.Key.Epoch,
		Worker: a.spec.Worker.ID, Incarnation: a.spec.Worker.Incarnation, To: to, Reason: reason, Count: int64(code),
	}
	m.sink.Observe(&m.event)
}

// reportEndRequest reports the worker's request to end the action.
func (a *action) reportEndRequest(grace time.Duration) {
	m := a.m
	m.event = history.Event{
		At: m.k.Now(), Step: m.k.Step(), Kind: history.EndAsked, Process: a.owner.Name(), Execution: a.spec.Key.ID, Epoch: a.spec.Key.Epoch,
		Worker: a.spec.Worker.ID, Incarnation: a.spec.Worker.Incarnation, Due: grace,
	}
	m.sink.Observe(&m.event)
}

// Wait implements worker.Run.
func (a *action) Wait(ctx context.Context) (worker.Exit, error) {
	a.m.k.CheckAlive()
	a.m.k.Point()
	if a.ended {
		a.m.k.Meet(a.strand)
		return a.exit, nil
	}
	a.wait = a.m.k.NewWait()
	if err := a.wait.Await(ctx); err != nil {
		return worker.Exit{}, err
	}
	return a.exit, nil
}

// Kill implements worker.Run.
func (a *action) Kill(grace time.Duration) {
	a.m.k.CheckAlive()
	if !a.ended {
		a.reportEndRequest(grace)
	}
	if grace > 0 && a.drawStream().Chance(ignoresTerm) {
		a.armTimer(grace, a.killed)
		return
	}
	a.armTimer(a.drawStream().Duration(0, min(grace, obeyMax)), a.killed)
}

// Extend implements worker.Run.
func (a *action) Extend(fence time.Duration) {
	a.m.k.CheckAlive()
	if !a.ended && !a.m.shimless {
		a.setFence(fence - a.owner.Clock().Monotonic())
	}
}

// nonNegative returns d, or zero if d is negative.
func nonNegative(d time.Duration) time.Duration { return max(0, d) }
