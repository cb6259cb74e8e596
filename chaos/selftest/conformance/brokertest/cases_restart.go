package brokertest

import (
	"time"

	"handoff/core/broker"
)

// restartCase is a case about what survives a restart. before prepares it and returns the check for
// afterwards. All cases share one restart, because the real one takes seconds.
type restartCase struct {
	Case
	before func(b *fixture) (after func())
}

// RestartCases lists the names of the cases about what must survive a restart, and a kill.
func RestartCases() []Case {
	var all []Case
	for _, c := range outlastingCases() {
		all = append(all, c.Case)
	}
	return all
}

func outlastingCases() []restartCase {
	return append(messageRestartCases(), settingsRestartCases()...)
}

func messageRestartCases() []restartCase {
	return []restartCase{
		{Case{Name: "rule 13 an expiry after the restart keeps its time"}, func(b *fixture) func() {
			const long = 8 * time.Second
			b.declareDeadLetterPath(b.openSession(), long)
			begin := b.Now()
			b.enqueueMessages(b.sessions[0], 1)
			end := b.Now()
			return func() {
				c := b.startConsumer(b.openSession(), "dead", 1)
				d, err := b.nextDelivery(c, long+patience)
				b.must(err)
				if lived := b.Now() - begin; lived < long {
					b.errorf("died after %v, the contract says never before %v", lived, long)
				}
				// A death during the broker's start is visible when it is up.
				if late := b.Now() - max(end+long, b.back); !b.Busy && late > b.Late+2*time.Second {
					b.errorf("died %v late, after %v", late, b.Now()-end)
				}
				b.expect("its deaths", b.deathSummary(d), "q expired 1")
			}
		}},
		{Case{Name: "rule 36 confirmed messages survive in order, and after a kill classic queues mark all of them redelivered"}, func(b *fixture) func() {
			b.declareQueue(b.openSession())
			b.enqueueMessages(b.sessions[0], upTo(1, 20)...)
			return func() {
				left := b.drainQueue("q")
				b.expect("what is left", messageNumbers(left), upTo(1, 20))
				want := "--------------------"
				if b.MarksRecovered && b.killed {
					want = "rrrrrrrrrrrrrrrrrrrr"
				}
				b.expect("redelivered", redeliveredFlags(left), want)
			}
		}},
		{Case{Name: "rule 28 unsettled messages return to their place, redelivered"}, func(b *fixture) func() {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 6)...)
			c.Ack(b.holdDeliveries(c, 3)[1])
			b.holdDeliveries(c, 1)
			b.Sleep(b.Quiet) // an acknowledgement that was not written may be lost
			return func() {
				_, err := b.nextDelivery(c, patience)
				b.expectError("the consumer", err, broker.ErrClosed)
				b.expect("the session is closed", s.Closed(), true)
				left := b.drainQueue("q")
				b.expect("what is left", messageNumbers(left), []int{1, 3, 4, 5, 6})
				want := "rrr--"
				if b.MarksRecovered && b.killed {
					want = "rrrrr"
				}
				b.expect("redelivered", redeliveredFlags(left), want)
			}
		}},
		{Case{Name: "rule 28 messages requeued out of turn keep their former order"}, func(b *fixture) func() {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 3)
			b.enqueueMessages(s, upTo(1, 5)...)
			ds := b.holdDeliveries(c, 3)
			b.cancelConsumer(c)
			for _, i := range []int{2, 0, 1} {
				c.Reject(ds[i], true)
			}
			b.Sleep(b.Quiet)
			return func() {
				want := upTo(1, 5)
				switch {
				case b.RequeuesLast:
					want = []int{4, 5, 3, 1, 2}
				case b.ByDelivery:
					want = []int{3, 1, 2, 4, 5}
				}
				b.expectMessages("q", want...)
			}
		}},
	}
}

func settingsRestartCases() []restartCase {
	return []restartCase{
		{Case{Name: "rule 36 exchanges, queues and bindings are there, with their settings"}, func(b *fixture) func() {
			top := broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", time.Hour, "dlx")},
				Bindings:  []broker.Binding{b.newBinding("x", "a.#", "q")},
			}
			b.declareTopology(b.openSession(), top)
			return func() {
				s := b.openSession()
				b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a.b", 1)
				b.declareTopology(s, top)
				other := broker.Topology{Queues: []broker.Queue{b.queueNamed("q")}}
				b.expectError("another time to live", s.Declare(b.ctx, other), broker.ErrPrecondition)
				b.expectMessages("q", 1)
			}
		}},
		{Case{Name: "rule 13 messages that expired while the broker was down are dead, and not delivered"}, func(b *fixture) func() {
			b.declareDeadLetterPath(b.openSession(), b.soon)
			c := b.startConsumer(b.sessions[0], "q", 1)
			b.enqueueMessages(b.sessions[0], 1, 2)
			b.holdDeliveries(c, 1)
			return func() {
				s := b.openSession()
				b.expectNoDelivery("of what expired", b.startConsumer(s, "q", 2))
				c := b.startConsumer(s, "dead", 2)
				ds := b.holdDeliveries(c, 2)
				for _, d := range ds {
					b.expect("its deaths", b.deathSummary(d), "q expired 1")
				}
			}
		}},
		{Case{Name: "rule 18 x-death is kept"}, func(b *fixture) func() {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), false)
			b.receiveDelivery(b.startConsumer(s, "dead", 1))
			return func() {
				d := b.receiveDelivery(b.startConsumer(b.openSession(), "dead", 1))
				b.expect("its deaths", b.deathSummary(d), "q rejected 1")
				b.expect("it is redelivered", d.Redelivered, true)
			}
		}},
		{Case{Name: "rule 41 a kept dead letter is tried after a restart", Types: []string{Quorum}}, func(b *fixture) func() {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", b.soon, "dlx")}})
			b.enqueueMessages(s, 1)
			b.Sleep(b.soon + b.Late)
			b.declareDeadLetterPath(s, b.soon)
			return func() {
				// It comes at once, unless its target queue comes up after the queue that it is in. Then it
				// waits for the next attempt.
				d, err := b.nextDelivery(b.startConsumer(b.openSession(), "dead", 1), deadLetterRetry+patience)
				b.must(err)
				b.expect("its deaths", b.deathSummary(d), "q expired 1")
			}
		}},
	}
}

// deadLetterRetry is the time after which a quorum queue retries a dead letter that had no route (rule 41).
const deadLetterRetry = 180 * time.Second
