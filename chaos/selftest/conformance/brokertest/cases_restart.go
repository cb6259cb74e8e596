package brokertest

import (
	"time"

	"handoff/core/broker"
)

// outlasting is a case about what survives a restart. before prepares it and returns the check for
// afterwards. All cases share one restart, because the real one takes seconds.
type outlasting struct {
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

func outlastingCases() []outlasting {
	return append(messageRestartCases(), settingsRestartCases()...)
}

func messageRestartCases() []outlasting {
	return []outlasting{
		{Case{Name: "rule 13 an expiry after the restart keeps its time"}, func(b *fixture) func() {
			const long = 8 * time.Second
			b.path(b.session(), long)
			begin := b.Now()
			b.put(b.sessions[0], 1)
			end := b.Now()
			return func() {
				c := b.consume(b.session(), "dead", 1)
				d, err := b.next(c, long+patience)
				b.must(err)
				if lived := b.Now() - begin; lived < long {
					b.errorf("died after %v, the contract says never before %v", lived, long)
				}
				// A death while the broker was starting is visible when it is up.
				if late := b.Now() - max(end+long, b.back); !b.Busy && late > b.Late+2*time.Second {
					b.errorf("died %v late, after %v", late, b.Now()-end)
				}
				b.expect("its deaths", b.deaths(d), "q expired 1")
			}
		}},
		{Case{Name: "rule 36 what was confirmed is there, in order, and after a kill classic queues mark all of it redelivered"}, func(b *fixture) func() {
			b.plain(b.session())
			b.put(b.sessions[0], upTo(1, 20)...)
			return func() {
				left := b.left("q")
				b.expect("what is left", ids(left), upTo(1, 20))
				want := "--------------------"
				if b.MarksRecovered && b.killed {
					want = "rrrrrrrrrrrrrrrrrrrr"
				}
				b.expect("redelivered", flags(left), want)
			}
		}},
		{Case{Name: "rule 28 what was unsettled is back at its place, redelivered"}, func(b *fixture) func() {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 6)...)
			c.Ack(b.hold(c, 3)[1])
			b.hold(c, 1)
			b.Sleep(b.Quiet) // an acknowledgement that was not written may be forgotten
			return func() {
				_, err := b.next(c, patience)
				b.refused("the consumer", err, broker.ErrClosed)
				b.expect("the session is closed", s.Closed(), true)
				left := b.left("q")
				b.expect("what is left", ids(left), []int{1, 3, 4, 5, 6})
				want := "rrr--"
				if b.MarksRecovered && b.killed {
					want = "rrrrr"
				}
				b.expect("redelivered", flags(left), want)
			}
		}},
		{Case{Name: "rule 28 what was requeued out of turn is in the order that it had"}, func(b *fixture) func() {
			s := b.session()
			b.plain(s)
			c := b.consume(s, "q", 3)
			b.put(s, upTo(1, 5)...)
			ds := b.hold(c, 3)
			b.cancel(c)
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
				b.holds("q", want...)
			}
		}},
	}
}

func settingsRestartCases() []outlasting {
	return []outlasting{
		{Case{Name: "rule 36 exchanges, queues and bindings are there, with their settings"}, func(b *fixture) func() {
			top := broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.mortal("q", time.Hour, "dlx")},
				Bindings:  []broker.Binding{b.bind("x", "a.#", "q")},
			}
			b.declare(b.session(), top)
			return func() {
				s := b.session()
				b.to(s, broker.Confirmed, b.called("x"), "a.b", 1)
				b.declare(s, top)
				other := broker.Topology{Queues: []broker.Queue{b.queue("q")}}
				b.refused("another time to live", s.Declare(b.ctx, other), broker.ErrPrecondition)
				b.holds("q", 1)
			}
		}},
		{Case{Name: "rule 13 what expired while the broker was down is dead, and not delivered"}, func(b *fixture) func() {
			b.path(b.session(), b.soon)
			c := b.consume(b.sessions[0], "q", 1)
			b.put(b.sessions[0], 1, 2)
			b.hold(c, 1)
			return func() {
				s := b.session()
				b.nothing("of what expired", b.consume(s, "q", 2))
				c := b.consume(s, "dead", 2)
				ds := b.hold(c, 2)
				for _, d := range ds {
					b.expect("its deaths", b.deaths(d), "q expired 1")
				}
			}
		}},
		{Case{Name: "rule 18 x-death is kept"}, func(b *fixture) func() {
			s := b.session()
			b.path(s, 0)
			c := b.consume(s, "q", 1)
			b.put(s, 1)
			c.Reject(b.receive(c), false)
			b.receive(b.consume(s, "dead", 1))
			return func() {
				d := b.receive(b.consume(b.session(), "dead", 1))
				b.expect("its deaths", b.deaths(d), "q rejected 1")
				b.expect("it is redelivered", d.Redelivered, true)
			}
		}},
		{Case{Name: "rule 41 a kept dead letter is tried after a restart", Types: []string{Quorum}}, func(b *fixture) func() {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.mortal("q", b.soon, "dlx")}})
			b.put(s, 1)
			b.Sleep(b.soon + b.Late)
			b.path(s, b.soon)
			return func() {
				// It comes at once, unless its target queue comes up after the queue that it is in:
				// then it has to wait for the next attempt.
				d, err := b.next(b.consume(b.session(), "dead", 1), deadLetterRetry+patience)
				b.must(err)
				b.expect("its deaths", b.deaths(d), "q expired 1")
			}
		}},
	}
}

// deadLetterRetry is the time after which a quorum queue again tries a dead letter that had no
// route (rule 41).
const deadLetterRetry = 180 * time.Second
