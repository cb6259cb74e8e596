package rabbitmqtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/host/daemon"
)

func topologyConfig(w *world, queueType string) config.RabbitMQ {
	c := config.Default(config.Hardened).MessageQueue.RabbitMQ
	c.QueueType = queueType
	c.DeadLetter.Exchange = w.objectName("attune.dlx")
	return c
}

// TestDeclareTopology: each side declares its part, in any order and repeatedly.
func TestDeclareTopology(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		if w.mq.Prefix != "" {
			t.Skip("needs a virtual host of its own")
		}
		s := w.openSession(rabbitmq.Options{})
		c := topologyConfig(w, queueType)
		for range 2 {
			for _, topology := range []broker.Topology{broker.ExecutorTopology(c), broker.WorkerTopology(c, 7)} {
				if err := s.Declare(w.contextWithin(patience), topology); err != nil {
					t.Fatal(err)
				}
			}
		}
		m := w.newMessage("")
		m.Exchange, m.RoutingKey = broker.ExchangeExecutions, broker.DispatchKey(7)
		w.publishConfirmed(s, m)
		w.receiveDelivery(w.startConsumer(s, broker.WorkerQueue(7), 1))
		m.RoutingKey = broker.DispatchKey(8)
		if got := s.Publish(w.contextWithin(patience), []broker.Message{m}); got[0] != broker.Returned {
			t.Errorf("a dispatch to a worker without a queue is %v", got[0])
		}
	})
}

// TestDeclareWithOtherSettings: the error is clear, and the session stays usable.
func TestDeclareWithOtherSettings(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	queue, x := w.objectName("q"), w.objectName("x")
	old := broker.Queue{Name: queue, Type: quorum, TTL: time.Minute, DeadLetterExchange: x}
	if err := s.Declare(w.contextWithin(patience), broker.Topology{Exchanges: []broker.Exchange{{Name: x, Kind: broker.Direct}}, Queues: []broker.Queue{old}}); err != nil {
		t.Fatal(err)
	}
	for setting, change := range map[string]func(*broker.Topology){
		"x-message-ttl":          func(t *broker.Topology) { t.Queues[0].TTL = time.Hour },
		"x-dead-letter-exchange": func(t *broker.Topology) { t.Queues[0].DeadLetterExchange = "other" },
		"arg 'x-":                func(t *broker.Topology) { t.Queues[0].Type = classic },
		"'type' for exchange":    func(t *broker.Topology) { t.Exchanges = []broker.Exchange{{Name: x, Kind: broker.Topic}} },
	} {
		topology := broker.Topology{Queues: []broker.Queue{old}}
		change(&topology)
		err := s.Declare(w.contextWithin(patience), topology)
		name := map[bool]string{true: x, false: queue}[topology.Exchanges != nil]
		if !errors.Is(err, broker.ErrPrecondition) {
			t.Errorf("%s: %v", setting, err)
			continue
		}
		for _, part := range []string{setting, name, "inequivalent arg", "To migrate: "} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in the error %q", setting, part, err)
			}
		}
	}
	if err := s.Declare(w.contextWithin(patience), broker.Topology{Queues: []broker.Queue{old}}); err != nil || s.Closed() {
		t.Errorf("afterwards: %v, closed: %v", err, s.Closed())
	}
}

func TestDeclareInvalidTopology(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	for what, topology := range map[string]broker.Topology{
		"kind":    {Exchanges: []broker.Exchange{{Name: w.objectName("x"), Kind: "round"}}},
		"type":    {Queues: []broker.Queue{{Name: w.objectName("q"), Type: "stream"}}},
		"binding": {Bindings: []broker.Binding{{Exchange: w.objectName("no"), Pattern: "#", Queue: w.objectName("no")}}},
	} {
		err := s.Declare(w.contextWithin(patience), topology)
		if err == nil || errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrPrecondition) || s.Closed() {
			t.Errorf("%s: %v, closed: %v", what, err, s.Closed())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Declare(ctx, broker.Topology{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}

// TestAtLeastOnceDeadLettering: without a route a quorum queue keeps its dead letters, and a
// classic one loses them.
func TestAtLeastOnceDeadLettering(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if !w.mq.Server.Private() {
		t.Skip("asks the node")
	}
	s := w.openSession(rabbitmq.Options{})
	for queueType, want := range map[string]string{quorum: "1", classic: "0"} {
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName(queueType), Type: queueType, TTL: 50 * time.Millisecond, DeadLetterExchange: w.objectName("missing")})
		w.publishConfirmed(s, w.newMessage(queue))
		count := func() string {
			out, err := w.mq.Server.Ctl(w.contextWithin(patience), "-q", "list_queues", "-p", w.mq.Vhost, "--no-table-headers", "name", "messages_ready", "messages")
			if err != nil {
				t.Fatal(err, out)
			}
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); len(f) == 3 && f[0] == queue {
					return f[1] + " " + f[2]
				}
			}
			return out
		}
		time.Sleep(200 * time.Millisecond) // dead by now
		w.waitUntil(queueType+": none ready, in all "+want, func() bool { return count() == "0 "+want })
	}
}

func TestCanary(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		if w.mq.Prefix != "" {
			t.Skip("needs a virtual host of its own")
		}
		h := daemon.New(daemon.Options{})
		s := w.openSession(rabbitmq.Options{})
		c := topologyConfig(w, queueType)
		if err := s.Declare(w.contextWithin(patience), broker.ExecutorTopology(c)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := broker.Canary(t.Context(), h, s, c); err != nil {
			t.Fatal(err)
		}
		t.Logf("the round trip took %v", time.Since(start))
		// The dead letter queue has both messages, marked as the canary's. The canary's own queues
		// are gone.
		graves := w.startConsumer(s, broker.DeadLetterQueue(c.DeadLetter.Exchange), 10)
		died := ""
		for range 2 {
			d := w.receiveDelivery(graves)
			if d.Malformed != nil || d.Envelope.Type != broker.DeadLetterCanary || len(d.Envelope.Changes) != 0 {
				t.Errorf("the canary is %+v", d)
			}
			for _, death := range d.Deaths {
				died = death.Queue
			}
		}
		for _, queue := range []string{died, died + ".arrival"} {
			if state, err := s.QueueState(t.Context(), queue); err != nil || died == "" || state.Exists {
				t.Errorf("the canary's queue %q is left behind: %+v, %v", queue, state, err)
			}
		}
	})
}

// TestCanaryDetectsBrokenPaths: the exchange of the source documents is a direct one, for which "#"
// is an ordinary character.
func TestCanaryDetectsBrokenPaths(t *testing.T) {
	w := newWorld(t)
	h, s := daemon.New(daemon.Options{}), w.openSession(rabbitmq.Options{})
	c := topologyConfig(w, quorum)
	exchange, queue := c.DeadLetter.Exchange, broker.DeadLetterQueue(c.DeadLetter.Exchange)
	fly := func(what, want string) {
		t.Helper()
		err := broker.Canary(t.Context(), h, s, c)
		if err == nil != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the canary says %v, want %q", what, err, want)
		}
		if s.Closed() {
			t.Fatalf("%s: the session is closed", what)
		}
	}
	declare := func(kind broker.ExchangeKind) {
		t.Helper()
		if err := s.Declare(t.Context(), broker.Topology{
			Exchanges: []broker.Exchange{{Name: exchange, Kind: kind}}, Bindings: []broker.Binding{{Exchange: exchange, Pattern: "#", Queue: queue}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	fly("without a dead letter queue", queue+" does not exist")
	w.declareQueue(s, broker.Queue{Name: queue, Type: quorum})
	fly("without an exchange", "no exchange")
	declare(broker.Direct)
	fly("with a direct exchange", "'type' for exchange")
	if err := w.raw.ExchangeDelete(exchange, false, false); err != nil {
		t.Fatal(err)
	}
	declare(broker.Topic)
	fly("with a whole path", "")
	if err := w.raw.QueueUnbind(queue, "#", exchange, nil); err != nil {
		t.Fatal(err)
	}
	fly("with a dead letter queue that is not bound", "has no route")
	c.DeadLetter.Enabled = false
	fly("without dead lettering", "")
	c.DeadLetter.Enabled = true
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := broker.Canary(ctx, h, s, c); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}
