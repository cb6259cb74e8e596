package live

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/live/evidence"
	"handoff/chaos/live/provision"
	"handoff/chaos/live/wire"
	"handoff/core/config"
	"handoff/scenarios"
)

// process is one daemon of the cluster, across its restarts.
type process struct {
	w      *world
	name   string
	spec   *scenarios.Worker // nil for executors
	daemon *cluster.Daemon
	// witness is what the shims of a worker's machine write.
	witness *evidence.Witness
	// links are the ways to the servers, by the names that scenarios use.
	links map[string]*wire.Link

	mu       sync.Mutex
	stopping bool
	killing  bool
	// deaf is the fault that keeps back what the broker delivers to it, nil for none.
	deaf atomic.Pointer[injection]
	// binary is its own copy of the program, empty where no fault takes that from it.
	binary string
	sick   bool
	// superseded says that another process has taken its name: it ends by itself.
	superseded bool
	// ended is called at the next end of the process.
	ended func()
}

// makeProcesses makes what the scenario's cluster consists of.
func (w *world) makeProcesses() error {
	count := w.scenario.Cluster.Executors + len(w.scenario.Cluster.Workers)
	ports, err := provision.FreePorts(count)
	if err != nil {
		return err
	}
	for i, name := range w.scenario.Cluster.ExecutorNames() {
		if _, err := w.makeProcess(name, nil, ports[i]); err != nil {
			return err
		}
	}
	for i := range w.scenario.Cluster.Workers {
		spec := &w.scenario.Cluster.Workers[i]
		if _, err := w.makeProcess(spec.Name, spec, ports[w.scenario.Cluster.Executors+i]); err != nil {
			return err
		}
	}
	return nil
}

// makeProcess makes one process. A worker's name in the cluster is its spec's; the process may be called
// otherwise, as a twin is.
func (w *world) makeProcess(name string, spec *scenarios.Worker, port int) (*process, error) {
	p := &process{w: w, name: name, spec: spec, links: make(map[string]*wire.Link)}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	env, err := p.environment()
	if err != nil {
		return nil, err
	}
	var args []string
	program, file := "executor", strings.ReplaceAll(name, " ", "-")
	if spec == nil {
		args = []string{"--name", name, "--listen", address}
	} else {
		program = "worker"
		health, err := p.link(scenarios.Executors, address)
		if err != nil {
			return nil, err
		}
		args = append(args, "--name", spec.Name, "--health-listen", address, "--health-url", "http://"+health.Address+"/healthz",
			"--runtimes", strings.Join(spec.Runtimes, ","), "--actions-dir", w.folder)
		witness := filepath.Join(w.folder, "witness-"+file)
		env = append(env, "HANDOFF_WITNESS="+witness)
		p.witness = evidence.NewWitness(witness, name, w.began)
	}
	bin := w.lane.bin
	if w.options.Flaw != "" {
		args, bin = append(args, "--flaw", w.options.Flaw), filepath.Join(bin, Flawed)
	}
	path := filepath.Join(bin, program)
	if spec != nil && w.scenario.Strikes(scenarios.Sick, spec.Name) {
		p.binary = filepath.Join(w.folder, "worker-"+file)
		if err := copyProgram(path, p.binary); err != nil {
			return nil, fmt.Errorf("copying the worker's program: %w", err)
		}
		path = p.binary
	}
	p.daemon = cluster.NewDaemon(w.lane.servers, address, provision.Program{Name: w.label + "-" + file, Path: path, Args: args, Env: env})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.processes = append(slices.Clone(w.processes), p)
	return p, nil
}

// all are the processes so far.
func (w *world) all() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes
}

// followWitness hands over what the shims write, as they write it.
func (p *process) followWitness() {
	if p.witness != nil {
		go p.witness.Follow(p.w.ctx, p.w.observe)
	}
}

// alive is how many actions are alive.
func (w *world) alive() (n int) {
	for _, p := range w.all() {
		if p.witness != nil {
			n += p.witness.Alive()
		}
	}
	return n
}

// environment is what the daemon is started with: its configuration, and servers behind its own links.
func (p *process) environment() ([]string, error) {
	w := p.w
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + w.folder, "HANDOFF_LOG_FORMAT=json"}
	for _, server := range []struct{ name, url, variable, application string }{
		{scenarios.Database, w.db.URL, "HANDOFF_DATABASE_URL", p.name},
		{scenarios.Broker, w.mq.URL, "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL", ""},
	} {
		at, err := hostPort(server.url)
		if err != nil {
			return nil, err
		}
		link, err := p.link(server.name, at)
		if err != nil {
			return nil, err
		}
		if server.name == scenarios.Broker {
			w.tamper.watch(link)
			link.Rewrite(wire.In, func() wire.Rewriter { return wire.Deliveries(p.keepsBack) })
		}
		url, err := through(server.url, link.Address, server.application)
		if err != nil {
			return nil, err
		}
		env = append(env, server.variable+"="+url)
	}
	c := w.config
	if p.spec != nil && p.spec.Concurrency > 0 {
		c.Worker.Concurrency = p.spec.Concurrency
	}
	root := reflect.ValueOf(c)
	for _, l := range config.Leaves() {
		env = append(env, fmt.Sprintf("%s=%v", config.EnvName(l.Path), root.FieldByIndex(l.Index)))
	}
	return env, nil
}

// link makes the process's way to an address, known by the name that scenarios use.
func (p *process) link(name, address string) (*wire.Link, error) {
	l, err := p.w.wire.Link(p.w.label+"/"+p.name+"/"+name, address)
	if err == nil {
		p.links[name] = l
	}
	return l, err
}

// process returns a process by name, nil if there is none.
func (w *world) process(name string) *process {
	for _, p := range w.all() {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (p *process) alive() bool {
	r := p.daemon.Process()
	return r != nil && r.Running()
}

// start starts the process, or starts it again, and returns without waiting for it to be ready.
func (p *process) start() error {
	if p.alive() {
		return nil
	}
	p.mu.Lock()
	p.stopping, p.killing, p.superseded = false, false, false
	p.mu.Unlock()
	p.w.emit(history.Event{Kind: history.ProcessStarted, Process: p.name})
	if err := p.launched(); err != nil {
		return err
	}
	running := p.daemon.Process()
	go func() {
		if running.Wait(p.w.ctx) == nil {
			p.over(running)
		}
	}()
	return nil
}

// over notes how the process ended.
func (p *process) over(running *provision.Process) {
	p.mu.Lock()
	stopping, killing, ended := p.stopping || p.superseded, p.killing, p.ended
	p.ended = nil
	p.mu.Unlock()
	switch {
	case killing:
		p.w.emit(history.Event{Kind: history.ProcessCrashed, Process: p.name})
	case stopping:
		p.w.emit(history.Event{Kind: history.ProcessStopped, Process: p.name})
	case p.w.ctx.Err() == nil:
		p.w.emit(history.Event{Kind: history.ProcessCrashed, Process: p.name})
		p.w.fail(fmt.Sprintf("%s ended by itself: %s", p.name, lastLines(running.Log())))
	}
	if ended != nil {
		ended()
	}
}

// lastLines is the end of a log.
func lastLines(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// crash ends the process at once.
func (p *process) crash() {
	if !p.alive() {
		return
	}
	p.mu.Lock()
	p.killing = true
	p.mu.Unlock()
	p.daemon.Process().Kill()
}

// terminate asks the process to stop gracefully.
func (p *process) terminate() {
	if !p.alive() {
		return
	}
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	p.w.emit(history.Event{Kind: history.ProcessStopping, Process: p.name})
	p.daemon.Process().Terminate()
}

// stopDaemons ends every process without asking: the run is over and its evidence complete.
func (w *world) stopDaemons() {
	w.cancel()
	for _, p := range w.all() {
		if r := p.daemon.Process(); r != nil && r.Running() {
			r.Resume()
			r.Kill()
		}
	}
	// Their shims end the actions that were left.
	deadline := time.Now().Add(5 * time.Second)
	for _, p := range w.all() {
		for p.witness != nil && time.Now().Before(deadline) {
			if _, err := p.witness.Items(); err != nil || p.witness.Alive() == 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// testimony is what the daemons logged.
func (w *world) testimony() []evidence.Item {
	var all []evidence.Item
	for _, p := range w.all() {
		if r := p.daemon.Process(); r != nil {
			all = append(all, evidence.Testimony(r.Log(), p.name, w.began)...)
		}
	}
	return all
}
