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

// topics are patterns, keys, and which keys match.
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
			s := b.session()
			b.declare(s, broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Direct)},
				Queues:    []broker.Queue{b.queue("hash"), b.queue("star"), b.queue("word")},
				Bindings:  []broker.Binding{b.bind("x", "#", "hash"), b.bind("x", "*", "star"), b.bind("x", "a", "word")},
			})
			b.to(s, broker.Confirmed, b.called("x"), "a", 1)
			b.to(s, broker.Confirmed, b.called("x"), "#", 2)
			b.to(s, broker.Confirmed, b.called("x"), "*", 3)
			b.to(s, broker.Returned, b.called("x"), "b", 4)
			b.holds("word", 1)
			b.holds("hash", 2)
			b.holds("star", 3)
		}},
		{Name: "rule 2 the default exchange routes by queue name", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q"), b.queue("r")}})
			b.to(s, broker.Confirmed, "", b.called("q"), 1)
			b.to(s, broker.Returned, "", b.called("none"), 2)
			b.to(s, broker.Confirmed, "", b.called("r"), 3)
			b.holds("q", 1)
			b.holds("r", 3)
		}},
		{Name: "a message reaches a queue once though two of its bindings match", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queue("q")},
				Bindings:  []broker.Binding{b.bind("x", "a.*", "q"), b.bind("x", "#", "q"), b.bind("x", "#", "q")},
			})
			b.to(s, broker.Confirmed, b.called("x"), "a.b", 1)
			b.holds("q", 1)
		}},
		{Name: "rule 6 a confirmed message is in every queue that it was routed to", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{
				Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)},
				Queues:    []broker.Queue{b.queue("q"), b.queue("r"), {Name: b.called("other"), Type: Classic}},
				Bindings:  []broker.Binding{b.bind("x", "a", "q"), b.bind("x", "*", "r"), b.bind("x", "#", "other"), b.bind("x", "b", "q")},
			})
			b.to(s, broker.Confirmed, b.called("x"), "a", 1, 2)
			b.to(s, broker.Confirmed, b.called("x"), "b", 3)
			for _, queue := range []string{"q", "r", "other"} {
				b.holds(queue, 1, 2, 3)
			}
		}},
	}
}

func topicTable(b *fixture) {
	s := b.session()
	keys := []string{"a", "b", "", "a.b", "a.", "a.a", ".b", "a.b.c", "a.c", "a..c", "a.b.b.c", "b.c"}
	top := broker.Topology{Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)}}
	for i, topic := range topics {
		name := fmt.Sprint("t", i)
		top.Queues = append(top.Queues, b.queue(name))
		top.Bindings = append(top.Bindings, b.bind("x", topic.pattern, name))
	}
	b.declare(s, top)
	for i, key := range keys {
		b.to(s, broker.Confirmed, b.called("x"), key, i+1)
	}
	for i, topic := range topics {
		var got []string
		for _, d := range b.left(fmt.Sprint("t", i)) {
			got = append(got, d.RoutingKey)
		}
		b.expect(fmt.Sprintf("the keys that %q matches", topic.pattern), strings.Join(got, ";"), topic.keys)
	}
}

func publishCases() []Case {
	return []Case{
		{Name: "rule 4 a publish without a route is returned, and its neighbours are confirmed", body: func(b *fixture) {
			s := b.session()
			b.plain(s)
			q, none := b.called("q"), b.called("none")
			got := s.Publish(b.ctx, []broker.Message{message("", q, 1), message("", none, 2), message("", q, 3), message("", none, 4)})
			b.expect("the outcomes", got, []broker.Outcome{broker.Confirmed, broker.Returned, broker.Confirmed, broker.Returned})
			b.holds("q", 1, 3)
		}},
		{Name: "rule 4 an exchange without a matching binding returns", body: func(b *fixture) {
			s := b.session()
			b.declare(s, broker.Topology{Exchanges: []broker.Exchange{b.exchange("x", broker.Topic)}})
			b.to(s, broker.Returned, b.called("x"), "a", 1)
			b.declare(s, broker.Topology{Queues: []broker.Queue{b.queue("q")}, Bindings: []broker.Binding{b.bind("x", "a", "q")}})
			b.to(s, broker.Confirmed, b.called("x"), "a", 2)
			b.to(s, broker.Returned, b.called("x"), "b", 3)
			b.holds("q", 2)
		}},
		{Name: "rule 5 a publish to a missing exchange closes the session, and no other", body: func(b *fixture) {
			s, other := b.session(), b.session()
			b.plain(s)
			got := s.Publish(b.ctx, []broker.Message{message("", b.called("q"), 1), message(b.called("none"), "a", 2), message("", b.called("q"), 3)})
			if got[1] != broker.Unknown || got[2] == broker.Returned {
				b.errorf("the outcomes are %v, the contract says the second is unknown and the third not returned", got)
			}
			b.settled()
			b.expect("the session is closed", s.Closed(), true)
			b.expect("another is closed", other.Closed(), false)
			b.put(other, 4)
			left := ids(b.left("q"))
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
			s := b.session()
			b.plain(s)
			for i := range 4 {
				b.put(s, upTo(50*i+1, 50*i+50)...)
			}
			b.holds("q", upTo(1, 200)...)
		}},
		{Name: "an empty batch has no outcomes", Types: either, body: func(b *fixture) {
			b.expect("how many", len(b.session().Publish(b.ctx, nil)), 0)
		}},
		{Name: "what was not sent is not stored", body: notSent},
		{Name: "an envelope arrives as it was sent", body: roundTrip},
		{Name: "a body that is no envelope is delivered as malformed, and can be settled", needs: needsMalform, body: malformed},
		{Name: "rule 15 a malformed message is dead-lettered as it is", needs: needsMalform, body: func(b *fixture) {
			s := b.session()
			b.path(s, 0)
			b.Malform("", b.called("q"))
			c := b.consume(s, "q", 1)
			c.Reject(b.receive(c), false)
			d := b.receive(b.consume(s, "dead", 1))
			b.expect("it is malformed", d.Malformed != nil && len(d.Body) > 0, true)
			b.expect("its deaths", b.deaths(d), "q rejected 1")
			b.expect("its key", d.RoutingKey, b.called("q"))
		}},
	}
}

func notSent(b *fixture) {
	s := b.session()
	b.plain(s)
	ended, cancel := b.ctx, func() {}
	b.Within(0, func(ctx context.Context) {
		for range 100 {
			if ctx.Err() != nil {
				break
			}
			b.settled()
		}
		ended = ctx
		got := s.Publish(ended, []broker.Message{message("", b.called("q"), 1), message("", b.called("q"), 2)})
		b.expect("the outcomes after the context's end", got, []broker.Outcome{broker.NotSent, broker.NotSent})
	})
	cancel()
	b.put(s, 3)
	s.Close()
	b.to(s, broker.NotSent, "", b.called("q"), 4, 5)
	b.holds("q", 3)
}

func roundTrip(b *fixture) {
	s := b.session()
	b.plain(s)
	dispatch := message("", b.called("q"), 7)
	dispatch.Envelope.Dispatches[0].Parameters = []byte(`{"text":"<ä> & \"quoted\""}`)
	hint := message("", b.called("q"), 0)
	hint.Envelope.Type, hint.Envelope.Dispatches = broker.ExecutionStatusChanged, nil
	hint.Envelope.CorrelationID = ""
	hint.Envelope.Changes = []broker.Change{
		{Key: execution.Key{ID: 1, Epoch: 2}, From: execution.Scheduled, To: execution.Running},
		{Key: execution.Key{ID: 2, Epoch: 1}, From: execution.Running, To: execution.Failed},
	}
	block := message("", b.called("q"), 8)
	block.Envelope.Version, block.Envelope.CorrelationID = broker.VersionBlock, ""
	other := block.Envelope.Dispatches[0]
	other.Key, other.Parameters = execution.Key{ID: 9, Epoch: 4}, []byte(`[1,"ä"]`)
	block.Envelope.Dispatches = append(block.Envelope.Dispatches, other)
	for i, o := range s.Publish(b.ctx, []broker.Message{dispatch, hint, block}) {
		b.expect(fmt.Sprint("outcome ", i), o, broker.Confirmed)
	}
	c := b.consume(s, "q", 3)
	for _, sent := range []broker.Message{dispatch, hint, block} {
		d := b.receive(c)
		if !reflect.DeepEqual(d.Envelope, sent.Envelope) {
			b.errorf("received %+v, the contract says %+v", d.Envelope, sent.Envelope)
		}
		b.expect("its key", d.RoutingKey, b.called("q"))
		b.expect("its deaths and what is wrong with it", fmt.Sprint(len(d.Deaths), d.Malformed), "0 <nil>")
	}
}

func malformed(b *fixture) {
	s := b.session()
	b.plain(s)
	b.Malform("", b.called("q"))
	b.put(s, 1)
	c := b.consume(s, "q", 1)
	d := b.receive(c)
	b.expect("it is malformed", d.Malformed != nil, true)
	b.expect("its body is kept", len(d.Body) > 0, true)
	b.expect("it has a payload", d.Envelope.Dispatches != nil || d.Envelope.Changes != nil, false)
	b.nothing("behind a malformed message that is not settled", c)
	c.Ack(d)
	b.expect("the next", id(b.receive(c)), 1)
}
