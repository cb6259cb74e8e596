package explore

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/run"
	"handoff/sim"
	"handoff/sim/kernel"
)

// CurveOptions bound the work that a curve takes. The result depends on nothing else.
type CurveOptions struct {
	// Runs is how many runs each of the two ends of the steepest jump gets. Other points get fewer.
	Runs int
	// Steps bounds the kernel's steps of all runs.
	Steps uint64
	// Only measures only the curve for which everything is drawn anew. It leaves out the two curves
	// for which only the faults' draws, or only all other draws, are made anew.
	Only bool
	// Workers is how many goroutines run; 0 means GOMAXPROCS.
	Workers int
	// Progress is called now and then, with the share of the allowed work that is done and the runs so
	// far; nil for none.
	Progress func(done float64, runs int)
}

// DefaultCurve takes ten seconds at most on two processors.
func DefaultCurve() CurveOptions { return CurveOptions{Runs: 100, Steps: 20_000_000} }

// curver measures the curve of a case.
type curver struct {
	*Case
	o     CurveOptions
	curve *explain.Curve
	story []*history.Event
	began map[string]time.Duration
	// runs counts the runs so far, and steps their steps. They give an estimate of what a run costs.
	runs  int
	steps uint64
}

// Curve finds when the failure became inevitable. From points of the failing run on, everything
// random is drawn anew, and the share of runs is counted that fail in the same way. The points are
// chosen to narrow down the steepest rise: first some over the whole run, then more where it may be
// the steepest (see narrow). From its ends and from some other points there are two more curves:
// one draws only the faults' choices anew, the other one only all other choices. If the case's
// context ends, the curve holds what was measured so far.
func (c *Case) Curve(o CurveOptions) *explain.Curve {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	v := &curver{Case: c, o: o, story: c.story(), began: c.began()}
	v.curve = &explain.Curve{Failure: c.Failure(), Story: len(v.story)}
	few := max(1, o.Runs/2)
	// The other two curves need their share of the work.
	apart := o.Steps * 2 / 5
	if o.Only {
		apart = 0
	}
	cut, runs := v.begin(apart)
	for i := range cut + 1 {
		v.point(i * len(v.story) / cut)
	}
	v.measure(explain.All, runs, apart+(o.Steps-apart)/2, v.all()...) // half of it is for narrowing it down
	v.narrow(apart)
	if _, rises := v.curve.Steepest(explain.All); !rises {
		// It fails, or not, whatever is drawn: the beginning is worth knowing exactly.
		v.measure(explain.All, o.Runs, apart, 0)
	}
	if !o.Only {
		if jump, rises := v.curve.Steepest(explain.All); rises {
			// Three eighths for each at the ends of the jump, and a quarter for the whole run.
			v.measure(explain.Faults, few, apart*5/8, jump.From.At, jump.To.At)
			v.measure(explain.Schedule, few, apart/4, jump.From.At, jump.To.At)
		}
		for _, what := range []explain.Redrawn{explain.Faults, explain.Schedule} {
			v.measure(what, runs, 0, v.sample(cut)...)
		}
	}
	v.curve.Runs, v.curve.Steps = v.runs, v.steps
	v.Runs, v.Steps = v.Runs+v.runs, v.Steps+v.steps
	c.explanation().Curve = v.curve
	return v.curve
}

// sample returns the points of the other two curves beside the ends of the jump: those with which
// the first curve began, without the last one, after which nothing is left to be drawn.
func (v *curver) sample(cut int) (at []int) {
	for i := range cut {
		at = append(at, i*len(v.story)/cut)
	}
	return slices.Compact(at)
}

// all are the points so far.
func (v *curver) all() (at []int) {
	for i := range v.curve.Points {
		at = append(at, v.curve.Points[i].At)
	}
	return at
}

// point adds a point after so many events of the story, if there is none, and returns it.
func (v *curver) point(at int) *explain.Point {
	i, there := slices.BinarySearchFunc(v.curve.Points, at, func(p explain.Point, at int) int { return p.At - at })
	if !there {
		p := explain.Point{At: at}
		if at > 0 {
			p.Event = *v.story[at-1]
		}
		v.curve.Points = slices.Insert(v.curve.Points, i, p)
	}
	return &v.curve.Points[i]
}

// over says that the work has reached its bound, except for some steps, or that it was interrupted.
func (v *curver) over(leave uint64) bool {
	return v.ctx.Err() != nil || v.steps+leave >= v.o.Steps
}

// job is one run of a curve.
type job struct {
	at, nth    int
	this, rule bool
	steps      uint64
	done       bool
}

// measure makes runs from each point until the point has so many. If all of them would exceed the
// bound, it makes fewer, spread over the points.
func (v *curver) measure(what explain.Redrawn, runs int, leave uint64, points ...int) {
	var jobs []job
	for _, at := range points {
		for nth := v.point(at).This[what].Runs; nth < runs; nth++ {
			jobs = append(jobs, job{at: at, nth: nth})
		}
	}
	each, left := v.Record.Steps, uint64(0)
	if v.runs > 0 {
		each = v.steps / uint64(v.runs)
	}
	if spent := v.steps + leave; spent < v.o.Steps {
		left = v.o.Steps - spent
	}
	jobs = v.within(jobs, max(left/max(1, each), least(v.runs, points)))
	v.do(what, jobs)
	for i := range jobs {
		j := &jobs[i]
		if !j.done {
			continue
		}
		v.runs++
		v.steps += j.steps
		p := v.point(j.at)
		p.This[what].Runs++
		p.Rule[what].Runs++
		if j.this {
			p.This[what].Failed++
		}
		if j.rule {
			p.Rule[what].Failed++
		}
	}
}

// least is the number of runs that even the smallest bound allows: one from each point of the first
// measurement.
func least(runs int, points []int) uint64 {
	if runs > 0 {
		return 0
	}
	return uint64(len(points))
}

// within keeps at most so many jobs: those with the lowest numbers, so that they are spread over
// the points.
func (v *curver) within(jobs []job, most uint64) []job {
	if uint64(len(jobs)) <= most {
		return jobs
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return a.nth - b.nth })
	return jobs[:most]
}

// do runs the jobs, on all processors. What they give does not depend on which one does which.
func (v *curver) do(what explain.Redrawn, jobs []job) {
	var mu sync.Mutex
	next, steps := 0, v.steps
	claim := func() *job {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(jobs) || v.ctx.Err() != nil {
			return nil
		}
		next++
		return &jobs[next-1]
	}
	var group sync.WaitGroup
	for range min(v.o.Workers, len(jobs)) {
		group.Go(func() {
			for j := claim(); j != nil; j = claim() {
				v.run(what, j)
				mu.Lock()
				steps += j.steps
				if v.o.Progress != nil {
					v.o.Progress(float64(steps)/float64(v.o.Steps), v.runs+next)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
}

// run makes one run.
func (v *curver) run(what explain.Redrawn, j *job) {
	r := v.again(v.redraw(what, j.at, j.nth), sim.Options{Mutant: v.mutant, Until: v.found(true), EachExecution: true})
	if r.Interrupted {
		return
	}
	j.done, j.steps = true, r.Steps
	for _, f := range r.Failures() {
		if v.sameRule(&f) {
			j.rule = true
			j.this = j.this || v.sameFailure(r.Execution, &f)
		}
	}
}

// redraw says what the nth run from a point on draws anew. All points have the same seeds, so that
// neighbours differ less by chance.
func (v *curver) redraw(what explain.Redrawn, at, nth int) kernel.Redraw {
	r := kernel.Redraw{Seed: anew(v.seed, uint64(what), uint64(nth)), Of: func(string) bool { return true }}
	since := time.Duration(-1)
	switch {
	case at == len(v.story):
		r.After, since = v.Violation.Step, v.Violation.At // the end of the curve: it has happened
	case at > 0:
		r.After, since = v.story[at-1].Step, v.story[at-1].At
	}
	switch what {
	case explain.Faults:
		r.Of = byFaults
	case explain.Schedule:
		r.Of = func(label string) bool { return !byFaults(label) }
		return r
	default:
	}
	r.Whole = v.later(r.Seed, since)
	return r
}

// tries is how many draws are tried for a fault that has to begin after a moment.
const tries = 200

// later draws anew the faults that have not begun at a moment. What they draw at the beginning of
// the run decides when they begin, so a draw counts only if they then begin after that moment: else
// the run would be another one before it.
func (v *curver) later(seed uint64, since time.Duration) map[string]uint64 {
	whole := make(map[string]uint64)
	for i := range v.target.Scenario.Faults {
		f := &v.target.Scenario.Faults[i]
		if at, struck := v.began[f.Name]; struck && at <= since {
			continue
		}
		label := fmt.Sprintf("fault/%d", f.Index)
		for try := range uint64(tries) {
			s := anew(seed, uint64(f.Index)+1, try)
			if f.When.After == "" && run.Begins(f, kernel.NewStream(kernel.NewRandom(s), label)) <= since && f.When.Min != f.When.Max {
				continue
			}
			whole[label] = s
			break
		}
	}
	return whole
}

// anew makes a seed of three numbers. It is the finalizer of SplitMix64, after each.
func anew(numbers ...uint64) uint64 {
	x := uint64(0)
	for _, n := range numbers {
		x += n + 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
	}
	return x
}
