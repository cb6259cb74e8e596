package kernel

import (
	"context"
	"encoding/binary"
	"hash"
	"hash/fnv"
	"testing"
	"time"
)

// trace hashes the events of a run.
type trace struct {
	hash  hash.Hash64
	count int
}

func newTrace() *trace { return &trace{hash: fnv.New64a()} }

func (t *trace) note(label string, values ...uint64) {
	t.hash.Write([]byte(label))
	for _, v := range values {
		t.hash.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
	t.count++
}

func (t *trace) sum() uint64 { return t.hash.Sum64() }

// toy is a random program: three processes of three tasks that sleep, call a server, time out and
// cancel each other, under crashes with restart, pauses, freezes and drift.
type toy struct {
	k       *Kernel
	tr      *trace
	effects int // changes at the server
	counter uint64
}

func newToy(opts Options) *toy {
	x := &toy{tr: newTrace()}
	opts.MaxSteps = 50_000
	opts.OnStep = func(t *Task) {
		id := uint64(0)
		if t != nil {
			id = t.ID()
		}
		x.tr.note("step", id, uint64(x.k.Now()))
	}
	x.k = New(opts)
	for _, name := range []string{"a", "b", "c"} {
		x.start(name)
	}
	return x
}

// call makes a request to the server: it travels there, takes effect, and its reply travels back.
func (t *toy) call(ctx context.Context, what uint64) error {
	k := t.k
	k.Point()
	w := k.NewWait()
	net := k.Stream("net")
	k.After(net.Duration(0, 3*time.Millisecond), func() {
		t.effects++
		t.counter += what
		t.tr.note("effect", what, uint64(k.Now()))
		k.After(net.Duration(0, 3*time.Millisecond), func() { w.Done() })
	})
	return w.Await(ctx)
}

func (t *toy) sleep(ctx context.Context, d time.Duration) error {
	t.k.Point()
	_, err := t.k.NewWait().AwaitFor(ctx, d)
	return err
}

func (t *toy) start(name string) {
	k := t.k
	p := k.NewProcess(name)
	p.OnEnd(func(r EndReason) {
		t.tr.note("end "+name, uint64(r))
		if r == Crashed {
			k.After(5*time.Millisecond, func() { t.start(name) })
		}
	})
	p.Go("main", func() {
		ctx, cancel := k.WithCancel(context.Background())
		defer cancel()
		s := k.Stream("work/" + name)
		looper := p.Go("loop", func() {
			defer func() { _ = t.call(context.Background(), 1000) }() // suppressed when the process crashes
			for {
				if err := t.sleep(ctx, s.Duration(100*time.Microsecond, 10*time.Millisecond)); err != nil {
					t.tr.note("loop ends", uint64(p.Clock().Monotonic()))
					return
				}
			}
		})
		p.Go("caller", func() {
			for i := range uint64(5) {
				tctx, done := k.WithTimeout(ctx, s.Duration(time.Millisecond, 5*time.Millisecond))
				err := t.call(tctx, i)
				done()
				t.tr.note("called", i, b2u(err == nil), uint64(p.Clock().Wall().UnixNano()))
			}
		})
		for range 10 {
			t.sleep(ctx, time.Millisecond)
		}
		cancel()
		_ = looper.Join(context.Background())
	})
	faults := k.Stream("faults/" + name)
	at := faults.Duration(0, 30*time.Millisecond)
	switch faults.Uint64N(6) {
	case 1:
		k.After(at, p.Crash)
	case 2:
		k.After(at, p.Pause)
		k.After(at+10*time.Millisecond, p.Resume)
	case 3:
		k.After(at, p.Freeze)
		k.After(at+10*time.Millisecond, p.Thaw)
	case 4:
		k.After(at, func() { p.Clock().SetDrift(-100_000) })
	case 5:
		k.After(at, func() { p.Clock().Step(-time.Hour) })
	}
}

func (t *toy) run() (uint64, Stop) {
	defer t.k.Close()
	stop := t.k.Run(nil, time.Second)
	return t.tr.sum(), stop
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// inTask runs fn as the only task of a process until nothing is left to do. It fails on a panic.
func inTask(t *testing.T, opts Options, fn func(k *Kernel, p *Process)) *Kernel {
	t.Helper()
	k := New(opts)
	t.Cleanup(k.Close)
	p := k.NewProcess("p")
	finished := false
	p.Go("main", func() {
		fn(k, p)
		finished = true
	})
	stop := k.Run(nil, 1000*time.Hour)
	if f := k.Failure(); f != nil {
		t.Fatalf("%v\n%s", f, f.Stack)
	}
	if !finished {
		t.Fatalf("the task did not finish: %v at %v", stop, k.Now())
	}
	return k
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// pinnedTrace is the trace of the toy under seed 7.
const pinnedTrace = 0x4e0070d644132242
