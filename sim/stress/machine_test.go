package stress

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/telemetry"
	"handoff/core/worker"
)

// counts counts what the system does, by name.
type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounts() *counts { return &counts{n: make(map[string]int)} }

func (c *counts) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[what]++
}

func (c *counts) of(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[what]
}

// String returns a line for each name, sorted.
func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, what := range slices.Sorted(maps.Keys(c.n)) {
		fmt.Fprintf(&out, "%8d %s\n", c.n[what], what)
	}
	return out.String()
}

// countingHost counts the tasks that are started, by name.
type countingHost struct {
	host.Host
	counts *counts
}

// Go implements host.Host.
func (c countingHost) Go(name string, run func()) host.Task {
	c.counts.add("task " + name)
	return c.Host.Go(name, run)
}

// recorder counts the passes of loops and the fenced leases.
type recorder struct{ counts *counts }

// Listens implements telemetry.Recorder.
func (recorder) Listens() bool { return true }

// Add implements telemetry.Recorder.
func (r recorder) Add(f telemetry.Figure, _ int64, l telemetry.Labels) {
	switch f {
	case telemetry.LoopRuns:
		r.counts.add("loop " + l[0])
	case telemetry.LeasesFenced:
		r.counts.add("lease fenced")
	}
}

// Set implements telemetry.Recorder.
func (recorder) Set(telemetry.Figure, int64, telemetry.Labels) {}

// Drop implements telemetry.Recorder.
func (recorder) Drop(telemetry.Figure, ...telemetry.Labels) {}

// Observe implements telemetry.Recorder.
func (recorder) Observe(telemetry.Figure, time.Duration, telemetry.Labels) {}

// runner runs actions that only sleep.
type runner struct {
	host  host.Host
	clock *fastClock
}

// action is a run that sleeps.
type action struct {
	runner *runner
	limit  time.Duration
	ended  chan struct{}

	mu    sync.Mutex
	exit  worker.Exit
	over  bool
	fence *time.Timer
}

// Start implements worker.Runner.
func (r *runner) Start(_ context.Context, s worker.Spec) (worker.Run, error) {
	if r.host.Uint64N(50) == 0 {
		return nil, fmt.Errorf("the machine can't start %s", s.Action.Ref)
	}
	a := &action{runner: r, limit: s.Limit, ended: make(chan struct{})}
	var exit worker.Exit
	if r.host.Uint64N(10) == 0 {
		exit.Reason = execution.Transient
	}
	a.after(time.Duration(r.host.Uint64N(uint64(4*time.Second))), exit)
	a.after(s.Limit-r.host.Monotonic(), worker.Exit{Killed: true})
	a.Extend(s.Fence)
	return a, nil
}

func (a *action) after(d time.Duration, exit worker.Exit) *time.Timer {
	return time.AfterFunc(d/scale, func() { a.end(exit) })
}

func (a *action) end(exit worker.Exit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.over, a.exit = true, exit
	close(a.ended)
}

// Wait implements worker.Run.
func (a *action) Wait(ctx context.Context) (worker.Exit, error) {
	select {
	case <-a.ended:
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.exit, nil
	case <-ctx.Done():
		return worker.Exit{}, ctx.Err()
	}
}

// Kill implements worker.Run.
func (a *action) Kill(grace time.Duration) { a.after(grace/2, worker.Exit{Killed: true}) }

// Extend implements worker.Run.
func (a *action) Extend(fence time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fence != nil {
		a.fence.Stop()
	}
	if !a.over {
		a.fence = a.after(fence-a.runner.host.Monotonic(), worker.Exit{Killed: true})
	}
}
