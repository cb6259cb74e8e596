package simnet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"handoff/sim/kernel"
)

const horizon = time.Hour

// world is a network with one process, and the faults that made a difference.
type world struct {
	t       *testing.T
	k       *kernel.Kernel
	n       *Network
	p       *kernel.Process
	touched []string
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	k := kernel.New(kernel.Options{Chooser: kernel.NewRandom(seed)})
	t.Cleanup(k.Close)
	w := &world{t: t, k: k, n: New(k), p: k.NewProcess("p")}
	w.n.OnTouch(func(t Touched) { w.touched = append(w.touched, t.Fault) })
	return w
}

// run runs fn as a task of the process, and the world to its end.
func (w *world) run(fn func()) {
	w.t.Helper()
	w.p.Go("test", fn)
	if stop := w.k.Run(nil, horizon); stop == kernel.StopPanic {
		w.t.Fatal(w.k.Failure())
	}
}

// timeout calls fn with a context that ends after d.
func (w *world) timeout(d time.Duration, fn func(ctx context.Context)) {
	ctx, cancel := w.k.WithTimeout(context.Background(), d)
	defer cancel()
	fn(ctx)
}

func TestCallIsAppliedOnceBetweenItsLegs(t *testing.T) {
	w := newWorld(t, 1)
	applied := 0
	var at, end time.Duration
	w.run(func() {
		err := w.n.Call(context.Background(), w.p, "database", func() { applied++; at = w.k.Now() })
		if err != nil {
			t.Errorf("Call: %v", err)
		}
		end = w.k.Now()
	})
	if applied != 1 {
		t.Errorf("applied %d times, want 1", applied)
	}
	for _, leg := range []time.Duration{at, end - at} {
		if leg < DefaultLatencyLow || leg > DefaultLatencyHigh {
			t.Errorf("a leg took %v, want %v to %v", leg, DefaultLatencyLow, DefaultLatencyHigh)
		}
	}
	if len(w.touched) > 0 {
		t.Errorf("touched %v without faults", w.touched)
	}
}

func TestCallToDownServerIsRefused(t *testing.T) {
	w := newWorld(t, 1)
	applied := false
	w.n.SetServer("database", false)
	w.run(func() {
		err := w.n.Call(context.Background(), w.p, "database", func() { applied = true })
		if !errors.Is(err, ErrRefused) {
			t.Errorf("Call = %v, want ErrRefused", err)
		}
	})
	if applied {
		t.Error("a refused call was applied")
	}
}

func TestCallIsNotAppliedAfterServerRestart(t *testing.T) {
	w := newWorld(t, 1)
	w.n.SetLatency(time.Second, time.Second)
	applied := false
	w.k.After(500*time.Millisecond, func() {
		w.n.SetServer("database", false)
		w.n.SetServer("database", true)
	})
	w.run(func() {
		err := w.n.Call(context.Background(), w.p, "database", func() { applied = true })
		if !errors.Is(err, ErrReset) {
			t.Errorf("Call = %v, want ErrReset", err)
		}
	})
	if applied {
		t.Error("the restarted server applied what was sent to the old one")
	}
}

func TestReplyFromStoppedServerMayArrive(t *testing.T) {
	got := map[error]int{}
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		w.n.SetLatency(time.Second, time.Second)
		applied := false
		w.k.After(1500*time.Millisecond, func() { w.n.SetServer("database", false) })
		w.run(func() {
			got[w.n.Call(context.Background(), w.p, "database", func() { applied = true })]++
		})
		if !applied {
			t.Fatal("not applied")
		}
	}
	if got[nil] == 0 || got[ErrReset] == 0 || len(got) != 2 {
		t.Errorf("outcomes %v, want both nil and ErrReset and nothing else", got)
	}
}

// TestCutRequest: the caller of a request that is cut gets no reply, and the request is applied late or
// never.
func TestCutRequest(t *testing.T) {
	late, lost := 0, 0
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		applied := time.Duration(0)
		w.n.Cut("p", "database", "cut")
		w.k.After(10*time.Second, func() {
			if applied != 0 {
				t.Error("applied through a cut")
			}
			w.n.Heal("p", "database", "cut")
		})
		w.run(func() {
			w.timeout(time.Second, func(ctx context.Context) {
				err := w.n.Call(ctx, w.p, "database", func() { applied = w.k.Now() })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Call = %v, want the context's error", err)
				}
			})
		})
		if applied == 0 {
			lost++
		} else {
			late++
		}
		if !slices.Equal(w.touched, []string{"cut"}) {
			t.Errorf("touched %v, want the cut once", w.touched)
		}
	}
	if late == 0 || lost == 0 {
		t.Errorf("%d applied late, %d lost: want some of each", late, lost)
	}
}

// TestWaitingCallerIsAnsweredAfterHeal: a caller that still waits gets a reply after the healing, which never
// contradicts what was applied.
func TestWaitingCallerIsAnsweredAfterHeal(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(60) {
		w := newWorld(t, seed)
		applied := false
		w.n.Cut("p", "database", "cut")
		w.k.After(5*time.Second, func() { w.n.Heal("p", "database", "cut") })
		w.run(func() {
			err := w.n.Call(context.Background(), w.p, "database", func() { applied = true })
			seen[fmt.Sprint(err, applied)]++
			if w.k.Now() < 5*time.Second {
				t.Error("answered through a cut")
			}
		})
	}
	for _, want := range []string{"<nil> true", "connection reset true", "connection reset false"} {
		if seen[want] == 0 {
			t.Errorf("never saw %q in %v", want, seen)
		}
	}
	if seen["<nil> false"] > 0 {
		t.Error("success was reported for a call that was not applied")
	}
}

func TestCutReplyIsAppliedAndUnknown(t *testing.T) {
	w := newWorld(t, 1)
	applied := false
	w.n.Cut("database", "p", "cut")
	w.run(func() {
		w.timeout(time.Second, func(ctx context.Context) {
			err := w.n.Call(ctx, w.p, "database", func() { applied = true })
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Call = %v, want the context's error", err)
			}
		})
	})
	if !applied {
		t.Error("a cut of the way back stopped the request")
	}
}

func TestCutStopsPacketInTransit(t *testing.T) {
	w := newWorld(t, 1)
	w.n.SetLatency(time.Second, time.Second)
	applied := false
	w.k.After(500*time.Millisecond, func() { w.n.Cut("p", "database", "cut") })
	w.run(func() {
		w.timeout(time.Minute, func(ctx context.Context) {
			_ = w.n.Call(ctx, w.p, "database", func() { applied = true })
		})
	})
	if applied {
		t.Error("a packet passed a cut that began before it arrived")
	}
}

func TestLinkIsCutUntilEveryCutHeals(t *testing.T) {
	w := newWorld(t, 1)
	w.n.Cut("p", "database", "one")
	w.n.Cut("p", "database", "two")
	w.n.Cut("p", "database", "two")
	steps := []struct {
		heal string
		cut  bool
	}{{"one", true}, {"one", true}, {"two", true}, {"two", false}}
	for _, s := range steps {
		w.n.Heal("p", "database", s.heal)
		if got := w.n.IsCut("p", "database"); got != s.cut {
			t.Errorf("after healing %s: cut %v, want %v", s.heal, got, s.cut)
		}
	}
	if w.n.IsCut("database", "p") {
		t.Error("the way back was cut")
	}
}

// TestHealingOneOfTwoCutsReleasesNothing: held content stays held while another cut remains.
func TestHealingOneOfTwoCutsReleasesNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.n.Cut("p", "database", "one")
	w.n.Cut("p", "database", "two")
	w.k.After(5*time.Second, func() { w.n.Heal("p", "database", "one") })
	w.run(func() {
		w.timeout(time.Minute, func(ctx context.Context) { _ = w.n.Call(ctx, w.p, "database", func() {}) })
	})
	if !slices.Equal(w.touched, []string{"one", "two"}) {
		t.Errorf("touched %v, want each cut once", w.touched)
	}
}

func TestResetBreaksBeforeOrAfterApplying(t *testing.T) {
	before, after := 0, 0
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		w.n.SetReset("p", "database", 1_000_000, "reset")
		applied := false
		w.run(func() {
			err := w.n.Call(context.Background(), w.p, "database", func() { applied = true })
			if !errors.Is(err, ErrReset) {
				t.Errorf("Call = %v, want ErrReset", err)
			}
		})
		if applied {
			after++
		} else {
			before++
		}
		if len(w.touched) == 0 {
			t.Error("the reset left no evidence")
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("%d before, %d after the server applied it: want some of each", before, after)
	}
}

func TestSlowdownsAddUpAndEndSeparately(t *testing.T) {
	w := newWorld(t, 1)
	w.n.SetSlow("p", "database", time.Second, time.Second, "one")
	w.n.SetSlow("p", "database", 2*time.Second, 2*time.Second, "two")
	w.run(func() {
		for _, want := range []time.Duration{3 * time.Second, 2 * time.Second, 0} {
			start := w.k.Now()
			_ = w.n.Call(context.Background(), w.p, "database", func() {})
			took := w.k.Now() - start
			if took < want || took > want+2*DefaultLatencyHigh {
				t.Errorf("took %v, want %v and two legs", took, want)
			}
			if want == 3*time.Second {
				w.n.SetSlow("p", "database", 0, 0, "one")
			} else {
				w.n.SetSlow("p", "database", 0, 0, "two")
			}
		}
	})
}

func TestRequestOfCrashedAndPausedCaller(t *testing.T) {
	w := newWorld(t, 1)
	w.n.SetLatency(time.Second, time.Second)
	applied := 0
	resumed := time.Duration(0)
	call := func() {
		_ = w.n.Call(context.Background(), w.p, "database", func() { applied++ })
		resumed = w.k.Now()
	}
	w.k.After(500*time.Millisecond, w.p.Pause)
	w.k.After(10*time.Second, w.p.Resume)
	w.run(call)
	if applied != 1 || resumed != 10*time.Second {
		t.Errorf("paused: applied %d, reply seen at %v, want 1 and 10s", applied, resumed)
	}
	w.p = w.k.NewProcess("p")
	w.k.After(500*time.Millisecond, w.p.Crash)
	w.run(call)
	if applied != 2 || resumed != 10*time.Second {
		t.Errorf("crashed: applied %d, reply seen at %v, want 2 and none", applied, resumed)
	}
}

func TestStreamKeepsOrderThroughCut(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		var forth, back []int
		c := w.n.Stream(w.p, "broker")
		send := func(from, to int) {
			for i := from; i < to; i++ {
				c.SendToServer(FrameFunc(func() { forth = append(forth, i) }))
				c.SendToClient(FrameFunc(func() { back = append(back, i) }))
			}
		}
		w.run(func() {
			send(0, 10)
			w.n.Cut("p", "broker", "cut")
			send(10, 20)
			w.k.After(time.Second, func() {
				if len(forth) != 0 || len(back) != 20 {
					t.Errorf("during the cut: %d there, %d back, want 0 and 20", len(forth), len(back))
				}
				w.n.Heal("p", "broker", "cut")
				send(20, 30)
			})
			w.timeout(time.Minute, func(ctx context.Context) { _ = w.k.NewWait().Await(ctx) })
		})
		want := make([]int, 30)
		for i := range want {
			want[i] = i
		}
		if !slices.Equal(forth, want) || !slices.Equal(back, want) {
			t.Fatalf("seed %d: there %v, back %v", seed, forth, back)
		}
	}
}

// TestStreamClose: frames sent before the close are delivered, later frames are not, and the close of one end
// is reported to the other by a frame.
func TestStreamClose(t *testing.T) {
	w := newWorld(t, 1)
	var got []string
	note := func(s string) FrameFunc { return func() { got = append(got, s) } }
	c := w.n.Stream(w.p, "broker")
	c.OnServerClosed(note("server learns"))
	c.OnClientClosed(note("client learns"))
	c.SendToServer(note("before"))
	c.SendToClient(note("to a closed end"))
	c.CloseClient()
	c.SendToServer(note("after"))
	w.k.Run(nil, horizon)
	if want := []string{"before", "server learns"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if c.ServerOpen() || c.ClientOpen() {
		t.Error("an end is still open")
	}
}

func TestStreamEndsWithProcessAndServer(t *testing.T) {
	w := newWorld(t, 1)
	var got []string
	note := func(s string) FrameFunc { return func() { got = append(got, s) } }
	c := w.n.Stream(w.p, "broker")
	c.OnServerClosed(note("server"))
	w.p.Crash()
	w.k.Run(nil, horizon)

	w.p = w.k.NewProcess("p")
	c = w.n.Stream(w.p, "broker")
	c.OnClientClosed(note("client"))
	w.n.Cut("broker", "p", "cut")
	w.n.OnServerDown("broker", note("down"))
	w.n.SetServer("broker", false)
	w.k.Run(nil, horizon)
	if !c.ClientOpen() {
		t.Error("the client learnt of the server's end through a cut")
	}
	w.n.Heal("broker", "p", "cut")
	w.k.Run(nil, 2*horizon)
	if want := []string{"server", "down", "client"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStreamResetClosesBothEnds(t *testing.T) {
	through := 0
	for seed := range uint64(30) {
		w := newWorld(t, seed)
		closed := 0
		c := w.n.Stream(w.p, "broker")
		c.OnServerClosed(func() { closed++ })
		c.OnClientClosed(func() { closed++ })
		w.n.SetReset("p", "broker", 1_000_000, "reset")
		c.SendToServer(FrameFunc(func() { through++ }))
		w.k.Run(nil, horizon)
		if closed != 2 {
			t.Errorf("%d ends learnt of the reset, want 2", closed)
		}
	}
	if through == 0 || through == 30 {
		t.Errorf("%d of 30 frames got through: want some", through)
	}
}

// TestSameSeedGivesSameRun compares the observations of two runs of one seed. Another seed must give
// different ones.
func TestSameSeedGivesSameRun(t *testing.T) {
	run := func(seed uint64) string {
		w := newWorld(t, seed)
		log := ""
		w.n.SetReset("p", "database", 200_000, "reset")
		for i := range 5 {
			w.k.After(time.Duration(i)*time.Second, func() { w.n.Cut("p", "database", "cut") })
			w.k.After(time.Duration(i)*time.Second+300*time.Millisecond, func() { w.n.Heal("p", "database", "cut") })
		}
		for task := range 3 {
			w.p.Go("caller", func() {
				for i := range 50 {
					w.timeout(100*time.Millisecond, func(ctx context.Context) {
						err := w.n.Call(ctx, w.p, "database", func() { log += fmt.Sprintln("apply", task, i, w.k.Now()) })
						log += fmt.Sprintln(task, i, err, w.k.Now(), w.k.Step())
					})
				}
			})
		}
		w.k.Run(nil, horizon)
		return log
	}
	once, again := run(7), run(7)
	if once != again {
		t.Error("one seed, two runs")
	}
	if once == run(8) {
		t.Error("two seeds, one run")
	}
}

func BenchmarkCall(b *testing.B) {
	k := kernel.New(kernel.Options{})
	defer k.Close()
	n := New(k)
	p := k.NewProcess("p")
	b.ReportAllocs()
	p.Go("caller", func() {
		apply := func() {}
		for range b.N {
			_ = n.Call(context.Background(), p, "database", apply)
		}
	})
	b.ResetTimer()
	k.Run(nil, 1<<62)
}
