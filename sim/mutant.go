package sim

import (
	"context"

	"handoff/chaos/history"
	"handoff/chaos/hook"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/sim/simcalls"
	"handoff/sim/simstore"
	"handoff/sim/woven"
)

// plantMutant adds the database client and the recorder to the ports of a process, and plants the run's
// mutant into them.
func (w *world) plantMutant(p hook.Process, db *simstore.Client, ports hook.Ports) hook.Ports {
	ports.Store, ports.Recorder = db, w.witness.wrapRecorder(w.figureRecorder(p.Name))
	if w.figures != nil {
		watch := w.figures.Process(p.Name, !p.Worker && !p.Client)
		watch.Clock(ports.Host)
		ports.Store, ports.Recorder = watch.Store(ports.Store), watch.Recorder(ports.Recorder)
		if ports.Broker != nil {
			ports.Broker = watch.Broker(ports.Broker)
		}
	}
	switch {
	case p.Worker:
		ports.Store = w.watchCalls(w.findProcess(p.Name), ports.Store, ports.Host)
	case !p.Client:
		ports.Store = w.watchLooks(p.Name, ports.Store)
	}
	ports.Step = func(ctx context.Context, do func(hook.Tx)) error {
		return db.Step(ctx, func(tx *simstore.Tx) { do(tx) })
	}
	p.Report = w.mutantReporter(p.Name)
	keeping := hook.Connections{}
	ports.Connections = &keeping
	w.mutant.Apply(p, &ports)
	if keeping.KeepDemoted {
		db.KeepDemoted()
	}
	connections := w.config.Database
	if ports.Config != nil {
		connections = ports.Config.Database
	}
	switch {
	case p.Client: // the client plays the API
		connections.Connections, connections.HeartbeatConnections = connections.APIConnections, 0
	case !p.Worker:
		connections.HeartbeatConnections = 0
	}
	db.Configure(connections)
	return ports
}

// watchCalls wraps the store of a newly started worker, so that its calls are judged. It does nothing in a
// woven build, where the kernel may switch tasks between an answer and its use. It also does nothing if a
// mutant replaces statements, because those bypass the wrapped store.
func (w *world) watchCalls(p *process, s store.Store, h host.Host) store.Store {
	if woven.Built || p == nil || w.mutant != nil && w.mutant.Statements != nil {
		return s
	}
	p.calls = w.judges.Suite.Calls(p.name, p.effectiveConfig().Worker.Concurrency)
	return simcalls.Store(s, h, p.calls)
}

// mutantReporter returns the function to call when the mutant of a process has made a difference; nil if no
// history is recorded. It writes only to the record, so it does not change the run, its hash or its
// verdict.
func (w *world) mutantReporter(process string) func(text string, id execution.ID) {
	if w.options.Record == nil {
		return nil
	}
	return func(text string, id execution.ID) {
		if w.k.Dying() {
			return
		}
		w.options.Record.Observe(&history.Event{
			At: w.k.Now(), Step: w.k.Step(), Kind: history.MutantActed, Process: process, Execution: id, Text: text,
		})
	}
}
