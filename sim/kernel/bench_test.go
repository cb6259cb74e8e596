package kernel

import (
	"context"
	"testing"
	"time"
)

// server is a model that pools its requests: one hop to the server and one back.
type server struct {
	k    *Kernel
	free []*request
	net  *Stream
}

type request struct {
	s *server
	w Wait
}

func (r *request) Fire() {
	r.s.k.WakeAfter(r.s.net.Duration(50*time.Microsecond, time.Millisecond), r.w)
	r.s.free = append(r.s.free, r)
}

func (s *server) call(ctx context.Context) error {
	s.k.Point()
	var r *request
	if n := len(s.free); n > 0 {
		r = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		r = &request{s: s}
	}
	r.w = s.k.NewWait()
	s.k.AfterEvent(s.net.Duration(50*time.Microsecond, time.Millisecond), r)
	return r.w.Await(ctx)
}

func load(k *Kernel) {
	s := &server{k: k, net: k.Stream("net")}
	ctx, _ := k.WithCancel(context.Background())
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := k.NewProcess(name)
		for range 2 {
			p.Go("caller", func() {
				for {
					_ = s.call(ctx)
				}
			})
		}
		p.Go("sleeper", func() {
			for {
				k.Point()
				_, _ = k.NewWait().AwaitFor(ctx, time.Millisecond)
			}
		})
	}
}

// BenchmarkSteps runs eight processes of three tasks; an op is a step.
func BenchmarkSteps(b *testing.B) {
	k := New(Options{MaxSteps: uint64(b.N) + 10_000})
	defer k.Close()
	load(k)
	k.Run(func() bool { return k.Step() >= 10_000 }, maxDuration)
	b.ReportAllocs()
	b.ResetTimer()
	k.Run(nil, maxDuration)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Msteps/s")
}

func BenchmarkYield(b *testing.B) {
	k := New(Options{MaxSteps: uint64(b.N)})
	defer k.Close()
	k.NewProcess("p").Go("main", func() {
		for {
			k.Yield()
		}
	})
	b.ReportAllocs()
	k.Run(nil, maxDuration)
}

func BenchmarkTaskStartAndEnd(b *testing.B) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	p.Go("main", func() {
		for range b.N {
			_ = p.Go("short", func() {}).Join(context.Background())
		}
	})
	b.ReportAllocs()
	k.Run(nil, maxDuration)
}

// BenchmarkCrash starts and crashes a process of three tasks.
func BenchmarkCrash(b *testing.B) {
	k := New(Options{})
	defer k.Close()
	b.ReportAllocs()
	for range b.N {
		p := k.NewProcess("p")
		for range 3 {
			p.Go("task", func() { _ = k.NewWait().Await(context.Background()) })
		}
		k.Run(nil, maxDuration)
		p.Crash()
	}
}

// BenchmarkEmptyRun makes an empty run: the fixed cost of each seed of a sweep.
func BenchmarkEmptyRun(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		k := New(Options{})
		k.NewProcess("p").Go("main", k.Yield)
		k.Run(nil, maxDuration)
		k.Close()
	}
}

func TestStepsMakeNoGarbage(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	load(k)
	horizon := time.Second
	k.Run(nil, horizon)
	if got := testing.AllocsPerRun(20, func() {
		horizon += time.Second
		k.Run(nil, horizon)
	}); got > 1 {
		t.Errorf("%v allocations in a second of steady load (about 60,000 steps)", got)
	}
}
