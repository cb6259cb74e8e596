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

// messageConservation returns invariant 6 (defects D17, D22, D30).
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

// storedMessage is the state of a message that has not left the broker.
type storedMessage struct {
	// moving is the number of copies on their way to a queue: routed by a publish or by dead-lettering, but
	// not yet stored.
	moving int64
	// in holds the message's copies, one entry per queue. A message is rarely in more than one queue.
	in []queuedCopy
}

// queuedCopy is the state of a message in one queue.
type queuedCopy struct {
	queue string
	// here is the number of copies in the queue.
	here int
	// delivered is when a consumer got the copy. It is valid while out is set, which is until the consumer
	// settles the copy.
	delivered time.Duration
	// by is the process of that consumer.
	by  string
	out bool
	// expired reports whether the copy's time to live is over. The copy may still stay in its queue briefly,
	// or while the broker's dead-lettering hangs. tooOften reports whether it was requeued more often than
	// its queue allows.
	expired, tooOften bool
	// rounds is how often the copy was requeued.
	rounds int
}

// copyAt returns the copy in a queue, and creates it if there is none. The result is valid until the next
// call.
func (l *storedMessage) copyAt(queue string) *queuedCopy {
	for i := range l.in {
		if l.in[i].queue == queue {
			return &l.in[i]
		}
	}
	l.in = append(l.in, queuedCopy{queue: queue})
	return &l.in[len(l.in)-1]
}

// removeCopy removes one copy from a queue and returns its state. Any other copies stay there.
func (l *storedMessage) removeCopy(queue string) (was queuedCopy) {
	for i := range l.in {
		if was = l.in[i]; was.queue != queue {
			continue
		}
		if was.here > 1 {
			l.in[i] = queuedCopy{queue: queue, here: was.here - 1}
		} else {
			l.in = slices.Delete(l.in, i, i+1)
		}
		return was
	}
	return queuedCopy{}
}

type conservationChecker struct {
	i *Invariant
	s *Suite
	// letters holds the messages by number. spared holds unused entries for reuse.
	letters dense.Table[uint64, *storedMessage]
	spared  []*storedMessage
	// troubled is when a fault of each process or of the database last began or ended. A halted or
	// disconnected process settles nothing, and no process settles a message before the database has stored
	// its content.
	troubled map[string]time.Duration
	// lasting counts the announced faults of each process or server that have not ended.
	lasting map[string]int
	// broken counts the lasting faults that can break connections.
	broken map[string]int
	// kept counts, for each process, the unreadable messages that it stored minus those that it
	// acknowledged afterwards.
	kept map[string]int
	// Some histories don't show which process acknowledged a message, or when. unnamed counts such
	// acknowledgements and stored all stored messages; the two are compared at the end.
	unnamed, stored int
}

// messageOf returns the message that an event is about, and creates it if it is new.
func (c *conservationChecker) messageOf(e *history.Event) *storedMessage {
	l := c.letters.Make(e.Message)
	if *l == nil {
		*l = spareEntry(&c.spared)
	}
	return *l
}

// forgetIfEmpty drops a message that has no copies left.
func (c *conservationChecker) forgetIfEmpty(e *history.Event, l *storedMessage) {
	if l.moving <= 0 && len(l.in) == 0 {
		c.letters.Delete(e.Message)
		l.moving = 0
		c.spared = append(c.spared, l)
	}
}

// observedKinds implements selective.
func (c *conservationChecker) observedKinds() []history.Kind {
	return []history.Kind{
		history.Published, history.Enqueued, history.Delivered, history.Requeued, history.Acked, history.DeadLetterStored,
		history.DeadLettered, history.Dropped, history.FaultBegan, history.FaultEnded, history.ProcessPaused,
		history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed, history.DatabaseDown, history.DatabaseUp,
		history.Rejected, history.Expired, history.ConsumerTimedOut, history.ReturnedTooOften,
	}
}

func (c *conservationChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.Published:
		c.messageOf(e).moving += e.Count
	case history.Enqueued:
		l := c.messageOf(e)
		l.copyAt(e.Queue).here++
		l.moving = max(0, l.moving-1)
	case history.Delivered:
		at := c.messageOf(e).copyAt(e.Queue)
		at.out, at.delivered, at.by = true, e.At, e.Process
	case history.Requeued:
		at := c.messageOf(e).copyAt(e.Queue)
		at.out = false
		c.s.countOccasion(c.i)
		// Each time a link breaks, all messages delivered over it and not settled are requeued.
		if c.broken[e.Process]+c.broken[fault.Broker] > 0 {
			break
		}
		if at.rounds++; at.rounds > mostRounds {
			c.s.recordViolation(c.i, e.Execution, "message %d%s has gone back into queue %s %d times", e.Message, dispatchPhrase(e.Execution, e.Epoch), e.Queue, at.rounds)
		}
	case history.Acked:
		if was := c.removeFromQueue(e); was.out {
			c.judgeHoldTime(e, was.delivered, was.by)
		}
		// A message with several dispatches is stored once.
		if e.Fault == "" || e.Limit > 1 || strings.HasPrefix(e.Queue, canaryQueues) {
			break
		}
		if e.Process == "" {
			c.unnamed++
			break
		}
		c.s.countOccasion(c.i)
		if c.kept[e.Process]--; c.kept[e.Process] < 0 {
			c.s.recordViolation(c.i, e.Execution, "message %d in queue %s can't be read, and %s acknowledged it without storing it as a dead letter", e.Message, e.Queue, e.Process)
		}
	case history.DeadLetterStored:
		if e.Execution == 0 {
			c.kept[e.Process]++
			c.stored++
		}
	case history.DeadLettered:
		c.removeFromQueue(e)
		if e.Count > 0 {
			c.messageOf(e).moving += e.Count
		}
		c.s.countOccasion(c.i)
		if e.Count == 0 {
			c.reportLostMessage(e)
		}
	case history.Dropped:
		was := c.removeFromQueue(e)
		// A hint may expire: it is useful only for a while and dispatches no execution. Without
		// dead-lettering, dead messages are dropped, as configured. A canary's queues expire together with
		// the canary when its executor goes away.
		if e.Fault != "" || strings.HasPrefix(e.Queue, canaryQueues) || !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
			break
		}
		c.s.countOccasion(c.i)
		if was.tooOften {
			c.s.recordViolation(c.i, e.Execution, "message %d%s returned to queue %s more often than the queue allows, and is gone: the queue has no dead letter exchange, and was not declared to keep returned messages",
				e.Message, dispatchPhrase(e.Execution, e.Epoch), e.Queue)
			break
		}
		if e.Execution != 0 || !was.expired {
			c.reportLostMessage(e)
		}
	case history.ConsumerTimedOut:
		if since := e.At - e.Due; e.Due >= consumerTimeout {
			c.judgeHoldTime(e, since, e.Process)
		}
	case history.FaultBegan, history.FaultEnded, history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
		history.DatabaseDown, history.DatabaseUp:
		c.noteFault(e)
	case history.Rejected:
		if at := c.messageOf(e).copyAt(e.Queue); at.out {
			at.out = false
			c.judgeHoldTime(e, at.delivered, at.by)
		}
	case history.Expired:
		c.messageOf(e).copyAt(e.Queue).expired = true
	case history.ReturnedTooOften:
		c.messageOf(e).copyAt(e.Queue).tooOften = true
	default:
	}
}

// noteFault records the beginning or end of a fault for each of its targets.
func (c *conservationChecker) noteFault(e *history.Event) {
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

// canaryQueues is the name prefix of the queues with which executors test the dead letter path. Messages in
// them may be lost.
const canaryQueues = "handoff.canary."

// consumerTimeout is how long RabbitMQ waits for the acknowledgement of a delivery before it closes the
// channel or cancels the consumer (its default since 3.8.17). A consumer that takes longer loses all its
// unsettled deliveries.
const consumerTimeout = 30 * time.Minute

// judgeHoldTime judges how long a process held a delivery that it settles or that the broker reclaims.
// Without a dead letter queue, a delivery that a worker rejects would be lost. So the worker holds it for the
// whole dispatch timeout, and the broker occasionally ends the worker's session.
func (c *conservationChecker) judgeHoldTime(e *history.Event, since time.Duration, by string) {
	if !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled || c.lasting[by]+c.lasting[fault.Database] > 0 || max(c.troubled[by], c.troubled[fault.Database]) > since {
		return
	}
	c.s.countOccasion(c.i)
	if e.At-since >= consumerTimeout {
		c.s.recordViolation(c.i, e.Execution, "message %d%s stayed unacknowledged at %s for %v; RabbitMQ closes the channel of a consumer that holds one for %v",
			e.Message, dispatchPhrase(e.Execution, e.Epoch), by, e.At-since, consumerTimeout)
	}
}

// mostRounds limits how often a copy may be requeued. It is far above the number of connections that any run
// loses, and far below the number of requeues in a hot loop (defect D25).
const mostRounds = 50

// removeFromQueue removes a copy from a queue and returns it. It judges whether the copy was there.
func (c *conservationChecker) removeFromQueue(e *history.Event) queuedCopy {
	c.s.countOccasion(c.i)
	l := c.messageOf(e)
	was := l.removeCopy(e.Queue)
	if was.here == 0 {
		c.s.recordViolation(c.i, e.Execution, "message %d left queue %s, where it was not", e.Message, e.Queue)
	}
	c.forgetIfEmpty(e, l)
	return was
}

func (c *conservationChecker) reportLostMessage(e *history.Event) {
	c.s.recordViolation(c.i, e.Execution, "message %d%s died in queue %s and went nowhere: no queue is bound where the dead letter exchange routes it",
		e.Message, dispatchPhrase(e.Execution, e.Epoch), e.Queue)
}

func dispatchPhrase(id execution.ID, epoch execution.Epoch) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprintf(", the dispatch of execution %d at epoch %d,", id, epoch)
}

func (c *conservationChecker) endRun(settled bool) {
	if !settled {
		return
	}
	c.s.countOccasion(c.i)
	first := uint64(0)
	for n, l := range c.letters.All() {
		if l.moving > 0 && (first == 0 || n < first) {
			first = n
		}
	}
	if first != 0 {
		c.s.recordViolation(c.i, 0, "message %d was routed to %d queues more than it reached", first, c.letters.Get(first).moving)
	}
	if c.unnamed > 0 {
		c.s.countOccasion(c.i)
	}
	if c.stored < c.unnamed {
		c.s.recordViolation(c.i, 0, "%d messages that can't be read were acknowledged, and %d were stored as dead letters", c.unnamed, c.stored)
	}
}
