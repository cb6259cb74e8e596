package sim

import (
	"context"

	"handoff/chaos/history"
	"handoff/chaos/mutant"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/sim/preempt"
	"handoff/sim/simcalls"
	"handoff/sim/simstore"
)

// plant completes the ports of a process by its client of the database and its recorder, and plants the run's mutant
// into them.
func (w *world) plant(p mutant.Process, db *simstore.Client, ports mutant.Ports) mutant.Ports {
	ports.Store, ports.Recorder = db, w.witness.recorder(w.recorder(p.Name))
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
		ports.Store = w.calling(w.process(p.Name), ports.Store, ports.Host)
	case !p.Client:
		ports.Store = w.looking(p.Name, ports.Store)
	}
	ports.Step = func(ctx context.Context, do func(mutant.Tx)) error {
		return db.Step(ctx, func(tx *simstore.Tx) { do(tx) })
	}
	p.Report = w.acted(p.Name)
	keeping := mutant.Connections{}
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
	case p.Client: // it is the API
		connections.Connections, connections.HeartbeatConnections = connections.APIConnections, 0
	case !p.Worker:
		connections.HeartbeatConnections = 0
	}
	db.Configure(connections)
	return ports
}

// calling has the calls of a worker judged that has just started. Between what it is answered and what it does with that, a
// woven task can be switched: then nobody is. Nor where a mutant replaces statements: those reach the database past what is
// seen here.
func (w *world) calling(p *process, s store.Store, h host.Host) store.Store {
	if preempt.Built || p == nil || w.mutant != nil && w.mutant.Statements != nil {
		return s
	}
	p.calls = w.judges.Suite.Calls(p.name, p.settings().Worker.Concurrency)
	return simcalls.Store(s, h, p.calls)
}

// acted is told when the mutant of a process has made a difference; nil when nobody keeps the history. What it writes
// goes to the record alone: the run, its hash and what is judged of it are the same without it.
func (w *world) acted(process string) func(text string, id execution.ID) {
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
