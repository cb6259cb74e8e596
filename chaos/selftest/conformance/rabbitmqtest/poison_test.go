package rabbitmqtest_test

import (
	"context"
	"errors"
	"os"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/host/daemon"
	"handoff/sim/simbroker"
)

// poisonVariable enables the test that breaks the dead lettering of its own broker. The test takes
// half a minute, and shows a behaviour of RabbitMQ, not of Handoff.
const poisonVariable = "HANDOFF_TEST_POISON"

// The behaviour that sim/simbroker models, as in RabbitMQ 3.10: if a message with a hostile x-death header
// dies in a quorum queue, it ends dead lettering on the node, and the canary no longer arrives. A restart
// helps only after the queue is deleted; then the messages that died meanwhile arrive. If the model assumes
// that a release does not read such a header, dead lettering continues.
func TestHostileHeaderStopsDeadLettering(t *testing.T) {
	if os.Getenv(poisonVariable) == "" {
		t.Skipf("%s is not set", poisonVariable)
	}
	servers := servers.Own(t, servers.Options{RabbitMQ: true})
	c := config.Default(config.Hardened).MessageQueue.RabbitMQ
	h, mq := daemon.New(daemon.Options{}), rabbitmq.New(rabbitmq.Options{URL: servers.RabbitMQ.URL})
	session := func() broker.Session {
		t.Helper()
		s, err := mq.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	canary := func() error { return broker.Canary(t.Context(), h, session(), c) }
	reject := func(s broker.Session, queue string) {
		t.Helper()
		consumer, err := s.Consume(t.Context(), queue, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := consumer.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		consumer.Reject(d, false)
		_ = consumer.Cancel(t.Context())
	}
	restart := func() {
		t.Helper()
		if err := errors.Join(servers.RabbitMQ.Stop(), servers.RabbitMQ.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	raw := func(do func(*amqp.Channel) error) {
		t.Helper()
		conn, err := amqp.Dial(servers.RabbitMQ.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		ch, err := conn.Channel()
		if err == nil {
			err = do(ch)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	publish := func(queue string, headers amqp.Table) {
		t.Helper()
		raw(func(ch *amqp.Channel) error {
			return ch.PublishWithContext(t.Context(), "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Headers: headers, Body: []byte("{")})
		})
	}

	s := session()
	topology := broker.WorkerTopology(c, 1)
	topology.Queues = append(topology.Queues, broker.WorkerQueues(c, 2)...)
	if err := s.Declare(t.Context(), topology); err != nil {
		t.Fatal(err)
	}
	if err := canary(); err != nil {
		t.Fatal(err)
	}
	publish(broker.WorkerQueue(1), amqp.Table{"x-death": []any{int32(3)}})
	reject(s, broker.WorkerQueue(1))
	publish(broker.WorkerQueue(2), nil)
	reject(s, broker.WorkerQueue(2))
	if simbroker.Like(nodeVersion(t, servers.RabbitMQ.URL)) != "3.10" {
		for range 20 {
			if err := canary(); err != nil {
				t.Errorf("the canary after a hostile header has died: %v", err)
			}
		}
		return
	}
	// The node's dead lettering ends after its queue has tried the message a few times. Before
	// that, a canary may still arrive.
	poisoned := func() error {
		for range 20 {
			if err := canary(); err != nil {
				break
			}
		}
		return canary()
	}
	if err := poisoned(); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("the canary of a poisoned broker: %v", err)
	}
	if s.Closed() {
		t.Error("the session that works is closed, too")
	}
	restart()
	if err := poisoned(); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("the canary after a restart: %v", err)
	}
	raw(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(broker.WorkerQueue(1), false, false, false)
		return err
	})
	restart()
	if err := canary(); err != nil {
		t.Errorf("the canary after its queue was deleted and a restart: %v", err)
	}
	consumer, err := session().Consume(t.Context(), broker.DeadLetterQueue(c.DeadLetter.Exchange), 10)
	if err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		d, err := consumer.Receive(within)
		if err != nil {
			t.Fatalf("what died meanwhile did not arrive: %v", err)
		}
		if len(d.Deaths) > 0 && d.Deaths[0].Queue == broker.WorkerQueue(2) {
			return
		}
	}
}
