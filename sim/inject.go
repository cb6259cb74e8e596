package sim

import (
	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/scenarios"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
)

// injectors says how each kind of fault is brought about.
func injectors() map[scenarios.FaultKind]injectFunc {
	return map[scenarios.FaultKind]injectFunc{
		scenarios.Crash:            injectCrash,
		scenarios.Stop:             injectStop,
		scenarios.Pause:            injectPause,
		scenarios.Freeze:           injectFreeze,
		scenarios.Partition:        injectPartition,
		scenarios.Latency:          injectLatency,
		scenarios.Reset:            injectReset,
		scenarios.BrokerRestart:    injectBrokerDown,
		scenarios.BrokerKill:       injectBrokerDown,
		scenarios.DatabaseRestart:  injectDatabaseDown,
		scenarios.DatabaseKill:     injectDatabaseDown,
		scenarios.DropMessages:     injectMessages,
		scenarios.DelayMessages:    injectMessages,
		scenarios.DuplicateMessage: injectMessages,
		scenarios.CorruptMessages:  injectMessages,
		scenarios.ReorderMessages:  injectMessages,
		scenarios.StopCutShort:     injectCutShort,
		scenarios.RollingRestart:   injectRollingRestart,
		scenarios.Twin:             injectTwin,
		scenarios.Deaf:             injectAilment(func(a *ailments, fault string) { a.deaf = fault }),
		scenarios.Mute:             injectAilment(func(a *ailments, fault string) { a.mute = fault }),
		scenarios.Sick:             injectSick,
		scenarios.Cordon:           injectCordon,
		scenarios.Drain:            injectDrain,
		scenarios.SlowLink:         injectSlowLink,
		scenarios.BrokerAlarm:      injectAlarm,
		scenarios.DeleteQueue:      injectDeleteQueue,
		scenarios.CancelConsumers:  injectCancelConsumers,
		scenarios.BlockConsumers:   injectBlockConsumers,
		scenarios.UnbindQueue:      injectUnbind,
		scenarios.DatabaseReadOnly: injectReadOnly,
		scenarios.DatabaseSlow:     injectSlowDatabase,
		scenarios.Serialization:    injectSerialization,
		scenarios.ClockOffset:      injectClock,
		scenarios.ClockStep:        injectClock,
		scenarios.ClockDrift:       injectClock,
		scenarios.PublishMessages:  injectPublish,
	}
}

func injectCrash(x *injection) func() {
	for _, p := range x.targets {
		if p.alive() {
			x.touch(simnet.Touched{Process: p.name})
		}
		p.crash()
	}
	x.restartLater()
	return nil
}

// restartLater brings ended processes back when it is time, and then the fault is over.
func (x *injection) restartLater() {
	if x.fault.RestartAfter == 0 {
		x.endless()
		return
	}
	x.w.k.After(x.fault.RestartAfter, func() {
		for _, p := range x.targets {
			if p.alive() {
				// It has not come to its end yet; then its end is when it starts again.
				p.ended = func() { p.w.k.After(0, p.start) }
				continue
			}
			p.start()
		}
		x.end()
	})
}

func injectStop(x *injection) func() {
	for _, p := range x.targets {
		if p.alive() {
			x.touch(simnet.Touched{Process: p.name})
		}
		p.terminate()
	}
	x.restartLater()
	return nil
}

func injectPause(x *injection) func() {
	// The handles are kept: a process that was restarted meanwhile is another one.
	var paused []*kernel.Process
	for _, p := range x.targets {
		if !p.alive() {
			continue
		}
		x.touch(simnet.Touched{Process: p.name})
		p.current.Pause()
		paused = append(paused, p.current)
		x.w.emit(history.Event{Kind: history.ProcessPaused, Process: p.name})
	}
	return func() {
		for _, p := range paused {
			if p.Alive() {
				p.Resume()
				x.w.emit(history.Event{Kind: history.ProcessResumed, Process: p.Name()})
			}
		}
	}
}

func injectFreeze(x *injection) func() {
	var frozen []*kernel.Process
	for _, p := range x.targets {
		if !p.alive() {
			continue
		}
		x.touch(simnet.Touched{Process: p.name})
		p.current.Freeze()
		frozen = append(frozen, p.current)
		if p.machine != nil {
			p.machine.Ground().Freeze()
			frozen = append(frozen, p.machine.Ground())
		}
		x.w.emit(history.Event{Kind: history.ProcessFrozen, Process: p.name})
	}
	targets := x.targets
	return func() {
		for _, p := range frozen {
			p.Thaw()
		}
		for _, p := range targets {
			x.w.emit(history.Event{Kind: history.ProcessThawed, Process: p.name})
		}
	}
}

// ends are the other ends of a fault on links, every executor by its name.
func (x *injection) ends() []string {
	var ends []string
	for _, end := range x.fault.From {
		if end == scenarios.Executors {
			ends = append(ends, x.w.scenario.Cluster.ExecutorNames()...)
			continue
		}
		ends = append(ends, end)
	}
	return ends
}

// eachLink calls f for every directed link that the fault is about.
func (x *injection) eachLink(f func(from, to string)) {
	for _, p := range x.targets {
		for _, end := range x.ends() {
			if x.fault.Direction != scenarios.Incoming {
				f(p.name, end)
			}
			if x.fault.Direction != scenarios.Outgoing {
				f(end, p.name)
			}
		}
	}
}

func injectPartition(x *injection) func() {
	x.eachLink(func(from, to string) { x.w.net.Cut(from, to, x.fault.Name) })
	return func() { x.eachLink(func(from, to string) { x.w.net.Heal(from, to, x.fault.Name) }) }
}

func injectLatency(x *injection) func() {
	x.eachLink(func(from, to string) { x.w.net.SetSlow(from, to, x.fault.DelayMin, x.fault.DelayMax, x.fault.Name) })
	return func() { x.eachLink(func(from, to string) { x.w.net.SetSlow(from, to, 0, 0, x.fault.Name) }) }
}

func injectReset(x *injection) func() {
	set := func(perMillion uint64) {
		for _, p := range x.targets {
			for _, end := range x.ends() {
				x.w.net.SetReset(p.name, end, perMillion, x.fault.Name)
			}
		}
	}
	set(x.fault.PerMillion)
	return func() { set(0) }
}

func injectBrokerDown(x *injection) func() {
	b := x.w.broker
	if b.Sessions() > 0 {
		x.touch(simnet.Touched{Process: scenarios.Broker})
	}
	b.Stop(x.fault.Kind == scenarios.BrokerKill)
	return b.Start
}

func injectDatabaseDown(x *injection) func() {
	// Every process keeps a pool of connections open, so a database never goes unnoticed.
	x.touch(simnet.Touched{Process: scenarios.Database})
	x.w.db.Stop()
	return x.w.db.Start
}

func injectMessages(x *injection) func() {
	id := x.fault.Index + 1
	x.w.broker.SetFilter(id, func(t broker.Type, _ string) simbroker.Tamper {
		if x.fault.Messages != scenarios.EveryMessage && x.fault.Messages != t.String() {
			return simbroker.Tamper{}
		}
		if !x.stream.Chance(x.fault.PerMillion) {
			return simbroker.Tamper{}
		}
		tamper := simbroker.Tamper{Fault: x.fault.Name}
		switch x.fault.Kind {
		case scenarios.DropMessages:
			tamper.Drop = true
		case scenarios.DelayMessages:
			tamper.Delay = x.stream.Duration(x.fault.DelayMin, x.fault.DelayMax)
		case scenarios.DuplicateMessage:
			tamper.Duplicate = true
		case scenarios.CorruptMessages:
			tamper.Corrupt = true
		case scenarios.ReorderMessages:
			tamper.Delay, tamper.Behind = x.stream.Duration(x.fault.DelayMin, x.fault.DelayMax), true
		default:
		}
		return tamper
	})
	return func() { x.w.broker.SetFilter(id, nil) }
}
