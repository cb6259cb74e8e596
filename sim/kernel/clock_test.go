package kernel

import (
	"context"
	"testing"
	"time"
)

// clockFixture has one process with a timer of 100 ms and a task that repeatedly sleeps 100 ms.
type clockFixture struct {
	k     *Kernel
	p     *Process
	fired time.Duration // true time of the timer
	wakes []time.Duration
	mono0 time.Duration
	wall0 time.Time
}

func newClockFixture(t *testing.T) *clockFixture {
	f := &clockFixture{k: New(Options{}), fired: -1}
	t.Cleanup(f.k.Close)
	f.p = f.k.NewProcess("p")
	f.mono0, f.wall0 = f.p.Clock().Monotonic(), f.p.Clock().Wall()
	f.p.AfterMonotonic(ms(100), func() { f.fired = f.k.Now() })
	f.p.Go("sleeper", func() {
		for {
			f.k.NewWait().AwaitFor(context.Background(), ms(100))
			f.wakes = append(f.wakes, f.k.Now())
		}
	})
	return f
}

func (c *clockFixture) check(t *testing.T, at, mono, wall time.Duration) {
	t.Helper()
	c.k.Run(nil, at)
	if got := c.p.Clock().Monotonic() - c.mono0; got != mono {
		t.Errorf("at %v the monotonic clock has gone %v, want %v", at, got, mono)
	}
	if got := c.p.Clock().Wall().Sub(c.wall0); got != wall {
		t.Errorf("at %v the wall clock has gone %v, want %v", at, got, wall)
	}
}

func TestPause(t *testing.T) {
	f := newClockFixture(t)
	f.k.After(ms(50), f.p.Pause)
	f.k.After(ms(350), f.p.Resume)
	f.check(t, ms(340), ms(340), ms(340))
	if f.fired != ms(100) {
		t.Errorf("a timer of a paused process fired at %v, want 100ms", f.fired)
	}
	if len(f.wakes) != 0 || !f.p.Paused() || !f.p.Alive() {
		t.Errorf("a paused process ran: %v", f.wakes)
	}
	f.check(t, ms(460), ms(460), ms(460))
	if len(f.wakes) != 2 || f.wakes[0] != ms(350) || f.wakes[1] != ms(450) {
		t.Errorf("woke at %v, want at Resume (350ms) and 450ms", f.wakes)
	}
}

func TestFreeze(t *testing.T) {
	f := newClockFixture(t)
	late := Timer{}
	f.k.After(ms(60), f.p.Freeze)
	f.k.After(ms(100), func() { late = f.p.AfterMonotonic(ms(10), func() { t.Error("a stopped timer fired") }) })
	f.k.After(ms(150), func() {
		if !late.Stop() || late.Stop() {
			t.Error("Stop of a timer on a frozen machine")
		}
	})
	f.k.After(ms(360), f.p.Thaw)
	f.check(t, ms(350), ms(60), ms(60))
	if f.fired != -1 || len(f.wakes) != 0 || !f.p.Frozen() {
		t.Errorf("something happened on a frozen machine: timer %v, wakes %v", f.fired, f.wakes)
	}
	f.check(t, ms(450), ms(150), ms(150))
	if f.fired != ms(400) || len(f.wakes) != 1 || f.wakes[0] != ms(400) {
		t.Errorf("timer at %v, wakes at %v, want the remaining 40ms after Thaw", f.fired, f.wakes)
	}
}

func TestReplyDuringFreezeArrivesAtThaw(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	got := time.Duration(-1)
	p.Go("caller", func() {
		w := k.NewWait()
		k.WakeAfter(ms(10), w)
		w.Await(context.Background())
		got = k.Now()
	})
	k.After(ms(5), p.Freeze)
	if stop := k.Run(nil, ms(50)); got != -1 || stop != StopIdle {
		t.Fatalf("the reply reached a frozen process: %v, %v", got, stop)
	}
	k.After(ms(50), p.Thaw)
	k.Run(nil, time.Second)
	if got != k.Now() || got < ms(50) {
		t.Errorf("resumed at %v", got)
	}
}

func TestCrashedProcessHasNoTimers(t *testing.T) {
	f := newClockFixture(t)
	f.k.After(ms(50), f.p.Crash)
	if stop := f.k.Run(nil, time.Hour); stop != StopIdle || f.k.Now() != ms(50) {
		t.Errorf("stopped with %v at %v, want idle at the crash", stop, f.k.Now())
	}
	if f.fired != -1 || len(f.wakes) != 0 || f.p.Alive() {
		t.Errorf("a dead process: timer %v, wakes %v", f.fired, f.wakes)
	}
	if f.p.AfterMonotonic(0, func() { t.Error("timer of a dead process") }).Stop() {
		t.Error("a timer was armed for a dead process")
	}
	f.k.Run(nil, 2*time.Hour)
}

func TestDriftIsContinuousAndMovesTimers(t *testing.T) {
	for _, ppm := range []int64{-500_000, -333_333, -1, 1, 77, 123_457, 500_000} {
		f := newClockFixture(t)
		f.k.Run(nil, ms(40))
		before := f.p.Clock().Monotonic()
		f.p.Clock().SetDrift(ppm)
		if got := f.p.Clock().Monotonic(); got != before {
			t.Errorf("%d ppm: the clock jumped by %v", ppm, got-before)
		}
		f.p.OnEnd(func(EndReason) {})
		target := f.mono0 + ms(100)
		var reading time.Duration
		f.p.AfterMonotonic(ms(60), func() { reading = f.p.Clock().Monotonic() })
		f.k.Run(func() bool { return reading != 0 }, time.Hour)
		if reading < target || reading > target+2 {
			t.Errorf("%d ppm: timers fired at a reading of %v, want %v", ppm, reading-f.mono0, ms(100))
		}
		want := ms(40) + time.Duration(60_000_000*1_000_000/(1_000_000+ppm))
		if d := f.fired - want; d < -2 || d > 2 {
			t.Errorf("%d ppm: the earlier timer fired at %v, want %v", ppm, f.fired, want)
		}
		at := f.k.Now()
		f.p.Clock().SetDrift(0)
		mono := f.p.Clock().Monotonic()
		f.k.Run(nil, at+time.Second)
		if got := f.p.Clock().Monotonic() - mono; got != time.Second {
			t.Errorf("%d ppm: after the drift a second takes %v", ppm, got)
		}
	}
}

func TestDriftNeverMovesClockBackwards(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	c := k.NewClock("db")
	s := NewStream(NewRandom(2), "drift")
	last, wall := c.Monotonic(), c.Wall()
	for range 2000 {
		k.Run(nil, k.Now()+time.Duration(s.Uint64N(3000)))
		k.now += time.Duration(s.Uint64N(3000))
		if now := c.Monotonic(); now < last || c.Wall().Before(wall) {
			t.Fatalf("went back from %v to %v", last, now)
		}
		last, wall = c.Monotonic(), c.Wall()
		c.SetDrift(int64(s.Uint64N(2*maxDrift)) - maxDrift)
	}
	if recovered(func() { c.SetDrift(maxDrift + 1) }) == nil {
		t.Error("an absurd drift is accepted")
	}
}

func TestLongDriftDoesNotOverflow(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	p.Clock().SetDrift(500_000)
	p.AfterMonotonic(maxDuration-1, func() { t.Error("fired after centuries") })
	fired := time.Duration(0)
	p.AfterMonotonic(30_000*time.Hour, func() { fired = k.Now() })
	k.Run(nil, 40_000*time.Hour)
	if fired != 20_000*time.Hour {
		t.Errorf("fired at %v, want 20000h", fired)
	}
}

func TestOffsetAndStepsMoveOnlyWallClock(t *testing.T) {
	f := newClockFixture(t)
	f.k.Run(nil, ms(10))
	c := f.p.Clock()
	c.SetOffset(time.Hour)
	f.check(t, ms(20), ms(20), ms(20)+time.Hour)
	c.Step(-3 * time.Hour)
	f.check(t, ms(30), ms(30), ms(30)-2*time.Hour)
	if c.Offset() != -2*time.Hour {
		t.Errorf("Offset = %v", c.Offset())
	}
	f.k.Run(nil, ms(110))
	if f.fired != ms(100) {
		t.Errorf("a step moved a monotonic timer to %v", f.fired)
	}
}

func TestMachineKeepsItsClockAcrossRestart(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	first := k.NewProcess("w")
	first.Clock().SetOffset(time.Minute)
	first.Clock().SetDrift(1000)
	first.Freeze()
	first.Crash()
	second, other := k.NewProcess("w"), k.NewProcess("x")
	if second.Frozen() {
		t.Error("a crash must reset a frozen machine")
	}
	if second.Clock().Offset() != time.Minute || second.Clock().Drift() != 1000 || other.Clock().Drift() != 0 {
		t.Error("faults of a clock belong to the machine of that name")
	}
	first.Clock().SetOffset(0) // the injector may restore the clock through the old handle
	if second.Clock().Offset() != 0 {
		t.Error("healed clock is still off")
	}
	if second.Clock().Monotonic() == first.Clock().Monotonic() || second.Clock().Monotonic() == other.Clock().Monotonic() {
		t.Error("monotonic readings of two processes must not be comparable")
	}
	if k.NewClock("w").Drift() != 0 {
		t.Error("a free clock is not a machine's")
	}
}

func TestSelfPauseStopsInsideTheCall(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	at := time.Duration(-1)
	k.After(time.Second, func() { p.Resume(); p.Thaw() })
	k.After(2*time.Second, func() { p.Resume(); p.Thaw() })
	p.Go("main", func() {
		p.Pause()
		if k.Now() != time.Second {
			t.Errorf("ran on at %v", k.Now())
		}
		p.Freeze()
		at = k.Now()
	})
	k.Run(nil, time.Hour)
	if at != 2*time.Second {
		t.Errorf("ran on at %v", at)
	}
}
