package simbroker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/kernel"
)

func TestRule8OutcomeIsUnknownThoughStored(t *testing.T) {
	stored := map[int]int{}
	for seed := range uint64(40) {
		w := newWorld(t, seed)
		w.spawn("p", func(_ *kernel.Process, s broker.Session) {
			w.declare(s, plain(typeQuorum))
			w.k.After(time.Duration(seed)*200*time.Microsecond, func() { w.b.Stop(true) })
			got := s.Publish(background, []broker.Message{dispatch("", "q", 1)})
			d, _ := w.b.Depth("q")
			if got[0] == broker.Unknown {
				stored[d.Total()]++
			} else if d.Total() != 1 {
				t.Errorf("seed %d: %v and lost", seed, got)
			}
			if !s.Closed() && got[0] == broker.Unknown {
				t.Error("unknown, though the session is open")
			}
		})
		w.run(hour)
	}
	if stored[0] == 0 || stored[1] == 0 {
		t.Errorf("unknown outcomes by what was stored: %v, want both", stored)
	}
}

func TestPublishEndsWithContext(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		w.n.Cut("broker", "p", "cut")
		var got []broker.Outcome
		w.within(time.Second, func(ctx context.Context) { got = s.Publish(ctx, dispatches("", "q", 0, 3)) })
		w.expectDepth("q", 3)
		w.n.Heal("broker", "p", "cut")
		w.sleep(5 * time.Second) // the late confirms arrive here, when no task is waiting for them any more
		if fmt.Sprint(got) != "[unknown unknown unknown]" {
			t.Errorf("outcomes %v", got)
		}
		w.publish(s, broker.Confirmed, dispatch("", "q", 9))
	})
	w.run(hour)
}

func TestPublishAfterEndIsNotSent(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		ended, cancel := w.k.WithCancel(background)
		cancel()
		if got := s.Publish(ended, dispatches("", "q", 0, 2)); fmt.Sprint(got) != "[not sent not sent]" {
			t.Errorf("after its context: %v", got)
		}
		s.Close()
		w.publish(s, broker.NotSent, dispatches("", "q", 0, 2)...)
		w.sleep(time.Second)
		w.expectDepth("q", 0)
	})
	w.run(hour)
}

// TestAbandonedConsumeReturnsItsMessages: a subscription whose caller gave up does not withhold messages
// from other consumers.
func TestAbandonedConsumeReturnsItsMessages(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 3)...)
		w.n.Cut("broker", "p", "cut")
		w.within(time.Second, func(ctx context.Context) {
			if _, err := s.Consume(ctx, "q", 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Consume = %v, want the context's error", err)
			}
		})
		w.n.Heal("broker", "p", "cut")
		w.sleep(5 * time.Second)
		if got := w.drain(w.consume(s, "q", 0)); !equalIDs(got, 0, 1, 2) {
			t.Errorf("got %v, want 0 to 2", got)
		}
	})
	w.run(hour)
}

// TestRule26AckAcrossGenerations: the next session can't settle a delivery of an earlier one.
func TestRule26AckAcrossGenerations(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(p *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		old := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		d, _ := w.receive(old)
		w.b.Stop(false)
		w.b.Start()
		w.sleep(time.Second)
		if !s.Closed() {
			t.Error("the session outlived the broker")
		}
		again, err := w.b.Client(p, heartbeat).Connect(background)
		if err != nil {
			t.Fatal(err)
		}
		old.Ack(d)
		w.sleep(time.Second)
		w.expectDepth("q", 1)
		d2, _ := w.receive(w.consume(again, "q", 1))
		old.Ack(d2)
		w.sleep(time.Second)
		w.expect(history.Acked, "", 0)
		if !d2.Redelivered {
			t.Error("not redelivered")
		}
	})
	w.run(hour)
}

// TestRule28CrashRequeues also tests rule 29: the client had not seen the delivery.
func TestRule28CrashRequeues(t *testing.T) {
	w := newWorld(t, 1)
	p := w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		defer s.Close()
		w.declare(s, plain(typeQuorum))
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 4)...)
		w.consume(s, "q", 2)
		w.sleep(hour)
	})
	w.k.After(5*time.Second, p.Crash)
	w.run(5*time.Second + 10*time.Millisecond)
	w.expect(history.Requeued, "q", 2)
	if w.b.Sessions() != 0 {
		t.Error("the broker still has the session of a process that is gone")
	}
	for i, m := range w.b.Ready("q") {
		if m.Message != uint64(i+1) || m.Redelivered != (i < 2) {
			t.Errorf("place %d: message %d, redelivered %v", i, m.Message, m.Redelivered)
		}
	}
}

// TestRule34Heartbeats checks how long each side waits for a silent peer before it closes the session.
func TestRule34Heartbeats(t *testing.T) {
	cases := []struct {
		name           string
		begin          func(w *world, p *kernel.Process)
		client, broker bool          // which ends close the session by themselves
		lo, hi         time.Duration // time from the beginning of the silence
	}{
		{"a stopped client", func(_ *world, p *kernel.Process) { p.Pause() }, false, true, 5 * heartbeat / 2, 3 * heartbeat},
		{"a machine that stands still", func(_ *world, p *kernel.Process) { p.Freeze() }, false, true, 5 * heartbeat / 2, 3 * heartbeat},
		{"a cut towards the broker", func(w *world, _ *kernel.Process) { w.n.Cut("p", "broker", "cut") }, false, true, 5 * heartbeat / 2, 3 * heartbeat},
		{"a cut towards the client", func(w *world, _ *kernel.Process) { w.n.Cut("broker", "p", "cut") }, true, false, heartbeat, 3 * heartbeat / 2},
		{"a crash behind a cut", func(w *world, p *kernel.Process) { w.n.Cut("p", "broker", "cut"); p.Crash() }, false, true, 5 * heartbeat / 2, 3 * heartbeat},
	}
	for _, c := range cases {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint(c.name, seed), func(t *testing.T) {
				w := newWorld(t, seed)
				var session broker.Session
				p := w.spawn("p", func(_ *kernel.Process, s broker.Session) {
					session = s
					w.declare(s, plain(typeQuorum))
					w.publish(s, broker.Confirmed, dispatch("", "q", 1))
					w.consume(s, "q", 1)
					w.sleep(hour)
				})
				const start = 30 * time.Second
				w.k.After(start, func() { c.begin(w, p) })
				w.run(start + c.lo - time.Millisecond)
				if w.b.Sessions() != 1 || session.Closed() {
					t.Error("given up too early")
				}
				w.run(start + c.hi + 10*time.Millisecond)
				if w.b.Sessions() != 0 {
					t.Error("the broker still has the session")
				}
				w.expect(history.Requeued, "q", 1)
				if session.Closed() != (c.client || p.Alive() && w.n.IsCut("p", "broker") || p.Paused() || p.Frozen()) {
					t.Errorf("the client's session: closed %v", session.Closed())
				}
			})
		}
	}
}

// TestRule34ShortSilence: a client that can't act, or whose clock is stopped, does not give up the session.
func TestRule34ShortSilence(t *testing.T) {
	for _, stop := range []string{"paused", "frozen"} {
		for seed := range uint64(10) {
			w := newWorld(t, seed)
			p := w.spawn("p", func(_ *kernel.Process, s broker.Session) {
				w.sleep(time.Minute)
				if s.Closed() {
					t.Errorf("%s, seed %d: the session is closed", stop, seed)
				}
			})
			w.k.After(30*time.Second, func() {
				w.n.Cut("broker", "p", "cut")
				if stop == "paused" {
					p.Pause()
				} else {
					p.Freeze()
				}
			})
			w.k.After(38*time.Second, p.Thaw)
			w.k.After(41*time.Second, func() { w.n.Heal("broker", "p", "cut") })
			w.k.After(41*time.Second, p.Resume)
			w.run(hour)
		}
	}
}

// TestRule34SilenceBothWays: during a cut in both directions the client gives up long before the
// broker.
func TestRule34SilenceBothWays(t *testing.T) {
	w := newWorld(t, 3)
	var session broker.Session
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		session = s
		w.declare(s, plain(typeQuorum))
		w.publish(s, broker.Confirmed, dispatch("", "q", 1))
		c := w.consume(s, "q", 1)
		w.receive(c)
		if _, err := c.Receive(background); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("Receive = %v, want ErrClosed", err)
		}
	})
	w.k.After(30*time.Second, func() {
		w.n.Cut("p", "broker", "cut")
		w.n.Cut("broker", "p", "cut")
	})
	w.run(30*time.Second + 2*heartbeat)
	if !session.Closed() || w.b.Sessions() != 1 {
		t.Errorf("client closed %v, broker has %d: want only the client to know", session.Closed(), w.b.Sessions())
	}
	w.expect(history.Requeued, "q", 0)
	w.run(30*time.Second + 4*heartbeat)
	w.expect(history.Requeued, "q", 1)
	if w.touched["cut"] == 0 {
		t.Error("the cut left no evidence")
	}
}

// TestPausedClientReadsBufferedDeliveries: after SIGCONT, a client may return deliveries that the broker
// has requeued; settling them does nothing.
func TestPausedClientReadsBufferedDeliveries(t *testing.T) {
	read := 0
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		p := w.spawn("p", func(_ *kernel.Process, s broker.Session) {
			w.declare(s, plain(typeQuorum))
			c := w.consume(s, "q", 1)
			w.publish(s, broker.Confirmed, dispatch("", "q", 1))
			w.sleep(time.Minute)
			d, err := c.Receive(background)
			if err == nil {
				read++
				c.Ack(d)
			} else if !errors.Is(err, broker.ErrClosed) {
				t.Errorf("Receive = %v", err)
			}
		})
		w.k.After(10*time.Second, p.Pause)
		w.k.After(50*time.Second, p.Resume)
		w.run(hour)
		w.expect(history.Acked, "q", 0)
		w.expectDepth("q", 1)
	}
	if read == 0 || read == 20 {
		t.Errorf("%d of 20 read on: want some", read)
	}
}

func TestRule13And36Restart(t *testing.T) {
	for _, kind := range []string{typeClassic, typeQuorum} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, kill), func(t *testing.T) {
				w := newWorld(t, 1)
				w.spawn("p", func(p *kernel.Process, s broker.Session) {
					w.declare(s, mortal(kind, broker.Topic, 20*time.Second))
					w.publish(s, broker.Confirmed, dispatches("x", "work", 0, 3)...)
					w.receive(w.consume(s, "q", 1))
					w.b.Stop(kill)
					w.expectDepth("q", 3)
					if _, err := w.b.Client(p, heartbeat).Connect(background); !errors.Is(err, broker.ErrUnavailable) {
						t.Errorf("Connect = %v, want ErrUnavailable", err)
					}
					w.sleep(5 * time.Second)
					w.b.Start()
					for i, m := range w.b.Ready("q") {
						if m.Redelivered != (i == 0 || kill && kind == typeClassic) {
							t.Errorf("message %d: redelivered %v", i, m.Redelivered)
						}
					}
					w.sleep(10 * time.Second)
					w.expectDepth("q", 3)
				})
				w.run(20 * time.Second)
				w.run(21 * time.Second)
				w.expectDepth("q", 0)
				w.expectDepth("dead", 3)
			})
		}
	}
}

func TestRule13ExpiryWhileDown(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal(typeQuorum, broker.Topic, 2*time.Second))
		w.publish(s, broker.Confirmed, dispatch("x", "work", 1))
		w.b.Stop(true)
		w.sleep(10 * time.Second)
		w.expect(history.Expired, "q", 0)
		w.b.Start()
		w.expect(history.Expired, "q", 1)
		w.expectDepth("dead", 1)
	})
	w.run(hour)
}

func TestRule35Alarm(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 1)
		w.publish(s, broker.Confirmed, dispatches("", "q", 0, 2)...)
		w.b.SetAlarm(true)
		if s.Blocked() {
			t.Error("blocked before the news could travel")
		}
		w.sleep(time.Second)
		if !s.Blocked() {
			t.Error("not blocked")
		}
		w.k.After(10*time.Second, func() { w.b.SetAlarm(false) })
		start := w.k.Now()
		d, ok := w.receive(c)
		if !ok {
			t.Error("consumers stall too")
		}
		c.Ack(d)
		w.publish(s, broker.Confirmed, dispatch("", "q", 2))
		if w.k.Now()-start < 10*time.Second {
			t.Error("confirmed during the alarm")
		}
		w.sleep(time.Second)
		if s.Blocked() {
			t.Error("still blocked")
		}
		if got := w.drain(c); !equalIDs(got, 1, 2) {
			t.Errorf("got %v, want 1 and 2", got)
		}
		if w.touched[FaultAlarm] != 1 {
			t.Errorf("touched %v", w.touched)
		}
	})
	w.run(hour)
}

func TestFilters(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("p", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain(typeQuorum))
		c := w.consume(s, "q", 0)
		with := func(interception Interception, id int, want broker.Outcome) []execution.ID {
			interception.Fault = "filter-under-test"
			w.b.SetFilter(1, func(broker.Type, string) Interception { return interception })
			w.publish(s, want, dispatch("", "q", id))
			w.b.SetFilter(1, nil)
			return w.drain(c)
		}
		if got := with(Interception{Drop: true}, 1, broker.Confirmed); len(got) != 0 {
			t.Errorf("dropped, but got %v", got)
		}
		if got := with(Interception{Duplicate: true}, 2, broker.Confirmed); !equalIDs(got, 2, 2) {
			t.Errorf("duplicated, but got %v", got)
		}
		if got := with(Interception{Nack: true}, 3, broker.Nacked); len(got) != 0 {
			t.Errorf("nacked, but got %v", got)
		}
		if got := with(Interception{Delay: 5 * time.Second}, 4, broker.Confirmed); len(got) != 0 || w.b.Idle() {
			t.Errorf("delayed, but got %v, idle %v", got, w.b.Idle())
		}
		w.publish(s, broker.Confirmed, dispatch("", "q", 5))
		w.sleep(5 * time.Second)
		if got := w.drain(c); !equalIDs(got, 5, 4) {
			t.Errorf("delayed 4 behind 5, but got %v", got)
		}
		with(Interception{Delay: 10 * time.Second}, 4, broker.Confirmed)
		with(Interception{Delay: 3 * time.Second}, 5, broker.Confirmed)
		w.sleep(4 * time.Second)
		if got := w.drain(c); !equalIDs(got, 5) {
			t.Errorf("delayed by 3 s, but got %v", got)
		}
		w.sleep(5 * time.Second)
		if got := w.drain(c); !equalIDs(got, 4) {
			t.Errorf("delayed by 10 s, but got %v", got)
		}
		w.b.SetFilter(2, func(broker.Type, string) Interception { return Interception{Duplicate: true, Fault: "two"} })
		w.b.SetFilter(3, func(broker.Type, string) Interception { return Interception{Corrupt: true, Fault: "three"} })
		w.publish(s, broker.Confirmed, dispatch("", "q", 6))
		for range 2 {
			d, ok := w.receive(c)
			if !ok || d.Malformed == nil || d.Envelope.Dispatches != nil || len(d.Body) == 0 {
				t.Errorf("corrupted twice, but got %+v", d)
			}
			c.Ack(d)
		}
		w.b.SetFilter(2, nil)
		w.b.SetFilter(3, func(broker.Type, string) Interception { return Interception{Silent: true, Fault: "three"} })
		w.within(time.Second, func(ctx context.Context) {
			if got := s.Publish(ctx, dispatches("", "q", 7, 8)); got[0] != broker.Unknown {
				t.Errorf("outcome %v without a confirm", got)
			}
		})
		if got := w.drain(c); !equalIDs(got, 7) {
			t.Errorf("stored silently, but got %v", got)
		}
		for _, fault := range []string{"filter-under-test", "two", "three"} {
			if w.touched[fault] == 0 {
				t.Errorf("%s left no evidence", fault)
			}
		}
	})
	w.run(hour)
}

// TestAbandonedConnectLeavesNoSession: the broker keeps no session without a client.
func TestAbandonedConnectLeavesNoSession(t *testing.T) {
	w := newWorld(t, 1)
	w.n.Cut("broker", "p", "cut")
	p := w.k.NewProcess("p")
	p.Go("main", func() {
		w.within(time.Second, func(ctx context.Context) {
			if _, err := w.b.Client(p, heartbeat).Connect(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Connect = %v, want the context's error", err)
			}
		})
		start := w.k.Now()
		if _, err := w.b.Client(p, heartbeat).Connect(background); !errors.Is(err, broker.ErrUnavailable) {
			t.Errorf("Connect = %v, want ErrUnavailable", err)
		}
		if took := w.k.Now() - start; took != 30*time.Second {
			t.Errorf("gave up after %v, want 30 s", took)
		}
		w.sleep(time.Second)
		if w.b.Sessions() != 0 {
			t.Errorf("%d sessions left", w.b.Sessions())
		}
	})
	w.run(hour)
}
