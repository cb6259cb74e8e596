package kernel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWaitOutcomes(t *testing.T) {
	inTask(t, Options{}, func(k *Kernel, p *Process) {
		bg := context.Background()
		w := k.NewWait()
		k.WakeAfter(ms(1), w)
		if err := w.Await(bg); err != nil || k.Now() != ms(1) {
			t.Errorf("%v at %v", err, k.Now())
		}
		if w.Done() || w.Pending() {
			t.Error("Done of a wait that is over")
		}
		w = k.NewWait()
		if !w.Pending() || !w.Done() || w.Done() {
			t.Error("Done before Await must be true once")
		}
		if err := w.Await(bg); err != nil {
			t.Error(err)
		}
		if done, err := k.NewWait().AwaitFor(bg, ms(2)); done || err != nil || k.Now() != ms(3) {
			t.Errorf("AwaitFor = %v, %v at %v", done, err, k.Now())
		}
		w = k.NewWait()
		k.WakeAfter(ms(1), w)
		if done, err := w.AwaitFor(bg, ms(2)); !done || err != nil || k.Now() != ms(4) {
			t.Errorf("AwaitFor = %v, %v at %v", done, err, k.Now())
		}
		if _, armed := k.NextTimer(); armed {
			t.Error("the limit of a wait that is over is still armed")
		}
		w = k.NewWait()
		w.Abandon()
		if w.Done() || (Wait{}).Done() {
			t.Error("Done of an abandoned wait")
		}
		if recovered(func() { w.Await(bg) }) == nil {
			t.Error("Await of a wait that is over must panic")
		}
	})
}

// A late reply must not wake a new wait that reuses the memory of the reply's own wait.
func TestLateDoneDoesNotWakeNewWait(t *testing.T) {
	inTask(t, Options{}, func(k *Kernel, p *Process) {
		ctx, cancel := k.WithTimeout(context.Background(), ms(1))
		defer cancel()
		old := k.NewWait()
		if err := old.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await = %v", err)
		}
		late := true
		k.After(ms(1), func() { late = old.Done() })
		fresh := k.NewWait()
		if fresh.w != old.w {
			t.Fatal("the pool does not reuse waits: the test shows nothing")
		}
		k.WakeAfter(ms(5), fresh)
		fresh.Await(context.Background())
		if late || k.Now() != ms(6) {
			t.Errorf("late Done = %v, woke at %v, want 6ms", late, k.Now())
		}
	})
}

func TestDoneDoesNotWakeDeadTask(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	var parked, held Wait
	p.Go("main", func() {
		held = k.NewWait()
		parked = k.NewWait()
		parked.Await(context.Background())
	})
	k.After(ms(1), p.Crash)
	k.Run(nil, time.Hour)
	if parked.Done() || held.Done() {
		t.Error("a dead task was woken")
	}
}

func TestFirstOutcomeWins(t *testing.T) {
	inTask(t, Options{}, func(k *Kernel, p *Process) {
		ctx, cancel := k.WithCancel(context.Background())
		w := k.NewWait()
		k.After(ms(1), func() { w.Done(); cancel() })
		if err := w.Await(ctx); err != nil {
			t.Errorf("Done came first, yet Await = %v", err)
		}
		ctx, cancel = k.WithCancel(context.Background())
		w = k.NewWait()
		k.After(ms(1), func() {
			cancel()
			if w.Done() {
				t.Error("Done after the context ended")
			}
		})
		if err := w.Await(ctx); err != context.Canceled {
			t.Errorf("Await = %v", err)
		}
	})
}

func TestKernelContextsBehaveLikeStandardContexts(t *testing.T) {
	type key struct{}
	zero := &spy{choose: func(*Stream, uint64) uint64 { return 0 }}
	k := inTask(t, Options{Chooser: zero}, func(k *Kernel, p *Process) {
		root, cancelRoot := k.WithCancel(context.Background())
		wrapped := context.WithValue(root, key{}, "v")
		long, cancelLong := k.WithTimeout(wrapped, time.Hour)
		short, cancelShort := k.WithTimeout(context.WithValue(long, key{}, "w"), ms(2))
		defer cancelShort()
		if long.Value(key{}) != "v" || short.Value(key{}) != "w" || root.Value(key{}) != nil {
			t.Error("values")
		}
		if d, ok := short.Deadline(); !ok || !d.Equal(p.Clock().Wall().Add(ms(2))) {
			t.Errorf("Deadline = %v, %v", d, ok)
		}
		if _, ok := root.Deadline(); ok {
			t.Error("a deadline from nowhere")
		}
		var order []string
		for _, w := range []struct {
			name string
			ctx  context.Context
		}{{"long", long}, {"root", context.WithValue(root, key{}, 1)}, {"short", short}, {"root again", root}} {
			p.Go(w.name, func() {
				err := k.NewWait().Await(w.ctx)
				order = append(order, w.name+" "+err.Error()+" "+k.Now().String())
			})
		}
		k.After(ms(3), cancelRoot)
		k.NewWait().AwaitFor(context.Background(), ms(4))
		want := "short context deadline exceeded 2ms, root context canceled 3ms, root again context canceled 3ms, long context canceled 3ms"
		if got := strings.Join(order, ", "); got != want {
			t.Errorf("woken in the order %q, want %q", got, want)
		}
		if short.Err() != context.DeadlineExceeded || long.Err() != context.Canceled || context.Cause(long) != context.Canceled {
			t.Errorf("short %v, long %v", short.Err(), long.Err())
		}
		cancelLong()
		child, _ := k.WithTimeout(long, time.Hour)
		if child.Err() != context.Canceled || k.NewWait().Await(child) != context.Canceled {
			t.Error("a child of an ended context must be born ended")
		}
		if now, _ := k.WithTimeout(context.Background(), 0); now.Err() != context.DeadlineExceeded {
			t.Error("a timeout of 0")
		}
	})
	if _, armed := k.NextTimer(); armed {
		t.Error("timers of ended contexts are still armed")
	}
}

func TestWokenTasksRunFirstComeFirstServed(t *testing.T) {
	zero := &spy{choose: func(*Stream, uint64) uint64 { return 0 }}
	inTask(t, Options{Chooser: zero}, func(k *Kernel, p *Process) {
		var order []string
		for _, name := range []string{"1", "2", "3"} {
			p.Go(name, func() { order = append(order, name); k.Yield(); order = append(order, name) })
		}
		for range 3 {
			k.Yield()
		}
		if got := strings.Join(order, ""); got != "123123" {
			t.Errorf("order %s", got)
		}
	})
}

func TestTimeoutFollowsMonotonicClock(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	ended := time.Duration(0)
	p.Clock().SetDrift(-500_000)
	p.Go("main", func() {
		ctx, cancel := k.WithTimeout(context.Background(), ms(100))
		defer cancel()
		k.NewWait().Await(ctx)
		ended = k.Now()
	})
	k.After(ms(50), func() { p.Clock().Step(time.Hour); p.Freeze() })
	k.After(ms(1000), p.Thaw)
	k.Run(nil, time.Hour)
	if ended != ms(1150) {
		t.Errorf("ended at %v, want 1.15s", ended)
	}
}

func TestContextsOutsideKernelPanic(t *testing.T) {
	inTask(t, Options{}, func(k *Kernel, p *Process) {
		ours, cancel := k.WithCancel(context.Background())
		foreign, cancelForeign := context.WithCancel(context.Background())
		defer cancelForeign()
		for name, f := range map[string]func(){
			"Done":                   func() { ours.Done() },
			"context.WithCancel":     func() { _, stop := context.WithCancel(ours); stop() },
			"wait under a foreign":   func() { w := k.NewWait(); defer w.Abandon(); w.Await(foreign) },
			"child of a foreign one": func() { k.WithCancel(foreign) },
		} {
			text, _ := recovered(f).(string)
			if !strings.Contains(text, "host.Host") {
				t.Errorf("%s: panic %q", name, text)
			}
		}
		shielded := context.WithoutCancel(ours)
		cancel()
		if done, err := k.NewWait().AwaitFor(shielded, ms(1)); done || err != nil {
			t.Errorf("a shielded context ended: %v", err)
		}
	})
}

func TestKernelContextMustNotBlock(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	for name, f := range map[string]func(){
		"NewWait": func() { k.NewWait() }, "Point": k.Point, "Yield": k.Yield,
	} {
		if recovered(f) == nil {
			t.Errorf("%s in kernel context does not panic", name)
		}
	}
}
