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
		Statement: "Every message that was stored in a queue is acknowledged, dead-lettered into another queue, dropped by a fault, or still there; none goes round for ever or stays unacknowledged longer than the broker allows; and an unreadable message is stored before it is acknowledged.",
		Needs:     []history.Kind{history.Enqueued, history.Acked, history.DeadLettered, history.Dropped},
	}
	i.make = func(s *Suite) checker {
		return &conservationChecker{i: i, s: s, kept: make(map[string]int), troubled: make(map[string]time.Duration), lasting: make(map[string]int), broken: make(map[string]int)}
	}
	return i
}

// letter is a message that has not left the broker.
type letter struct {
	// moving is how many copies a publish or a death has routed that have not arrived yet.
	moving int64
	// in are its copies; a message is seldom in more than one queue.
	in []copyIn
}

// copyIn is a message in a queue.
type copyIn struct {
	queue string
	// here counts how often it is there.
	here int
	// delivered is when it went to a consumer that has not settled it yet, if out is set.
	delivered time.Duration
	out       bool
	// expired says that its time to live has ended: it is still in its queue for a moment, or for as long as the broker's
	// dead lettering stands still. tooOften says that it came back more often than its queue allows.
	expired, tooOften bool
	// rounds counts how often it went back into its queue.
	rounds int
}

// at is the copy in a queue. It is valid until the next call.
func (l *letter) at(queue string) *copyIn {
	for i := range l.in {
		if l.in[i].queue == queue {
			return &l.in[i]
		}
	}
	l.in = append(l.in, copyIn{queue: queue})
	return &l.in[len(l.in)-1]
}

// leaves forgets the copy in a queue, but for those that are there beside it.
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
	// letters are the messages by their numbers, spared those that were forgotten, for the next ones.
	letters dense.Table[uint64, *letter]
	spared  []*letter
	// troubled is when a fault on a process or on the database last began or ended: a process that stands still or receives
	// nothing settles nothing, and none settles a message before the database has stored what it says.
	troubled map[string]time.Duration
	// lasting counts the faults that were announced for a process or a server and are not over.
	lasting map[string]int
	// broken counts those of them that can break connections.
	broken map[string]int
	// kept counts, for each process, what it stored without having read it less what it then acknowledged.
	kept map[string]int
	// Evidence may not tell who acknowledged a message, and when: those, and all that were stored, are counted, and
	// compared at the end.
	unnamed, stored int
}

// letter is the message that an event is about.
func (c *conservationChecker) letter(e *history.Event) *letter {
	l := c.letters.Make(e.Message)
	if *l == nil {
		*l = spare(&c.spared)
	}
	return *l
}

// forget drops a message of which nothing is left.
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
		at.out, at.delivered = true, e.At
	case history.Requeued:
		at := c.letter(e).at(e.Queue)
		at.out = false
		c.s.judged(c.i)
		// A link that is broken off again and again brings everything back each time, for as long as that lasts.
		if c.broken[e.Process]+c.broken[fault.Broker] > 0 {
			break
		}
		if at.rounds++; at.rounds > mostRounds {
			c.s.violate(c.i, e.Execution, "message %d%s has gone back into queue %s %d times", e.Message, about(e.Execution, e.Epoch), e.Queue, at.rounds)
		}
	case history.Acked:
		if was := c.leave(e); was.out {
			c.held(e, was.delivered)
		}
		// A block is one body, whatever it was to dispatch: it is stored once.
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
		// A hint may expire: it is only worth something for a while, and carries no execution. Without dead lettering
		// what dies goes nowhere, as was asked for. A canary's queues expire with it where its executor went away.
		if e.Fault != "" || strings.HasPrefix(e.Queue, canaryQueues) || !c.s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
			break
		}
		c.s.judged(c.i)
		if was.tooOften {
			c.s.violate(c.i, e.Execution, "message %d%s came back to queue %s more often than that allows and is gone: the queue has no dead letter exchange, and was not declared to keep what comes back",
				e.Message, about(e.Execution, e.Epoch), e.Queue)
			break
		}
		if e.Execution != 0 || !was.expired {
			c.lost(e)
		}
	case history.ConsumerTimedOut:
		if since := e.At - e.Due; e.Due >= consumerTimeout {
			c.held(e, since)
		}
	case history.FaultBegan, history.FaultEnded, history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
		history.DatabaseDown, history.DatabaseUp:
		c.trouble(e)
	case history.Rejected:
		if at := c.letter(e).at(e.Queue); at.out {
			at.out = false
			c.held(e, at.delivered)
		}
	case history.Expired:
		c.letter(e).at(e.Queue).expired = true
	case history.ReturnedTooOften:
		c.letter(e).at(e.Queue).tooOften = true
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

// consumerTimeout is how long RabbitMQ waits for the acknowledgement of a delivery before it closes the channel, or cancels
// the consumer
// (its default since 3.8.17). A consumer that settles later loses all its unsettled deliveries.
const consumerTimeout = 30 * time.Minute

// held judges how long a consumer has held a delivery, which it settles or the broker takes back.
func (c *conservationChecker) held(e *history.Event, since time.Duration) {
	if c.lasting[e.Process]+c.lasting[fault.Database] > 0 || max(c.troubled[e.Process], c.troubled[fault.Database]) > since {
		return
	}
	c.s.judged(c.i)
	if e.At-since >= consumerTimeout {
		c.s.violate(c.i, e.Execution, "message %d%s stayed unacknowledged at %s for %v; RabbitMQ closes the channel of a consumer that holds one for %v",
			e.Message, about(e.Execution, e.Epoch), e.Process, e.At-since, consumerTimeout)
	}
}

// mostRounds is far more than the connections that any run loses, and far less than a hot loop makes
// (defect D25).
const mostRounds = 50

// leave judges that what leaves a queue was there, and returns what was known of it.
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
