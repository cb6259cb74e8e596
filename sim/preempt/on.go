//go:build preempt

package preempt

import (
	"context"
	"os"
	"sync"
	"time"

	"handoff/sim/kernel"
)

// Built says that this program's core is woven: runs are preempted.
const Built = true

// Program is what this program is called in commands: make preempt builds it.
const Program = "chaos-preempt"

const (
	million = 1_000_000
	// hot is how many points of a million are hot in a run, interrupt how many of a million visits of a hot one are
	// interrupted, and mostInterrupts how many are in one run.
	hot            = million / 16
	interrupt      = million / 4
	mostInterrupts = 20
	// longest is the longest interruption: long enough for another task to ask the database and come back, and far below
	// every timeout of the core. Half of all interruptions only let the tasks that are runnable go first.
	longest = 20 * time.Millisecond
)

// run is what a run has drawn so far.
type run struct {
	k      *kernel.Kernel
	points []point
	sites  *kernel.Stream // is a point hot
	visits *kernel.Stream // is a visit of it interrupted
	lasts  *kernel.Stream // and for how long
}

// point is one place of the woven source.
type point struct {
	drawn, hot bool
	interrupts int
}

// current is the run under way. The woven core knows no kernel, and a goroutine of a coroutine no run, so there is one run
// at a time: others wait in Begin.
var (
	one     sync.Mutex //detlint:ok outside of every run: it orders runs
	current *run
)

// Begin makes k the kernel whose tasks are preempted, until end is called. It waits until no other run is under way.
func Begin(k *kernel.Kernel) (end func()) {
	one.Lock()
	current = &run{k: k, sites: k.Stream("preempt/points"), visits: k.Stream("preempt/visits"), lasts: k.Stream("preempt/lasts")}
	return func() {
		current = nil
		one.Unlock()
	}
}

// Point stands before a statement that touches what tasks share. n numbers the points from 0.
func Point(n int) {
	r := current
	if still || r == nil || r.k.Current() == nil || r.k.Dying() {
		return
	}
	for len(r.points) <= n {
		r.points = append(r.points, point{})
	}
	p := &r.points[n]
	if !p.drawn {
		p.drawn, p.hot = true, r.sites.Chance(hot)
	}
	if !p.hot || p.interrupts >= mostInterrupts || !r.visits.Chance(interrupt) {
		return
	}
	p.interrupts++
	d := time.Duration(0)
	if r.lasts.Chance(million / 2) {
		d = r.lasts.LogDuration(time.Microsecond, longest)
	}
	if d == 0 {
		r.k.Yield()
		return
	}
	_, _ = r.k.NewWait().AwaitFor(context.Background(), d)
}

// planted is the mutant of the woven source that this process runs with; empty for none.
var planted = os.Getenv(MutantVariable)

// still says that nothing is preempted: a woven program then does what an ordinary one does, its mutants too.
var still = os.Getenv(StillVariable) != ""

// StillVariable is the environment variable that, if it is not empty, switches preemption off.
const StillVariable = "HANDOFF_PREEMPT_STILL"

// MutantVariable is the environment variable that names a mutant of the woven source.
const MutantVariable = "HANDOFF_PREEMPT_MUTANT"

// Planted says whether this process runs with that mutant of the woven source.
func Planted(name string) bool { return planted == name }
