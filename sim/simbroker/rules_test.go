package simbroker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
)

// TestRules has a case for each rule of the broker that one or two clients suffice to test. The number is the
// rule's.
func TestRules(t *testing.T) {
	cases := []struct {
		rule int
		name string
		run  func(w *world)
	}{
		{1, "a literal hash on a direct exchange loses dead letters", directHash},
		{2, "the default exchange routes by queue name", defaultExchange},
		{4, "a mandatory publish without a route is returned", returned},
		{5, "a missing exchange closes the session", missingExchange},
		{6, "a confirm means that every routed queue has stored it", confirmed},
		{10, "expired messages leave at the head only", headOnly},
		{11, "a prefetched message does not expire", prefetchedLives},
		{12, "requeueing keeps the expiry", requeueKeepsExpiry},
		{12, "a requeued message that is past its expiry dies though a consumer waits", requeuePastExpiry},
		{12, "a requeued message dies before a newer one that was at the front", requeueInFront},
		{15, "rejecting without requeue dead-letters", rejected},
		{17, "a classic queue drops a dead letter without a route", classicNoRoute},
		{18, "x-death counts by queue and reason, newest first", deathCounts},
		{19, "a dead letter cycle without a rejection is dropped", cycle},
		{22, "a redeclaration with other settings is refused", redeclare},
		{25, "prefetch limits what is unsettled and consumers take turns", prefetch},
		{26, "settling twice closes the session", settleTwice},
		{27, "cancelling keeps what is unsettled", cancelKeeps},
		{28, "closing requeues at the old places", closeRequeues},
		{28, "closing puts everything back before anybody gets something", closeThenServe},
		{32, "deleting a queue cancels its consumers", deleteCancels},
		{38, "publishes keep their order", order},
		{41, "a quorum queue keeps a dead letter without a route", quorumNoRoute},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("rule %d %s", c.rule, c.name), func(t *testing.T) {
			for seed := range uint64(5) {
				w := newWorld(t, seed)
				c.run(w)
				w.run(hour)
			}
		})
	}
}

func TestRule1Topics(t *testing.T) {
	cases := []struct {
		pattern, key string
		want         bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a", false},
		{"a", "a.b", false},
		{"*", "a", true},
		{"*", "a.b", false},
		{"a.*", "a", false},
		{"a.*", "a.b", true},
		{"#", "", true},
		{"#", "a.b.c", true},
		{"a.#", "a", true},
		{"a.#", "a.b.c", true},
		{"a.#", "b", false},
		{"#.c", "a.b.c", true},
		{"#.c", "c", true},
		{"a.#.c", "a.c", true},
		{"a.#.c", "a.b.b.c", true},
		{"a.#.c", "a.b", false},
		{"#.*", "", false},
		{"*", "", false},
		{"a.*", "a.", true},
		{"*", ".", false},
		{"*.#", "a", true},
		{"a.*.c", "a..c", true},
		{"#.#", "a", true},
		{"", "", true},
		{"", "a", false},
	}
	for _, c := range cases {
		if got := (&exchange{kind: broker.Topic}).matchesKey(c.pattern, c.key); got != c.want {
			t.Errorf("matches(%q, %q) = %v, want %v", c.pattern, c.key, got, c.want)
		}
	}
}

func directHash(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeClassic, broker.Direct, time.Second))
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		w.sleep(2 * time.Second)
		w.expectDepth("q", 0)
		w.expectDepth("dead", 0)
		w.expect(history.Dropped, "q", 1)
	})
}

func defaultExchange(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		w.publish(s, broker.Returned, dispatch("", "other", 1))
		w.expectDepth("q", 1)
	})
}

func returned(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, 0))
		got := s.Publish(background, []broker.Message{dispatch("x", "work", 1), dispatch("x", "play", 2)})
		if got[0] != broker.Confirmed || got[1] != broker.Returned {
			w.t.Errorf("outcomes %v, want confirmed and returned", got)
		}
		w.expect(history.PublishReturned, "", 1)
		w.expect(history.Published, "", 1)
	})
}

func missingExchange(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		got := s.Publish(background, []broker.Message{dispatch("", "q", 1), dispatch("none", "q", 2), dispatch("", "q", 3)})
		if got[1] != broker.Unknown || got[2] != broker.Unknown {
			w.t.Errorf("outcomes %v, want the last two unknown", got)
		}
		if !s.Closed() {
			w.t.Error("the session is open")
		}
		w.expectDepth("q", 1) // the first message was stored, whatever its outcome
	})
}

func confirmed(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		top := mortal(typeQuorum, broker.Topic, 0)
		top.Bindings = append(top.Bindings, broker.Binding{Exchange: "x", Pattern: "*", Queue: "dead"})
		w.declare(s, top)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		for _, q := range []string{"q", "dead"} {
			for _, m := range w.b.queueNamed(q).ready {
				if !m.stored {
					w.t.Errorf("confirmed, but not stored in %s", q)
				}
			}
			w.expectDepth(q, 1)
		}
		if w.r.events[0].Count != 2 {
			w.t.Errorf("Published says %d queues, want 2", w.r.events[0].Count)
		}
	})
}

// headOnly gives messages their own expiries, as per-message expiration does.
func headOnly(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeClassic, broker.Topic, time.Minute))
		start := w.k.Now()
		w.publish(s, broker.Confirmed, dispatches("x", "work", 0, 3)...)
		q := w.b.queueNamed("q")
		q.ready[0].expires = start + 2*time.Second
		q.ready[1].expires = start + time.Second
		q.expiry.Stop()
		q.expiryAt = 0
		q.watchFront()
		w.sleep(1500 * time.Millisecond)
		w.expectDepth("q", 3) // the second message is past its expiry, but not at the head
		w.sleep(time.Second)
		w.expectDepth("q", 1)
		w.expectDepth("dead", 2)
	})
}

func prefetchedLives(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, time.Second))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatches("x", "work", 1, 3)...)
		w.sleep(5 * time.Second)
		w.expectDepth("q", 1)
		w.expectDepth("dead", 1) // the message that was ready
		w.expect(history.Expired, "q", 1)
		d, _ := w.receive(c)
		c.Ack(d)
		w.sleep(time.Second)
		w.expect(history.Acked, "q", 1)
	})
}

func requeueKeepsExpiry(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, 1500*time.Millisecond))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		w.sleep(time.Second)
		d, _ := w.receive(c)
		if err := c.Cancel(background); err != nil {
			w.t.Error(err)
		}
		c.Reject(d, true)
		w.sleep(2 * time.Second)
		w.expectDepth("dead", 1)
		lived := w.r.at(w.t, history.Expired) - w.r.at(w.t, history.Enqueued)
		if lived < 1500*time.Millisecond || lived > 1522*time.Millisecond {
			w.t.Errorf("died after %v, want 1.5 s and at most 22 ms", lived)
		}
	})
}

func requeuePastExpiry(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, time.Second))
		c := w.consume(s, "q", 0)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		d, _ := w.receive(c)
		w.sleep(2 * time.Second)
		c.Reject(d, true)
		if _, ok := w.receive(c); ok {
			w.t.Error("an expired message was delivered")
		}
		w.expectDepth("dead", 1)
		if w.r.at(w.t, history.Expired) != w.r.at(w.t, history.Requeued) {
			w.t.Error("it did not die at once")
		}
		deaths := w.b.Ready("dead")[0].Deaths
		if len(deaths) != 1 || deaths[0].Reason != broker.DeathExpired || deaths[0].Queue != "q" {
			w.t.Errorf("deaths %+v, want one of expired in q", deaths)
		}
	})
}

func requeueInFront(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeClassic, broker.Topic, 5*time.Second))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		d, _ := w.receive(c)
		w.sleep(3 * time.Second)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 2))
		if err := c.Cancel(background); err != nil {
			w.t.Error(err)
		}
		c.Reject(d, true)
		w.sleep(2500 * time.Millisecond)
		w.expectDepth("dead", 1)
		w.expectDepth("q", 1)
	})
}

func rejected(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, 0))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 7))
		d, _ := w.receive(c)
		c.Reject(d, false)
		dead, ok := w.receive(w.consume(s, "dead", 1))
		if !ok || dead.RoutingKey != "work" || dead.Redelivered || numberOf(dead) != 7 {
			w.t.Errorf("dead letter %+v, want the message under its own key, not redelivered", dead)
		}
		if len(dead.Deaths) != 1 || dead.Deaths[0].Reason != broker.DeathRejected || dead.Deaths[0].Count != 1 {
			w.t.Errorf("deaths %+v", dead.Deaths)
		}
	})
}

func classicNoRoute(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, broker.Topology{Queues: []broker.Queue{
			{Name: "q", Type: typeClassic, TTL: time.Second, DeadLetterExchange: "missing"},
		}})
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		w.sleep(2 * time.Second)
		w.expectDepth("q", 0)
		w.expect(history.Dropped, "q", 1)
		w.expect(history.DeadLettered, "", 0)
	})
}

// deathCounts sends one message in a circle: it is rejected from work, expires in wait, and returns to work.
func deathCounts(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, broker.Topology{
			Exchanges: []broker.Exchange{{Name: "retry", Kind: broker.Topic}, {Name: "again", Kind: broker.Topic}},
			Queues: []broker.Queue{
				{Name: "work", Type: typeQuorum, DeadLetterExchange: "retry"},
				{Name: "wait", Type: typeQuorum, TTL: time.Second, DeadLetterExchange: "again"},
			},
			Bindings: []broker.Binding{
				{Exchange: "retry", Pattern: "#", Queue: "wait"}, {Exchange: "again", Pattern: "#", Queue: "work"},
			},
		})
		c := w.consume(s, "work", 1)
		w.publish(s, broker.Confirmed, dispatch("", "work", 1))
		for round := range 3 {
			d, err := c.Receive(background)
			if err != nil {
				w.t.Fatal(err)
			}
			if round == 2 {
				if len(d.Deaths) != 2 || d.Deaths[0].Queue != "wait" || d.Deaths[0].Count != 2 ||
					d.Deaths[1].Queue != "work" || d.Deaths[1].Count != 2 || !d.Deaths[1].Time.Before(d.Deaths[0].Time) {
					w.t.Errorf("deaths %+v, want wait twice, then work twice", d.Deaths)
				}
				c.Ack(d)
				continue
			}
			c.Reject(d, false)
		}
	})
}

func cycle(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, broker.Topology{
			Exchanges: []broker.Exchange{{Name: "loop", Kind: broker.Topic}},
			Queues:    []broker.Queue{{Name: "q", Type: typeClassic, TTL: time.Second, DeadLetterExchange: "loop"}},
			Bindings:  []broker.Binding{{Exchange: "loop", Pattern: "#", Queue: "q"}},
		})
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		w.sleep(10 * time.Second)
		w.expectDepth("q", 0)
		w.expect(history.Expired, "q", 1)
		w.expect(history.Dropped, "q", 1)
	})
}

func redeclare(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		top := mortal(typeQuorum, broker.Topic, time.Second)
		w.declare(s, top)
		w.declare(s, top)
		other := mortal(typeQuorum, broker.Topic, 2*time.Second)
		if err := s.Declare(background, other); !errors.Is(err, broker.ErrPrecondition) {
			w.t.Errorf("another TTL: %v, want ErrPrecondition", err)
		}
		kind := broker.Topology{Exchanges: []broker.Exchange{{Name: "dlx", Kind: broker.Direct}}}
		if err := s.Declare(background, kind); !errors.Is(err, broker.ErrPrecondition) {
			w.t.Errorf("another kind: %v, want ErrPrecondition", err)
		}
		if _, err := s.Consume(background, "none", 1); err == nil {
			w.t.Error("a missing queue was consumed from")
		}
		if s.Closed() {
			w.t.Error("the session was closed")
		}
	})
}

func quorumNoRoute(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		top := mortal(typeQuorum, broker.Topic, time.Second)
		late := top.Bindings[1]
		top.Bindings = top.Bindings[:1]
		w.declare(s, top)
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		w.sleep(3 * time.Second)
		if d, _ := w.b.Depth("q"); d != (Depth{Queue: "q", Held: 1}) {
			w.t.Errorf("depth %+v, want one held", d)
		}
		w.declare(s, broker.Topology{Bindings: []broker.Binding{late}})
		w.sleep(170 * time.Second)
		w.expectDepth("dead", 0)
		w.sleep(10 * time.Second)
		w.expectDepth("dead", 1)
		w.expectDepth("q", 0)

		w.declare(s, broker.Topology{Queues: []broker.Queue{
			{Name: "other", Type: typeQuorum, TTL: time.Second, DeadLetterExchange: "missing"},
		}})
		w.publish(s, broker.Confirmed, dispatch("", "other", 2))
		w.sleep(2 * time.Second)
		w.expect(history.Expired, "other", 1)
		w.b.DeleteQueue("other")
		w.expect(history.Dropped, "other", 1)
	})
}

// TestRule43ExpiryIsNeverEarly measures how late unconsumed messages expire.
func TestRule43ExpiryIsNeverEarly(t *testing.T) {
	latest := time.Duration(0)
	for seed := range uint64(40) {
		w := newWorld(t, seed)
		w.spawn("p", func(_ *kernel.Process, s broker.Session) {
			w.declare(s, mortal(typeQuorum, broker.Topic, time.Second))
			w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		})
		w.run(hour)
		late := w.r.at(t, history.Expired) - w.r.at(t, history.Enqueued) - time.Second
		if late < 0 || late > 22*time.Millisecond {
			t.Errorf("seed %d: %v late", seed, late)
		}
		latest = max(latest, late)
	}
	if latest < 10*time.Millisecond {
		t.Errorf("the latest was only %v late: the draw is not used", latest)
	}
}

func (w *world) expectDepth(queue string, total int) {
	w.t.Helper()
	if d, _ := w.b.Depth(queue); d.Total() != total {
		w.t.Errorf("depth %+v, want a total of %d", d, total)
	}
}

func (w *world) expect(kind history.Kind, queue string, n int) {
	w.t.Helper()
	if got := w.r.count(kind, queue); got != n {
		w.t.Errorf("%d events of kind %d in %q, want %d", got, kind, queue, n)
	}
}
