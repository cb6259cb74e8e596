//go:build preempt

package woven

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"handoff/sim/kernel"
)

// Built reports whether this program's core is woven, so that runs are preempted.
const Built = true

// Program is the program's name in commands; .ci/preempt builds it.
const Program = "chaos-preempt"

const (
	million = 1_000_000
	// fewHot and manyHot are how many of a million points are hot; a run uses one of the two. interrupt is
	// how many of a million visits of a hot point are interrupted. mostInterrupts bounds the interruptions at
	// one point in a run.
	fewHot         = million / 16
	manyHot        = million / 4
	interrupt      = million / 4
	mostInterrupts = 20
	// longest is the longest interruption: long enough for a server's reply to arrive meanwhile, and much
	// shorter than every timeout of the core. One of four interruptions only yields to the runnable tasks.
	longest   = 200 * time.Millisecond
	onlyYield = million / 4
	// enough is the probability, in millionths, that another task at the same point ends an interruption; it
	// applies in half of the runs.
	enough = million / 8
)

// preemptedRun is the state of a run's draws.
type preemptedRun struct {
	k      *kernel.Kernel
	hot    uint64 // how many of a million points are hot
	enough uint64 // probability, in millionths, that another task at a point ends an interruption there
	points []point
	held   []heldTask
	draws  *kernel.Stream // whether a point is hot
	visits *kernel.Stream // whether a visit to a hot point is interrupted
	lasts  *kernel.Stream // kind and length of an interruption
}

// point is one point of the woven source.
type point struct {
	drawn, hot bool
	interrupts int
}

// heldTask is a task that is interrupted at a point of a group.
type heldTask struct {
	task  *kernel.Task
	group int
	wait  kernel.Wait
	met   []*kernel.Task // tasks that visited the group meanwhile and did not end the interruption
}

// current is the run in progress. Neither the woven core nor the goroutine of a coroutine can identify the
// run. So there is one run at a time, and others wait in Begin.
var (
	one     sync.Mutex //detlint:ok outside of every run: it orders runs
	current *preemptedRun
)

// Begin makes k the kernel whose tasks are preempted, until end is called. It first waits until no
// other run is in progress.
func Begin(k *kernel.Kernel) (end func()) {
	one.Lock()
	current = &preemptedRun{
		k: k, hot: fewHot, draws: k.Stream("preempt/points"), visits: k.Stream("preempt/visits"), lasts: k.Stream("preempt/lasts"),
	}
	if !still {
		if current.draws.Chance(million / 2) {
			current.hot = manyHot
		}
		if current.draws.Chance(million / 2) {
			current.enough = enough
		}
	}
	return func() {
		current = nil
		one.Unlock()
	}
}

// Point must be called before each statement that touches fields that tasks share. n is the number of the
// point, from 0, and group the number of its source file: statements that touch the same memory are mostly in
// one file.
func Point(n, group int) {
	r := current
	if still || r == nil || r.k.Current() == nil || r.k.Dying() {
		return
	}
	t := r.k.Current()
	r.releaseHeld(t, group)
	for len(r.points) <= n {
		r.points = append(r.points, point{})
	}
	p := &r.points[n]
	if !p.drawn {
		p.drawn, p.hot = true, r.draws.Chance(r.hot)
	}
	if !p.hot || p.interrupts >= mostInterrupts || !r.visits.Chance(interrupt) {
		return
	}
	p.interrupts++
	if r.lasts.Chance(onlyYield) {
		r.k.Yield()
		return
	}
	d := r.lasts.LogDuration(time.Millisecond, longest)
	w := r.k.NewWait()
	r.held = append(r.held, heldTask{task: t, group: group, wait: w})
	_, _ = w.AwaitFor(context.Background(), d)
	r.held = slices.DeleteFunc(r.held, func(h heldTask) bool { return h.wait == w })
}

// releaseHeld wakes some of the tasks that are interrupted at points of this group. An interruption has had
// its effect when another task of the process has touched the same fields.
func (p *preemptedRun) releaseHeld(t *kernel.Task, group int) {
	for i := 0; i < len(p.held); i++ {
		h := p.held[i]
		gone := !h.wait.Pending()
		if !gone && (h.task == t || h.group != group || h.task.Process() != t.Process() || slices.Contains(h.met, t)) {
			continue
		}
		if !gone && !p.lasts.Chance(p.enough) {
			p.held[i].met = append(h.met, t)
			continue
		}
		h.wait.Done()
		p.held = slices.Delete(p.held, i, i+1)
		i--
	}
}

// still reports whether preemption is off: a woven program then behaves like an ordinary program, even with a
// mutant.
var still = os.Getenv(StillVariable) != ""

// StillVariable is the environment variable that switches preemption off if it is not empty.
const StillVariable = "HANDOFF_PREEMPT_STILL"
