package kernel

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// ledger is a program that attempts further effects while it dies; a server counts its effects.
type ledger struct {
	k        *Kernel
	applied  []string
	replied  []string
	deferred int // deferred functions that were entered
	past     int // statements that were reached after a kernel call of a dying task
	p        *Process
}

func (l *ledger) call(what string) {
	k := l.k
	k.Point()
	w := k.NewWait()
	k.After(ms(1), func() {
		l.applied = append(l.applied, what)
		k.WakeAfter(ms(1), w)
	})
	w.Await(context.Background())
	l.replied = append(l.replied, what)
}

func (l *ledger) program() {
	for _, task := range []string{"x", "y"} {
		l.p.Go(task, func() {
			defer func() {
				l.deferred++
				if !l.k.Dying() {
					return
				}
				if l.k.Current().Name() != task {
					panic("Current is not the dying task")
				}
				defer func() { l.deferred++; l.call("deeper"); l.past++ }()
				l.call("deferred")
				l.past++
			}()
			for i := range 3 {
				l.call(fmt.Sprintf("%s%d", task, i))
				l.k.Yield()
			}
		})
	}
}

func newLedger(at *CrashPoint) (*ledger, Stop) {
	l := &ledger{k: New(Options{CrashAt: at})}
	l.p = l.k.NewProcess("p")
	l.program()
	stop := l.k.Run(nil, time.Hour)
	return l, stop
}

func TestCrashAtEveryPointInBothPhases(t *testing.T) {
	plain, _ := newLedger(nil)
	defer plain.k.Close()
	points := plain.k.Points()
	if len(points) != 1 || points[0] != (PointCount{"p", 6}) || len(plain.replied) != 6 || plain.k.CrashFired() {
		t.Fatalf("without a crash: points %v, replied %v", points, plain.replied)
	}
	outcomes := map[string]bool{}
	for n := uint64(1); n <= 6; n++ {
		for _, after := range []bool{false, true} {
			l, stop := newLedger(&CrashPoint{Process: "p", N: n, After: after})
			name := fmt.Sprintf("point %d, after %v", n, after)
			if f := l.k.Failure(); f != nil || stop != StopIdle {
				t.Fatalf("%s: %v, %v", name, stop, f)
			}
			if !l.k.CrashFired() || l.p.Alive() {
				t.Errorf("%s: no crash", name)
			}
			if l.deferred == 0 || l.past != 0 {
				t.Errorf("%s: %d deferred functions ran, %d went on behind a kernel call", name, l.deferred, l.past)
			}
			text := strings.Join(l.applied, " ")
			if strings.Contains(text, "de") {
				t.Errorf("%s: a deferred effect happened: %s", name, text)
			}
			if after && len(l.replied) >= len(l.applied) {
				t.Errorf("%s: applied %v, but the replies were seen: %v", name, l.applied, l.replied)
			}
			if !after && uint64(len(l.applied)) >= n {
				t.Errorf("%s: applied %v", name, l.applied)
			}
			outcomes[fmt.Sprint(l.applied, l.replied)] = true
			l.k.Close()
		}
	}
	if len(outcomes) < 6 {
		t.Errorf("only %d different outcomes", len(outcomes))
	}
}

func TestCrashAfterPointNeedsOutcome(t *testing.T) {
	run := func(call func(k *Kernel)) bool {
		k := New(Options{CrashAt: &CrashPoint{Process: "p", N: 1, After: true}})
		defer k.Close()
		k.NewProcess("p").Go("main", func() {
			k.Point()
			call(k)
			k.NewWait().AwaitFor(context.Background(), ms(1)) // of no Point
		})
		k.Run(nil, time.Hour)
		return k.CrashFired()
	}
	if run(func(k *Kernel) {
		ctx, _ := k.WithTimeout(context.Background(), ms(1))
		k.NewWait().Await(ctx)
	}) {
		t.Error("crashed although the context ended first")
	}
	if !run(func(k *Kernel) { k.Yield() }) || !run(func(k *Kernel) {
		w := k.NewWait()
		w.Done()
		w.Await(context.Background())
		t.Error("resumed after an outcome that came at once")
	}) {
		t.Error("no crash after an outcome")
	}
}

func TestPointsCountOverRestarts(t *testing.T) {
	k := New(Options{CrashAt: &CrashPoint{Process: "w", N: 5}})
	defer k.Close()
	starts := 0
	var start func()
	start = func() {
		starts++
		p := k.NewProcess("w")
		p.OnEnd(func(r EndReason) {
			if k.Current() != nil {
				t.Error("OnEnd outside of kernel context")
			}
			if starts < 4 {
				start()
			}
		})
		p.Go("main", func() {
			k.Point()
			k.Yield()
			k.Point()
			p.Crash()
			t.Error("Crash of its own process returned")
		})
	}
	start()
	k.Run(nil, time.Hour)
	// 2 + 2 + 1 (up to the planned crash) + 2
	if points := k.Points(); starts != 4 || points[0].N != 7 || !k.CrashFired() {
		t.Errorf("%d starts, points %v", starts, points)
	}
}

func TestRecoverCannotStopCrash(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	rounds, swallowed := 0, 0
	p.Go("stubborn", func() {
		for {
			func() {
				defer func() {
					if recover() != nil {
						swallowed++
					}
				}()
				defer func() { _ = recover(); k.Yield() }()
				rounds++
				k.NewWait().AwaitFor(context.Background(), ms(1))
			}()
		}
	})
	k.After(ms(10), p.Crash)
	if stop := k.Run(nil, ms(100)); stop != StopIdle || rounds > 12 || swallowed != 0 || p.Alive() {
		t.Errorf("%v after %d rounds, %d swallowed", stop, rounds, swallowed)
	}
}

func TestCrashFromEverywhere(t *testing.T) {
	for _, from := range []string{"kernel", "own task", "other process", "OnEnd of another"} {
		k := New(Options{})
		p, q := k.NewProcess("p"), k.NewProcess("q")
		ends, ran := 0, false
		p.OnEnd(func(r EndReason) {
			ends++
			if r != Crashed {
				t.Errorf("%s: ended as %v", from, r)
			}
		})
		p.Go("parked", func() { k.NewWait().Await(context.Background()); ran = true })
		switch from {
		case "kernel":
			k.After(ms(1), func() { p.Crash(); p.Go("never started", func() { ran = true }) })
		case "own task":
			p.Go("suicide", func() { p.Go("never started", func() { ran = true }); p.Crash(); ran = true })
		case "other process":
			q.Go("murder", func() {
				p.Go("never started", func() { ran = true })
				p.Crash()
				if p.Alive() || k.Current().Process() != q {
					t.Error("after Crash of another process")
				}
			})
		case "OnEnd of another":
			q.OnEnd(func(EndReason) { p.Crash() })
			p.Go("murder", func() { q.Crash(); ran = true }) // the callback crashes the process inside this call
		}
		k.Run(nil, time.Hour)
		if p.Alive() || ends != 1 || ran {
			t.Errorf("%s: alive %v, %d ends, ran on %v", from, p.Alive(), ends, ran)
		}
		k.Close()
		k.Close()
	}
}

func TestPanicFailureNamesTaskAndPlace(t *testing.T) {
	var reported *Panic
	k := New(Options{OnPanic: func(p *Panic) { reported = p }})
	defer k.Close()
	p := k.NewProcess("worker-1")
	p.Go("runner", func() {
		k.NewWait().AwaitFor(context.Background(), ms(5))
		faultyProduct()
	})
	stop := k.Run(nil, time.Hour)
	f := k.Failure()
	if stop != StopPanic || f == nil || f != reported {
		t.Fatalf("%v, %v", stop, f)
	}
	if f.Process != "worker-1" || f.Task != "runner" || f.Value != "broken" || f.Time != ms(5) || f.Step != 3 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(string(f.Stack), "faultyProduct") || !strings.Contains(f.Error(), "worker-1/runner") {
		t.Errorf("%v\n%s", f, f.Stack)
	}
	if k.Run(nil, time.Hour) != StopPanic {
		t.Error("a failed run must not go on")
	}
}

func faultyProduct() { panic("broken") }

func TestPanicOfDyingTaskIsFailure(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	p.Go("main", func() {
		defer faultyProduct()
		k.NewWait().Await(context.Background())
	})
	k.After(ms(1), p.Crash)
	if stop := k.Run(nil, time.Hour); stop != StopPanic || k.Failure().Task != "main" {
		t.Errorf("%v, %v", stop, k.Failure())
	}
}

func TestPanicInKernelContextPropagates(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	k.After(0, func() { panic("model") })
	if got := recovered(func() { k.Run(nil, time.Hour) }); got != "model" {
		t.Errorf("recovered %v", got)
	}
	l := New(Options{})
	defer l.Close()
	p, q := l.NewProcess("p"), l.NewProcess("q")
	q.OnEnd(func(EndReason) { panic("callback") })
	p.Go("main", func() { q.Crash() })
	if got := recovered(func() { l.Run(nil, time.Hour) }); got != "callback" || l.Failure() != nil {
		t.Errorf("recovered %v, failure %v", got, l.Failure())
	}
}

func TestExit(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	var reason EndReason
	p.OnEnd(func(r EndReason) { reason = r })
	first := p.Go("first", func() { k.Yield(); k.Yield() })
	p.Go("second", func() { first.Join(context.Background()) })
	p.AfterMonotonic(ms(1), func() { t.Error("timer of a process that has exited") })
	k.Run(nil, time.Hour)
	if reason != Exited || p.Alive() || !first.Ended() {
		t.Errorf("reason %v", reason)
	}
	if !p.Go("late", func() { t.Error("ran") }).Ended() {
		t.Error("a task was started in a process that has exited")
	}
	k.Run(nil, time.Hour)
}

func TestClosedKernelLeavesNoGoroutine(t *testing.T) {
	const runs = 5_000
	before := runtime.NumGoroutine()
	for i := range runs {
		k := New(Options{Chooser: NewRandom(uint64(i)), CrashAt: &CrashPoint{Process: "p", N: uint64(1 + i%5), After: i%2 == 0}})
		p := k.NewProcess("p")
		for range 3 {
			p.Go("task", func() {
				defer k.Yield()
				k.Point()
				k.NewWait().AwaitFor(context.Background(), k.Stream("s").Duration(0, ms(3)))
			})
		}
		q := k.NewProcess("q")
		q.Go("forever", func() { k.NewWait().Await(context.Background()) })
		k.After(ms(2), func() { q.Go("never started", func() {}) })
		k.Run(nil, ms(2)-1+time.Duration(i%2))
		k.Close()
	}
	// Goroutines that have just ended may still be executing their last instructions.
	for start := time.Now(); time.Since(start) < 5*time.Minute; {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
