package brokertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"handoff/core/broker"
	"handoff/core/execution"
)

// routing is the same for every queue type.
var either = []string{Classic}

// topics are patterns, keys, and the keys that match.
var topics = []struct{ pattern, keys string }{
	{"a.b", "a.b"},
	{"*", "a;b"},
	{"a.*", "a.b;a.;a.a;a.c"},
	{"*.b", "a.b;.b"},
	{"#", "a;b;;a.b;a.;a.a;.b;a.b.c;a.c;a..c;a.b.b.c;b.c"},
	{"a.#", "a;a.b;a.;a.a;a.b.c;a.c;a..c;a.b.b.c"},
	{"#.c", "a.b.c;a.c;a..c;a.b.b.c;b.c"},
	{"a.#.c", "a.b.c;a.c;a..c;a.b.b.c"},
	{"a.*.c", "a.b.c;a..c"},
	{"#.*", "a;b;a.b;a.;a.a;.b;a.b.c;a.c;a..c;a.b.b.c;b.c"},
	{"*.#.c", "a.b.c;a.c;a..c;a.b.b.c;b.c"},
	{"", ""},
	{"#.#", "a;b;;a.b;a.;a.a;.b;a.b.c;a.c;a..c;a.b.b.c;b.c"},
}

func routingCases() []Case {
	return []Case{
		{Name: "rule 1 on a topic a star is one word and a hash any number, and the empty key has no words", Types: either, body: topicTable},
		{Name: "rule 1 on a direct exchange hash and star are ordinary characters", Types: either, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Direct)},
				Queues:    []broker.Queue{b.queueNamed("hash"), b.queueNamed("star"), b.queueNamed("word")},
				Bindings:  []broker.Binding{b.newBinding("x", "#", "hash"), b.newBinding("x", "*", "star"), b.newBinding("x", "a", "word")},
			})
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 1)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "#", 2)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "*", 3)
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "b", 4)
			b.expectMessages("word", 1)
			b.expectMessages("hash", 2)
			b.expectMessages("star", 3)
		}},
		{Name: "rule 2 the default exchange routes by queue name", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("q"), b.queueNamed("r")}})
			b.publishExpecting(s, broker.Confirmed, "", b.objectName("q"), 1)
			b.publishExpecting(s, broker.Returned, "", b.objectName("none"), 2)
			b.publishExpecting(s, broker.Confirmed, "", b.objectName("r"), 3)
			b.expectMessages("q", 1)
			b.expectMessages("r", 3)
		}},
		{Name: "a message reaches a queue once though two of its bindings match", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queueNamed("q")},
				Bindings:  []broker.Binding{b.newBinding("x", "a.*", "q"), b.newBinding("x", "#", "q"), b.newBinding("x", "#", "q")},
			})
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a.b", 1)
			b.expectMessages("q", 1)
		}},
		{Name: "rule 6 a confirmed message is in every queue that it was routed to", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queueNamed("q"), b.queueNamed("r"), {Name: b.objectName("other"), Type: Classic}},
				Bindings:  []broker.Binding{b.newBinding("x", "a", "q"), b.newBinding("x", "*", "r"), b.newBinding("x", "#", "other"), b.newBinding("x", "b", "q")},
			})
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 1, 2)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "b", 3)
			for _, queue := range []string{"q", "r", "other"} {
				b.expectMessages(queue, 1, 2, 3)
			}
		}},
	}
}

func topicTable(b *fixture) {
	s := b.openSession()
	keys := []string{"a", "b", "", "a.b", "a.", "a.a", ".b", "a.b.c", "a.c", "a..c", "a.b.b.c", "b.c"}
	top := broker.Topology{Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)}}
	for i, topic := range topics {
		name := fmt.Sprint("t", i)
		top.Queues = append(top.Queues, b.queueNamed(name))
		top.Bindings = append(top.Bindings, b.newBinding("x", topic.pattern, name))
	}
	b.declareTopology(s, top)
	for i, key := range keys {
		b.publishExpecting(s, broker.Confirmed, b.objectName("x"), key, i+1)
	}
	for i, topic := range topics {
		var got []string
		for _, d := range b.drainQueue(fmt.Sprint("t", i)) {
			got = append(got, d.RoutingKey)
		}
		b.expect(fmt.Sprintf("the keys that %q matches", topic.pattern), strings.Join(got, ";"), topic.keys)
	}
}

func publishCases() []Case {
	return []Case{
		{Name: "rule 4 a publish without a route is returned, and its neighbours are confirmed", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			q, none := b.objectName("q"), b.objectName("none")
			got := s.Publish(b.ctx, []broker.Message{newMessage("", q, 1), newMessage("", none, 2), newMessage("", q, 3), newMessage("", none, 4)})
			b.expect("the outcomes", got, []broker.Outcome{broker.Confirmed, broker.Returned, broker.Confirmed, broker.Returned})
			b.expectMessages("q", 1, 3)
		}},
		{Name: "rule 4 an exchange without a matching binding returns", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic)}})
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "a", 1)
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("q")}, Bindings: []broker.Binding{b.newBinding("x", "a", "q")}})
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "a", 2)
			b.publishExpecting(s, broker.Returned, b.objectName("x"), "b", 3)
			b.expectMessages("q", 2)
		}},
		{Name: "rule 5 a publish to a missing exchange closes the session, and no other", body: func(b *fixture) {
			s, other := b.openSession(), b.openSession()
			b.declareQueue(s)
			got := s.Publish(b.ctx, []broker.Message{newMessage("", b.objectName("q"), 1), newMessage(b.objectName("none"), "a", 2), newMessage("", b.objectName("q"), 3)})
			if got[1] != broker.Unknown || got[2] == broker.Returned {
				b.errorf("the outcomes are %v, the contract says the second is unknown and the third not returned", got)
			}
			b.letBrokerSettle()
			b.expect("the session is closed", s.Closed(), true)
			b.expect("another is closed", other.Closed(), false)
			b.enqueueMessages(other, 4)
			left := messageNumbers(b.drainQueue("q"))
			// Messages with different keys have no order, so the refusal may overtake the first and
			// be overtaken by the third. A confirmed message is stored, an unsent one is not, and
			// an unknown one may be either.
			var want []int
			for i, id := range []int{1, 3} {
				if o := got[2*i]; o == broker.Confirmed || o == broker.Unknown && slices.Contains(left, id) {
					want = append(want, id)
				}
			}
			want = append(want, 4)
			b.expect("stored before the refusal, and after it by another", left, want)
		}},
		{Name: "rule 38 publishes of one session keep their order", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			for i := range 4 {
				b.enqueueMessages(s, upTo(50*i+1, 50*i+50)...)
			}
			b.expectMessages("q", upTo(1, 200)...)
		}},
		{Name: "an empty batch has no outcomes", Types: either, body: func(b *fixture) {
			b.expect("how many", len(b.openSession().Publish(b.ctx, nil)), 0)
		}},
		{Name: "messages that were not sent are not stored", body: notSent},
		{Name: "an envelope arrives as it was sent", body: roundTrip},
		{Name: "a body that is no envelope is delivered as malformed, and can be settled", needs: needsMalform, body: receiveMalformed},
		{Name: "rule 15 a malformed message is dead-lettered as it is", needs: needsMalform, body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			b.Malform("", b.objectName("q"))
			c := b.startConsumer(s, "q", 1)
			c.Reject(b.receiveDelivery(c), false)
			d := b.receiveDelivery(b.startConsumer(s, "dead", 1))
			b.expect("it is malformed", d.Malformed != nil && len(d.Body) > 0, true)
			b.expect("its deaths", b.deathSummary(d), "q rejected 1")
			b.expect("its key", d.RoutingKey, b.objectName("q"))
		}},
	}
}

func notSent(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	ended, cancel := b.ctx, func() {}
	b.Within(0, func(ctx context.Context) {
		for range 100 {
			if ctx.Err() != nil {
				break
			}
			b.letBrokerSettle()
		}
		ended = ctx
		got := s.Publish(ended, []broker.Message{newMessage("", b.objectName("q"), 1), newMessage("", b.objectName("q"), 2)})
		b.expect("the outcomes after the context's end", got, []broker.Outcome{broker.NotSent, broker.NotSent})
	})
	cancel()
	b.enqueueMessages(s, 3)
	s.Close()
	b.publishExpecting(s, broker.NotSent, "", b.objectName("q"), 4, 5)
	b.expectMessages("q", 3)
}

func roundTrip(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	dispatch := newMessage("", b.objectName("q"), 7)
	dispatch.Envelope.Dispatches[0].Parameters = []byte(`{"text":"<ä> & \"quoted\""}`)
	hint := newMessage("", b.objectName("q"), 0)
	hint.Envelope.Type, hint.Envelope.Dispatches = broker.ExecutionStatusChanged, nil
	hint.Envelope.CorrelationID = ""
	hint.Envelope.Changes = []broker.Change{
		{Key: execution.Key{ID: 1, Epoch: 2}, From: execution.Scheduled, To: execution.Running},
		{Key: execution.Key{ID: 2, Epoch: 1}, From: execution.Running, To: execution.Failed},
	}
	block := newMessage("", b.objectName("q"), 8)
	block.Envelope.Version, block.Envelope.CorrelationID = broker.VersionBlock, ""
	other := block.Envelope.Dispatches[0]
	other.Key, other.Parameters = execution.Key{ID: 9, Epoch: 4}, []byte(`[1,"ä"]`)
	block.Envelope.Dispatches = append(block.Envelope.Dispatches, other)
	for i, o := range s.Publish(b.ctx, []broker.Message{dispatch, hint, block}) {
		b.expect(fmt.Sprint("outcome ", i), o, broker.Confirmed)
	}
	c := b.startConsumer(s, "q", 3)
	for _, sent := range []broker.Message{dispatch, hint, block} {
		d := b.receiveDelivery(c)
		if !reflect.DeepEqual(d.Envelope, sent.Envelope) {
			b.errorf("received %+v, the contract says %+v", d.Envelope, sent.Envelope)
		}
		b.expect("its key", d.RoutingKey, b.objectName("q"))
		b.expect("its deaths and what is wrong with it", fmt.Sprint(len(d.Deaths), d.Malformed), "0 <nil>")
	}
}

func receiveMalformed(b *fixture) {
	s := b.openSession()
	b.declareQueue(s)
	b.Malform("", b.objectName("q"))
	b.enqueueMessages(s, 1)
	c := b.startConsumer(s, "q", 1)
	d := b.receiveDelivery(c)
	b.expect("it is malformed", d.Malformed != nil, true)
	b.expect("its body is kept", len(d.Body) > 0, true)
	b.expect("it has a payload", d.Envelope.Dispatches != nil || d.Envelope.Changes != nil, false)
	b.expectNoDelivery("behind a malformed message that is not settled", c)
	c.Ack(d)
	b.expect("the next", messageNumber(b.receiveDelivery(c)), 1)
}
