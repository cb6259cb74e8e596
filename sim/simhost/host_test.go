package simhost

import (
	"context"
	"slices"
	"testing"
	"time"

	"handoff/core/host"
	"handoff/sim/kernel"
)

const ms = time.Millisecond

// onHost runs fn as a task of a new process and returns the kernel for further checks.
func onHost(t *testing.T, opts kernel.Options, fn func(k *kernel.Kernel, p *kernel.Process, h host.Host)) *kernel.Kernel {
	t.Helper()
	k := kernel.New(opts)
	t.Cleanup(k.Close)
	p := k.NewProcess("p")
	h := New(k, p)
	finished := false
	p.Go("main", func() {
		fn(k, p, h)
		finished = true
	})
	k.Run(nil, time.Hour)
	if f := k.Failure(); f != nil {
		t.Fatalf("%v\n%s", f, f.Stack)
	}
	if !finished {
		t.Fatalf("the task did not finish")
	}
	return k
}

func TestClocksAndSleep(t *testing.T) {
	k := onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
		bg := context.Background()
		p.Clock().SetDrift(-500_000)
		p.Clock().SetOffset(time.Hour)
		mono, wall := h.Monotonic(), h.Now()
		if err := h.Sleep(bg, 10*ms); err != nil || k.Now() != 20*ms {
			t.Errorf("Sleep = %v, until %v of true time, want 20ms", err, k.Now())
		}
		if h.Monotonic()-mono != 10*ms || h.Now().Sub(wall) != 10*ms {
			t.Errorf("monotonic went %v, wall %v", h.Monotonic()-mono, h.Now().Sub(wall))
		}
		ctx, cancel := h.WithTimeout(bg, 5*ms)
		defer cancel()
		if err := h.Sleep(ctx, time.Hour); err != context.DeadlineExceeded || h.Monotonic()-mono != 15*ms {
			t.Errorf("Sleep under a timeout = %v after %v", err, h.Monotonic()-mono)
		}
		at := k.Now()
		if h.Sleep(bg, 0) != nil || h.Sleep(bg, -1) != nil || h.Sleep(ctx, 0) == nil || k.Now() != at {
			t.Error("a sleep of nothing")
		}
	})
	if n := k.Points()[0].N; n != 5 {
		t.Errorf("%d yield points, want one for each sleep", n)
	}
}

func TestTasks(t *testing.T) {
	onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
		ctx, cancel := h.WithCancel(context.Background())
		task := h.Go("napper", func() { _ = h.Sleep(ctx, time.Minute) })
		short, stop := h.WithTimeout(context.Background(), ms)
		defer stop()
		if err := task.Wait(short); err != context.DeadlineExceeded {
			t.Errorf("Wait = %v before the task has ended", err)
		}
		cancel()
		if err := task.Wait(context.Background()); err != nil || k.Now() != ms {
			t.Errorf("Wait = %v at %v", err, k.Now())
		}
		if err := task.Wait(context.Background()); err != nil {
			t.Errorf("Wait for a task that has ended = %v", err)
		}
	})
}

func TestSignalIsBinaryAndWakesOne(t *testing.T) {
	onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
		bg := context.Background()
		s := h.NewSignal()
		s.Set()
		s.Set()
		if ok, err := s.Wait(bg, host.Forever); !ok || err != nil {
			t.Errorf("Wait on a set signal = %v, %v", ok, err)
		}
		if _, armed := k.NextTimer(); armed {
			t.Error("a wait for ever has a timer")
		}
		if ok, err := s.Wait(bg, ms); ok || err != nil || k.Now() != ms {
			t.Errorf("Wait on a cleared signal = %v, %v at %v", ok, err, k.Now())
		}
		var woken []string
		ctx, cancel := h.WithCancel(bg)
		var tasks []host.Task
		for _, name := range []string{"first", "second", "third"} {
			tasks = append(tasks, h.Go(name, func() {
				_ = h.Sleep(bg, time.Duration(len(woken)+1)) // so that all wait in order
				if ok, err := s.Wait(ctx, host.Forever); ok {
					woken = append(woken, name)
				} else if err != context.Canceled {
					t.Errorf("%s: %v", name, err)
				}
			}))
		}
		_ = h.Sleep(bg, ms)
		s.Set()
		_ = h.Sleep(bg, ms)
		if len(woken) != 1 {
			t.Errorf("one Set woke %v", woken)
		}
		s.Set()
		_ = h.Sleep(bg, ms)
		if len(woken) != 2 {
			t.Errorf("two Sets woke %v", woken)
		}
		cancel()
		for _, task := range tasks {
			_ = task.Wait(bg)
		}
		s.Set()
		if _, err := s.Wait(ctx, ms); err != context.Canceled {
			t.Errorf("Wait under an ended context = %v", err)
		}
		if ok, _ := s.Wait(bg, ms); !ok {
			t.Error("the Set was lost to waits that had ended")
		}
	})
}

// A Set at the exact time of a wait's timeout must not be lost, whether the wait reports the signal or the
// timeout.
func TestSignalIsNotLostToTimeout(t *testing.T) {
	for seed := range uint64(50) {
		opts := kernel.Options{Chooser: kernel.NewRandom(seed), TimeIsChoice: true}
		onHost(t, opts, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
			bg := context.Background()
			s := h.NewSignal()
			h.Go("setter", func() {
				_ = h.Sleep(bg, ms)
				s.Set()
			})
			first, _ := s.Wait(bg, ms)
			patience := host.Forever
			if first {
				patience = ms
			}
			if second, _ := s.Wait(bg, patience); first == second {
				t.Errorf("seed %d: one Set was seen as %v and %v", seed, first, second)
			}
		})
	}
}

func TestCrashSuppressesDeferredEffects(t *testing.T) {
	k := kernel.New(kernel.Options{})
	defer k.Close()
	p := k.NewProcess("p")
	h := New(k, p)
	s := h.NewSignal()
	var past []string
	p.Go("main", func() {
		defer func() { s.Set(); past = append(past, "Set") }()
		defer func() { h.Go("child", func() {}); past = append(past, "Go") }()
		defer func() { h.Uint64N(2); past = append(past, "Uint64N") }()
		defer func() { _ = h.Sleep(context.Background(), 0); past = append(past, "Sleep") }()
		_ = h.Sleep(context.Background(), time.Hour)
	})
	k.After(ms, p.Crash)
	k.Run(nil, 2*time.Hour)
	if len(past) != 0 || p.Alive() || k.Now() != ms {
		t.Errorf("a dying task went on behind %v", past)
	}
}

func TestEachProcessHasSeparateRandomNumbers(t *testing.T) {
	draw := func(others bool) []uint64 {
		var got []uint64
		onHost(t, kernel.Options{}, func(k *kernel.Kernel, p *kernel.Process, h host.Host) {
			for range 10 {
				got = append(got, h.Uint64N(1000))
				if others {
					k.Stream("host/q").Uint64N(1000)
				}
			}
		})
		return got
	}
	if a, b := draw(false), draw(true); !slices.Equal(a, b) {
		t.Errorf("%v, then %v", a, b)
	}
}
