package live

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The harness knows that a run is over by asking the queues themselves, in the words of the library under them, which differ
// by release. A broker that answers is believed; one that does not ends the run, with what it said.
// `.ci/newer suites forky chaos/live -test.run TestTheBrokerAnswersTheHarness` asks a newer one.
func TestTheBrokerAnswersTheHarness(t *testing.T) {
	if testing.Short() {
		t.Skip("a node of its own takes a while")
	}
	set := servers.Own(t, servers.Options{RabbitMQ: true})
	mq, err := set.RabbitMQ.CreateVhost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{sandbox: &Sandbox{servers: set}, mq: mq}
	fill(t, mq.URL, map[string]int{"quorum": 3, "classic": 2})
	depths, err := w.depths(t.Context())
	if err != nil || depths["quorum"] != 3 || depths["classic"] != 2 || len(depths) != 2 {
		t.Fatalf("the broker answers %v, %v; there are 3 messages in the queue quorum and 2 in classic", depths, err)
	}
	if err := set.RabbitMQ.Kill(); err != nil {
		t.Fatal(err)
	}
	s := state{w, t.Context()}
	for i := range mostUnanswered {
		if w.silent != nil {
			t.Errorf("the run ends after %d questions without an answer: %v", i, w.silent)
		}
		if s.Drained() {
			t.Error("a broker that does not answer has empty queues")
		}
	}
	if w.silent == nil || !strings.Contains(w.silent.Error(), "counting messages") {
		t.Errorf("after %d questions without an answer the run goes on, its end would be: %v", mostUnanswered, w.silent)
	}
}

// fill declares queues that are called as their types, and publishes messages to them.
func fill(t *testing.T, url string, queues map[string]int) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for name, n := range queues {
		ch, err := conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err == nil {
			_, err = ch.QueueDeclare(name, true, false, false, false, amqp.Table{amqp.QueueTypeArg: name})
		}
		for i := 0; i < n && err == nil; i++ {
			var confirm *amqp.DeferredConfirmation
			if confirm, err = ch.PublishWithDeferredConfirm("", name, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent}); err == nil {
				confirm.Wait()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
