package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// messageConservation is invariant 6 (defects D17, D22, D30).
func messageConservation() *Invariant {
	i := &Invariant{
		Number: 6, Name: "message conservation",
		Statement: "Every message that was stored in a queue is acknowledged, dead-lettered into another queue, dropped by a fault, or still there; none goes round for ever or stays unacknowledged longer than the broker allows; and an unreadable message is stored before it is acknowledged.",
		Needs:     []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped},
	}
	i.make = func(s *Suite) checker {
		return &conservationChecker{i: i, s: s, here: make(map[copyOf]int), moving: make(map[uint64]int64), rounds: make(map[copyOf]int), kept: make(map[string]int), delivered: make(map[copyOf]time.Duration), troubled: make(map[string]time.Duration), lasting: make(map[string]int), expired: make(map[copyOf]struct{}), broken: make(map[string]int)}
	}
	return i
}

// copyOf is a message in a queue.
type copyOf struct {
	message uint64
	queue   string
}

type conservationChecker struct {
	i *Invariant
	s *Suite
	// here counts the copies that are in a queue, moving those that a publish or a death has routed
	// and that have not arrived yet.
	here   map[copyOf]int
	moving map[uint64]int64
	// delivered is when a copy went to a consumer that has not settled it yet. troubled is when a fault on a process or
	// on the database last began or ended: a process that stands still or receives nothing settles nothing, and none
	// settles a message before the database has stored what it says.
	delivered map[copyOf]time.Duration
	troubled  map[string]time.Duration
	// lasting counts the faults that were announced for a process or a server and are not over.
	lasting map[string]int
	// broken counts those of them that can break connections.
	broken map[string]int
	// rounds counts how often a copy went back into its queue.
	rounds map[copyOf]int
	// kept counts, for each process, what it stored without having read it less what it then acknowledged.
	kept map[string]int
	// Evidence may not tell who acknowledged a message, and when: those, and all that were stored, are counted, and
	// compared at the end.
	unnamed, stored int
	// expired are the copies whose time to live has ended and that are still in their queues: a moment, or for as long as
	// the broker's dead lettering stands still.
	expired map[copyOf]struct{}
}

// hears implements selective.
func (c *conservationChecker) hears() []history.Kind {
	return []history.Kind{
		history.Published, history.Enqueued, history.Delivered, history.Requeued, history.Acked, history.DeadLetterStored,
		history.DeadLettered, history.Dropped, history.FaultBegan, history.FaultEnded, history.ProcessPaused,
		history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed, history.DatabaseDown, history.DatabaseUp,
		history.Rejected, history.Expired,
	}
}

func (c *conservationChecker) observe(e *history.Event, _ *life) {
	at := copyOf{e.Message, e.Queue}
	switch e.Kind {
	case history.Published:
		c.moving[e.Message] += e.Count
	case history.Enqueued:
		c.here[at]++
		if c.moving[e.Message]--; c.moving[e.Message] <= 0 {
			delete(c.moving, e.Message)
		}
	case history.Delivered:
		c.delivered[at] = e.At
	case history.Requeued:
		delete(c.delivered, at)
		c.s.judged(c.i)
		// A link that is broken off again and again brings everything back each time, for as long as that lasts.
		if c.broken[e.Process]+c.broken[fault.Broker] > 0 {
			break
		}
		if c.rounds[at]++; c.rounds[at] > mostRounds {
			c.s.violate(c.i, e.Execution, "message %d%s has gone back into queue %s %d times", e.Message, about(e.Execution, e.Epoch), e.Queue, c.rounds[at])
		}
	case history.Acked:
		c.settled(e, at)
		c.leave(e, at)
		if e.Fault == "" || strings.HasPrefix(e.Queue, canaryQueues) {
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
		c.leave(e, at)
		c.moving[e.Message] += e.Count
		c.s.judged(c.i)
		if e.Count == 0 {
			c.lost(e)
		}
	case history.Dropped:
		_, expired := c.expired[at]
		c.leave(e, at)
		// A hint may expire: it is only worth something for a while, and carries no execution. Without dead lettering
		// what dies goes nowhere, as was asked for. A canary's queues expire with it where its executor went away.
		if e.Fault != "" || strings.HasPrefix(e.Queue, canaryQueues) || !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
			break
		}
		c.s.judged(c.i)
		if e.Execution != 0 || !expired {
			c.lost(e)
		}
	case history.FaultBegan, history.FaultEnded, history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
		history.DatabaseDown, history.DatabaseUp:
		c.trouble(e)
	case history.Rejected:
		c.settled(e, at)
	case history.Expired:
		c.expired[at] = struct{}{}
	default:
	}
}

// trouble notes a fault, or the end of one, at whatever it strikes.
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

// canaryQueues begins the names of the queues in which executors test the dead letter path. Nothing is lost with what is
// in them.
const canaryQueues = "handoff.canary."

// consumerTimeout is how long RabbitMQ waits for the acknowledgement of a delivery before it closes the channel
// (its default since 3.8.17). A consumer that settles later loses all its unsettled deliveries.
const consumerTimeout = 30 * time.Minute

// settled judges how long a consumer held a delivery.
func (c *conservationChecker) settled(e *history.Event, at copyOf) {
	since, known := c.delivered[at]
	delete(c.delivered, at)
	if !known || c.lasting[e.Process]+c.lasting[fault.Database] > 0 || max(c.troubled[e.Process], c.troubled[fault.Database]) > since {
		return
	}
	c.s.judged(c.i)
	if e.At-since > consumerTimeout {
		c.s.violate(c.i, e.Execution, "message %d%s stayed unacknowledged at %s for %v; RabbitMQ closes the channel of a consumer that holds one for %v",
			e.Message, about(e.Execution, e.Epoch), e.Process, e.At-since, consumerTimeout)
	}
}

// mostRounds is far more than the connections that any run loses, and far less than a hot loop makes
// (defect D25).
const mostRounds = 50

func (c *conservationChecker) leave(e *history.Event, at copyOf) {
	delete(c.rounds, at)
	delete(c.delivered, at)
	delete(c.expired, at)
	c.s.judged(c.i)
	n := c.here[at]
	switch {
	case n == 0:
		c.s.violate(c.i, e.Execution, "message %d left queue %s, where it was not", e.Message, e.Queue)
	case n == 1:
		delete(c.here, at)
	default:
		c.here[at] = n - 1
	}
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
	if left := slices.Sorted(maps.Keys(c.moving)); len(left) > 0 {
		c.s.violate(c.i, 0, "message %d was routed to %d queues more than it reached", left[0], c.moving[left[0]])
	}
	if c.unnamed > 0 {
		c.s.judged(c.i)
	}
	if c.stored < c.unnamed {
		c.s.violate(c.i, 0, "%d messages that can't be read were acknowledged, and %d were stored as dead letters", c.unnamed, c.stored)
	}
}
