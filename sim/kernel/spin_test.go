package kernel

import (
	"context"
	"testing"
	"time"
)

func TestSpinningTaskIsNamed(t *testing.T) {
	k := New(Options{StepsAtOnce: func() uint64 { return 20_000 }})
	defer k.Close()
	idle := k.NewProcess("idle")
	idle.Go("beat", func() {
		for {
			_, _ = k.NewWait().AwaitFor(context.Background(), time.Second)
		}
	})
	busy := k.NewProcess("busy")
	busy.Go("scheduler", func() {
		_, _ = k.NewWait().AwaitFor(context.Background(), 5*time.Second)
		for {
			k.Yield()
		}
	})
	if stop := k.Run(nil, time.Hour); stop != StopSpin {
		t.Fatalf("stopped for %v, want %v", stop, StopSpin)
	}
	who, steps, bound := k.Spun()
	if who != "busy (task scheduler)" || bound != 20_000 || steps <= bound || k.Now() != 5*time.Second {
		t.Errorf("%s made %d steps at %v, the bound is %d", who, steps, k.Now(), bound)
	}
}

func TestStepsThatTakeTimeAreNotSpinning(t *testing.T) {
	k := New(Options{StepsAtOnce: func() uint64 { return 20_000 }})
	defer k.Close()
	k.NewProcess("busy").Go("main", func() {
		for range 60_000 {
			if _, err := k.NewWait().AwaitFor(context.Background(), time.Microsecond); err != nil {
				return
			}
		}
	})
	if stop := k.Run(nil, time.Hour); stop == StopSpin {
		t.Error("a task that waits at each step counts as one that spins")
	}
}
