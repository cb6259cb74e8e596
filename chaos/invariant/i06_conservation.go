package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// messageConservation is invariant 6 (defects D17, D22, D30).
func messageConservation() *Invariant {
	i := &Invariant{
		Number: 6, Name: "message conservation",
		Statement: "Every message that was stored in a queue is acknowledged, dead-lettered into another queue, dropped by a fault, or still there. No message circulates for ever. No message stays unacknowledged longer than the broker allows. An unreadable message is stored before it is acknowledged.",
		Needs:     []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped},
	}
	i.make = func(s *Suite) checker {
		return &conservationChecker{i: i, s: s, kept: make(map[string]int), troubled: make(map[string]time.Duration), lasting: make(map[string]int), broken: make(map[string]int)}
	}
	return i
}

// letter is a message that has not left the broker.
type letter struct {
	// moving is the number of copies that a publish or a death has routed and that have not arrived
	// yet.
	moving int64
	// in are the message's copies; a message is seldom in more than one queue.
	in []copyIn
}

// copyIn is a message in a queue.
type copyIn struct {
	queue string
	// here counts how often the message is in the queue.
	here int
	// delivered is when a consumer got the copy. It is valid while out is set, until the consumer
	// settles the copy.
	delivered time.Duration
	// by is that consumer's process.
	by  string
	out bool
	// expired says that its time to live has ended. It may stay in its queue for a moment, or for
	// as long as the broker's dead lettering hangs. tooOften says that it returned more often than
	// its queue allows.
	expired, tooOften bool
	// rounds counts how often it returned to its queue.
	rounds int
}

// at returns the copy in a queue. It is valid until the next call.
func (l *letter) at(queue string) *copyIn {
	for i := range l.in {
		if l.in[i].queue == queue {
			return &l.in[i]
		}
	}
	l.in = append(l.in, copyIn{queue: queue})
	return &l.in[len(l.in)-1]
}

// leaves removes one copy from a queue; further copies there stay.
func (l *letter) leaves(queue string) (was copyIn) {
	for i := range l.in {
		if was = l.in[i]; was.queue != queue {
			continue
		}
		if was.here > 1 {
			l.in[i] = copyIn{queue: queue, here: was.here - 1}
		} else {
			l.in = slices.Delete(l.in, i, i+1)
		}
		return was
	}
	return copyIn{}
}

type conservationChecker struct {
	i *Invariant
	s *Suite
	// letters holds the messages by number; spared holds forgotten ones to use again.
	letters dense.Table[uint64, *letter]
	spared  []*letter
	// troubled is when a fault on a process or on the database last began or ended. A halted or
	// cut-off process settles nothing, and no process settles a message before the database has
	// stored its content.
	troubled map[string]time.Duration
	// lasting counts the announced faults on a process or server that are not over.
	lasting map[string]int
	// broken counts those that can break connections.
	broken map[string]int
	// kept counts, for each process, the unreadable messages that it stored minus those that it
	// acknowledged afterwards.
	kept map[string]int
	// Some evidence doesn't say which process acknowledged a message, or when. Such
	// acknowledgements and all stored messages are counted and compared at the end.
	unnamed, stored int
}

// letter returns the message that an event is about.
func (c *conservationChecker) letter(e *history.Event) *letter {
	l := c.letters.Make(e.Message)
	if *l == nil {
		*l = spare(&c.spared)
	}
	return *l
}

// forget drops a message without remaining copies.
func (c *conservationChecker) forget(e *history.Event, l *letter) {
	if l.moving <= 0 && len(l.in) == 0 {
		c.letters.Delete(e.Message)
		l.moving = 0
		c.spared = append(c.spared, l)
	}
}

// hears implements selective.
func (c *conservationChecker) hears() []history.Kind {
	return []history.Kind{
		history.Published, history.Enqueued, history.Delivered, history.Requeued, history.Acked, history.DeadLetterStored,
		history.DeadLettered, history.Dropped, history.FaultBegan, history.FaultEnded, history.ProcessPaused,
		history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed, history.DatabaseDown, history.DatabaseUp,
		history.Rejected, history.Expired, history.ConsumerTimedOut, history.ReturnedTooOften,
	}
}

func (c *conservationChecker) observe(e *history.Event, _ *life) {
	switch e.Kind {
	case history.Published:
		c.letter(e).moving += e.Count
	case history.Enqueued:
		l := c.letter(e)
		l.at(e.Queue).here++
		l.moving = max(0, l.moving-1)
	case history.Delivered:
		at := c.letter(e).at(e.Queue)
		at.out, at.delivered, at.by = true, e.At, e.Process
	case history.Requeued:
		at := c.letter(e).at(e.Queue)
		at.out = false
		c.s.judged(c.i)
		// A link that breaks repeatedly returns all unsettled messages each time.
		if c.broken[e.Process]+c.broken[fault.Broker] > 0 {
			break
		}
		if at.rounds++; at.rounds > mostRounds {
			c.s.violate(c.i, e.Execution, "message %d%s has gone back into queue %s %d times", e.Message, about(e.Execution, e.Epoch), e.Queue, at.rounds)
		}
	case history.Acked:
		if was := c.leave(e); was.out {
			c.held(e, was.delivered, was.by)
		}
		// A block with several dispatches is one body, which is stored once.
		if e.Fault == "" || e.Limit > 1 || strings.HasPrefix(e.Queue, canaryQueues) {
			break
		}
		if e.Process == "" {
			c.unnamed++
			break
		}
		c.s.judged(c.i)
		if c.kept[e.Process]--; c.kept[e.Process] < 0 {
			c.s.violate(c.i, e.Execution, "message %d in queue %s can't be read, and %s acknowledged it without storing it as a dead letter", e.Message, e.Queue, e.Process)
		}
	case history.DeadLetterStored:
		if e.Execution == 0 {
			c.kept[e.Process]++
			c.stored++
		}
	case history.DeadLettered:
		c.leave(e)
		if e.Count > 0 {
			c.letter(e).moving += e.Count
		}
		c.s.judged(c.i)
		if e.Count == 0 {
			c.lost(e)
		}
	case history.Dropped:
		was := c.leave(e)
		// A hint may expire: it is useful only for a while and carries no execution. Without dead
		// lettering, dead messages go nowhere, as configured. A canary's queues expire together
		// with the canary when its executor goes away.
		if e.Fault != "" || strings.HasPrefix(e.Queue, canaryQueues) || !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
			break
		}
		c.s.judged(c.i)
		if was.tooOften {
			c.s.violate(c.i, e.Execution, "message %d%s returned to queue %s more often than the queue allows, and is gone: the queue has no dead letter exchange, and was not declared to keep returned messages",
				e.Message, about(e.Execution, e.Epoch), e.Queue)
			break
		}
		if e.Execution != 0 || !was.expired {
			c.lost(e)
		}
	case history.ConsumerTimedOut:
		if since := e.At - e.Due; e.Due >= consumerTimeout {
			c.held(e, since, e.Process)
		}
	case history.FaultBegan, history.FaultEnded, history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
		history.DatabaseDown, history.DatabaseUp:
		c.trouble(e)
	case history.Rejected:
		if at := c.letter(e).at(e.Queue); at.out {
			at.out = false
			c.held(e, at.delivered, at.by)
		}
	case history.Expired:
		c.letter(e).at(e.Queue).expired = true
	case history.ReturnedTooOften:
		c.letter(e).at(e.Queue).tooOften = true
	default:
	}
}

// trouble notes the beginning or end of a fault, for each of its targets.
func (c *conservationChecker) trouble(e *history.Event) {
	if c.broken == nil {
		c.broken = make(map[string]int)
	}
	for process := range strings.SplitSeq(e.Process, ",") {
		c.troubled[process] = e.At
		counts := []map[string]int{c.lasting}
		if ofLinks(e.Text) {
			counts = append(counts, c.broken)
		}
		for _, n := range counts {
			switch e.Kind {
			case history.FaultBegan:
				n[process]++
			case history.FaultEnded:
				n[process] = max(0, n[process]-1)
			default:
			}
		}
	}
}

// canaryQueues is the prefix of the queues with which executors test the dead letter path. Their
// content is dispensable.
const canaryQueues = "handoff.canary."

// consumerTimeout is how long RabbitMQ waits for the acknowledgement of a delivery before it closes
// the channel or cancels the consumer (its default since 3.8.17). A consumer that settles later
// loses all its unsettled deliveries.
const consumerTimeout = 30 * time.Minute

// held judges how long a process held a delivery that it settles or that the broker takes back.
// Without a dead letter queue, a worker that gave it back would lose it; it keeps the delivery for
// the whole dispatch timeout, and the broker ends its session now and then.
func (c *conservationChecker) held(e *history.Event, since time.Duration, by string) {
	if !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled || c.lasting[by]+c.lasting[fault.Database] > 0 || max(c.troubled[by], c.troubled[fault.Database]) > since {
		return
	}
	c.s.judged(c.i)
	if e.At-since >= consumerTimeout {
		c.s.violate(c.i, e.Execution, "message %d%s stayed unacknowledged at %s for %v; RabbitMQ closes the channel of a consumer that holds one for %v",
			e.Message, about(e.Execution, e.Epoch), by, e.At-since, consumerTimeout)
	}
}

// mostRounds is far above the number of connections that any run loses, and far below the rounds of
// a hot loop (defect D25).
const mostRounds = 50

// leave judges that a message that leaves a queue was there, and returns its copy.
func (c *conservationChecker) leave(e *history.Event) copyIn {
	c.s.judged(c.i)
	l := c.letter(e)
	was := l.leaves(e.Queue)
	if was.here == 0 {
		c.s.violate(c.i, e.Execution, "message %d left queue %s, where it was not", e.Message, e.Queue)
	}
	c.forget(e, l)
	return was
}

func (c *conservationChecker) lost(e *history.Event) {
	c.s.violate(c.i, e.Execution, "message %d%s died in queue %s and went nowhere: no queue is bound where the dead letter exchange routes it",
		e.Message, about(e.Execution, e.Epoch), e.Queue)
}

func about(id execution.ID, epoch execution.Epoch) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(", the dispatch of execution %d at epoch %d,", id, epoch)
}

func (c *conservationChecker) end(settled bool) {
	if !settled {
		return
	}
	c.s.judged(c.i)
	first := uint64(0)
	for n, l := range c.letters.All() {
		if l.moving > 0 && (first == 0 || n < first) {
			first = n
		}
	}
	if first != 0 {
		c.s.violate(c.i, 0, "message %d was routed to %d queues more than it reached", first, c.letters.Get(first).moving)
	}
	if c.unnamed > 0 {
		c.s.judged(c.i)
	}
	if c.stored < c.unnamed {
		c.s.violate(c.i, 0, "%d messages that can't be read were acknowledged, and %d were stored as dead letters", c.unnamed, c.stored)
	}
}
