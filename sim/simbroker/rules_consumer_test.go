package simbroker

import (
	"errors"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/sim/kernel"
)

func prefetch(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		one, two := w.consume(s, "q", 2), w.consume(s, "q", 3)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 10)...)
		w.sleep(time.Second)
		if d, _ := w.b.Depth("q"); d.Unacked != 5 || d.Ready != 5 {
			w.t.Errorf("depth %+v, want 5 unacked of 10", d)
		}
		first, _ := w.receive(one)
		second, _ := w.receive(two)
		if numberOf(first) != 0 || numberOf(second) != 1 {
			w.t.Error("the consumers did not take turns")
		}
		one.Ack(first)
		w.sleep(time.Second)
		if d, _ := w.b.Depth("q"); d.Unacked != 5 || d.Ready != 4 {
			w.t.Errorf("depth %+v after one ack, want 5 unacked of 9", d)
		}
	})
}

func settleTwice(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 0)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 2)...)
		d, _ := w.receive(c)
		c.Ack(d)
		c.Ack(d)
		w.sleep(time.Second)
		if !s.Closed() {
			w.t.Error("the session is open")
		}
		w.expect(history.Acked, "q", 1)
		w.expectDepth("q", 1)
	})
}

func cancelKeeps(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 2)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 5)...)
		d, _ := w.receive(c)
		if err := c.Cancel(background); err != nil {
			w.t.Error(err)
		}
		c.Ack(d)
		w.sleep(time.Second)
		if d, _ := w.b.Depth("q"); d.Unacked != 1 || d.Ready != 3 {
			w.t.Errorf("depth %+v, want 1 unacked and 3 ready", d)
		}
		if _, err := c.Receive(background); err != nil {
			w.t.Errorf("what was received before the cancel: %v", err)
		}
		if _, err := c.Receive(background); !errors.Is(err, broker.ErrCancelled) {
			w.t.Errorf("Receive = %v, want ErrCancelled", err)
		}
		s.Close()
		w.sleep(time.Second)
		w.expect(history.Requeued, "q", 1)
	})
}

func closeRequeues(w *world) {
	w.spawn("p", func(p *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 3)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 6)...)
		d, _ := w.receive(c)
		w.receive(c)
		c.Ack(d)
		w.sleep(time.Second)
		s.Close()
		if _, err := c.Receive(background); !errors.Is(err, broker.ErrClosed) {
			w.t.Errorf("Receive = %v, want ErrClosed", err)
		}
		again, err := w.b.Client(p, heartbeat).Connect(background)
		if err != nil {
			w.t.Fatal(err)
		}
		w.sleep(time.Second)
		for i, m := range w.b.Ready("q") {
			if m.Redelivered != (i < 3) { // 1 and 2 were unsettled, and 3 was delivered after the acknowledgement
				w.t.Errorf("message %d: redelivered %v", i, m.Redelivered)
			}
		}
		if got := w.drain(w.consume(again, "q", 1)); !equalIDs(got, 1, 2, 3, 4, 5) {
			w.t.Errorf("got %v, want 1 to 5 in order", got)
		}
	})
}

func closeThenServe(w *world) {
	w.spawn("p", func(p *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeClassic))
		c := w.consume(s, "q", 3)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 2)...)
		d, _ := w.receive(c)
		c.Reject(d, true) // it is delivered again, with a later tag than the other delivery
		w.sleep(time.Second)
		other, err := w.b.Client(p, heartbeat).Connect(background)
		if err != nil {
			w.t.Fatal(err)
		}
		waiting := w.consume(other, "q", 1)
		s.Close()
		w.sleep(time.Second)
		if got := w.drain(waiting); !equalIDs(got, 0, 1) {
			w.t.Errorf("got %v, want 0 and 1", got)
		}
		other.Close()
		w.sleep(time.Second)
		w.b.queueNamed("q").enqueueMessage(&message{id: 9, envelope: &broker.Envelope{}})
		if d, _ := w.b.Depth("q"); d.Ready != 1 {
			w.t.Errorf("depth %+v: delivered to a session that is closed", d)
		}
	})
}

func deleteCancels(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, time.Minute))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatches("x", "work", 0, 3)...)
		d, _ := w.receive(c)
		w.b.DeleteQueue("q")
		if _, err := c.Receive(background); !errors.Is(err, broker.ErrCancelled) {
			w.t.Errorf("Receive = %v, want ErrCancelled", err)
		}
		c.Ack(d)
		w.sleep(time.Second)
		if s.Closed() {
			w.t.Error("the session was closed")
		}
		w.expect(history.Dropped, "q", 3)
		w.expect(history.Acked, "", 0)
		w.expectDepth("dead", 0)
		w.publish(s, broker.Returned, dispatch("x", "work", 1))
		w.declare(s, mortal(typeQuorum, broker.Topic, time.Minute))
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
	})
}

func order(w *world) {
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 20)...)
		got := w.drain(w.consume(s, "q", 7))
		for i, id := range got {
			if int(id) != i || len(got) != 20 {
				w.t.Fatalf("got %v, want 0 to 19", got)
			}
		}
		if !w.b.Idle() {
			w.t.Error("not idle although all is acknowledged")
		}
	})
}
