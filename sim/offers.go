package sim

import (
	"fmt"
	"time"

	"handoff/chaos/fault"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
)

// This file implements fault.Simulated: it disturbs processes, links, servers, queues, messages and clocks
// of the models. Package fault decides what to disturb, and when.

var _ fault.Simulated = (*world)(nil)

// recordTouch records that a fault has affected something. The models call it.
func (w *world) recordTouch(on simnet.Touched) {
	name := on.Fault
	if name == simbroker.FaultAlarm {
		name = w.alarm
	}
	w.injector.Touch(name, fault.Touched{Process: on.Process, Queue: on.Queue, Message: on.Message, Type: on.Type})
}

// Process implements fault.Processes.
func (w *world) Process(name string) fault.Process {
	if p := w.findProcess(name); p != nil {
		return p
	}
	return nil
}

// Name implements fault.Process.
func (p *process) Name() string { return p.name }

// Alive implements fault.Process.
func (p *process) Alive() bool { return p.isAlive() }

// Start implements fault.Process.
func (p *process) Start() { p.start() }

// Terminate implements fault.Process.
func (p *process) Terminate() { p.terminate() }

// Kill implements fault.Process.
func (p *process) Kill() { p.crash() }

// OnEnd implements fault.Process.
func (p *process) OnEnd(f func()) { p.ended = f }

// Instance implements fault.Process.
func (p *process) Instance() fault.Instance {
	if p.current == nil {
		return nil
	}
	return p.current
}

// Freeze implements fault.Machines: it freezes the process and its machine, including its actions.
func (w *world) Freeze(name string) (thaw func()) {
	p := w.findProcess(name)
	frozen := []*kernel.Process{p.current}
	if p.machine != nil {
		frozen = append(frozen, p.machine.Ground())
	}
	for _, f := range frozen {
		f.Freeze()
	}
	return func() {
		for _, f := range frozen {
			f.Thaw()
		}
	}
}

// Twin implements fault.Twins.
func (w *world) Twin(name, worker string) (fault.Process, error) {
	return w.addWorker(name, w.findProcess(worker).worker), nil
}

// Affect implements fault.Links. The end "executors" stands for each of them.
func (w *world) Affect(x *fault.Injection, process, end string, way fault.Direction, e fault.Effect) (func(), error) {
	ends := []string{end}
	if end == fault.Executors {
		ends = w.scenario.Cluster.ExecutorNames()
	}
	var heal []func()
	for _, end := range ends {
		if e.ResetPerMillion > 0 {
			w.net.SetReset(process, end, e.ResetPerMillion, x.Name)
			heal = append(heal, func() { w.net.SetReset(process, end, 0, x.Name) })
			continue
		}
		if way != fault.Incoming {
			heal = append(heal, w.applyEffect(x, process, end, e))
		}
		if way != fault.Outgoing {
			heal = append(heal, w.applyEffect(x, end, process, e))
		}
	}
	return fault.InOrder(heal), nil
}

// applyEffect puts an effect on one direction of a link.
func (w *world) applyEffect(x *fault.Injection, from, to string, e fault.Effect) (heal func()) {
	switch {
	case e.Silence:
		w.net.Silence(from, to, x.Name)
		return func() { w.net.EndSilence(from, to, x.Name) }
	case e.Cut:
		w.net.Cut(from, to, x.Name)
		return func() { w.net.Heal(from, to, x.Name) }
	case e.Busy != fault.Span{}:
		w.net.SetNarrow(from, to, e.Busy.Least, e.Busy.Most, x.Name)
		return func() { w.net.SetNarrow(from, to, 0, 0, x.Name) }
	default:
		w.net.SetSlow(from, to, e.Delay.Least, e.Delay.Most, x.Name)
		return func() { w.net.SetSlow(from, to, 0, 0, x.Name) }
	}
}

// StopBroker implements fault.BrokerServer.
func (w *world) StopBroker(x *fault.Injection, kill bool) (func(), error) {
	if w.broker.Sessions() > 0 {
		x.Touch(fault.Touched{Process: fault.Broker})
	}
	w.broker.Stop(kill)
	return w.broker.Start, nil
}

// RaiseAlarm implements fault.BrokerAlarm.
func (w *world) RaiseAlarm(x *fault.Injection) (func(), error) {
	w.alarm = x.Name
	w.broker.SetAlarm(true)
	return func() { w.broker.SetAlarm(false) }, nil
}

// Registered implements fault.Registry.
func (w *world) Registered() (all []fault.Registration) {
	for id := execution.WorkerID(1); int(id) <= w.db.Workers(); id++ {
		all = append(all, fault.Registration{ID: id, Name: w.db.WorkerName(id)})
	}
	return all
}

// DeleteQueue implements fault.Queues.
func (w *world) DeleteQueue(x *fault.Injection, b broker.Binding) error {
	if w.broker.DeleteQueue(b.Queue) {
		x.Touch(fault.Touched{Queue: b.Queue})
	}
	return nil
}

// UnbindQueue implements fault.Queues.
func (w *world) UnbindQueue(x *fault.Injection, b broker.Binding) (func(), error) {
	if _, declared := w.broker.Depth(b.Queue); declared {
		x.Touch(fault.Touched{Queue: b.Queue})
	}
	return w.broker.Unbind(b.Queue), nil
}

// BlockConsumers implements fault.Queues.
func (w *world) BlockConsumers(x *fault.Injection, bindings []broker.Binding) (func(), error) {
	var unblock []func()
	for _, b := range bindings {
		unblock = append(unblock, w.broker.BlockConsumers(b.Queue, func() { x.Touch(fault.Touched{Queue: b.Queue}) }))
	}
	return fault.InOrder(unblock), nil
}

// CancelConsumers implements fault.ConsumerCancelling.
func (w *world) CancelConsumers(x *fault.Injection, queue string) error {
	if w.broker.CancelConsumers(queue) > 0 {
		x.Touch(fault.Touched{Queue: queue})
	}
	return nil
}

// SuspendQueue implements fault.StuckQueues.
func (w *world) SuspendQueue(x *fault.Injection, queue string) (func(), error) {
	resume := w.broker.SuspendQueue(queue, func() { x.Touch(fault.Touched{Queue: queue}) })
	if resume == nil {
		return func() {}, nil
	}
	return resume, nil
}

// SetConsumerTimeout implements fault.ConsumerTimeouts.
func (w *world) SetConsumerTimeout(x *fault.Injection, after time.Duration) (func(), error) {
	w.broker.SetConsumerTimeout(after, time.Second, func() { x.Touch(fault.Touched{Process: fault.Broker}) })
	return func() { w.broker.SetConsumerTimeout(0, 0, nil) }, nil
}

// StopDeadLettering implements fault.DeadLettering.
func (w *world) StopDeadLettering(x *fault.Injection) (func(), error) {
	return w.broker.StopDeadLettering(func() { x.Touch(fault.Touched{Process: fault.Broker}) }), nil
}

// Intercept implements fault.Messages.
func (w *world) Intercept(x *fault.Injection, fate func(string) fault.Fate) (func(), error) {
	id := x.Index + 1
	w.broker.SetFilter(id, func(t broker.Type, _ string) simbroker.Interception {
		f := fate(t.String())
		if !f.Touches() {
			return simbroker.Interception{}
		}
		return simbroker.Interception{
			Fault: x.Name, Drop: f.Drop, Delay: f.Delay, Behind: f.Behind, Duplicate: f.Duplicate, Corrupt: f.Corrupt,
		}
	})
	return func() { w.broker.SetFilter(id, nil) }, nil
}

// Running implements fault.Publisher.
func (w *world) Running() (rows []execution.Execution, err error) {
	for id := execution.ID(1); int(id) <= w.db.Rows(); id++ {
		if row, known := w.db.Execution(id); known && row.Status == execution.Running {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// Publish implements fault.Publisher.
func (w *world) Publish(x *fault.Injection, messages []fault.Forged) error {
	for i := range messages {
		m := &messages[i]
		m.Envelope.MessageID, m.Envelope.Timestamp = fmt.Sprintf("forged-%d", m.Number), w.broker.Clock().Wall()
		w.broker.Forge(m.Queue, simbroker.Forged{
			Envelope: m.Envelope, Garbage: m.Garbage, Hostile: m.HostileHeaders, Size: m.Size, Fault: x.Name,
		})
	}
	return nil
}

// Deafen implements fault.Deafness.
func (w *world) Deafen(x *fault.Injection) (func(), error) {
	return w.beginGrayFailure(x, func(g *grayFailures, name string) { g.deaf = name })
}

// Mute implements fault.Muteness.
func (w *world) Mute(x *fault.Injection) (func(), error) {
	return w.beginGrayFailure(x, func(g *grayFailures, name string) { g.mute = name })
}

// beginGrayFailure begins a gray failure of the struck workers, and returns the function that ends it.
func (w *world) beginGrayFailure(x *fault.Injection, set func(g *grayFailures, name string)) (func(), error) {
	strike := func(name string) {
		for _, target := range x.Targets {
			set(&w.findProcess(target).gray, name)
		}
	}
	strike(x.Name)
	return func() { strike("") }, nil
}

// Sicken implements fault.Sickness: machines can no longer start actions.
func (w *world) Sicken(x *fault.Injection) (func(), error) {
	for _, name := range x.Targets {
		m := w.findProcess(name).machine
		m.Sick, m.Asked = true, func() { x.Touch(fault.Touched{Process: name}) }
	}
	return func() {
		for _, name := range x.Targets {
			w.findProcess(name).machine.Sick = false
		}
	}, nil
}

// Cordon implements fault.Fleet.
func (w *world) Cordon(x *fault.Injection, worker string, on, drain bool) bool {
	c := store.Cordon{Worker: w.db.WorkerID(w.findProcess(worker).worker.Name), On: on, Drain: drain}
	if on {
		c.Reason = x.Name
	}
	return w.db.Operate(c)
}

// StopDatabase implements fault.DatabaseServer. Every process keeps a pool of connections open, so a stop
// always makes a difference.
func (w *world) StopDatabase(x *fault.Injection, _ bool) (func(), error) {
	x.Touch(fault.Touched{Process: fault.Database})
	w.db.Stop()
	return w.db.Start, nil
}

// RefuseWrites implements fault.DatabaseReadOnly.
func (w *world) RefuseWrites(x *fault.Injection) (func(), error) {
	w.db.SetReadOnly(x.Name)
	return func() { w.db.SetReadOnly("") }, nil
}

// DemoteDatabase implements fault.DatabaseDemotion.
func (w *world) DemoteDatabase(x *fault.Injection) (func(), error) {
	w.db.Demote(x.Name)
	return w.db.Retire, nil
}

// RewindDatabase implements fault.DatabaseRewinding.
func (w *world) RewindDatabase(x *fault.Injection) (func(), error) {
	standby := w.db.Standby()
	return func() { standby.Promote(x.Name) }, nil
}

// SlowDatabase implements fault.DatabaseSlow. It delays every link to the database: a client can't
// distinguish a slow statement from a slow network.
func (w *world) SlowDatabase(x *fault.Injection, adds fault.Span) (func(), error) {
	set := func(adds fault.Span) {
		for _, p := range w.processes {
			w.net.SetSlow(p.name, fault.Database, adds.Least, adds.Most, x.Name)
		}
		w.net.SetSlow(client, fault.Database, adds.Least, adds.Most, x.Name)
	}
	set(adds)
	return func() { set(fault.Span{}) }, nil
}

// FailWrites implements fault.DatabaseFailures.
func (w *world) FailWrites(x *fault.Injection, perMillion uint64, with fault.WriteFailure) (func(), error) {
	w.db.SetRollback(perMillion, x.Name, with.Code, with.Message)
	return func() { w.db.SetRollback(0, "", "", "") }, nil
}

// FailReads implements fault.DatabaseReadFailures.
func (w *world) FailReads(x *fault.Injection, perMillion uint64) (func(), error) {
	w.db.SetReadErrors(perMillion, x.Name)
	return func() { w.db.SetReadErrors(0, "") }, nil
}

// FillDatabase implements fault.DatabaseFull.
func (w *world) FillDatabase(x *fault.Injection) (func(), error) {
	w.db.SetFull(x.Name)
	return func() { w.db.SetFull("") }, nil
}

// HoldSlots implements fault.SlotEdits.
func (w *world) HoldSlots(x *fault.Injection, most int) int { return w.db.HoldSlots(x.Name, most) }

// HeldSlots implements fault.SlotEdits.
func (w *world) HeldSlots() int { return w.db.HeldSlots() }

// HideRows implements fault.RowEdits.
func (w *world) HideRows(x *fault.Injection, most int) (hidden int, show func()) {
	return w.db.HideRows(x.Name, most)
}

// LockRows implements fault.Strangers.
func (w *world) LockRows(x *fault.Injection, most int) (locked int, free func(), err error) {
	locked, free = w.db.LockRows(x.Name, most)
	return locked, free, nil
}

// LockTable implements fault.Strangers.
func (w *world) LockTable(x *fault.Injection, l fault.TableLock) (free func(), err error) {
	return w.db.LockTable(x.Name, l.Table, l.Exclusive), nil
}

// OpenTransaction implements fault.Strangers.
func (w *world) OpenTransaction(*fault.Injection) (end func(), err error) {
	return w.db.OpenTransaction(), nil
}

// RefuseConnections implements fault.DatabaseConnections.
func (w *world) RefuseConnections(x *fault.Injection) (func(), error) {
	w.db.SetNoConnections(x.Name)
	return func() { w.db.SetNoConnections("") }, nil
}

// HangDatabase implements fault.DatabaseHanging.
func (w *world) HangDatabase(x *fault.Injection) (func(), error) {
	w.db.SetHang(x.Name)
	return func() { w.db.SetHang("") }, nil
}

// ShiftClock implements fault.Clocks.
func (w *world) ShiftClock(x *fault.Injection, process string, by time.Duration) (back func()) {
	p := w.findProcess(process)
	if p.current == nil {
		return func() {}
	}
	c := p.current.Clock()
	c.OnWall(func() { x.Touch(fault.Touched{Process: process}) })
	c.Step(by)
	return func() { c.Step(-by) }
}

// DriftClock implements fault.Clocks.
func (w *world) DriftClock(x *fault.Injection, process string, perMillion int64) (back func()) {
	p := w.findProcess(process)
	if p.current == nil {
		return func() {}
	}
	if p.isAlive() {
		x.Touch(fault.Touched{Process: process})
	}
	clocks := []*kernel.Clock{p.current.Clock()}
	if p.machine != nil {
		clocks = append(clocks, p.machine.Ground().Clock())
	}
	drift := func(by int64) {
		for i := range clocks {
			clocks[i].SetDrift(clocks[i].Drift() + by)
		}
	}
	drift(perMillion)
	return func() { drift(-perMillion) }
}

// ShiftDatabaseClock implements fault.Clocks.
func (w *world) ShiftDatabaseClock(by time.Duration) { w.db.StepClock(by) }

// TouchDatabaseClock implements fault.Clocks.
func (w *world) TouchDatabaseClock(x *fault.Injection) {
	w.db.Clock().OnWall(func() { x.Touch(fault.Touched{Process: fault.Database}) })
}
