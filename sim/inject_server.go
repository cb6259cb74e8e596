package sim

import (
	"time"

	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/simnet"
)

func injectSlowLink(x *injection) func() {
	x.eachLink(func(from, to string) { x.w.net.SetNarrow(from, to, x.fault.DelayMin, x.fault.DelayMax, x.fault.Name) })
	return func() { x.eachLink(func(from, to string) { x.w.net.SetNarrow(from, to, 0, 0, x.fault.Name) }) }
}

func injectAlarm(x *injection) func() {
	x.w.broker.SetAlarm(true)
	return func() { x.w.broker.SetAlarm(false) }
}

// queues names the queues that the fault strikes: one of the executors', or those of the workers that
// were drawn, as far as they have registered.
func (x *injection) queues() []string {
	switch x.fault.Target {
	case scenario.RequestedQueue:
		return []string{broker.QueueRequested}
	case scenario.StatusChangedQueue:
		return []string{broker.QueueStatusChanged}
	case scenario.CompletedQueue:
		return []string{broker.QueueCompleted}
	case scenario.DeadLetterQueue:
		return []string{broker.DeadLetterQueue(x.w.config.MessageQueue.RabbitMQ.DeadLetter.Exchange)}
	}
	var names []string
	for id := execution.WorkerID(1); int(id) <= x.w.db.Workers(); id++ {
		for _, p := range x.targets {
			if p.worker != nil && p.worker.Name == x.w.db.WorkerName(id) {
				names = append(names, broker.WorkerQueue(id))
			}
		}
	}
	return names
}

func injectDeleteQueue(x *injection) func() {
	for _, queue := range x.queues() {
		if x.w.broker.DeleteQueue(queue) {
			x.touch(simnet.Touched{Queue: queue})
		}
	}
	x.end()
	return nil
}

func injectCancelConsumers(x *injection) func() {
	for _, queue := range x.queues() {
		if x.w.broker.CancelConsumers(queue) > 0 {
			x.touch(simnet.Touched{Queue: queue})
		}
	}
	x.end()
	return nil
}

func injectBlockConsumers(x *injection) func() {
	var unblock []func()
	for _, queue := range x.queues() {
		unblock = append(unblock, x.w.broker.BlockConsumers(queue, func() { x.touch(simnet.Touched{Queue: queue}) }))
	}
	return func() {
		for _, f := range unblock {
			f()
		}
	}
}

func injectUnbind(x *injection) func() {
	var restore []func()
	for _, queue := range x.queues() {
		if _, declared := x.w.broker.Depth(queue); declared {
			x.touch(simnet.Touched{Queue: queue})
		}
		restore = append(restore, x.w.broker.Unbind(queue))
	}
	return func() {
		for _, f := range restore {
			f()
		}
	}
}

func injectReadOnly(x *injection) func() {
	x.w.db.SetReadOnly(x.fault.Name)
	return func() { x.w.db.SetReadOnly("") }
}

func injectSerialization(x *injection) func() {
	x.w.db.SetRollback(x.fault.PerMillion, x.fault.Name)
	return func() { x.w.db.SetRollback(0, "") }
}

// injectSlowDatabase makes every way to the database longer: who waits can't tell a slow statement from
// a slow network.
func injectSlowDatabase(x *injection) func() {
	set := func(lo, hi time.Duration) {
		for _, p := range x.w.processes {
			x.w.net.SetSlow(p.name, scenario.Database, lo, hi, x.fault.Name)
		}
		x.w.net.SetSlow(client, scenario.Database, lo, hi, x.fault.Name)
	}
	set(x.fault.DelayMin, x.fault.DelayMax)
	return func() { set(0, 0) }
}

// driftTick is how often a drifting database clock is moved: its drift is a row of small steps, so that the
// history can say what each moment of it means.
const driftTick = time.Second

// databaseClock moves the database's clock. While it is behind where it was, everything that waits for a
// moment of it waits longer, so the fault is not over before the clock has made up for what it was moved
// backwards.
func (x *injection) databaseClock() func() {
	db, k := x.w.db, x.w.k
	db.Clock().OnWall(func() { x.touch(simnet.Touched{Process: scenario.Database}) })
	endAfter := func(behind time.Duration) { k.After(max(0, behind), x.end) }
	switch x.fault.Kind {
	case scenario.ClockStep:
		db.StepClock(x.fault.Shift)
		endAfter(-x.fault.Shift)
	case scenario.ClockOffset:
		db.StepClock(x.fault.Shift)
		k.After(x.fault.For, func() {
			db.StepClock(-x.fault.Shift)
			endAfter(x.fault.Shift)
		})
	default:
		step := driftTick / 1e6 * time.Duration(x.fault.DriftPerMillion)
		over := k.Now() + x.fault.For
		var tick func()
		tick = func() {
			if k.Now() > over {
				endAfter(-step * (x.fault.For / driftTick))
				return
			}
			db.StepClock(step)
			k.After(driftTick, tick)
		}
		tick()
	}
	return nil
}
