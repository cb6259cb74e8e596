package hook

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Process is a process into which a mutant is planted.
type Process struct {
	Name string
	// Worker reports whether it is a worker, and Client whether it is the client that submits the workload.
	// Any other process is an executor.
	Worker, Client bool
	// Report is called each time the mutant has had an effect, with the affected execution, or 0 for no
	// particular one; may be nil.
	Report func(text string, id execution.ID)

	// Config and Host are the process's configuration and its machine without the mutant. Apply sets them.
	Config config.Config
	Host   host.Host
	// Log is the destination of an executor's log; nil if no rule judges the log.
	Log *slog.Logger
}

// Executor reports whether the process is an executor.
func (p Process) Executor() bool { return !p.Worker && !p.Client }

// Acted reports that the planted defect has just had an effect, on the given executions or on no particular
// one. The text is a sentence without its subject: "wrote over a completed execution". The report adds the
// database or broker call in which it acted, if any. A process repeats a text about an execution only after a
// minute, because some mutants act in every pass of a loop.
func (p Process) Acted(text string, to ...execution.ID) {
	if p.Report == nil {
		return
	}
	text += inCall()
	if len(to) == 0 {
		p.Report(text, 0)
	}
	for _, id := range to {
		p.Report(text, id)
	}
}

// deepestCall is the number of stack frames that are searched for a call. Mutants act in a wrapped
// call or in a function literal there.
const deepestCall = 8

// inCall returns the database or broker call that the caller of [Process.Acted] is in, by the name of its
// method or of the method around its function literal; "" if it is in none.
func inCall() string {
	var callers [deepestCall]uintptr
	// Skip the frames of runtime.Callers, inCall and Acted.
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		f, more := frames.Next()
		// A function name looks like handoff/chaos/selftest/mutant.(*claimRefusalStore).Claim.func1.
		name := strings.ReplaceAll(f.Function[strings.LastIndexByte(f.Function, '/')+1:], "[...]", "")
		if parts := strings.Split(name, "."); len(parts) > 2 && strings.HasPrefix(name, "mutant") {
			for _, to := range calledParts() {
				if _, is := to.of.MethodByName(parts[2]); is {
					return " (in a call of " + to.name + ": " + parts[2] + ")"
				}
			}
		}
		if !more {
			return ""
		}
	}
}

// namedInterface is an interface whose calls a report names.
type namedInterface struct {
	name string
	of   reflect.Type
}

// calledParts returns the interfaces of the database and of the broker.
func calledParts() [4]namedInterface {
	return [...]namedInterface{
		{"the database", reflect.TypeFor[store.Store]()},
		{"the broker", reflect.TypeFor[broker.Broker]()},
		{"the broker", reflect.TypeFor[broker.Session]()},
		{"the broker", reflect.TypeFor[broker.Consumer]()},
	}
}

// The line of a daemon's log about a mutant: its message, and the names of the attributes with the
// text of [Process.Acted] and the execution. The latter is left out if there is none.
const (
	LogMessage   = "mutant acted"
	LogText      = "text"
	LogExecution = "execution"
)

// LogTo returns a Report that writes a line into a daemon's log.
func LogTo(log *slog.Logger) func(text string, id execution.ID) {
	return func(text string, id execution.ID) {
		attrs := []slog.Attr{slog.String(LogText, text)}
		if id != 0 {
			attrs = append(attrs, slog.Int64(LogExecution, int64(id)))
		}
		log.LogAttrs(context.Background(), slog.LevelWarn, LogMessage, attrs...)
	}
}

// Ports are the interfaces of a process that a mutant may wrap. Missing ones are nil, and stay nil.
type Ports struct {
	Config *config.Config
	Store  store.Store
	// Step executes unguarded statements; nil if the database can't.
	Step   func(ctx context.Context, do func(tx Tx)) error
	Broker broker.Broker
	// Host is the machine as the core sees it.
	Host     host.Host
	Recorder telemetry.Recorder
	// Log is the destination of an executor's log; nil if no rule judges the log.
	Log *slog.Logger
	// Executors is the topology that an executor declares, and Workers the topology of each worker; nil means
	// the core's own topology.
	Executors *broker.Topology
	Workers   func(execution.WorkerID) broker.Topology
	// Connections controls how the process keeps its connections; nil if that can't be changed.
	Connections *Connections
	// Machine is where a worker's actions run; nil if it can't be changed.
	Machine Machine
}

// Apply installs the mutant in a process by replacing the process's ports. A nil mutant changes nothing.
func (m *Mutant) Apply(p Process, ports *Ports) {
	if m == nil {
		return
	}
	p.Host, p.Log = ports.Host, ports.Log
	p.Report = throttleReports(p.Report, p.Host)
	if ports.Config != nil {
		m.changeConfig(p, ports.Config)
		p.Config = *ports.Config
	}
	switch {
	case m.Store != nil:
		ports.Store = m.Store(p, ports.Store)
	case m.Statements != nil && ports.Step != nil:
		ports.Store = m.Statements(p, database{ports.Store, ports.Step})
	}
	if m.Broker != nil && ports.Broker != nil {
		ports.Broker = m.Broker(p, ports.Broker)
	}
	if m.Host != nil {
		ports.Host = m.Host(p, ports.Host)
	}
	if m.Recorder != nil {
		ports.Recorder = m.Recorder(p, ports.Recorder)
	}
	if m.Log != nil && ports.Log != nil {
		ports.Log = slog.New(m.Log(p, ports.Log.Handler()))
	}
	if m.Machine != nil && ports.Machine != nil {
		m.Machine(p, ports.Machine)
	}
	if m.Connections != nil && ports.Connections != nil {
		m.Connections(ports.Connections)
		p.Acted("keeps connections in another way")
	}
	m.changeTopology(p, ports)
}

// repeated is the time after which a process may report the same text again.
const repeated = time.Minute

// throttleReports drops texts about an execution that were reported within the last minute.
func throttleReports(report func(string, execution.ID), h host.Host) func(string, execution.ID) {
	if report == nil {
		return nil
	}
	type act struct {
		text string
		id   execution.ID
	}
	var mu sync.Mutex
	told := make(map[act]time.Duration)
	return func(text string, id execution.ID) {
		now := h.Monotonic()
		mu.Lock()
		last, known := told[act{text, id}]
		again := !known || now-last >= repeated
		if again {
			told[act{text, id}] = now
		}
		mu.Unlock()
		if again {
			report(text, id)
		}
	}
}

func (m *Mutant) changeConfig(p Process, c *config.Config) {
	if m.Config == nil {
		return
	}
	before := *c
	m.Config(c)
	if changed := configDifferences("", reflect.ValueOf(before), reflect.ValueOf(*c)); len(changed) > 0 {
		p.Acted("changed the configuration: " + strings.Join(changed, ", "))
	}
}

// configDifferences returns the settings that differ between two configurations, with both values.
func configDifferences(name string, before, after reflect.Value) (changed []string) {
	if before.Kind() == reflect.Struct {
		for i := range before.NumField() {
			key, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("yaml"), ",")
			changed = append(changed, configDifferences(strings.TrimPrefix(name+"."+key, "."), before.Field(i), after.Field(i))...)
		}
		return changed
	}
	if was, is := fmt.Sprint(before), fmt.Sprint(after); was != is {
		changed = append(changed, fmt.Sprintf("%s is %s and not %s", name, is, was))
	}
	return changed
}

func (m *Mutant) changeTopology(p Process, ports *Ports) {
	const text = "changed the topology that is declared"
	if p.Executor() && m.Executors != nil {
		t := m.Executors(p.Config.MessageQueue.RabbitMQ)
		ports.Executors = &t
		p.Acted(text)
	}
	if p.Worker && m.Workers != nil {
		ports.Workers = func(id execution.WorkerID) broker.Topology { return m.Workers(p.Config.MessageQueue.RabbitMQ, id) }
		p.Acted(text)
	}
}

// database is a client that also executes unguarded statements.
type database struct {
	store.Store
	step func(ctx context.Context, do func(tx Tx)) error
}

// Step implements Database.
func (d database) Step(ctx context.Context, do func(tx Tx)) error { return d.step(ctx, do) }
