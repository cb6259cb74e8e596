// Package host declares the machine that an executor or a worker runs on: its two clocks, its
// tasks, cancellation and randomness.
//
// The core accesses time and concurrency only through this package. In production the daemon host runs tasks
// as goroutines. In simulation the kernel runs them as coroutines, one at a time, and at every blocking call
// below it may run another task, advance time, or crash the process. That is why cancellation, deadlines and
// waiting are here and not in package context, channels or sync: the kernel can't order events that it can't
// see, and it can't replay events that it can't order.
package host

import (
	"context"
	"time"
)

// Forever is the duration of a wait that ends only with a signal or with its context.
const Forever = time.Duration(1<<63 - 1)

// Host is a process's interface to its machine. All methods are safe for concurrent use by its tasks.
type Host interface {
	// Now reads the wall clock, which may step and drift. Use it for logs and envelopes, never for a decision
	// about a lease or a deadline (defect D35).
	Now() time.Time

	// Monotonic reads the monotonic clock: the time since an arbitrary origin that does not change while the
	// process lives. It may drift relative to other machines but never steps.
	Monotonic() time.Duration

	// Sleep returns nil after d, or ctx.Err() as soon as ctx ends. If d is zero or less, it only lets other
	// tasks run.
	Sleep(ctx context.Context, d time.Duration) error

	// Go starts a task. Its name appears in stacks, logs and schedules.
	Go(name string, run func()) Task

	// WithCancel works like context.WithCancel, but the kernel can schedule its effects.
	WithCancel(parent context.Context) (context.Context, context.CancelFunc)

	// WithTimeout works like context.WithTimeout, but measures d on the monotonic clock. After d, Err returns
	// context.DeadlineExceeded.
	WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)

	// NewSignal returns a signal that is not set.
	NewSignal() Signal

	// Uint64N draws a number in [0, n), for jitter and identities. n of 0 is a programming error and panics.
	Uint64N(n uint64) uint64
}

// Task is a task that Host.Go has started.
type Task interface {
	// Wait returns nil when the task has ended, or ctx.Err() when ctx ends first.
	Wait(ctx context.Context) error
}

// Signal is a binary wake-up: after any number of Sets, only one Wait returns true. It carries no data,
// because the database determines the work.
type Signal interface {
	// Set wakes one Wait, now or later. It never blocks.
	Set()

	// Wait returns true and clears the signal as soon as it is set. It returns false after d, and
	// ctx.Err() when ctx ends.
	Wait(ctx context.Context, d time.Duration) (bool, error)
}
