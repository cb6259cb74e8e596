package rabbitmqtest_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/host"
	"handoff/core/host/daemon"
	"handoff/core/testenv"
)

// clientWorld is a process that consumes a queue through broker.Client, as executor and worker do.
type clientWorld struct {
	*world
	client *broker.Client
	queue  string

	mu       sync.Mutex
	received map[string]int
}

func newClientWorld(t *testing.T, url func(w *world) string) *clientWorld {
	w := &clientWorld{world: newWorld(t), received: make(map[string]int)}
	w.queue = w.objectName("q")
	c := config.Default(config.Hardened).MessageQueue.RabbitMQ
	c.ReconnectMin, c.ReconnectMax = 10*time.Millisecond, 100*time.Millisecond
	var h host.Host = daemon.New(daemon.Options{})
	b := rabbitmq.New(rabbitmq.Options{URL: url(w.world), Heartbeat: time.Second, Name: t.Name()})
	topology := broker.Topology{Queues: []broker.Queue{{Name: w.queue, Type: quorum}}}
	w.client = broker.NewClient(h, b, topology, c, slog.New(slog.DiscardHandler))
	ctx, cancel := h.WithCancel(context.Background())
	run := h.Go("client", func() { w.client.Run(ctx) })
	consume := h.Go("consume", func() {
		w.client.Consume(ctx, broker.Subscription{Queue: w.queue, Prefetch: 5, Handle: func(c broker.Consumer, d broker.Delivery) bool {
			w.mu.Lock()
			w.received[d.Envelope.MessageID]++
			w.mu.Unlock()
			c.Ack(d)
			return true
		}})
	})
	t.Cleanup(func() {
		cancel()
		for _, task := range []host.Task{run, consume} {
			if err := task.Wait(w.contextWithin(patience)); err != nil {
				t.Errorf("a task does not end: %v", err)
			}
		}
	})
	return w
}

func (c *clientWorld) hasReceived(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[id] > 0
}

// roundTrip publishes through the client, repeatedly until the broker confirms, and waits for the
// arrival.
func (c *clientWorld) roundTrip(what string) {
	c.t.Helper()
	m := c.newMessage(c.queue)
	c.waitUntil(what+": confirmed", func() bool {
		return c.client.Publish(c.contextWithin(time.Second), []broker.Message{m})[0] == broker.Confirmed
	})
	c.waitUntil(what+": received", func() bool { return c.hasReceived(m.Envelope.MessageID) })
	c.waitUntil(what+": ready", c.client.Ready)
}

// TestClientReconnects: however the session ends, publishing and consuming continue over the next one.
func TestClientReconnects(t *testing.T) {
	t.Parallel()
	var p *proxy
	w := newClientWorld(t, func(w *world) string {
		p = w.startProxy()
		return p.url
	})
	w.roundTrip("at first")
	for i := range 3 {
		p.cutConnections()
		w.roundTrip(fmt.Sprintf("cut %d", i))
	}
	p.setRefuse(true)
	p.cutConnections()
	w.waitUntil("not ready without a broker", func() bool { return !w.client.Ready() })
	p.setRefuse(false)
	w.roundTrip("after an outage")
	if _, err := w.raw.QueueDelete(w.queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	w.roundTrip("after the queue was deleted")
	p.backing.setClosed(true)
	time.Sleep(4 * time.Second) // the silence itself, longer than two heartbeats
	p.backing.setClosed(false)
	w.roundTrip("after a silence")
}

// TestClientSurvivesBrokerRestart: the broker is stopped or killed and started, and the topology is
// redeclared.
func TestClientSurvivesBrokerRestart(t *testing.T) {
	t.Parallel()
	set := servers.Own(t, servers.Options{RabbitMQ: true})
	w := newClientWorld(t, func(*world) string { return set.RabbitMQ.URL })
	w.roundTrip("at first")
	for _, how := range []struct {
		name string
		end  func() error
	}{{"kill", set.RabbitMQ.Kill}, {"stop", set.RabbitMQ.Stop}} {
		if how.name == "kill" && !testenv.All() {
			continue // RabbitMQ 3.10 may lose the queue (see rabbit.subject); to a client a stop is the same
		}
		// See rabbit.subject: RabbitMQ 3.10 must write the queue's name before it is killed.
		if out, err := set.RabbitMQ.Ctl(t.Context(), "eval", syncNames); err != nil {
			t.Fatal(err, out)
		}
		if err := how.end(); err != nil {
			t.Fatal(err)
		}
		if got := w.client.Publish(w.contextWithin(time.Second), w.newMessages(w.queue, 1)); got[0] == broker.Confirmed {
			t.Errorf("after %s: a broker that is down confirmed", how.name)
		}
		if err := set.RabbitMQ.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.roundTrip("after " + how.name)
	}
}
