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

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/live/evidence"
	"handoff/chaos/scenario"
	"handoff/core/config"
)

// process is one daemon of the cluster, across restarts.
type process struct {
	w      *world
	name   string
	spec   *scenario.Worker // nil for executors
	daemon *cluster.Daemon
	// witness reads the journal of the shims on the worker's machine; nil for executors.
	witness *evidence.Witness
	// links holds the links to the servers, by the names that scenarios use.
	links map[string]link

	mu       sync.Mutex
	stopping bool
	killing  bool
	// since is the time of the last start.
	since time.Time
	// deaf is the fault that holds back the broker's deliveries to the process; nil for none.
	deaf atomic.Pointer[fault.Injection]
	// blocked maps the names of queues that the process can't consume now to a *fault.Injection.
	blocked sync.Map
	// binary is the path of the process's own copy of the program, if a fault makes the copy unusable;
	// otherwise empty.
	binary string
	sick   bool
	// pauses counts the faults that currently pause the process.
	pauses atomic.Int32
	// superseded reports whether another process has taken the name, so that this one ends by itself.
	superseded bool
	// gone is the instance whose end was last recorded.
	gone cluster.Instance
	// ended is called at the next end of the process; nil for none.
	ended func()
}

// makeProcesses adds the processes of the scenario's cluster.
func (w *world) makeProcesses() error {
	var all []*process
	for _, name := range w.scenario.Cluster.ExecutorNames() {
		all = append(all, &process{w: w, name: name})
	}
	for i := range w.scenario.Cluster.Workers {
		spec := &w.scenario.Cluster.Workers[i]
		all = append(all, &process{w: w, name: spec.Name, spec: spec})
	}
	return w.addProcesses(all...)
}

// addProcesses adds processes to the run and makes their endpoints, links and daemons. A worker's name in the
// cluster is that of its spec. The process of a twin has another name.
func (w *world) addProcesses(all ...*process) error {
	endpoints, err := w.environment.newEndpoints(all...)
	if err != nil {
		return err
	}
	for i, p := range all {
		if err := p.makeParts(endpoints[i]); err != nil {
			return err
		}
		w.mu.Lock()
		w.processes = append(slices.Clone(w.processes), p)
		w.mu.Unlock()
	}
	return w.environment.prepareLaunch()
}

// makeParts makes the process's links, witness and daemon.
func (p *process) makeParts(at endpoint) error {
	w := p.w
	p.links = make(map[string]link)
	env, err := p.daemonEnv(at)
	if err != nil {
		return err
	}
	args := []string{"--name", p.name, "--listen", at.listen}
	if p.spec != nil {
		health, err := p.addLink(fault.Executors, at)
		if err != nil {
			return err
		}
		args = []string{
			"--name", p.spec.Name, "--health-listen", at.listen, "--health-url", "http://" + health + "/readyz",
			"--runtimes", strings.Join(p.spec.Runtimes, ","), "--actions-dir", w.folder,
		}
		witness := filepath.Join(w.folder, "witness-"+p.fileName())
		env = append(env, "HANDOFF_WITNESS="+witness)
		p.witness = evidence.NewWitness(witness, p.name, w.began)
		if w.scenario.Strikes("sick", p.spec.Name) {
			p.binary = filepath.Join(w.folder, "worker-"+p.fileName())
		}
	}
	p.daemon, err = w.environment.newDaemon(p, at, args, env)
	return err
}

// allProcesses returns the processes added so far.
func (w *world) allProcesses() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.processes
}

// followWitness observes the shims' events as they are written.
func (p *process) followWitness() {
	if p.witness != nil {
		go p.witness.Follow(p.w.ctx, p.w.observeEvent)
	}
}

// liveActions returns the number of running actions.
func (w *world) liveActions() (n int) {
	for _, p := range w.allProcesses() {
		if p.witness != nil {
			n += p.witness.Alive()
		}
	}
	return n
}

// daemonEnv returns the daemon's environment variables: its configuration, and the addresses at which its
// links reach the servers.
func (p *process) daemonEnv(at endpoint) ([]string, error) {
	w := p.w
	env := []string{"TMPDIR=" + w.folder, "HANDOFF_LOG_FORMAT=json"}
	database, err := w.daemonsURL()
	if err != nil {
		return nil, err
	}
	for _, server := range []struct{ name, url, variable, application string }{
		{fault.Database, database, "HANDOFF_DATABASE_URL", p.name},
		{fault.Broker, w.mq.URL, "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL", ""},
	} {
		address, err := p.addLink(server.name, at)
		if err != nil {
			return nil, err
		}
		url, err := rewriteAddress(server.url, address, server.application)
		if err != nil {
			return nil, err
		}
		env = append(env, server.variable+"="+url)
	}
	if p.spec == nil && !config.Loopback(at.listen) {
		// In its container, the process listens on every address, but its port is published only on 127.0.0.1.
		env = append(env, config.EnvName("api.insecure")+"=true")
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

// addLink makes the process's link to a server, named as in scenarios, and returns the address at which the
// link reaches it.
func (p *process) addLink(server string, at endpoint) (string, error) {
	l, address, err := p.w.environment.newLink(p, server, at)
	if err == nil {
		p.links[server] = l
	}
	return address, err
}

// findProcess returns the process with a name; nil if there is none.
func (w *world) findProcess(name string) *process {
	for _, p := range w.allProcesses() {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (p *process) isAlive() bool {
	r := p.daemon.Instance()
	return r != nil && r.Running()
}

// isActive reports whether the process is alive and not paused.
func (p *process) isActive() bool { return p.isAlive() && p.pauses.Load() == 0 }

// isActiveFor reports whether the process has been alive for at least d and is not paused.
func (p *process) isActiveFor(d time.Duration) bool {
	p.mu.Lock()
	since := p.since
	p.mu.Unlock()
	return p.isActive() && time.Since(since) >= d
}

// start starts or restarts the process without waiting until it is ready.
func (p *process) start() error {
	if p.isAlive() {
		return nil
	}
	p.mu.Lock()
	p.stopping, p.killing, p.superseded, p.since = false, false, false, time.Now()
	p.mu.Unlock()
	p.w.recordEvent(history.Event{Kind: history.ProcessStarted, Process: p.name})
	if err := p.launchDaemon(); err != nil {
		return err
	}
	running := p.daemon.Instance()
	go func() {
		if running.Wait(p.w.ctx) == nil {
			p.recordEnd(running)
		}
	}()
	return nil
}

// recordEnd records how the process ended. An end that nothing explains fails the run.
func (p *process) recordEnd(running cluster.Instance) {
	p.recordActionEnds()
	p.mu.Lock()
	p.gone = running
	stopping, killing, ended := p.stopping || p.superseded, p.killing, p.ended
	p.ended = nil
	p.mu.Unlock()
	switch {
	case killing:
		p.w.recordEvent(history.Event{Kind: history.ProcessCrashed, Process: p.name})
	case stopping:
		p.w.recordEvent(history.Event{Kind: history.ProcessStopped, Process: p.name})
	case p.w.ctx.Err() == nil:
		p.w.recordEvent(history.Event{Kind: history.ProcessCrashed, Process: p.name})
		p.w.failRun(fmt.Sprintf("%s ended by itself: %s", p.name, lastWords(running.Log())))
	}
	if ended != nil {
		ended()
	}
}

// recordActionEnds records that the process's actions ended with it, if the environment is contained.
func (p *process) recordActionEnds() {
	if p.witness != nil && p.w.environment.isContained() {
		p.witness.Over(time.Now(), p.w.observeEvent)
	}
}

// lastWords returns a log's last line, usually the reason of the end, followed by the end of the log.
func lastWords(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	end := strings.TrimSpace(string(text[max(0, len(text)-most):]))
	return end[strings.LastIndexByte(end, '\n')+1:] + "\nits log ends with:\n" + end
}

// stopDaemons kills every process, and waits until the shims have ended all actions.
func (w *world) stopDaemons() {
	w.cancel()
	for _, p := range w.allProcesses() {
		if r := p.daemon.Instance(); r != nil && r.Running() {
			r.Resume()
			r.Kill()
			p.recordActionEnds()
		}
	}
	// Shims end the remaining actions.
	deadline := time.Now().Add(5 * time.Second)
	for _, p := range w.allProcesses() {
		for p.witness != nil && time.Now().Before(deadline) {
			if _, err := p.witness.Items(); err != nil || p.witness.Alive() == 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// daemonLogs returns the daemons' log lines.
func (w *world) daemonLogs() []evidence.Item {
	var all []evidence.Item
	for _, p := range w.allProcesses() {
		if r := p.daemon.Instance(); r != nil {
			all = append(all, evidence.DaemonLog(r.Log(), p.name, w.began)...)
		}
	}
	return all
}
