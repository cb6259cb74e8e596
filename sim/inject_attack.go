package sim

import (
	"fmt"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/simbroker"
)

// attackRate is how many messages a second an attacker publishes.
const attackRate = 20_000

// bigBody is the length of a big body, in bytes.
const bigBody = 256 << 10

// injectPublish publishes an attacker's messages, a hundredth of a second's worth at a time.
func injectPublish(x *injection) func() {
	queues := x.queues()
	if x.fault.What == scenario.ForgedCancel {
		queues = x.cancelQueues()
	}
	left := x.fault.Count
	var publish func()
	publish = func() {
		for n := 0; n < attackRate/100 && left > 0; n++ {
			left--
			for _, queue := range queues {
				x.w.broker.Forge(queue, x.forged(left))
			}
		}
		if left == 0 || len(queues) == 0 {
			x.end()
			return
		}
		x.w.k.After(10*time.Millisecond, publish)
	}
	publish()
	return nil
}

// cancelQueues names the queues in which the workers that were drawn hear of cancellations.
func (x *injection) cancelQueues() []string {
	var names []string
	for id := execution.WorkerID(1); int(id) <= x.w.db.Workers(); id++ {
		for _, p := range x.targets {
			if p.worker != nil && p.worker.Name == x.w.db.WorkerName(id) {
				names = append(names, broker.CancelQueue(id))
			}
		}
	}
	return names
}

// forged makes the nth message. What it says of executions it has from the database, as somebody would who
// reads what is published.
func (x *injection) forged(n int) simbroker.Forged {
	f := simbroker.Forged{Fault: x.fault.Name}
	envelope := broker.Envelope{MessageID: fmt.Sprintf("forged-%d", n), Timestamp: x.w.broker.Clock().Wall(), Version: broker.WireVersion}
	switch x.fault.What {
	case scenario.ForgedCancel:
		envelope.Type = broker.ExecutionCancel
		for _, row := range x.running() {
			envelope.Changes = append(envelope.Changes, broker.Change{Key: row.Key(), From: execution.Running, To: execution.Canceling})
		}
	case scenario.ForgedDispatch:
		envelope.Type = broker.ExecutionScheduled
		envelope.Dispatch = &broker.Dispatch{Key: execution.Key{ID: execution.ID(n + 1), Epoch: 99}, Action: execution.Action{Ref: "forged"}}
		if rows := x.running(); len(rows) > 0 {
			row := &rows[n%len(rows)]
			envelope.Dispatch = &broker.Dispatch{
				Key: execution.Key{ID: row.ID, Epoch: row.Epoch + execution.Epoch(n%3)}, Worker: row.Worker, Incarnation: row.Incarnation, Action: row.Action,
			}
		}
	case scenario.HostileHeaders:
		envelope.Type = broker.ExecutionScheduled
		f.Hostile = true
	case scenario.BigBody:
		f.Garbage, f.Size = true, bigBody
	default:
		f.Garbage = true
	}
	f.Envelope = envelope
	return f
}

// running are the executions that run.
func (x *injection) running() (rows []execution.Execution) {
	for id := execution.ID(1); int(id) <= x.w.db.Rows(); id++ {
		if row, known := x.w.db.Execution(id); known && row.Status == execution.Running {
			rows = append(rows, row)
		}
	}
	return rows
}
