package simbroker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
)

// A consumer that the broker cancels is notified, keeps its session, and still owns its deliveries (rule
// 32).
func TestCancelledConsumersKeepTheirSession(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("c", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 10)
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		held, ok := w.receive(c)
		if n := w.b.CancelConsumers("q"); !ok || n != 1 {
			t.Errorf("%d consumers were cancelled after a delivery (%v), want 1", n, ok)
		}
		w.publish(s, broker.Confirmed, dispatch("", "q", 2))
		if _, err := c.Receive(background); !errors.Is(err, broker.ErrCancelled) {
			t.Errorf("Receive = %v, want ErrCancelled", err)
		}
		if s.Closed() {
			t.Error("the session was closed too")
		}
		c.Ack(held)
		w.sleep(time.Second)
		if d, _ := w.b.Depth("q"); d.Ready != 1 || d.Unacked != 0 {
			t.Errorf("the queue holds %+v, want one message that is ready", d)
		}
	})
	w.run(hour)
}

// A blocked queue has no consumers, new subscriptions wait, and deliveries resume only after the block.
func TestBlockedQueueHasNoConsumers(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("c", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		w.consume(s, "q", 10)
		touched := 0
		unblock := w.b.BlockConsumers("q", func() { touched++ })
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		w.within(time.Minute, func(ctx context.Context) {
			if _, err := s.Consume(ctx, "q", 10); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Consume = %v during the block", err)
			}
		})
		if state, err := s.QueueState(background, "q"); err != nil || state != (broker.QueueState{Exists: true, Ready: 1}) || touched != 2 {
			t.Errorf("the queue is %+v (%v), and the block made a difference %d times, want 2", state, err, touched)
		}
		w.k.After(time.Minute, unblock)
		began := w.k.Now()
		if _, ok := w.receive(w.consume(s, "q", 10)); !ok || w.k.Now()-began < time.Minute {
			t.Errorf("received %v after %v", ok, w.k.Now()-began)
		}
		if state, err := s.QueueState(background, "q"); err != nil || state.Consumers != 1 {
			t.Errorf("the queue is %+v (%v): who gave up is no consumer", state, err)
		}
	})
	w.run(hour)
}

func TestUnboundQueueGetsNothingUntilRestored(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, time.Hour))
		restore := w.b.Unbind("q")
		w.publish(s, broker.Returned, dispatch("x", "work", 1))
		restore()
		w.publish(s, broker.Confirmed, dispatch("x", "work", 2))
		if got := w.drain(w.consume(s, "q", 10)); !equalIDs(got, 2) {
			t.Errorf("the queue delivered %v, want 2", got)
		}
	})
	w.run(hour)
}

// The event of a dropped dead letter names the fault that removed its route, until the queue is bound again.
func TestLostDeadLettersNameTheFault(t *testing.T) {
	w := newWorld(t, 1)
	var faults []string
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		dead := broker.Binding{Exchange: "dlx", Pattern: "known", Queue: "dead"}
		w.declare(s, broker.Topology{
			Exchanges: []broker.Exchange{{Name: "in", Kind: broker.Topic}, {Name: "dlx", Kind: broker.Topic}},
			Queues:    []broker.Queue{{Name: "q", Type: typeClassic, TTL: time.Second, DeadLetterExchange: "dlx"}, {Name: "dead", Type: typeClassic}},
			Bindings:  []broker.Binding{dead, {Exchange: "in", Pattern: "#", Queue: "q"}},
		})
		restore := w.b.Unbind("dead")
		// Binding another queue does not restore the route. Messages that the exchange never routed are not
		// lost by a fault.
		w.declare(s, broker.Topology{
			Queues:   []broker.Queue{{Name: "other", Type: typeClassic}},
			Bindings: []broker.Binding{{Exchange: "dlx", Pattern: "other", Queue: "other"}},
		})
		w.publish(s, broker.Confirmed, dispatch("in", "known", 1), dispatch("in", "unknown", 4))
		w.sleep(2 * time.Second)
		restore()
		w.publish(s, broker.Confirmed, dispatch("in", "known", 2), dispatch("in", "unknown", 3))
		w.sleep(2 * time.Second)
		w.expectDepth("dead", 1)
	})
	w.run(hour)
	for _, e := range w.r.events {
		if e.Kind == history.Dropped {
			faults = append(faults, e.Fault)
		}
	}
	if !slices.Equal(faults, []string{FaultUnbound, "", ""}) {
		t.Errorf("dropped because of %q", faults)
	}
}

// A reordered message is delivered right after the next message, or when its delay is over.
func TestReorderedMessageIsOvertaken(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		held := 0
		w.b.SetFilter(1, func(broker.Type, string) Interception {
			held++
			return Interception{Fault: "reorder", Delay: 30 * time.Second * time.Duration(held%2), Behind: true}
		})
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		w.publish(s, broker.Confirmed, dispatch("", "q", 2))
		if got := w.drain(w.consume(s, "q", 10)); !equalIDs(got, 2, 1) {
			t.Errorf("the queue delivered %v, want 2 before 1", got)
		}
		w.publish(s, broker.Confirmed, dispatch("", "q", 3))
		w.expectDepth("q", 0)
		w.sleep(31 * time.Second)
		if w.touched["reorder"] == 0 {
			t.Error("the fault left no evidence")
		}
	})
	w.run(hour)
}

// A client ends a session in which a publish has waited too long for a hanging queue, even if the connection
// is healthy. If the queue was deleted meanwhile, no reply ever comes.
func TestSessionEndsWhenPublishWaitsTooLong(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := newWorld(t, 1)
		w.spawn("p", func(_ *kernel.Process, s broker.Session) {
			w.declare(s, plain(typeQuorum))
			w.b.SuspendQueue("q", func() {})
			w.publish(s, broker.Unknown, dispatch("", "q", 1))
			if deleted {
				w.b.DeleteQueue("q")
			}
			w.sleep(oldestConfirm - 2*stuckAfter)
			if s.Closed() {
				t.Errorf("deleted %v: the session ended within %v", deleted, oldestConfirm)
			}
			w.sleep(2*stuckAfter + heartbeat)
			if !s.Closed() {
				t.Errorf("deleted %v: the session is open after %v without a confirm", deleted, oldestConfirm)
			}
		})
		w.run(hour)
	}
}
