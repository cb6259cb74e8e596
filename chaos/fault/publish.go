package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/core/broker"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

func init() {
	Register(Kind{
		Name: "publish", Ends: ByItself,
		About:   "somebody who can reach the broker publishes messages of their own to a queue",
		Example: "publish: {queue: shell-1, what: garbage, count: 500}",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("publish: {queue: %s, what: %s, count: %d}", d.Worker(), d.Of(attackNames()...), d.Number(1, 50))
		},
		Keys: []yamlfile.Key{
			yamlfile.Required("queue", "the queue: one of the executors', or a worker's name for its own", yamlfile.StringSchema()),
			yamlfile.Required("what", "which messages; forged cancellations go to the queue of the worker's cancellations, misplaced messages to both", yamlfile.Enum(attackNames())),
			yamlfile.Required("count", "how many", yamlfile.IntegerSchema(1, mostPublished)),
		},
	}, (*publish).inject)
}

// attack is a kind of message that an attacker publishes.
type attack string

// The kinds of messages.
const (
	// garbage has an unreadable body.
	garbage attack = "garbage"
	// hostileHeaders is a readable message with a forged x-death header. When such a message dies,
	// RabbitMQ 3.10 stops dead-lettering on the whole node until the node restarts.
	hostileHeaders attack = "hostile_headers"
	// forgedCancel is a hint to cancel an execution that the worker runs, although no client asked for it.
	forgedCancel attack = "forged_cancel"
	// forgedDispatch is a dispatch of a running execution, with a later epoch, that no executor sent.
	forgedDispatch attack = "forged_dispatch"
	// bigBody is garbage of 256 KiB.
	bigBody attack = "big_body"
	// misplaced is a readable message in the wrong queue: an execution-completed message in a worker's
	// dispatch and cancel queues, or in an executor queue.
	misplaced attack = "misplaced"
)

func attackNames() []string {
	return []string{string(garbage), string(hostileHeaders), string(forgedCancel), string(forgedDispatch), string(bigBody), string(misplaced)}
}

const (
	// mostPublished is the largest number of messages of one fault: the simulated broker keeps them all in
	// memory.
	mostPublished = 200_000
	// An attacker publishes publishAtOnce messages every publishEvery: 20,000 a second.
	publishEvery  = 10 * time.Millisecond
	publishAtOnce = 200
	// bigBodyBytes is the length of a big body.
	bigBodyBytes = 256 << 10
)

// publish is an attacker who can reach the broker and publishes messages.
type publish struct {
	queueTarget
	What  attack
	Count int
}

// Read implements Fault.
func (p *publish) Read(r *Reader) {
	if n := r.At("what"); n != nil {
		what, _ := r.Choice(n, "kind of message", attackNames())
		p.What = attack(what)
	}
	if n := r.At("count"); n != nil {
		count, _ := r.Integer(n, "count", 1, mostPublished)
		p.Count = int(count)
	}
	targets := append(ExecutorQueues(), r.cluster.WorkerTargets()...)
	if p.What == forgedCancel || p.What == forgedDispatch {
		targets = r.cluster.WorkerTargets()
	}
	p.Target = r.oneOf(r.At("queue"), "queue", targets)
}

// Describe implements Describer.
func (p *publish) Describe() string {
	return "publish " + strings.ReplaceAll(string(p.What), "_", " ") + " to " + p.Target
}

// Flood returns the number of messages that f publishes to workers' dispatch queues. (Forged cancellations go
// to another queue.)
func Flood(f Fault) int {
	p, published := f.(*publish)
	if !published || p.What == forgedCancel || slices.Contains(ExecutorQueues(), p.Target) {
		return 0
	}
	return p.Count
}

func (p *publish) inject(x *Injection, w Publisher) (func(), error) {
	queues := p.attackedQueues(x, w)
	left := p.Count
	var next func()
	next = func() {
		batch, err := p.nextBatch(min(publishAtOnce, left), left, queues, w)
		if err == nil {
			err = w.Publish(x, batch)
		}
		x.Fail(err)
		left -= min(publishAtOnce, left)
		if left == 0 || len(queues) == 0 || err != nil {
			x.End()
			return
		}
		x.After(publishEvery, next)
	}
	next()
	return nil, nil
}

// attackedQueues names the queues to which the messages are published.
func (p *publish) attackedQueues(x *Injection, w Publisher) (names []string) {
	if p.What == forgedCancel || p.What == misplaced {
		for _, r := range w.Registered() {
			if slices.Contains(x.Targets, r.Name) {
				names = append(names, broker.CancelQueue(r.ID))
			}
		}
		if p.What == forgedCancel {
			return names
		}
	}
	for _, b := range p.targetBindings(x, w) {
		names = append(names, b.Queue)
	}
	return names
}

// nextBatch makes the next n messages for each queue. It reads the executions that they name from the
// database; a real attacker would know them from published messages.
func (p *publish) nextBatch(n, left int, queues []string, w Publisher) (all []Forged, err error) {
	var running []execution.Execution
	if p.What == forgedCancel || p.What == forgedDispatch {
		if running, err = w.Running(); err != nil {
			return nil, err
		}
	}
	for number := left - 1; number >= left-n; number-- {
		for _, queue := range queues {
			m := p.forgeMessage(number, running)
			m.Queue, m.Number = queue, number
			all = append(all, m)
		}
	}
	return all, nil
}

// forgeMessage makes the n-th message.
func (p *publish) forgeMessage(n int, running []execution.Execution) Forged {
	m := Forged{Envelope: broker.Envelope{Version: broker.WireVersion}}
	switch p.What {
	case forgedCancel:
		m.Envelope.Type = broker.ExecutionCancel
		for i := range running {
			m.Envelope.Changes = append(m.Envelope.Changes, broker.Change{Key: running[i].Key(), From: execution.Running, To: execution.Canceling})
		}
	case forgedDispatch:
		m.Envelope.Type = broker.ExecutionScheduled
		m.Envelope.Dispatches = []broker.Dispatch{{Key: execution.Key{ID: execution.ID(n + 1), Epoch: 99}, Action: execution.Action{Ref: "forged"}}}
		if len(running) > 0 {
			row := &running[n%len(running)]
			m.Envelope.Dispatches = []broker.Dispatch{{
				Key: execution.Key{ID: row.ID, Epoch: row.Epoch + execution.Epoch(n%3)}, Worker: row.Worker, Incarnation: row.Incarnation, Action: row.Action,
			}}
		}
	case misplaced:
		m.Envelope.Type = broker.ExecutionCompleted
		m.Envelope.Changes = []broker.Change{{Key: execution.Key{ID: execution.ID(n + 1), Epoch: 1}, From: execution.Running, To: execution.Completed}}
	case hostileHeaders:
		m.Envelope.Type = broker.ExecutionScheduled
		m.HostileHeaders = true
	case bigBody:
		m.Garbage, m.Size = true, bigBodyBytes
	default:
		m.Garbage = true
	}
	return m
}
