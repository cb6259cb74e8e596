package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/chaos/servers"
	"handoff/core/testenv"
)

func TestMain(m *testing.M) { servers.Main(m) }

// The harness detects the end of a run by querying queues through RabbitMQ's Raft library, which differs
// between releases. A broker that doesn't answer ends the run with an error. `.ci/newer suites forky
// chaos/live -test.run TestHarnessQueriesBrokerQueues` tests a newer release.
func TestHarnessQueriesBrokerQueues(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a separate RabbitMQ node, which takes a while")
	}
	set := servers.Own(t, servers.Options{RabbitMQ: true})
	mq, err := set.RabbitMQ.CreateVhost(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{sandbox: &Sandbox{servers: set}, mq: mq, ctx: t.Context()}
	fillQueues(t, mq.URL, map[string]int{"quorum": 3, "classic": 2})
	depths, err := w.queueDepths(t.Context())
	if err != nil || depths["quorum"] != 3 || depths["classic"] != 2 || len(depths) != 2 {
		t.Fatalf("the broker answers %v, %v; there are 3 messages in the queue quorum and 2 in classic", depths, err)
	}
	t.Run("dead lettering resumes, also for new queues", func(t *testing.T) { checkDeadLettersResume(t, w) })
	t.Run("consumer timeout is detected per queue type", func(t *testing.T) { checkTimeoutSupport(t, w) })
	if err := set.RabbitMQ.Kill(); err != nil {
		t.Fatal(err)
	}
	s := state{w, t.Context()}
	for i := range mostUnanswered {
		if w.silent != nil {
			t.Errorf("the run ends after %d unanswered queries: %v", i, w.silent)
		}
		if s.Drained() {
			t.Error("a broker that does not answer counts as drained")
		}
	}
	if w.silent == nil || !strings.Contains(w.silent.Error(), "counting messages") {
		t.Errorf("after %d unanswered queries the run continues; its error is %v", mostUnanswered, w.silent)
	}
}

// checkTimeoutSupport checks that the consumer timeout fault fails, instead of having no effect, if the
// broker supports no timeout for the run's queues.
func checkTimeoutSupport(t *testing.T, w *world) {
	conn, err := amqp.Dial(w.mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	version := fmt.Sprint(conn.Properties["version"])
	for _, queueType := range []string{brokertest.Quorum, brokertest.Classic} {
		err := w.hasConsumerTimeout(queueType)
		t.Logf("RabbitMQ %s, %s queues: %v", version, queueType, err)
		without := brokertest.FeaturesOf(queueType, version, false).Overdue == brokertest.StaysHeld
		if without != (err != nil) || without && !strings.Contains(err.Error(), "no consumer timeout for "+queueType+" queues") {
			t.Errorf("RabbitMQ %s, %s queues: %v", version, queueType, err)
		}
	}
}

// fillQueues declares queues named after their types, and publishes messages to them.
func fillQueues(t *testing.T, url string, queues map[string]int) {
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

// checkDeadLettersResume checks a queue that is created while dead lettering is stopped: its process takes no
// dead letters until it is restarted. Without the restart, the next run on the same node would find a broker
// without dead lettering.
func checkDeadLettersResume(t *testing.T, w *world) {
	conn, err := amqp.Dial(w.mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare("letters", true, false, false, false, amqp.Table{amqp.QueueTypeArg: "classic"})
	}
	if err != nil {
		t.Fatal(err)
	}
	letters, err := ch.Consume("letters", "", true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	dies := func(name string) {
		t.Helper()
		if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{
			amqp.QueueTypeArg: "quorum", amqp.QueueMessageTTLArg: int64(50), amqp.QueueOverflowArg: amqp.QueueOverflowRejectPublish,
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters", "x-dead-letter-strategy": "at-least-once",
		}); err != nil {
			t.Fatalf("declaring queue %s: %v", name, err)
		}
		if err := ch.PublishWithContext(t.Context(), "", name, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(name)}); err != nil {
			t.Fatal(err)
		}
	}
	arrive := func(want ...string) {
		t.Helper()
		for len(want) > 0 {
			select {
			case d, open := <-letters:
				if !open {
					t.Fatal("the broker has closed the channel")
				}
				want = slices.DeleteFunc(want, func(name string) bool { return name == string(d.Body) })
			case <-time.After(testenv.Patience()):
				t.Fatalf("the dead letters of %v did not arrive", want)
			}
		}
	}
	dies("before")
	arrive("before")
	x, touched := injection(t)
	resume, err := w.StopDeadLettering(x)
	if err != nil {
		t.Fatal(err)
	}
	dies("before")
	dies("during")
	dies("during too")
	select {
	case d := <-letters:
		t.Errorf("a dead letter of queue %s was moved while dead lettering was stopped", d.Body)
	case <-time.After(time.Second):
	}
	resume()
	arrive("before", "during", "during too")
	dies("after")
	dies("after too")
	arrive("after", "after too")
	if touched() == 0 {
		t.Error("the fault counts as not touched")
	}
}
