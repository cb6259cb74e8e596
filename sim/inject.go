package sim

import (
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
)

// injectors says how each kind of fault is brought about.
func injectors() map[scenario.FaultKind]injectFunc {
	return map[scenario.FaultKind]injectFunc{
		scenario.Crash:            injectCrash,
		scenario.Stop:             injectStop,
		scenario.Pause:            injectPause,
		scenario.Freeze:           injectFreeze,
		scenario.Partition:        injectPartition,
		scenario.Latency:          injectLatency,
		scenario.Reset:            injectReset,
		scenario.BrokerRestart:    injectBrokerDown,
		scenario.BrokerKill:       injectBrokerDown,
		scenario.DatabaseRestart:  injectDatabaseDown,
		scenario.DatabaseKill:     injectDatabaseDown,
		scenario.DropMessages:     injectMessages,
		scenario.DelayMessages:    injectMessages,
		scenario.DuplicateMessage: injectMessages,
		scenario.CorruptMessages:  injectMessages,
		scenario.ReorderMessages:  injectMessages,
		scenario.StopCutShort:     injectCutShort,
		scenario.RollingRestart:   injectRollingRestart,
		scenario.Twin:             injectTwin,
		scenario.Deaf:             injectGrayFailure(func(a *grayFailures, fault string) { a.deaf = fault }),
		scenario.Mute:             injectGrayFailure(func(a *grayFailures, fault string) { a.mute = fault }),
		scenario.Sick:             injectSick,
		scenario.Cordon:           injectCordon,
		scenario.Drain:            injectDrain,
		scenario.SlowLink:         injectSlowLink,
		scenario.BrokerAlarm:      injectAlarm,
		scenario.DeleteQueue:      injectDeleteQueue,
		scenario.CancelConsumers:  injectCancelConsumers,
		scenario.BlockConsumers:   injectBlockConsumers,
		scenario.UnbindQueue:      injectUnbind,
		scenario.DatabaseReadOnly: injectReadOnly,
		scenario.DatabaseSlow:     injectSlowDatabase,
		scenario.Serialization:    injectSerialization,
		scenario.ClockOffset:      injectClock,
		scenario.ClockStep:        injectClock,
		scenario.ClockDrift:       injectClock,
		scenario.PublishMessages:  injectPublish,
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
		if end == scenario.Executors {
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
			if x.fault.Direction != scenario.Incoming {
				f(p.name, end)
			}
			if x.fault.Direction != scenario.Outgoing {
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
		x.touch(simnet.Touched{Process: scenario.Broker})
	}
	b.Stop(x.fault.Kind == scenario.BrokerKill)
	return b.Start
}

func injectDatabaseDown(x *injection) func() {
	// Every process keeps a pool of connections open, so a database never goes unnoticed.
	x.touch(simnet.Touched{Process: scenario.Database})
	x.w.db.Stop()
	return x.w.db.Start
}

func injectMessages(x *injection) func() {
	id := x.fault.Index + 1
	x.w.broker.SetFilter(id, func(t broker.Type, _ string) simbroker.Interception {
		if x.fault.Messages != scenario.EveryMessage && x.fault.Messages != t.String() {
			return simbroker.Interception{}
		}
		if !x.stream.Chance(x.fault.PerMillion) {
			return simbroker.Interception{}
		}
		interception := simbroker.Interception{Fault: x.fault.Name}
		switch x.fault.Kind {
		case scenario.DropMessages:
			interception.Drop = true
		case scenario.DelayMessages:
			interception.Delay = x.stream.Duration(x.fault.DelayMin, x.fault.DelayMax)
		case scenario.DuplicateMessage:
			interception.Duplicate = true
		case scenario.CorruptMessages:
			interception.Corrupt = true
		case scenario.ReorderMessages:
			interception.Delay, interception.Behind = x.stream.Duration(x.fault.DelayMin, x.fault.DelayMax), true
		default:
		}
		return interception
	})
	return func() { x.w.broker.SetFilter(id, nil) }
}
