package brokertest

import (
	"time"

	"handoff/core/broker"
)

func deadLetterCases() []Case {
	return []Case{
		{Name: "rule 15 a rejected message is dead-lettered, an acknowledged one is not", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c := b.startConsumer(s, "q", 2)
			b.enqueueMessages(s, 1, 2)
			ds := b.holdDeliveries(c, 2)
			c.Ack(ds[0])
			c.Reject(ds[1], false)
			d := b.receiveDelivery(b.startConsumer(s, "dead", 0))
			b.expect("the dead letter", messageNumber(d), 2)
			b.expect("its deaths", b.deathSummary(d), "q rejected 1")
			s.Close()
			b.expectMessages("q")
		}},
		{Name: "rule 15 without a dead letter exchange a rejected message is lost", body: func(b *fixture) {
			s := b.openSession()
			b.declareQueue(s)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1, 2)
			c.Reject(b.receiveDelivery(c), false)
			b.expect("the next", messageNumber(b.receiveDelivery(c)), 2)
			s.Close()
			b.expectMessages("q", 2)
		}},
		{Name: "rule 15 deleting a queue dead-letters nothing", needs: needsDelete, body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 0)
			b.enqueueMessages(s, 1, 2, 3)
			b.receiveDelivery(c)
			b.DeleteQueue(b.objectName("q"))
			b.expectNoDelivery("after the deletion", dead)
			s.Close()
			b.expectMessages("dead")
		}},
		{Name: "rule 16 a dead letter keeps its routing key", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("x", broker.Topic), b.newExchange("dlx", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", b.soon, "dlx"), b.queueNamed("ones"), b.queueNamed("others")},
				Bindings:  []broker.Binding{b.newBinding("x", "#", "q"), b.newBinding("dlx", "work.1", "ones"), b.newBinding("dlx", "work.*", "others")},
			})
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "work.1", 1)
			b.publishExpecting(s, broker.Confirmed, b.objectName("x"), "work.2", 2)
			c := b.startConsumer(s, "others", 0)
			for _, d := range b.holdDeliveries(c, 2) {
				b.expect("its key", d.RoutingKey, map[int]string{1: "work.1", 2: "work.2"}[messageNumber(d)])
			}
			b.expectMessages("ones", 1)
		}},
		{Name: "rule 16 published by queue name, its key is the queue's name", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			b.enqueueMessages(s, 1)
			b.expect("its key", b.receiveDelivery(b.startConsumer(s, "dead", 1)).RoutingKey, b.objectName("q"))
		}},
	}
}

func copyCases() []Case {
	return []Case{
		{Name: "rule 6 a dead letter goes to every queue that is bound to its key", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueNamed("copy")}, Bindings: []broker.Binding{b.newBinding("dlx", "#", "copy")}})
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), false)
			for _, queue := range []string{"dead", "copy"} {
				b.expect("the deaths in "+queue, b.deathSummary(b.receiveDelivery(b.startConsumer(s, queue, 1))), "q rejected 1")
			}
		}},
		{Name: "rule 29 a dead letter is not redelivered before 4.0, whatever it was; from then on that of a quorum queue is", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), true)
			d := b.receiveDelivery(c)
			b.expect("before its death", d.Redelivered, true)
			c.Reject(d, false)
			d = b.receiveDelivery(dead)
			b.expect("after its death", d.Redelivered, b.MarksDead)
			dead.Reject(d, true)
			d = b.receiveDelivery(dead)
			b.expect("requeued after its death", d.Redelivered, true)
			b.expect("its deaths then", b.deathSummary(d), "q rejected 1")
		}},
		{Name: "rule 38 messages that expire together keep their order", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, b.soon)
			b.enqueueMessages(s, upTo(1, 30)...)
			b.Sleep(b.soon + b.Late)
			b.expectMessages("dead", upTo(1, 30)...)
		}},
	}
}

func deathCases() []Case {
	return []Case{
		{Name: "rule 18 x-death names queue, reason, count and the broker's time", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), false)
			first := b.receiveDelivery(b.startConsumer(s, "dead", 1)).Deaths
			b.Sleep(2 * time.Second)
			b.enqueueMessages(s, 2)
			c.Reject(b.receiveDelivery(c), false)
			s.Close()
			all := b.drainQueue("dead")
			b.expect("how many deaths each", []int{len(first), len(all[0].Deaths), len(all[1].Deaths)}, []int{1, 1, 1})
			apart := all[1].Deaths[0].Time.Sub(first[0].Time)
			if apart < time.Second || apart > 2*time.Second+patience {
				b.errorf("two seconds apart they died %v apart by x-death", apart)
			}
		}},
		{Name: "rule 18 the times of x-death are whole seconds", body: func(b *fixture) {
			s := b.openSession()
			b.declareDeadLetterPath(s, 0)
			c := b.startConsumer(s, "q", 1)
			for n := range 3 {
				b.Sleep(b.Pause * 3)
				b.enqueueMessages(s, n+1)
				c.Reject(b.receiveDelivery(c), false)
			}
			s.Close()
			for _, d := range b.drainQueue("dead") {
				b.expect("the fraction of its time", d.Deaths[0].Time.Nanosecond(), 0)
			}
		}},
		{Name: "rule 18 a cycle with a rejection counts, newest first, with the time of the first", body: countedCycle},
		{Name: "rule 18 two reasons in one queue are two entries", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("again", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", b.ttl, "again"), b.queueWithTTL("dead", 0, "again")},
				Bindings:  []broker.Binding{b.newBinding("again", b.objectName("q"), "dead")},
			})
			c, dead := b.startConsumer(s, "q", 1), b.startConsumer(s, "dead", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), false)
			d := b.receiveDelivery(dead)
			b.cancelConsumer(c)
			b.expect("after the rejection", b.deathSummary(d), "q rejected 1")
			b.declareTopology(s, broker.Topology{Bindings: []broker.Binding{b.newBinding("again", "#", "q")}})
			dead.Reject(d, false) // to both queues, because the returned message was rejected on its way
			d = b.receiveDelivery(dead)
			b.expect("after two rejections", b.deathSummary(d), "dead rejected 1, q rejected 1")
			dead.Ack(d)
			d = b.receiveDelivery(dead)
			want := "q expired 1, q rejected 1, dead rejected 1"
			if b.NewestFirst {
				want = "q expired 1, dead rejected 1, q rejected 1"
			}
			b.expect("and an expiry", b.deathSummary(d), want)
		}},
		{Name: "rule 18 the newest death comes first, and before 4.0 the older ones turn round with each", body: turningDeaths},
		{Name: "rule 19 a cycle without a rejection is dropped by classic and kept by quorum queues", needs: needsTotal, body: endlessCycle},
		{Name: "rule 19 a message that expires twice on a path without a return is kept", body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("one", broker.Topic), b.newExchange("two", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", b.soon, "one"), b.queueWithTTL("r", b.soon, "two"), b.queueNamed("dead")},
				Bindings:  []broker.Binding{b.newBinding("one", "#", "r"), b.newBinding("two", "#", "dead"), b.newBinding("two", "#", "q")},
			})
			b.enqueueMessages(s, 1)
			d := b.receiveDelivery(b.startConsumer(s, "dead", 1))
			b.expect("its deaths", b.deathSummary(d), "r expired 1, q expired 1")
			b.expectNoDelivery("what would go round", b.startConsumer(s, "q", 1))
		}},
	}
}

// countedCycle sends one message around: rejected from q, expired from wait, and back.
func countedCycle(b *fixture) {
	s := b.openSession()
	b.declareTopology(s, broker.Topology{
		Exchanges: []broker.Exchange{b.newExchange("retry", broker.Topic), b.newExchange("again", broker.Topic)},
		Queues:    []broker.Queue{b.queueWithTTL("q", 0, "retry"), b.queueWithTTL("wait", 1100*time.Millisecond, "again")},
		Bindings:  []broker.Binding{b.newBinding("retry", "#", "wait"), b.newBinding("again", "#", "q")},
	})
	c := b.startConsumer(s, "q", 1)
	b.enqueueMessages(s, 1)
	var first broker.Delivery
	for round, want := range []string{"", "wait expired 1, q rejected 1", "wait expired 2, q rejected 2", "wait expired 3, q rejected 3"} {
		d := b.receiveDelivery(c)
		b.expect("its deaths", b.deathSummary(d), want)
		b.expect("it is redelivered", d.Redelivered, round > 0 && b.MarksDead)
		if round == 1 {
			first = d
		}
		if round > 1 && len(d.Deaths) == 2 && len(first.Deaths) == 2 {
			b.expect("the times are those of the first deaths", []bool{
				d.Deaths[0].Time.Equal(first.Deaths[0].Time), d.Deaths[1].Time.Equal(first.Deaths[1].Time),
				d.Deaths[1].Time.Before(d.Deaths[0].Time),
			}, []bool{true, true, true})
		}
		c.Reject(d, false)
	}
}

func endlessCycle(b *fixture) {
	s := b.openSession()
	b.declareTopology(s, broker.Topology{
		Exchanges: []broker.Exchange{b.newExchange("loop", broker.Topic)},
		Queues:    []broker.Queue{b.queueWithTTL("q", b.soon, "loop")},
		Bindings:  []broker.Binding{b.newBinding("loop", "#", "q")},
	})
	b.enqueueMessages(s, 1)
	b.Sleep(b.soon + b.Late)
	b.expectNoDelivery("what would come round", b.startConsumer(s, "q", 1))
	b.keptOrDropped()
}

// turningDeaths follows a message through four expiries and checks it after each.
func turningDeaths(b *fixture) {
	s := b.openSession()
	var top broker.Topology
	stages := []string{"one", "two", "three", "four"}
	for i, stage := range stages {
		top.Exchanges = append(top.Exchanges, b.newExchange("after-"+stage, broker.Topic))
		top.Queues = append(top.Queues, b.queueWithTTL(stage, b.soon, "after-"+stage), b.queueNamed("saw-"+stage))
		top.Bindings = append(top.Bindings, b.newBinding("after-"+stage, "#", "saw-"+stage))
		if i > 0 {
			top.Bindings = append(top.Bindings, b.newBinding("after-"+stages[i-1], "#", stage))
		}
	}
	b.declareTopology(s, top)
	b.publishExpecting(s, broker.Confirmed, "", b.objectName("one"), 1)
	seen := []string{
		"one expired 1",
		"two expired 1, one expired 1",
		"three expired 1, one expired 1, two expired 1",
		"four expired 1, two expired 1, one expired 1, three expired 1",
	}
	if b.NewestFirst {
		seen[2] = "three expired 1, two expired 1, one expired 1"
		seen[3] = "four expired 1, three expired 1, two expired 1, one expired 1"
	}
	for i, want := range seen {
		d := b.receiveDelivery(b.startConsumer(s, "saw-"+stages[i], 1))
		b.expect("the deaths after "+stages[i], b.deathSummary(d), want)
	}
}

func routelessCases() []Case {
	return []Case{
		{Name: "rule 17 and 41 a dead letter whose exchange is missing is dropped by classic and kept by quorum queues", needs: needsTotal, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", b.soon, "missing")}})
			b.enqueueMessages(s, 1)
			b.Sleep(b.soon + b.Late)
			b.keptOrDropped()
		}},
		{Name: "rule 17 and 41 a dead letter without a binding is dropped by classic and kept by quorum queues", needs: needsTotal, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("dlx", broker.Topic)},
				Queues:    []broker.Queue{b.queueWithTTL("q", 0, "dlx"), b.queueNamed("dead")},
				Bindings:  []broker.Binding{b.newBinding("dlx", "other", "dead")},
			})
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1)
			c.Reject(b.receiveDelivery(c), false)
			b.letBrokerSettle()
			s.Close()
			b.keptOrDropped()
			b.expectMessages("dead")
		}},
		{Name: "rule 1 and 17 a literal hash on a direct exchange loses dead letters", needs: needsTotal, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{
				Exchanges: []broker.Exchange{b.newExchange("dlx", broker.Direct)},
				Queues:    []broker.Queue{b.queueWithTTL("q", b.soon, "dlx"), b.queueNamed("dead")},
				Bindings:  []broker.Binding{b.newBinding("dlx", "#", "dead")},
			})
			b.enqueueMessages(s, 1)
			b.Sleep(b.soon + b.Late)
			b.keptOrDropped()
			b.expectMessages("dead")
		}},
		{Name: "rule 41 a kept dead letter is not retried soon, and does not hold up those behind it", Types: []string{Quorum}, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", 0, "dlx")}})
			c := b.startConsumer(s, "q", 1)
			b.enqueueMessages(s, 1, 2)
			c.Reject(b.receiveDelivery(c), false)
			b.Sleep(time.Second)
			b.declareDeadLetterPath(s, 0)
			dead := b.startConsumer(s, "dead", 0)
			c.Reject(b.receiveDelivery(c), false)
			b.expect("the one behind it", messageNumber(b.receiveDelivery(dead)), 2)
			b.Sleep(2 * time.Second)
			b.expectNoDelivery("the kept one", dead)
			if b.Total != nil {
				b.expect("what the queue answers for", b.Total(b.objectName("q")), 1)
			}
		}},
		{Name: "rule 41 a kept dead letter is retried after three minutes", Types: []string{Quorum}, needs: needsSlow, body: func(b *fixture) {
			s := b.openSession()
			b.declareTopology(s, broker.Topology{Queues: []broker.Queue{b.queueWithTTL("q", b.soon, "dlx")}})
			b.enqueueMessages(s, 1)
			b.Sleep(time.Second)
			b.declareDeadLetterPath(s, b.soon)
			begin := b.Now()
			d, err := b.nextDelivery(b.startConsumer(s, "dead", 0), 4*time.Minute)
			b.must(err)
			b.expect("its deaths", b.deathSummary(d), "q expired 1")
			if waited := b.Now() - begin; waited < 2*time.Minute {
				b.errorf("tried again after %v, the contract says three minutes", waited)
			}
		}},
	}
}

// keptOrDropped expects that the queue q still has one message that no consumer can get, or none,
// depending on its features.
func (f *fixture) keptOrDropped() {
	f.t.Helper()
	want := 0
	if f.HoldsDeadLetters {
		want = 1
	}
	f.expect("what the queue answers for", f.Total(f.objectName("q")), want)
	f.expectMessages("q")
}
