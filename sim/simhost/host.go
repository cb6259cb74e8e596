// Package simhost is the machine of a simulated process: host.Host over the kernel.
//
// Every call that can block first counts a yield point, so that a crash sweep reaches the moments before
// and after it. Every call that affects other tasks ends a dying task, so that deferred functions of a
// crashed process have no effect.
package simhost

import (
	"context"
	"time"

	"handoff/core/host"
	"handoff/sim/kernel"
)

// Host is the machine of one process.
type Host struct {
	k      *kernel.Kernel
	p      *kernel.Process
	stream *kernel.Stream
}

var _ host.Host = (*Host)(nil)

// New returns the machine of p. Its random numbers come from the stream "host/<process name>".
func New(k *kernel.Kernel, p *kernel.Process) *Host {
	return &Host{k: k, p: p, stream: k.Stream("host/" + p.Name())}
}

// Now reads the wall clock of the process.
func (h *Host) Now() time.Time { return h.p.Clock().Wall() }

// Monotonic reads the monotonic clock of the process.
func (h *Host) Monotonic() time.Duration { return h.p.Clock().Monotonic() }

// Sleep implements host.Host on the monotonic clock of the process.
func (h *Host) Sleep(ctx context.Context, d time.Duration) error {
	h.k.Point()
	if d <= 0 {
		h.k.Yield()
		return ctx.Err()
	}
	_, err := h.k.NewWait().AwaitFor(ctx, d)
	return err
}

// Go starts a task of the process.
func (h *Host) Go(name string, run func()) host.Task {
	return task{k: h.k, t: h.p.Go(name, run)}
}

// WithCancel implements host.Host.
func (h *Host) WithCancel(parent context.Context) (context.Context, context.CancelFunc) {
	return h.k.WithCancel(parent)
}

// WithTimeout implements host.Host on the monotonic clock of the process.
func (h *Host) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return h.p.WithTimeout(parent, d)
}

// NewSignal implements host.Host.
func (h *Host) NewSignal() host.Signal { return &signal{k: h.k} }

// Uint64N draws from the process's own stream.
func (h *Host) Uint64N(n uint64) uint64 {
	h.k.CheckAlive()
	return h.stream.Uint64N(n)
}

type task struct {
	k *kernel.Kernel
	t *kernel.Task
}

// Wait implements host.Task.
func (t task) Wait(ctx context.Context) error {
	t.k.Point()
	return t.t.Join(ctx)
}

// signal implements host.Signal. It wakes the waiter that has waited longest.
type signal struct {
	k       *kernel.Kernel
	set     bool
	strand  kernel.Strand // strand of the task or event that set it
	waiters []kernel.Wait
}

// Set implements host.Signal.
func (s *signal) Set() {
	s.k.CheckAlive()
	for len(s.waiters) > 0 {
		w := s.waiters[0]
		s.dropWaiter(0)
		if w.Done() {
			return
		}
	}
	s.set, s.strand = true, s.k.Strand()
}

// Wait implements host.Signal. An ended context takes precedence over a set signal, so that a loop on a
// busy signal can end. The signal then stays set.
func (s *signal) Wait(ctx context.Context, d time.Duration) (bool, error) {
	s.k.Point()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.set {
		s.set = false
		s.k.Meet(s.strand)
		return true, nil
	}
	w := s.k.NewWait()
	s.waiters = append(s.waiters, w)
	woken, err := w.AwaitFor(ctx, d)
	if !woken {
		for i, other := range s.waiters {
			if other == w {
				s.dropWaiter(i)
				break
			}
		}
	}
	return woken, err
}

func (s *signal) dropWaiter(i int) { s.waiters = append(s.waiters[:i], s.waiters[i+1:]...) }
