// Package daemon implements host.Host for a real process, with goroutines and an injected clock.
//
// The clock is the only source of time, so whoever creates the host controls time: clock.New() in production,
// clock.NewMock() in tests that advance time, a wrapping clock for a process with a wrong wall clock. A
// wrapping clock that overrides only Now changes only the wall clock: the monotonic reading comes from the
// clock's Since.
//
// A panic in a task ends the process. Its leases then expire and other processes take over its work, which is
// tested. A process that continued without one of its loops would be an untested state.
package daemon

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"handoff/core/host"
)

// Host implements host.Host for this process.
type Host struct {
	clock clock.Clock
	// start is the origin of the monotonic clock. origin is what the clock's Since returned right after start
	// was read. It is not zero under a clock that shifts Now but not Since.
	start  time.Time
	origin time.Duration

	mu     sync.Mutex
	random *rand.Rand
}

var _ host.Host = (*Host)(nil)

// Options configure a Host. The zero value gives a production host.
type Options struct {
	// Clock is the source of all time; nil for clock.New().
	Clock clock.Clock
	// Random is the source of all randomness; nil for a generator that the operating system seeds. It need
	// not be safe for concurrent use.
	Random rand.Source
}

// New returns a host whose monotonic clock starts now.
func New(o Options) *Host {
	if o.Clock == nil {
		o.Clock = clock.New()
	}
	if o.Random == nil {
		var seed [32]byte
		_, _ = crand.Read(seed[:]) // on failure, crypto/rand ends the process
		o.Random = rand.NewChaCha8(seed)
	}
	h := &Host{clock: o.Clock, start: o.Clock.Now(), random: rand.New(o.Random)}
	h.origin = o.Clock.Since(h.start)
	return h
}

// Now reads the wall clock, in UTC and without a monotonic reading. The difference between two results
// includes any steps of the wall clock between them.
func (h *Host) Now() time.Time { return h.clock.Now().Round(0).UTC() }

// Monotonic returns the time since New. Steps of the wall clock do not affect it.
func (h *Host) Monotonic() time.Duration { return h.clock.Since(h.start) - h.origin }

// Sleep implements host.Host.
func (h *Host) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		runtime.Gosched()
		return ctx.Err()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	over, stop := h.startTimer(d)
	defer stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startTimer returns a channel that receives a value after d, or never for host.Forever, and a function that
// stops the timer.
//
// It uses AfterFunc, because the mock clock's Timer first fires other due timers in the calling task. That
// delays the task while the mock's time advances, and two tasks that fire the same timer deadlock.
func (h *Host) startTimer(d time.Duration) (over <-chan struct{}, stop func()) {
	if d == host.Forever {
		return nil, func() {}
	}
	c := make(chan struct{}, 1)
	t := h.clock.AfterFunc(d, func() {
		select {
		case c <- struct{}{}:
		default:
		}
	})
	return c, func() { t.Stop() }
}

// Go starts a task as a goroutine. Profiles and goroutine dumps show its name as the label "task".
func (h *Host) Go(name string, run func()) host.Task {
	t := task{ended: make(chan struct{})}
	go func() {
		defer close(t.ended)
		pprof.SetGoroutineLabels(labelledContext(name))
		run()
	}()
	return t
}

// labels caches a context for each task name. There are few names, but a worker starts a task for each
// execution.
var labels sync.Map

func labelledContext(name string) context.Context {
	known, ok := labels.Load(name)
	if !ok {
		known, _ = labels.LoadOrStore(name, pprof.WithLabels(context.Background(), pprof.Labels("task", name)))
	}
	ctx, _ := known.(context.Context)
	return ctx
}

type task struct{ ended chan struct{} }

// Wait implements host.Task. If the task has ended, it returns nil, even if ctx has ended, too.
func (t task) Wait(ctx context.Context) error {
	select {
	case <-t.ended:
		return nil
	default:
	}
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WithCancel implements host.Host.
func (h *Host) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(parent)
}

// WithTimeout implements host.Host.
func (h *Host) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == host.Forever {
		return context.WithCancel(parent)
	}
	ctx, cancel := h.clock.WithTimeout(parent, d)
	return settledContext{ctx}, cancel
}

// settledContext reads the error of a context only once the context has ended. The mock clock's contexts need
// this: they write their error under a lock and read it without one, and only the closing of Done orders the
// write before the read.
type settledContext struct{ context.Context }

func (s settledContext) Err() error {
	select {
	case <-s.Done():
		return s.Context.Err()
	default:
		return nil
	}
}

// NewSignal implements host.Host.
func (h *Host) NewSignal() host.Signal { return &signal{h: h, set: make(chan struct{}, 1)} }

// signal is a channel with a buffer of one Set. A Set wakes the task that has waited longest; without a
// waiting task it fills the buffer. So each Set wakes one waiter, and Sets without waiters count as one.
type signal struct {
	h   *Host
	set chan struct{}
}

func (s *signal) Set() {
	select {
	case s.set <- struct{}{}:
	default:
	}
}

// Wait implements host.Signal. An ended context takes precedence over a set signal, so that a loop on a busy
// signal can be stopped. The signal then stays set.
func (s *signal) Wait(ctx context.Context, d time.Duration) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	select {
	case <-s.set:
		return true, nil
	default:
	}
	if d <= 0 {
		runtime.Gosched()
		return false, ctx.Err()
	}
	over, stop := s.h.startTimer(d)
	defer stop()
	select {
	case <-s.set:
		return true, nil
	case <-over:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// Uint64N implements host.Host.
func (h *Host) Uint64N(n uint64) uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.random.Uint64N(n)
}
