package rabbitmqtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff/chaos/selftest/conformance/brokertest"
	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/config"
	"handoff/core/host/daemon"
	"handoff/core/testenv"
)

// suspendQueue stops the process of a queue, so that the queue hangs.
func (w *world) suspendQueue(queue string) (resume func()) {
	w.t.Helper()
	do := func(what string) {
		out, err := w.mq.Server.Ctl(context.Background(), "eval", fmt.Sprintf(
			`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<%q>>, queue, <<%q>>)), sys:%s(amqqueue:get_pid(Q)).`, w.mq.Vhost, queue, what))
		if err != nil || strings.TrimSpace(out) != "ok" {
			w.t.Errorf("%s %s: %v %s", what, queue, err, out)
		}
	}
	do("suspend")
	return func() { do("resume") }
}

// TestStuckQueueBlocksNoOther: one queue confirms nothing, from the first publish of the session
// on. Messages to other queues are confirmed at once, however many are published to the stuck one.
// Messages to the stuck one that are not stored are not sent.
func TestStuckQueueBlocksNoOther(t *testing.T) {
	t.Parallel() // it waits
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		// On a busy machine rabbitmqctl alone may take longer than a session waits for a confirm.
		s := w.openSession(rabbitmq.Options{OldestConfirm: time.Hour})
		stuck := w.declareQueue(s, broker.Queue{Name: w.objectName("stuck"), Type: queueType})
		well := w.declareQueue(s, broker.Queue{Name: w.objectName("well"), Type: queueType})
		w.publishConfirmed(s, w.newMessage(well))
		resume := w.suspendQueue(stuck)
		resumed := sync.OnceFunc(resume)
		defer resumed()
		const callers, batch = 5, 200
		outcomes := make(chan []broker.Outcome, callers)
		var longest time.Duration
		for range callers {
			go func() { outcomes <- s.Publish(w.contextWithin(2*patience), w.newMessages(stuck, batch)) }()
			for range 5 {
				began := time.Now()
				w.publishConfirmed(s, w.newMessages(well, 20)...)
				longest = max(longest, time.Since(began))
			}
		}
		sent := 0
		began := time.Now()
		for range callers {
			for _, o := range <-outcomes {
				switch o {
				case broker.Unknown:
					sent++
				case broker.NotSent:
				default:
					t.Errorf("a publish to the stuck queue is %v", o)
				}
			}
		}
		t.Logf("the slowest of the publishes to the other queue took %v; %d messages to the stuck queue, given up after %v", longest, sent, time.Since(began))
		if testenv.All() && longest > time.Second {
			t.Errorf("a publish to another queue took %v", longest)
		}
		if got := s.Publish(w.contextWithin(patience), w.newMessages(stuck, 2)); got[0] != broker.NotSent || got[1] != broker.NotSent {
			t.Errorf("later publishes to the stuck queue are %v", got)
		}
		resumed()
		if n := w.queueDepth(stuck); n > sent {
			t.Errorf("%d messages are in the queue that was stuck, %d were sent", n, sent)
		}
		w.waitUntil("the queue takes messages again", func() bool {
			return s.Publish(w.contextWithin(patience), []broker.Message{w.newMessage(stuck)})[0] == broker.Confirmed
		})
	})
}

// TestOverdueConfirmEndsSession: messages without a confirm are unknown, and stored
// once.
func TestOverdueConfirmEndsSession(t *testing.T) {
	t.Parallel() // it waits
	for _, oldest := range []time.Duration{4 * time.Second, 20 * time.Second, 100 * time.Second} {
		if sessionEndsWithItsOldestConfirm(t, oldest) {
			return
		}
	}
	t.Error("three messages were not published within 100 s")
}

// sessionEndsWithItsOldestConfirm returns false if the machine was too slow to publish within the time.
func sessionEndsWithItsOldestConfirm(t *testing.T, oldest time.Duration) bool {
	t.Helper()
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{OldestConfirm: oldest})
	stuck := w.declareQueue(s, broker.Queue{Name: w.objectName("stuck"), Type: quorum})
	well := w.declareQueue(s, broker.Queue{Name: w.objectName("well"), Type: quorum})
	resume := sync.OnceFunc(w.suspendQueue(stuck))
	defer resume()
	began := time.Now()
	got := s.Publish(w.contextWithin(patience), []broker.Message{w.newMessage(well), w.newMessage(stuck), w.newMessage(well)})
	if want := []broker.Outcome{broker.Confirmed, broker.Unknown, broker.Confirmed}; !slices.Equal(got, want) && time.Since(began) < oldest {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if closed := s.Closed(); time.Since(began) >= oldest {
		return false
	} else if closed {
		t.Errorf("the session is closed after %v", time.Since(began))
	}
	if err := s.Wait(w.contextWithin(patience)); err != nil || time.Since(began) < oldest {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	resume()
	w.publishConfirmed(w.openSession(rabbitmq.Options{}), w.newMessage(stuck))
	return true
}

// TestStuckQueueIsNotIdle: RabbitMQ reports it as empty. It must not be deleted with its messages.
func TestStuckQueueIsNotIdle(t *testing.T) {
	t.Parallel() // it waits
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
	q := broker.Queue{Name: w.objectName("stuck"), Type: quorum}
	w.publishConfirmed(s, w.newMessages(w.declareQueue(s, q), 3)...)
	resume := w.suspendQueue(q.Name)
	state, err := s.QueueState(w.contextWithin(patience), q.Name)
	t.Logf("its state: %+v, %v", state, err)
	if fate, err := s.DeleteIdle(w.contextWithin(3*time.Second), q); fate != broker.QueueInUse || err == nil {
		t.Errorf("its fate is %v, %v", fate, err)
	}
	resume()
	w.waitUntil("the three messages are counted", func() bool { return w.queueDepth(q.Name) == 3 })
	// The broker ends a session that has waited for a stuck queue for a minute, and on a busy machine
	// resuming takes that long.
	if fate, err := w.openSession(rabbitmq.Options{}).DeleteIdle(w.contextWithin(patience), q); fate != broker.QueueInUse || err != nil {
		t.Errorf("while it holds messages its fate is %v, %v", fate, err)
	}
}

// TestNodesWithOtherSettings changes settings of a whole node, so it has its own. Its parts wait
// concurrently, because neither is affected by the other's changes.
func TestNodesWithOtherSettings(t *testing.T) {
	t.Parallel()
	node := servers.Own(t, servers.Options{RabbitMQ: true}).RabbitMQ
	for name, test := range map[string]func(t *testing.T, mq *servers.MQ){
		"consumer timeout": consumerTimeout, "dead lettering that stands still": deadLetteringThatStandsStill,
	} {
		mq, err := node.CreateVhost(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, mq)
		})
	}
}

// consumerTimeout: a delivery that stays unacknowledged ends the session with its channel, and is
// redelivered. From 4.3 on a quorum queue requeues it and cancels the consumer, whose session stays open. A
// classic queue waits for ever.
func consumerTimeout(t *testing.T, mq *servers.MQ) {
	const timeout = 3 * time.Second
	if out, err := mq.Server.Ctl(t.Context(), "eval", fmt.Sprintf(
		"application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, 1000).", timeout.Milliseconds())); err != nil {
		t.Fatal(err, out)
	}
	w := worldOf(t, mq)
	is := nodeVersion(t, mq.URL)
	bothTypes(t, func(t *testing.T, queueType string) {
		overdue := brokertest.FeaturesOf(queueType, is, false).Overdue
		s, other := w.openSession(rabbitmq.Options{}), w.openSession(rabbitmq.Options{})
		queue := w.declareQueue(s, broker.Queue{Name: w.objectName(queueType), Type: queueType})
		w.publishConfirmed(s, w.newMessages(queue, 2)...)
		held := w.startConsumer(s, queue, 1)
		d := w.receiveDelivery(held)
		began := time.Now()
		want, wait := broker.ErrClosed, patience
		switch overdue {
		case brokertest.CancelsConsumer:
			want = broker.ErrCancelled
		case brokertest.StaysHeld:
			want, wait = context.DeadlineExceeded, 3*timeout
		default:
		}
		_, err := held.Receive(w.contextWithin(wait))
		took := time.Since(began)
		if !errors.Is(err, want) || s.Closed() != (overdue == brokertest.EndsSession) {
			t.Errorf("after %v the consumer has %v, want %v; its session is closed: %v", took, err, want, s.Closed())
		}
		t.Logf("%v: %v after %v", queueType, err, took)
		if took < timeout-time.Second {
			t.Errorf("it took %v", took)
		}
		if other.Closed() {
			t.Error("another session is closed as well")
		}
		if overdue == brokertest.StaysHeld {
			held.Ack(d)
			held.Ack(w.receiveDelivery(held))
			return
		}
		c := w.startConsumer(other, queue, 2)
		for range 2 {
			c.Ack(w.receiveDelivery(c))
		}
		if overdue == brokertest.CancelsConsumer {
			w.deafAfterwards(s, held, d, queue)
		}
	})
}

// deafAfterwards: once a cancelled consumer has settled all overdue deliveries, the server delivers to it
// again. The client no longer has this consumer, so a session in which this happened must be closed. From
// 4.3.7 on a client may answer the cancellation, which ends the consumer at the server as well.
func (w *world) deafAfterwards(s broker.Session, held broker.Consumer, d broker.Delivery, queue string) {
	w.t.Helper()
	held.Ack(d)
	w.publishConfirmed(s, w.newMessage(queue))
	if _, err := held.Receive(w.contextWithin(time.Second)); !errors.Is(err, broker.ErrCancelled) {
		w.t.Errorf("a cancelled consumer has %v", err)
	}
	state, err := s.QueueState(w.contextWithin(patience), queue)
	w.t.Logf("after the late acknowledgement the queue is %+v, %v; the session is closed: %v", state, err, s.Closed())
	if s.Closed() {
		w.t.Error("a late acknowledgement has ended the session")
	}
	s.Close()
	next := w.openSession(rabbitmq.Options{})
	c := w.startConsumer(next, queue, 1)
	c.Ack(w.receiveDelivery(c))
}

// deadLetteringThatStandsStill: the processes that move dead letters hang. Messages that die stay in their
// queue, which still delivers and accepts messages, and the canary does not arrive. When the processes
// continue, everything does.
func deadLetteringThatStandsStill(t *testing.T, mq *servers.MQ) {
	w := worldOf(t, mq)
	eval := func(expression string) {
		t.Helper()
		if out, err := mq.Server.Ctl(t.Context(), "eval", expression); err != nil || strings.TrimSpace(out) != "ok" {
			t.Fatal(err, out)
		}
	}
	c := config.Default(config.Hardened).MessageQueue.RabbitMQ
	s := w.openSession(rabbitmq.Options{})
	if err := s.Declare(w.contextWithin(patience), broker.ExecutorTopology(c)); err != nil {
		t.Fatal(err)
	}
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("ttl"), Type: quorum, TTL: 100 * time.Millisecond, DeadLetterExchange: c.DeadLetter.Exchange})
	letters := w.startConsumer(s, broker.DeadLetterQueue(c.DeadLetter.Exchange), 0)
	const workers = "[P || {_, P, _, _} <- supervisor:which_children(rabbit_fifo_dlx_sup), is_pid(P)]"
	eval("application:set_env(rabbit, dead_letter_worker_consumer_prefetch, 0), [sys:suspend(P) || P <- " + workers + "], ok.")
	w.publishConfirmed(s, w.newMessages(queue, 2)...)
	w.expectSilence(letters, time.Second)
	if err := broker.Canary(w.contextWithin(2*broker.CanaryWait), daemon.New(daemon.Options{}), w.openSession(rabbitmq.Options{}), c); err == nil || errors.Is(err, broker.ErrClosed) {
		t.Errorf("the canary: %v", err)
	}
	eval("application:set_env(rabbit, dead_letter_worker_consumer_prefetch, 32), [sys:resume(P) || P <- " + workers + "], ok.")
	for died := 0; died < 2; {
		d := w.receiveDelivery(letters)
		if len(d.Deaths) > 0 && d.Deaths[0].Queue == queue {
			died++
		}
		letters.Ack(d)
	}
}
