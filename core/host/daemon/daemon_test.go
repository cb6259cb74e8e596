package daemon

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"handoff/core/host"
	"handoff/core/testenv"
)

// The tests run in synctest bubbles. Time in a bubble is virtual, even for clock.New(), so the mock's real
// sleeps take no time and let other goroutines run. A leaked goroutine fails the test.

// steppedClock is a clock whose wall time a test can step. It overrides only Now.
type steppedClock struct {
	clock.Clock
	by atomic.Int64
}

func (s *steppedClock) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

func TestMonotonicIgnoresWallClockSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &steppedClock{Clock: clock.New()}
		c.by.Store(int64(time.Hour))
		h := New(Options{Clock: c})
		if m := h.Monotonic(); m != 0 {
			t.Errorf("the monotonic clock starts at %v", m)
		}
		before := h.Now()
		if before.Location() != time.UTC || strings.Contains(before.String(), "m=") {
			t.Errorf("Now = %v, want UTC without a monotonic reading", before)
		}
		c.by.Store(int64(-time.Hour))
		if err := h.Sleep(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		}
		if m, w := h.Monotonic(), h.Now().Sub(before); m != time.Second || w != time.Second-2*time.Hour {
			t.Errorf("after a second and a step of two hours back: monotonic %v, wall %v", m, w)
		}
	})
}

func TestSleepEndsWithTimeOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		ended, cancel := h.WithCancel(context.Background())
		cancel()
		if h.Sleep(ended, time.Hour) == nil || h.Sleep(ended, 0) == nil || h.Monotonic() != 0 {
			t.Error("a sleep under a context that has ended")
		}
		if h.Sleep(context.Background(), 0) != nil || h.Sleep(context.Background(), -1) != nil || h.Monotonic() != 0 {
			t.Error("a sleep of nothing")
		}
		ctx, cancel := h.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := h.Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || h.Monotonic() != time.Minute {
			t.Errorf("Sleep = %v after %v", err, h.Monotonic())
		}
		if err := h.Sleep(ctx, host.Forever); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sleep for ever = %v", err)
		}
	})
}

// clocks runs a test on the real clock and on the mock. pass advances the time of the clock in use.
func clocks(t *testing.T, run func(t *testing.T, h *Host, pass func(time.Duration))) {
	t.Run("real", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			run(t, New(Options{Clock: clock.New()}), func(d time.Duration) {
				time.Sleep(d)
				synctest.Wait()
			})
		})
	})
	t.Run("mock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := clock.NewMock()
			run(t, New(Options{Clock: m}), func(d time.Duration) {
				synctest.Wait() // otherwise a timer might start only after the Add
				m.Add(d)
			})
		})
	})
}

func TestWithTimeoutEndsContextAndItsChildren(t *testing.T) {
	clocks(t, func(t *testing.T, h *Host, pass func(time.Duration)) {
		ctx, cancel := h.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		// A child context from package context and one from the host return the same error.
		child, cancelChild := context.WithCancel(ctx)
		defer cancelChild()
		later, cancelLater := h.WithTimeout(ctx, time.Hour)
		defer cancelLater()
		stopped, stop := h.WithTimeout(ctx, 5*time.Second)
		stop()
		var seen atomic.Int64
		watcher := h.Go("watcher", func() {
			for ctx.Err() == nil {
				_ = h.Sleep(ctx, time.Second)
			}
			seen.Store(int64(h.Monotonic()))
		})
		pass(10*time.Second - 1)
		if ctx.Err() != nil || child.Err() != nil || later.Err() != nil {
			t.Errorf("ended early: %v, %v, %v", ctx.Err(), child.Err(), later.Err())
		}
		pass(time.Second)
		if err := watcher.Wait(context.Background()); err != nil || time.Duration(seen.Load()) != 10*time.Second {
			t.Errorf("watcher: %v, ended at %v", err, time.Duration(seen.Load()))
		}
		for name, c := range map[string]context.Context{"ctx": ctx, "child": child, "later": later} {
			<-c.Done()
			if !errors.Is(c.Err(), context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, c.Err())
			}
		}
		if !errors.Is(stopped.Err(), context.Canceled) {
			t.Errorf("stopped: %v", stopped.Err())
		}
		if over, c := h.WithTimeout(context.Background(), 0); !errors.Is(over.Err(), context.DeadlineExceeded) {
			t.Errorf("a timeout of nothing: %v", over.Err())
			c()
		}
		if endless, c := h.WithTimeout(context.Background(), host.Forever); endless.Err() != nil {
			t.Errorf("an endless timeout: %v", endless.Err())
			c()
		} else {
			c()
		}
	})
}

func TestTaskWaitEndsWithTaskOrContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		ctx, cancel := h.WithCancel(context.Background())
		napper := h.Go("napper", func() { _ = h.Sleep(ctx, host.Forever) })
		short, stop := h.WithTimeout(context.Background(), time.Second)
		defer stop()
		if err := napper.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait = %v before the task has ended", err)
		}
		cancel()
		if err := napper.Wait(context.Background()); err != nil {
			t.Error(err)
		}
		if err := napper.Wait(short); err != nil {
			t.Errorf("a task that has ended, under a context that has ended: %v", err)
		}
	})
}

func TestSignalIsBinary(t *testing.T) {
	clocks(t, func(t *testing.T, h *Host, pass func(time.Duration)) {
		bg := context.Background()
		s := h.NewSignal()
		s.Set()
		s.Set()
		if ok, err := s.Wait(bg, host.Forever); !ok || err != nil {
			t.Errorf("set: %v, %v", ok, err)
		}
		if ok, err := s.Wait(bg, 0); ok || err != nil {
			t.Errorf("two Sets woke twice: %v, %v", ok, err)
		}
		var ok atomic.Bool
		waiter := h.Go("waiter", func() {
			woken, err := s.Wait(bg, time.Second)
			ok.Store(!woken && err == nil)
		})
		pass(time.Second)
		if err := waiter.Wait(bg); err != nil || !ok.Load() {
			t.Error("a wait without a Set did not return false after its time")
		}
		ended, cancel := h.WithCancel(bg)
		cancel()
		s.Set()
		if ok, err := s.Wait(ended, host.Forever); ok || !errors.Is(err, context.Canceled) {
			t.Errorf("ended context: %v, %v", ok, err)
		}
		if ok, err := s.Wait(bg, host.Forever); !ok || err != nil {
			t.Errorf("an ended context consumed the signal: %v, %v", ok, err)
		}
	})
}

func TestEachSetWakesOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		ctx, cancel := h.WithCancel(context.Background())
		s := h.NewSignal()
		var woken, ended atomic.Int32
		for range 5 {
			h.Go("waiter", func() {
				if ok, err := s.Wait(ctx, host.Forever); ok {
					woken.Add(1)
				} else if errors.Is(err, context.Canceled) {
					ended.Add(1)
				}
			})
		}
		synctest.Wait()
		s.Set()
		s.Set()
		synctest.Wait()
		if woken.Load() != 2 {
			t.Errorf("two Sets woke %d", woken.Load())
		}
		cancel()
		synctest.Wait()
		if woken.Load() != 2 || ended.Load() != 3 {
			t.Errorf("%d woken, %d ended", woken.Load(), ended.Load())
		}
	})
}

// With many setters and many waiters, no Set is lost: every item that was added before a Set is taken.
func TestSignalLosesNoSet(t *testing.T) {
	h := New(Options{})
	ctx, cancel := h.WithTimeout(context.Background(), testenv.Patience())
	defer cancel()
	s, done := h.NewSignal(), h.NewSignal()
	const items = 5000
	var added, taken atomic.Int64
	for range 4 {
		h.Go("taker", func() {
			for {
				if _, err := s.Wait(ctx, host.Forever); err != nil {
					return
				}
				if taken.Add(added.Swap(0)) == items {
					done.Set()
				}
			}
		})
	}
	for range 5 {
		h.Go("setter", func() {
			for range items / 5 {
				added.Add(1)
				s.Set()
			}
		})
	}
	if ok, err := done.Wait(ctx, host.Forever); !ok {
		t.Fatalf("%d of %d taken: %v", taken.Load(), items, err)
	}
}

func TestUint64NDrawsFromItsSource(t *testing.T) {
	a, b := New(Options{Random: rand.NewPCG(1, 2)}), New(Options{Random: rand.NewPCG(1, 2)})
	own, other := New(Options{}), New(Options{})
	same := true
	for range 100 {
		if x, y := a.Uint64N(1000), b.Uint64N(1000); x != y || x >= 1000 {
			t.Fatalf("given sources: %d and %d", x, y)
		}
		same = same && own.Uint64N(1<<63) == other.Uint64N(1<<63)
	}
	if same {
		t.Error("two hosts with different seeds draw the same numbers")
	}
	defer func() {
		if recover() == nil {
			t.Error("a number below 0 was drawn")
		}
	}()
	own.Uint64N(0)
}

func TestTaskPanicEndsProcess(t *testing.T) {
	if os.Getenv("HANDOFF_TEST_PANIC") != "" {
		h := New(Options{})
		_ = h.Go("doomed", func() { panic("as planned") }).Wait(context.Background())
		_ = h.Sleep(context.Background(), host.Forever)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestTaskPanicEndsProcess$", "-test.timeout=20s")
	cmd.Env = append(os.Environ(), "HANDOFF_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: as planned") {
		t.Errorf("%v\n%s", err, out)
	}
}
