package rabbitmqtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
)

// suspend stops the process of a queue, as one that hangs.
func (w *world) suspend(queue string) (resume func()) {
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

// TestAStuckQueueHoldsUpNoOther: one queue confirms nothing, from the first publish of the session on. What goes to others
// is confirmed at once, however much is published to the stuck one, and what goes there and is not stored is not sent.
func TestAStuckQueueHoldsUpNoOther(t *testing.T) {
	bothTypes(t, func(t *testing.T, queueType string) {
		w := newWorld(t)
		s := w.connect(rabbitmq.Options{})
		stuck := w.queue(s, broker.Queue{Name: w.name("stuck"), Type: queueType})
		well := w.queue(s, broker.Queue{Name: w.name("well"), Type: queueType})
		w.publish(s, w.message(well))
		resume := w.suspend(stuck)
		resumed := sync.OnceFunc(resume)
		defer resumed()
		const callers, batch = 5, 200
		outcomes := make(chan []broker.Outcome, callers)
		var longest time.Duration
		for range callers {
			go func() { outcomes <- s.Publish(w.within(2*patience), w.messages(stuck, batch)) }()
			for range 5 {
				began := time.Now()
				w.publish(s, w.messages(well, 20)...)
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
		if longest > time.Second {
			t.Errorf("a publish to another queue took %v", longest)
		}
		if got := s.Publish(w.within(patience), w.messages(stuck, 2)); got[0] != broker.NotSent || got[1] != broker.NotSent {
			t.Errorf("later publishes to the stuck queue are %v", got)
		}
		resumed()
		if n := w.depth(stuck); n > sent {
			t.Errorf("%d messages are in the queue that was stuck, %d were sent", n, sent)
		}
		w.eventually("the queue takes messages again", func() bool {
			return s.Publish(w.within(patience), []broker.Message{w.message(stuck)})[0] == broker.Confirmed
		})
	})
}

// TestASessionWhoseOldestConfirmIsTooOldEnds: what it did not learn is unknown, and stored once.
func TestASessionWhoseOldestConfirmIsTooOldEnds(t *testing.T) {
	w := newWorld(t)
	s := w.connect(rabbitmq.Options{OldestConfirm: 4 * time.Second})
	stuck := w.queue(s, broker.Queue{Name: w.name("stuck"), Type: quorum})
	well := w.queue(s, broker.Queue{Name: w.name("well"), Type: quorum})
	resume := w.suspend(stuck)
	began := time.Now()
	got := s.Publish(w.within(patience), []broker.Message{w.message(well), w.message(stuck), w.message(well)})
	if want := []broker.Outcome{broker.Confirmed, broker.Unknown, broker.Confirmed}; !slices.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if s.Closed() {
		t.Errorf("the session is closed after %v", time.Since(began))
	}
	if err := s.Wait(w.within(patience)); err != nil || time.Since(began) < 4*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	resume()
	w.publish(w.connect(rabbitmq.Options{}), w.message(stuck))
}
