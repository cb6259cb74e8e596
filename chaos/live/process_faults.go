package live

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/netproxy"
	"handoff/core/store"
)

// This file holds the live world's faults of processes, links and machines (fault.Live).

var _ fault.Live = (*world)(nil)

// Process implements fault.Processes.
func (w *world) Process(name string) fault.Process {
	if p := w.findProcess(name); p != nil {
		return p
	}
	return nil
}

// Name implements fault.Process.
func (p *process) Name() string { return p.name }

// Alive implements fault.Process.
func (p *process) Alive() bool { return p.isAlive() }

// Start implements fault.Process. It does nothing once the run is over.
func (p *process) Start() {
	if p.w.ctx.Err() != nil {
		return
	}
	if err := p.start(); err != nil {
		p.w.failRun(err.Error())
	}
}

// Terminate implements fault.Process.
func (p *process) Terminate() {
	if !p.isAlive() {
		return
	}
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.w.recordEvent(history.Event{Kind: history.ProcessStopping, Process: p.name})
	p.daemon.Instance().Terminate()
}

// Kill implements fault.Process.
func (p *process) Kill() {
	if !p.isAlive() {
		return
	}
	p.mu.Lock()
	p.killing = true
	p.mu.Unlock()
	p.daemon.Instance().Kill()
}

// OnEnd implements fault.Process. If the process has ended already, f is called soon, in another goroutine.
func (p *process) OnEnd(f func()) {
	p.mu.Lock()
	ended := p.gone != nil && p.gone == p.daemon.Instance()
	if !ended {
		p.ended = f
	}
	p.mu.Unlock()
	if ended {
		p.w.callAfter(0, f)
	}
}

// instance identifies one instance of a process.
type instance struct {
	p       *process
	running cluster.Instance
}

// Instance implements fault.Process.
func (p *process) Instance() fault.Instance {
	running := p.daemon.Instance()
	if running == nil {
		return nil
	}
	return instance{p, running}
}

// Alive implements fault.Instance.
func (i instance) Alive() bool { return i.running.Running() }

// Pause implements fault.Instance.
func (i instance) Pause() {
	i.running.Pause()
	i.p.pauses.Add(1)
}

// Resume implements fault.Instance.
func (i instance) Resume() {
	i.p.pauses.Add(-1)
	if i.running.Running() {
		i.running.Resume()
	}
}

// Twin implements fault.Twins. The worker whose name it takes ends by itself.
func (w *world) Twin(name, worker string) (fault.Process, error) {
	original := w.findProcess(worker)
	original.mu.Lock()
	original.superseded = true
	original.mu.Unlock()
	twin := &process{w: w, name: name, spec: original.spec}
	if err := w.addProcesses(twin); err != nil {
		return nil, err
	}
	twin.followWitness()
	return twin, nil
}

// Affect implements fault.Links.
func (w *world) Affect(x *fault.Injection, process, end string, way fault.Direction, e fault.Effect) (func(), error) {
	l := w.findProcess(process).links[end]
	if l == nil {
		return func() {}, nil
	}
	out, in := netproxy.Out, netproxy.In
	if end == fault.Executors {
		out, in = in, out // the worker is the server of that link
	}
	effect := netproxy.Effect{Touch: func() { x.Touch(fault.Touched{Process: process}) }}
	switch {
	case e.Silence:
		effect.Silence = true
	case e.Cut:
		effect.Hold = true
	case e.ResetPerMillion > 0:
		effect.Break = func() bool { return x.Chance(e.ResetPerMillion) }
	case e.Busy != fault.Span{}:
		effect.Each = drawDelays(x, e.Busy)
	default:
		effect.Delay = drawDelays(x, e.Delay)
	}
	var heal []func()
	if way != fault.Incoming {
		heal = append(heal, l.Begin(out, effect))
	}
	if way != fault.Outgoing {
		heal = append(heal, l.Begin(in, effect))
	}
	return fault.InOrder(heal), nil
}

// drawDelays returns a function that draws a delay for each piece of data.
func drawDelays(x *fault.Injection, s fault.Span) func() time.Duration {
	return func() time.Duration { return x.Duration(s.Least, s.Most) }
}

// SlowDatabase implements fault.DatabaseSlow. It slows every link to the database, because a client
// can't distinguish a slow statement from a slow network.
func (w *world) SlowDatabase(x *fault.Injection, adds fault.Span) (func(), error) {
	var ends []func()
	for _, p := range w.allProcesses() {
		e := netproxy.Effect{Touch: func() { x.Touch(fault.Touched{Process: p.name}) }, Delay: drawDelays(x, adds)}
		ends = append(ends, p.links[fault.Database].Begin(netproxy.Out, e))
	}
	return fault.InOrder(ends), nil
}

// HangDatabase implements fault.DatabaseHanging. Until the end, the proxies accept connections and statements
// but forward nothing in either direction. Statements that a daemon has abandoned meanwhile still arrive, late.
func (w *world) HangDatabase(x *fault.Injection) (func(), error) {
	var ends []func()
	for _, p := range w.allProcesses() {
		e := netproxy.Effect{Touch: func() { x.Touch(fault.Touched{Process: p.name}) }, Hold: true}
		l := p.links[fault.Database]
		ends = append(ends, l.Begin(netproxy.Out, e), l.Begin(netproxy.In, e))
	}
	return fault.InOrder(ends), nil
}

// Deafen implements fault.Deafness: it holds back the broker's deliveries. AMQP and database heartbeats and
// everything that the worker sends still pass, so the worker can't detect it.
func (w *world) Deafen(x *fault.Injection) (func(), error) {
	for _, name := range x.Targets {
		w.findProcess(name).deaf.Store(x)
	}
	return func() {
		for _, name := range x.Targets {
			w.findProcess(name).deaf.CompareAndSwap(x, nil)
		}
	}, nil
}

// isDeaf reports whether the process is deaf now, and if so, touches the fault.
func (p *process) isDeaf() bool {
	x := p.deaf.Load()
	if x != nil {
		x.Touch(fault.Touched{Process: p.name})
	}
	return x != nil
}

// Mute implements fault.Muteness: the database refuses the workers' heartbeats but accepts all
// their other statements. A sequence counts the refusals, because a rollback doesn't undo it.
func (w *world) Mute(x *fault.Injection) (func(), error) {
	var names []string
	for _, name := range x.Targets {
		names = append(names, quoteLiteral(name))
	}
	mute := fmt.Sprintf("chaos_mute_%d", x.Index)
	begin := []string{
		"create sequence " + mute,
		fmt.Sprintf(`create function %[1]s() returns trigger language plpgsql as $$
begin
    if current_setting('application_name') in (%[2]s) then
        perform nextval('%[1]s');
        raise exception 'the worker is mute' using errcode = 'io_error';
    end if;
    return new;
end
$$`, mute, strings.Join(names, ", ")),
		fmt.Sprintf("create trigger %[1]s before update on worker_incarnation for each row when (old.beat <> new.beat) execute function %[1]s()", mute),
	}
	if err := w.execSQL(begin...); err != nil {
		return nil, err
	}
	return func() {
		refused, err := w.isSequenceUsed(mute)
		if err != nil {
			x.Fail(fmt.Errorf("counting refused heartbeats: %w", err))
		}
		if refused {
			x.Touch(fault.Touched{})
		}
		x.Fail(w.execSQL(fmt.Sprintf("drop trigger %s on worker_incarnation", mute), "drop function "+mute, "drop sequence "+mute))
	}, nil
}

// Sicken implements fault.Sickness: it makes each worker's own program, by which the worker starts every
// action, non-executable.
func (w *world) Sicken(x *fault.Injection) (func(), error) {
	set := func(sick bool) error {
		for _, name := range x.Targets {
			if err := w.findProcess(name).setSick(sick); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set(true); err != nil {
		return nil, err
	}
	return func() { x.Fail(set(false)) }, nil
}

// copyProgram copies a program to an executable file.
func copyProgram(from, to string) error {
	program, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, runnable)
}

// The modes of an executable program, and of one that even root can't execute.
const (
	runnable    = 0o755
	notRunnable = 0o644
)

func (p *process) setSick(sick bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sick = sick
	if sick {
		return os.Chmod(p.binary, notRunnable)
	}
	return os.Chmod(p.binary, runnable)
}

// launchDaemon starts the daemon, even while a fault keeps its copy of the program non-executable.
func (p *process) launchDaemon() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.sick {
		return p.daemon.Launch()
	}
	if err := os.Chmod(p.binary, runnable); err != nil {
		return err
	}
	err := p.daemon.Launch()
	if failed := os.Chmod(p.binary, notRunnable); err == nil {
		err = failed
	}
	return err
}

// Cordon implements fault.Fleet, with the same effect as a request to the API. It returns false for a worker
// that has never registered.
func (w *world) Cordon(x *fault.Injection, worker string, on, drain bool) bool {
	if p := w.findProcess(worker); drain {
		p.mu.Lock()
		p.stopping = true // the worker stops because of the drain, not because of a failure
		p.mu.Unlock()
	}
	c := store.Cordon{Worker: w.database.WorkerID(worker), On: on, Drain: drain}
	if c.Worker == 0 {
		return false
	}
	if on {
		c.Reason = x.Name
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.config.Executor.StatementTimeout)
	defer cancel()
	done, err := w.store.SetCordon(ctx, c)
	if err != nil && w.ctx.Err() == nil {
		x.Fail(fmt.Errorf("an operator's act was refused: %w", err))
	}
	return done && err == nil
}
