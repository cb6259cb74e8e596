// Package sim runs a scenario in the simulated world: the real executor and worker code over models
// of database, broker, network and machines, inside one deterministic kernel.
//
// A run is a function of the scenario, the profile and the choices. All events go to one history.
// It is hashed and judged by the invariants, and kept only on request.
package sim

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"handoff/chaos/figures"
	"handoff/chaos/history"
	"handoff/chaos/hook"
	"handoff/chaos/invariant"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/executor"
	"handoff/core/store/metered"
	"handoff/core/telemetry"
	"handoff/core/worker"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simcalls"
	"handoff/sim/simhost"
	"handoff/sim/simnet"
	"handoff/sim/simstore"
	"handoff/sim/woven"
)

// client is the name of the process that submits the workload.
const client = "client"

// world is one run.
type world struct {
	scenario *scenario.Scenario
	profile  config.Profile
	config   config.Config
	mutant   *hook.Mutant // nil for none
	options  Options

	k      *kernel.Kernel
	net    *simnet.Network
	db     *simstore.Database
	broker *simbroker.Broker

	history history.Tee
	judges  *run.Judges
	log     *slog.Logger
	witness *witness // nil if no rule needs what it reports
	event   history.Event

	processes []*process                   // in a fixed order: executors, workers, then twins in the order of their creation
	behaviour map[string]simhost.Behaviour // by the ref of the action
	injector  *run.Injector
	// alarm names the fault that raised the broker's latest alarm.
	alarm  string
	alerts *run.Alerts // nil if the scenario expects none
	// figures judges the metrics that processes report; nil if they are not recorded.
	figures  *figures.Judge
	workload *run.Workload
	// paused reports whether Options.PauseAt was reached, and enough whether Options.Until returned true.
	paused, enough bool
}

// process is one process of the cluster, across its restarts.
type process struct {
	w       *world
	name    string
	worker  *scenario.Worker // nil for executors and the client
	machine *simhost.Machine // of a worker

	current *kernel.Process
	stop    context.CancelFunc
	// ended is called at the next end of the process.
	ended func()
	// pulse is the source of the worker's health endpoint.
	pulse *worker.Pulse
	// calls judges the worker's calls and their answers; nil if they are not judged.
	calls *invariant.Calls
	// gray holds the gray failures of the process.
	gray grayFailures
}

// seedHash returns a number that depends only on the seed and the names.
func seedHash(seed uint64, names ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, names)
	return h.Sum64()
}

func newWorld(s *scenario.Scenario, p config.Profile, o Options) *world {
	w := &world{scenario: s, profile: p, config: s.Config(p), mutant: o.Mutant, options: o}
	w.judges = run.NewJudges(s, p, w.config, o.keptInvariants(s.Expect(p).Invariants))
	w.judges.Suite.SetWork(w)
	if o.EachExecution {
		w.judges.Suite.EachExecution()
	}
	var meet func(a, b kernel.Strand) kernel.Strand
	causes, explained := o.Record.(*Causes)
	if explained {
		meet = causes.joinStrands
	}
	w.k = kernel.New(kernel.Options{
		Chooser: o.chooserOrRandom(), MaxSteps: o.maxSteps(), StepsAtOnce: w.stepsAtOnce, Interrupted: w.isInterrupted, CrashAt: o.CrashAt, PauseAt: w.pausePoint(), Meet: meet,
	})
	if explained {
		causes.k = w.k
	}
	w.judges.Suite.SetClock(func() (uint64, time.Duration) { return w.k.Step(), w.k.Now() })
	w.net = simnet.New(w.k)
	w.history = history.Tee{w.judges}
	w.db = simstore.New(w.k, w.net, w)
	w.broker = simbroker.New(w.k, w.net, w, simbroker.Options{
		Version: s.Cluster.RabbitMQ, Sample: seedHash(o.Seed, s.Name, string(p)),
	})
	w.broker.OnGivenUp(func(process string) { w.judges.Suite.GivenUp(process, w.k.Now()) })
	w.witness = newWitness(w.k, w.judges.Suite.Conduct())
	if w.witness != nil {
		w.db.OnAnswer(w.witness.reportCall)
		w.db.OnNothing(w.witness.reportEmptyCall)
	}
	w.log = w.witness.newLogger(slog.DiscardHandler)
	if o.Record != nil {
		w.history = append(w.history, o.Record)
		w.log = w.witness.newLogger(&logHandler{w: w})
	}
	w.judges.Suite.ExpectRewinds(w.rewindCount(), func() bool { s := state{w}; return !s.Unfinished() && !s.Messages() && !s.Actions() })
	w.injector = run.NewInjector(run.InjectorOptions{
		Scenario: s, Config: w.config, World: w, Clock: clock{w.k}, Emit: w.emitEvent, Workers: w.db.WorkerName, Without: o.Without, LeaveOut: o.LeaveOut,
		Draws: func(label string) run.Draws { return w.k.Stream(label) },
		Fail:  func(err error) { panic(err) },
	})
	// A run waits for its alerts until its horizon, because virtual time costs nothing.
	w.alerts = run.NewAlerts(s.Expect(p).Alerts, run.AlertsOptions{Clock: clock{w.k}, Every: telemetry.SampleInterval, Emit: w.emitEvent})
	if w.alerts.Evaluator() != nil {
		w.figures = figures.New(w.config, w.k.Now)
		w.history = append(w.history, w.figures)
	}
	return w
}

// rewindCount returns how many times the scenario may make the database lose its latest writes.
func (w *world) rewindCount() (n int) {
	for i := range w.scenario.Faults {
		if w.scenario.Faults[i].Kind.Rewinds() {
			n++
		}
	}
	return n
}

// pausePoint returns Options.PauseAt in the kernel's form. The history shows the pause as a fault, which
// hinders an executor if it pauses one.
func (w *world) pausePoint() *kernel.PausePoint {
	at := w.options.PauseAt
	if at == nil {
		return nil
	}
	return &kernel.PausePoint{Process: at.Process, N: at.N, Do: func(p *kernel.Process) {
		const fault = "pause at a yield point"
		hinders := int64(0)
		if known := w.findProcess(at.Process); known == nil || known.worker == nil {
			hinders = 1
		}
		w.paused = true
		release := w.injector.Hold()
		w.emitEvent(history.Event{Kind: history.FaultBegan, Fault: fault, Text: "pause", Count: hinders, Process: at.Process})
		w.emitEvent(history.Event{Kind: history.ProcessPaused, Process: at.Process})
		w.k.After(at.For, func() {
			if p.Alive() {
				p.Resume()
				w.emitEvent(history.Event{Kind: history.ProcessResumed, Process: at.Process})
			}
			w.emitEvent(history.Event{Kind: history.FaultEnded, Fault: fault, Text: "pause", Count: hinders, Process: at.Process})
			release()
		})
		p.Pause()
	}}
}

// Observe implements history.Sink. Every event passes through it once.
func (w *world) Observe(e *history.Event) {
	w.history.Observe(e)
	w.injector.Observe(e)
}

// A run may make stepsAtOnce steps at the same virtual time, plus stepsAtOnceForExecution for each unfinished
// execution. So it allows bursts but no loop that never waits.
const (
	stepsAtOnce             = 200_000
	stepsAtOnceForExecution = 100
)

func (w *world) stepsAtOnce() uint64 {
	return stepsAtOnce + stepsAtOnceForExecution*uint64(w.db.Unfinished())
}

// Statements implements invariant.Work.
func (w *world) Statements(visit func(process string, worker bool, made uint64)) {
	for _, p := range w.processes {
		visit(p.name, p.worker != nil, w.db.Statements(p.name))
	}
}

// Idle implements invariant.Queues.
func (w *world) Idle(queue string) bool { return w.broker.QueueIdle(queue) }

// Connections implements invariant.Connections.
func (w *world) Connections(visit func(process string, worker bool, made uint64)) {
	for _, p := range w.processes {
		visit(p.name, p.worker != nil, w.broker.Connects(p.name))
	}
}

func (w *world) emitEvent(e history.Event) {
	w.event = e
	w.event.At, w.event.Step = w.k.Now(), w.k.Step()
	w.Observe(&w.event)
}

// startCluster starts the cluster and arms workload and faults.
func (w *world) startCluster() {
	for _, name := range w.scenario.Cluster.ExecutorNames() {
		w.processes = append(w.processes, &process{w: w, name: name})
	}
	w.behaviour = make(map[string]simhost.Behaviour, len(w.scenario.Actions))
	for _, a := range w.scenario.Actions {
		w.behaviour[a.Ref] = simhost.Behaviour{
			TakesMin: a.TakesMin, TakesMax: a.TakesMax, TakesLog: a.TakesLog, FailPerMillion: a.FailPerMillion, FailReason: a.FailReason,
			FailCodes: a.FailCodes, Retried: a.Retried,
		}
	}
	for i := range w.scenario.Cluster.Workers {
		spec := &w.scenario.Cluster.Workers[i]
		w.addWorker(spec.Name, spec)
	}
	w.net.OnTouch(w.recordTouch)
	for _, p := range w.processes {
		if p.worker != nil && p.worker.Starts > 0 {
			w.k.After(p.worker.Starts, p.start)
			continue
		}
		p.start()
	}
	w.startClient()
	w.injector.Arm()
	w.alerts.Sample()
}

// addWorker adds a process with this name, on its own machine, that registers as a worker.
func (w *world) addWorker(name string, spec *scenario.Worker) *process {
	machine := simhost.NewMachine(w.k, name, w.behaviour, w)
	p := &process{w: w, name: name, worker: spec, machine: machine}
	w.processes = append(w.processes, p)
	return p
}

// findProcess returns the process with this name, or nil if there is none.
func (w *world) findProcess(name string) *process {
	for _, p := range w.processes {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (p *process) isAlive() bool { return p.current != nil && p.current.Alive() }

// start starts or restarts the process.
func (p *process) start() {
	if p.isAlive() {
		return
	}
	w := p.w
	p.current, p.pulse = w.k.NewProcess(p.name), nil
	w.emitEvent(history.Event{Kind: history.ProcessStarted, Process: p.name})
	p.current.OnEnd(p.handleEnd)
	run := p.runExecutor
	if p.worker != nil {
		run = p.runWorker
	}
	p.current.Go("main", run)
}

func (p *process) handleEnd(why kernel.EndReason) {
	kind := history.ProcessStopped
	if why == kernel.Crashed {
		kind = history.ProcessCrashed
	}
	p.stop = nil
	if evaluator := p.w.alerts.Evaluator(); evaluator != nil {
		evaluator.Ended(p.name)
	}
	p.w.emitEvent(history.Event{Kind: kind, Process: p.name})
	if ended := p.ended; ended != nil {
		p.ended = nil
		ended()
	}
	if why == kernel.Crashed && p.w.options.CrashAt != nil && p.name == p.w.options.CrashAt.Process {
		p.w.k.After(sweepRestart, p.start)
	}
}

// sweepRestart is how long after its crash a crash sweep restarts the process: soon enough that the
// leftovers of the crash still exist.
const sweepRestart = 3 * time.Second

// crash ends the process immediately.
func (p *process) crash() {
	if p.isAlive() {
		p.current.Crash()
	}
}

// terminate asks the process to stop gracefully.
func (p *process) terminate() {
	if p.isAlive() && p.stop != nil {
		p.w.emitEvent(history.Event{Kind: history.ProcessStopping, Process: p.name})
		p.stop()
	}
}

// effectiveConfig returns the run's configuration with the process's own overrides.
func (p *process) effectiveConfig() config.Config {
	c := p.w.config
	if p.worker != nil && p.worker.Concurrency > 0 {
		c.Worker.Concurrency = p.worker.Concurrency
	}
	return c
}

func (p *process) runExecutor() {
	w, c, h := p.w, p.effectiveConfig(), simhost.New(p.w.k, p.current)
	ctx, stop := h.WithCancel(context.Background())
	p.stop = stop
	ports := w.plantMutant(hook.Process{Name: p.name}, w.db.Client(p.current), hook.Ports{
		Config: &c, Broker: w.witness.wrapBroker(p.name, w.broker.Client(p.current, c.MessageQueue.RabbitMQ.Heartbeat)), Host: w.witness.wrapHost(p, h),
		Log: w.log,
	})
	service := executor.New(executor.Options{
		Name: p.name, Host: ports.Host, Config: c, Log: ports.Log, Recorder: ports.Recorder, Topology: ports.Executors,
		Store:  metered.Executor(ports.Store, ports.Recorder),
		Broker: ports.Broker,
		Prober: &prober{w, p.current, h},
	})
	if !woven.Built {
		// In a woven build, the kernel could switch tasks between a finding and the metric that reports it.
		w.figures.Ask(p.name, service)
	}
	service.Run(ctx)
	w.witness.reportTaskEnd()
}

func (p *process) runWorker() {
	w, c, h := p.w, p.effectiveConfig(), simhost.New(p.w.k, p.current)
	if ground := p.machine.Ground(); ground.Frozen() {
		// The crash of a frozen process has thawed its machine (kernel.Process.Crash); the actions
		// are on the same machine.
		ground.Thaw()
	}
	ctx, stop := h.WithCancel(context.Background())
	p.stop = stop
	ports := w.plantMutant(hook.Process{Name: p.name, Worker: true}, w.db.Client(p.current), hook.Ports{
		Config: &c, Broker: w.witness.wrapBroker(p.name, w.broker.Client(p.current, c.MessageQueue.RabbitMQ.Heartbeat)), Host: w.witness.wrapHost(p, h), Machine: p.machine,
	})
	p.pulse = worker.NewPulse(h, c.Worker.Lease())
	var messages broker.Broker = &deafBroker{ports.Broker, p, h}
	runner := p.machine.Runner(p.current)
	if p.calls != nil {
		messages, runner = simcalls.Broker(messages, h, p.calls), simcalls.Runner(runner, h, p.calls)
	}
	// A superseded worker logs the error with which it exits, so it is not logged here.
	_ = worker.New(worker.Options{
		Name: p.worker.Name, Runtimes: p.worker.Runtimes, HealthURL: healthScheme + p.name + readyPath,
		Host: ports.Host, Config: c, Log: w.log, Recorder: ports.Recorder, Topology: ports.Workers,
		Store:  p.pulse.Watch(metered.Worker(&muteStore{ports.Store, p}, ports.Recorder)),
		Broker: messages,
		Runner: runner,
	}).Run(ctx)
	w.witness.reportTaskEnd()
}
