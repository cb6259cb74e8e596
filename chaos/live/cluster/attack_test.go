package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/testenv"
)

// garbageVariable sets the number of unreadable messages ahead of a good execution:
// HANDOFF_TEST_GARBAGE=200000 go test ./chaos/live/cluster -run Garbage. The default is 1,000, and
// 5,000 in make test-all.
const garbageVariable = "HANDOFF_TEST_GARBAGE"

// Behind any number of unreadable messages in its worker's queue, a good execution starts; make
// test-all judges that it starts within five seconds. The worker's log stays below 1 MB, and every
// message is stored.
func TestAGoodExecutionBehindGarbageStartsInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	garbage := 1000
	if testenv.All() {
		garbage = 5000
	}
	if n, err := strconv.Atoi(os.Getenv(garbageVariable)); err == nil {
		garbage = n
	}
	b := up(t, 1, 1)
	b.garbage(garbage)
	began := time.Now()
	b.submit("quick", 1)
	b.eventually("the execution has started", func() error {
		if b.count("started_at is not null") == 0 {
			return fmt.Errorf("it has not")
		}
		return nil
	})
	var took time.Duration
	if err := b.db.QueryRow(b.ctx, "select started_at - created from execution where id = 1").Scan(&took); err != nil {
		t.Fatal(err)
	}
	letters := func() (n int) {
		if err := b.db.QueryRow(b.ctx, "select count(*) from dead_letter where body_bytes > 0").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Logf("%d messages: started after %v (%v on the clock of this test), with %d of them stored", garbage, took, time.Since(began), letters())
	if testenv.All() && took > 5*time.Second {
		t.Errorf("it started after %v", took)
	}
	b.eventually("every message is stored", func() error {
		if n := letters(); n < garbage {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	log, err := os.ReadFile(b.c.Workers[0].Instance().Log())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("all stored after %v, log of the worker: %d bytes", time.Since(began), len(log))
	if len(log) > 1<<20 {
		t.Errorf("the worker's log has %d bytes", len(log))
	}
	b.settled()
	response, err := http.Get(b.c.Executors[0].URL + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/readyz of the executor: %s", response.Status)
	}
}

// garbage publishes messages to the first worker's queue. The first ones, which can't expire there,
// have headers that would end the broker's dead lettering.
func (b *fixture) garbage(n int) {
	b.t.Helper()
	conn, err := amqp.Dial(b.c.Servers.RabbitMQ.URL)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		b.t.Fatal(err)
	}
	var last *amqp.DeferredConfirmation
	for i := range n {
		m := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("\x1b[2J{\"message_type\": \xff")}
		if i < 20 {
			m.Headers = amqp.Table{"x-death": []any{amqp.Table{"queue": "q", "reason": int32(5), "count": "x"}, int32(3)}}
		}
		if last, err = ch.PublishWithDeferredConfirmWithContext(b.ctx, "", "worker.1.executions", false, false, m); err != nil {
			b.t.Fatal(err)
		}
	}
	if ok, err := last.WaitContext(b.ctx); !ok || err != nil {
		b.t.Fatalf("not confirmed: %v", err)
	}
}
