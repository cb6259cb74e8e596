package live

import (
	"context"
	"sync"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
	"handoff/chaos/live/provision"
	"handoff/chaos/live/wire"
	"handoff/scenarios"
)

// injectors says how each kind of fault is brought about.
func injectors() map[scenarios.FaultKind]injectFunc {
	return map[scenarios.FaultKind]injectFunc{
		scenarios.Crash:           injectCrash,
		scenarios.Stop:            injectStop,
		scenarios.Pause:           injectPause,
		scenarios.Partition:       injectPartition,
		scenarios.Latency:         injectLatency,
		scenarios.Reset:           injectReset,
		scenarios.BrokerRestart:   injectBrokerDown,
		scenarios.BrokerKill:      injectBrokerDown,
		scenarios.DatabaseRestart: injectDatabaseDown,
		scenarios.DatabaseKill:    injectDatabaseDown,
	}
}

func injectCrash(x *injection) (func(), error) {
	for _, p := range x.targets {
		if p.alive() {
			x.touch()
		}
		p.crash()
	}
	x.restartLater()
	return nil, nil
}

// restartLater brings ended processes back when it is time, and then the fault is over.
func (x *injection) restartLater() {
	if x.fault.RestartAfter == 0 {
		x.endless()
		return
	}
	x.w.after(x.fault.RestartAfter, func() {
		for _, p := range x.targets {
			x.w.restart(p)
		}
		x.end()
	})
}

// restart starts a process; one that has not come to its end yet starts when it has.
func (w *world) restart(p *process) {
	start := func() {
		if w.ctx.Err() != nil {
			return
		}
		if err := p.start(); err != nil {
			w.fail(err.Error())
		}
	}
	p.mu.Lock()
	leaving := p.stopping && p.alive()
	if leaving {
		p.ended = start
	}
	p.mu.Unlock()
	if !leaving || !p.alive() {
		start()
	}
}

func injectStop(x *injection) (func(), error) {
	for _, p := range x.targets {
		if p.alive() {
			x.touch()
		}
		p.terminate()
	}
	x.restartLater()
	return nil, nil
}

func injectPause(x *injection) (func(), error) {
	// The handles are kept: a process that was restarted meanwhile is another one.
	type held struct {
		p       *process
		process *provision.Process
	}
	var paused []held
	for _, p := range x.targets {
		if !p.alive() {
			continue
		}
		x.touch()
		h := held{p, p.daemon.Process()}
		h.process.Pause()
		paused = append(paused, h)
		x.w.emit(history.Event{Kind: history.ProcessPaused, Process: p.name})
	}
	return func() {
		for _, h := range paused {
			if h.process.Running() {
				x.w.emit(history.Event{Kind: history.ProcessResumed, Process: h.p.name})
				h.process.Resume()
			}
		}
	}, nil
}

// eachWay calls f for every way of every link that the fault is about.
func (x *injection) eachWay(f func(l *wire.Link, way wire.Direction)) {
	for _, p := range x.targets {
		for _, server := range x.fault.From {
			l := p.links[server]
			if l == nil {
				continue
			}
			if x.fault.Direction != scenarios.Incoming {
				f(l, wire.Out)
			}
			if x.fault.Direction != scenarios.Outgoing {
				f(l, wire.In)
			}
		}
	}
}

// affect has an effect on every way while the fault lasts.
func (x *injection) affect(e wire.Effect) func() {
	e.Touch = x.touch
	var ends []func()
	x.eachWay(func(l *wire.Link, way wire.Direction) { ends = append(ends, l.Begin(way, e)) })
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

func injectPartition(x *injection) (func(), error) { return x.affect(wire.Effect{Hold: true}), nil }

func injectLatency(x *injection) (func(), error) {
	return x.affect(wire.Effect{Delay: func() time.Duration { return x.random.duration(x.fault.DelayMin, x.fault.DelayMax) }}), nil
}

func injectReset(x *injection) (func(), error) {
	return x.affect(wire.Effect{Break: func() bool { return x.random.chance(x.fault.PerMillion) }}), nil
}

// links are those of every process to a server.
func (w *world) links(server string) []*wire.Link {
	var all []*wire.Link
	for _, p := range w.processes {
		all = append(all, p.links[server])
	}
	return all
}

// takeDown closes every way to a server, in the moment in which it goes down, and returns what opens them.
// They open when the harness is ready too: what a server does in the meantime nobody would see.
func (w *world) takeDown(server string) (up func() error) {
	each := func(f func(*wire.Link)) {
		var wg sync.WaitGroup
		for _, l := range w.links(server) {
			wg.Go(func() { f(l) })
		}
		wg.Wait()
	}
	each((*wire.Link).Down)
	return func() error {
		var mu sync.Mutex
		var first error
		each(func(l *wire.Link) {
			if err := l.Up(); err != nil {
				mu.Lock()
				first = err
				mu.Unlock()
			}
		})
		return first
	}
}

func injectBrokerDown(x *injection) (func(), error) {
	w, mq := x.w, x.w.lane.servers.RabbitMQ
	x.touch()
	down := time.Now()
	w.emit(history.Event{Kind: history.BrokerDown, Process: scenarios.Broker})
	stop := mq.Stop
	if x.fault.Kind == scenarios.BrokerKill {
		stop = mq.Kill
	}
	// Kill first: it is the server that breaks the connections, in the middle of whatever they carry.
	err := stop()
	up := w.takeDown(scenarios.Broker)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), 2*time.Minute)
		defer cancel()
		if err := mq.Start(ctx); err != nil {
			w.fail("the broker did not come back: " + err.Error())
			return
		}
		if err := w.trace(ctx); err != nil {
			w.fail(err.Error())
		}
		w.firehose.Deaf(evidence.Gap{From: down.Add(-evidence.Lag), To: time.Now(), Fault: x.fault.Name})
		w.emit(history.Event{Kind: history.BrokerUp, Process: scenarios.Broker})
		if err := up(); err != nil {
			w.fail(err.Error())
		}
	}, nil
}

func injectDatabaseDown(x *injection) (func(), error) {
	w, pg := x.w, x.w.lane.servers.Postgres
	x.touch()
	w.emit(history.Event{Kind: history.DatabaseDown, Process: scenarios.Database})
	stop := pg.Stop
	if x.fault.Kind == scenarios.DatabaseKill {
		stop = pg.Kill
	}
	err := stop()
	up := w.takeDown(scenarios.Database)
	if err != nil {
		return nil, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), time.Minute)
		defer cancel()
		if err := pg.Start(ctx); err != nil {
			w.fail("the database did not come back: " + err.Error())
			return
		}
		w.emit(history.Event{Kind: history.DatabaseUp, Process: scenarios.Database})
		if err := up(); err != nil {
			w.fail(err.Error())
		}
	}, nil
}
