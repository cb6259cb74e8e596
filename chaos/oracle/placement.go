package oracle

import (
	"slices"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
)

// Worker describes a worker as an executor knows it.
type Worker struct {
	ID       execution.WorkerID
	Runtimes []string
	// Active means that its lifecycle is active, Fresh that its lease is valid, Consuming that its consumer
	// is alive, and Cordoned that an operator keeps new work away.
	Active, Fresh, Consuming, Cordoned bool
	// Load counts the executions that are scheduled to the worker or run on it. FullFor is for how long all
	// its slots have been taken.
	Capacity, Load int
	FullFor        time.Duration
	Health         execution.Health
	HalfOpen       bool
}

// Request describes the worker that an execution needs. Pinned and Avoid are 0 for none.
type Request struct {
	Runtime       string
	Pinned, Avoid execution.WorkerID
}

// Placement implements "How a worker is chosen" of docs/executor.md, for one configuration.
type Placement struct{ Executor *config.Executor }

// Fits reports whether a worker may get an execution, full or not.
func (Placement) Fits(w *Worker, r Request) bool {
	return w.Active && w.Fresh && w.Consuming && !w.Cordoned && slices.Contains(w.Runtimes, r.Runtime) && (r.Pinned == 0 || r.Pinned == w.ID)
}

// Limit returns the number of executions that a fitting worker may hold: its capacity plus the
// dispatch-ahead, or its capacity alone once it has been full for a quarter of the dispatch timeout. An
// unhealthy worker gets one execution as a half-open probe, except if no better worker fits the runtime or
// the execution is pinned to it.
func (p Placement) Limit(fleet []Worker, w *Worker, r Request) int {
	switch {
	case w.Health == execution.Unhealthy && r.Pinned != w.ID && p.hasBetterWorker(fleet, r.Runtime):
		if w.HalfOpen {
			return 1
		}
		return 0
	case 4*w.FullFor >= p.Executor.DispatchTimeout:
		return w.Capacity
	}
	return w.Capacity + p.Executor.DispatchAhead
}

// hasBetterWorker reports whether a worker that is not unhealthy fits a runtime, whatever the execution.
func (p Placement) hasBetterWorker(fleet []Worker, runtime string) bool {
	return slices.ContainsFunc(fleet, func(w Worker) bool {
		return w.Health != execution.Unhealthy && p.Fits(&w, Request{Runtime: runtime})
	})
}

// Block returns how many consecutive executions a worker gets if more executions wait than a pass takes: as
// many as may share a message, but at most half of its capacity, rounded up.
func (p Placement) Block(w *Worker) int {
	return max(1, min(p.Executor.DispatchesPerMessage, (w.Capacity+1)/2))
}

// Best returns the indexes of the workers from which one is drawn for an execution. All of these fit and have
// free capacity. Best leaves out the worker to avoid if another worker remains. Then it keeps the healthiest
// workers, and among these the least loaded. A half-open worker counts as healthy while a better worker fits,
// because otherwise it would never be tried. The list is empty if there is no such worker.
func (p Placement) Best(fleet []Worker, r Request) (best []int) {
	better := p.hasBetterWorker(fleet, r.Runtime)
	worse := func(a, b *Worker) int {
		rank := func(w *Worker) (avoided, health, load int) {
			if w.ID == r.Avoid {
				avoided = 1
			}
			if health = int(w.Health); w.HalfOpen && better {
				health = int(execution.Healthy)
			}
			return avoided, health, w.Load
		}
		avoidedA, healthA, loadA := rank(a)
		avoidedB, healthB, loadB := rank(b)
		return slices.Compare([]int{avoidedA, healthA, loadA}, []int{avoidedB, healthB, loadB})
	}
	for i := range fleet {
		w := &fleet[i]
		if !p.Fits(w, r) || w.Load >= p.Limit(fleet, w, r) {
			continue
		}
		if len(best) > 0 {
			switch order := worse(w, &fleet[best[0]]); {
			case order > 0:
				continue
			case order < 0:
				best = best[:0]
			}
		}
		best = append(best, i)
	}
	return best
}
