// Package manual injects faults into a running system by hand, one at a time, in the syntax of scenarios. It
// acts on processes through their supervisor, and on links through toxiproxy's own client. It records and
// judges nothing; the audit shows the consequences.
package manual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/core/execution"
)

// Supervisor starts and ends the processes of a running system.
type Supervisor interface {
	// Processes lists the processes.
	Processes(ctx context.Context) ([]cluster.Named, error)
	// Do performs an act on a process, or on a server (fault.Broker or fault.Database).
	Do(ctx context.Context, name string, act cluster.Act) error
	// Mend starts every server and process that is down, and resumes those that are paused. It tries all of
	// them and joins the errors.
	Mend(ctx context.Context) error
}

// System is a running system.
type System struct {
	Supervisor Supervisor
	// Toxiproxy is the address of toxiproxy's API, HOST:PORT. Its proxies are named PROCESS.SERVER.
	Toxiproxy string
}

// Parse reads a fault in the syntax of a scenario, without its start time, for a system with these processes:
// `pause: worker-1, for: 20s`.
func Parse(text string, processes []cluster.Named) (*scenario.Scenario, *scenario.Fault, error) {
	var executors int
	var workers []string
	for _, p := range processes {
		if p.Worker {
			workers = append(workers, p.Name+": {runtimes: [shell]}")
		} else {
			executors++
		}
	}
	file := fmt.Sprintf(`name: by-hand
about: One fault by hand.
cluster: {executors: %d, workers: {%s}}
profile: hardened
actions: {core.echo: {runtime: shell, takes: 1s}}
workload: [{action: core.echo, count: 1}]
expect: {invariants: all}
faults: [{when: {at: 0s}, %s}]
`, executors, strings.Join(workers, ", "), text)
	s, err := scenario.Parse("FAULT", []byte(file))
	if err != nil {
		return nil, nil, err
	}
	if len(s.Faults) != 1 {
		return nil, nil, errors.New("one fault at a time")
	}
	f := &s.Faults[0]
	if why := f.Kind.Lacks(reflect.TypeFor[*world]()); why != "" {
		return nil, nil, fmt.Errorf("%s can't be brought about by hand: %s; what can: %s", f.Kind.Name, why, strings.Join(Kinds(), ", "))
	}
	return s, f, nil
}

// Kinds lists the faults that can be injected by hand, in the syntax of scenarios. These need only processes,
// links, and servers that can be stopped.
func Kinds() (names []string) {
	for _, k := range fault.Kinds() {
		if k.Lacks(reflect.TypeFor[*world]()) == "" {
			name := k.Name
			if k.Under != "" {
				name = k.Under + ": " + k.As
			}
			names = append(names, name)
		}
	}
	return names
}

// Break injects a fault, and ends it when its duration is over or ctx ends. It calls say for each step.
func (sy *System) Break(ctx context.Context, s *scenario.Scenario, f *scenario.Fault, say func(string)) error {
	names := s.Cluster.Names()
	w := &world{
		system: sy, ctx: context.WithoutCancel(ctx), processes: make(map[string]*process), began: time.Now(),
		names: slices.Concat(names.Executors, names.Workers),
	}
	var struck string
	injector := run.NewInjector(run.InjectorOptions{
		Scenario: s, Config: s.Config(s.Profiles[0]), World: w, Clock: w,
		Draws:   func(string) run.Draws { return chanceDraws{} },
		Workers: func(execution.WorkerID) string { return "" },
		Fail:    func(err error) { w.failed = errors.Join(w.failed, err) },
		Emit: func(e history.Event) {
			if e.Kind == history.FaultBegan {
				struck = e.Process
			}
		},
	})
	injector.Arm()
	w.runNextTimer(ctx) // the fault begins
	if w.failed == nil {
		say(fmt.Sprintf("%s: %s", f.Kind.Name, strings.ReplaceAll(struck, ",", ", ")))
		if lasts := max(f.For, f.RestartAfter); lasts > 0 {
			say(fmt.Sprintf("it ends in %v, or with Ctrl-C", lasts))
		}
	}
	later := len(w.due) > 0
	for len(w.due) > 0 {
		w.runNextTimer(ctx)
	}
	if w.failed == nil && later {
		say("it is over")
	}
	return w.failed
}

// world gives faults access to a running system: its processes, links and servers. Everything runs in one
// task, which waits for the next timer.
type world struct {
	system *System
	names  []string // of all processes
	//nolint:containedctx // of one fault; it outlives an interrupt, so that the fault can be ended
	ctx       context.Context
	processes map[string]*process
	began     time.Time
	due       []timer
	failed    error
}

var (
	_ fault.Processes = (*world)(nil)
	_ fault.Links     = (*world)(nil)
	_ run.Clock       = (*world)(nil)
)

// timer is a call that is due at a given time since the start of the fault.
type timer struct {
	at time.Duration
	do func()
}

// Now implements run.Clock.
func (w *world) Now() time.Duration { return time.Since(w.began) }

// After implements run.Clock.
func (w *world) After(d time.Duration, f func()) {
	w.due = append(w.due, timer{w.Now() + d, f})
	slices.SortStableFunc(w.due, func(a, b timer) int { return cmp.Compare(a.at, b.at) })
}

// runNextTimer makes the next call when it is due, or at once if ctx has ended.
func (w *world) runNextTimer(ctx context.Context) {
	next := w.due[0]
	w.due = w.due[1:]
	select {
	case <-ctx.Done():
	case <-time.After(next.at - w.Now()):
	}
	next.do()
}

// actWithin limits a request to a supervisor.
const actWithin = 10 * time.Second

// actTimeout returns the timeout for an act on a process or a server.
func actTimeout(name string) time.Duration {
	if isServer(name) {
		return serverWithin
	}
	return actWithin
}

// actOrFail makes the supervisor act on a process or a server, and adds any error to the fault's errors.
func (w *world) actOrFail(name string, act cluster.Act) {
	w.failed = errors.Join(w.failed, w.tryAct(name, act))
}

func (w *world) tryAct(name string, act cluster.Act) error {
	ctx, cancel := context.WithTimeout(w.ctx, actTimeout(name))
	defer cancel()
	if err := w.system.Supervisor.Do(ctx, name, act); err != nil {
		return fmt.Errorf("%s %s: %w", act, name, err)
	}
	return nil
}

// Process implements fault.Processes. It assumes, without a check, that a process is alive until this fault
// ends it.
func (w *world) Process(name string) fault.Process {
	p := w.processes[name]
	if p == nil {
		p = &process{w: w, name: name, alive: true}
		w.processes[name] = p
	}
	return p
}

// process is a process of the system.
type process struct {
	w     *world
	name  string
	alive bool
	ended func()
	// starts counts how often this fault has started the process; the count identifies an instance.
	starts int
}

// Name implements fault.Process.
func (p *process) Name() string { return p.name }

// Alive implements fault.Process.
func (p *process) Alive() bool { return p.alive }

// Start implements fault.Process.
func (p *process) Start() {
	if !p.alive {
		p.alive = true
		p.starts++
		p.w.actOrFail(p.name, cluster.Start)
	}
}

// Terminate implements fault.Process. The supervisor answers when the process has stopped.
func (p *process) Terminate() { p.endBy(cluster.Stop) }

// Kill implements fault.Process.
func (p *process) Kill() { p.endBy(cluster.Crash) }

func (p *process) endBy(act cluster.Act) {
	if !p.alive {
		return
	}
	p.alive = false
	p.w.actOrFail(p.name, act)
	if ended := p.ended; ended != nil {
		p.ended = nil
		p.w.After(0, ended)
	}
}

// OnEnd implements fault.Process.
func (p *process) OnEnd(f func()) { p.ended = f }

// instance identifies one instance of a process.
type instance struct {
	p      *process
	starts int
}

// Instance implements fault.Process.
func (p *process) Instance() fault.Instance { return instance{p, p.starts} }

// Alive implements fault.Instance.
func (i instance) Alive() bool { return i.p.alive && i.p.starts == i.starts }

// Pause implements fault.Instance.
func (i instance) Pause() { i.p.w.actOrFail(i.p.name, cluster.Pause) }

// Resume implements fault.Instance.
func (i instance) Resume() { i.p.w.actOrFail(i.p.name, cluster.Resume) }

// Affect implements fault.Links: it adds a toxic to every affected direction of the link.
func (w *world) Affect(_ *fault.Injection, process, end string, way fault.Direction, e fault.Effect) (func(), error) {
	proxy, err := toxiproxy.NewClient(w.system.Toxiproxy).Proxy(process + "." + end)
	if err != nil {
		return nil, onLink(process, end, err)
	}
	var placed []string
	heal := func() {
		for _, name := range placed {
			if err := proxy.RemoveToxic(name); err != nil && !isGone(err) {
				w.failed = errors.Join(w.failed, fmt.Errorf("ending the fault: %w", onLink(process, end, err)))
			}
		}
	}
	kind, toxicity, attributes := toxicFor(e)
	for _, stream := range toxicStreams(way, end) {
		name := "by-hand-" + stream
		if _, err := proxy.AddToxic(name, kind, stream, toxicity, attributes); err != nil {
			heal()
			if isTaken(err) {
				err = errUndo
			}
			return nil, onLink(process, end, err)
		}
		placed = append(placed, name)
	}
	return heal, nil
}

// toxicFor returns toxiproxy's toxic for an effect. toxicity is the probability for a connection, 1 except
// for resets. A timeout of 0 blocks all data. Its removal closes the connections, because bytes were lost. A
// slicer makes the link wait after each piece.
func toxicFor(e fault.Effect) (kind string, toxicity float32, attributes toxiproxy.Attributes) {
	middle := func(s fault.Span) time.Duration { return (s.Least + s.Most) / 2 }
	switch {
	case e.ResetPerMillion > 0:
		return "reset_peer", float32(e.ResetPerMillion) / 1_000_000, toxiproxy.Attributes{"timeout": 0}
	case e.Busy != fault.Span{}:
		return "slicer", 1, toxiproxy.Attributes{"average_size": 1 << 15, "size_variation": 0, "delay": middle(e.Busy).Microseconds()}
	case e.Delay != fault.Span{}:
		m := middle(e.Delay)
		return "latency", 1, toxiproxy.Attributes{"latency": m.Milliseconds(), "jitter": (e.Delay.Most - m).Milliseconds()}
	default:
		return "timeout", 1, toxiproxy.Attributes{"timeout": 0}
	}
}

// chanceDraws draws without a seed, because manual faults don't have to be reproducible.
type chanceDraws struct{}

// Uint64N implements run.Draws.
func (chanceDraws) Uint64N(n uint64) uint64 { return rand.Uint64N(n) }

// Chance implements run.Draws.
func (chanceDraws) Chance(perMillion uint64) bool { return rand.Uint64N(1_000_000) < perMillion }

// Duration implements run.Draws.
func (chanceDraws) Duration(least, most time.Duration) time.Duration {
	return least + rand.N(most-least+1)
}

// LogDuration implements run.Draws.
func (c chanceDraws) LogDuration(least, most time.Duration) time.Duration {
	return c.Duration(least, most)
}

// toxicStreams returns toxiproxy's names for a direction, which is seen from the process. On the link to the
// executors, the process is the listener.
func toxicStreams(d fault.Direction, server string) []string {
	out, in := "upstream", "downstream"
	if server == fault.Executors {
		out, in = in, out
	}
	switch d {
	case fault.Outgoing:
		return []string{out}
	case fault.Incoming:
		return []string{in}
	default:
		return []string{out, in}
	}
}
