package rabbitmqtest_test

import (
	"testing"
	"time"

	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
)

func TestZZ(t *testing.T) {
	servers := servers.Own(t, servers.Options{RabbitMQ: true})
	mq, err := servers.RabbitMQ.CreateVhost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := servers.RabbitMQ.Ctl(t.Context(), "eval", "application:set_env(rabbit, consumer_timeout, 1000)."); err != nil {
		t.Fatal(err, out)
	}
	w := worldOf(t, mq)
	s := w.connect(rabbitmq.Options{})
	queue := w.queue(s, broker.Queue{Name: w.name("x"), Type: quorum})
	for i := range 6 {
		if i < 3 {
			w.publish(s, w.message(queue))
		}
		c := w.consume(s, queue, 1)
		w.receive(c)
		began := time.Now()
		_, err := c.Receive(w.within(3 * patience))
		t.Logf("waiting message, round %d: %v after %v", i, err, time.Since(began))
	}
	q2 := w.queue(s, broker.Queue{Name: w.name("y"), Type: quorum})
	for i := range 4 {
		c := w.consume(s, q2, 1)
		w.publish(s, w.message(q2))
		d := w.receive(c)
		began := time.Now()
		_, err := c.Receive(w.within(3 * patience))
		t.Logf("new message, round %d: %v after %v", i, err, time.Since(began))
		c2 := w.consume(w.connect(rabbitmq.Options{}), q2, 1)
		c2.Ack(w.receive(c2))
		_ = d
	}
}
