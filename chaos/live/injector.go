package live

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
)

// injector brings about the faults of a scenario, and keeps the evidence: when each really began and
// ended, and whether it made a difference to anything.
type injector struct {
	w *world

	mu  sync.Mutex
	all []*injection
	// waiting are those whose trigger has not come; pending counts those that must still come to
	// their end before the run can.
	waiting []*injection
	pending int
	stopped bool
	working sync.WaitGroup
}

// injection is one fault of the scenario in one run.
type injection struct {
	w       *world
	fault   *scenario.Fault
	random  *stream
	targets []*process

	// The injector's lock guards the rest.
	seen    int // of its trigger
	fired   bool
	touched bool
	over    bool
	began   time.Duration
	ended   time.Duration // 0 while it lasts, and for ever if it has no end
	undo    func()
	// shows says of an event that the fault has made a difference; nil where the fault itself can tell.
	shows func(e *history.Event) bool
}

// injectFunc begins a fault and returns what ends it: nil for a fault that is over by itself, which then
// calls end when it is.
type injectFunc func(x *injection) (undo func(), err error)

func newInjector(w *world) *injector {
	in := &injector{w: w}
	for i := range w.scenario.Faults {
		f := &w.scenario.Faults[i]
		random := newStream(w.options.Seed, fmt.Sprintf("fault/%d", f.Index))
		in.all = append(in.all, &injection{w: w, fault: f.Drawn(random), random: random})
	}
	return in
}

// stream is a source of draws of its own, so that adding a fault does not shift another's.
type stream struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newStream(seed uint64, label string) *stream {
	h := fnv.New64a()
	_, _ = h.Write([]byte(label))
	return &stream{r: rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// Duration implements scenario.Drawer.
func (s *stream) Duration(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return least + time.Duration(s.r.Int64N(int64(most-least)+1))
}

// LogDuration implements scenario.Drawer.
func (s *stream) LogDuration(least, most time.Duration) time.Duration {
	least = max(least, time.Microsecond)
	if most <= least {
		return least
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(float64(least) * math.Pow(float64(most)/float64(least), s.r.Float64()))
	return min(d, most)
}

func (s *stream) chance(perMillion uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Uint64N(1_000_000) < perMillion
}

func (s *stream) intN(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n)
}

// arm sets the times and the triggers.
func (in *injector) arm() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.all {
		if x.fault.When.After != "" {
			in.waiting = append(in.waiting, x)
			continue
		}
		in.pending++
		at := x.random.Duration(x.fault.When.Min, x.fault.When.Max)
		in.w.after(in.w.ready+at-in.w.now(), x.begin)
	}
}

// observe looks whether an event is what a fault waits for, or shows that one has made a difference.
func (in *injector) observe(e *history.Event) {
	for _, x := range in.shown(e) {
		x.touch()
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := 0; i < len(in.waiting); i++ {
		x := in.waiting[i]
		if !run.Matches(&x.fault.When, e, in.w.database.Worker) {
			continue
		}
		if x.seen++; x.seen < x.fault.When.Nth {
			continue
		}
		in.waiting = slices.Delete(in.waiting, i, i+1)
		i--
		in.pending++
		in.w.after(x.fault.When.Plus, x.begin)
	}
}

// shown are the faults of which an event is the first sign.
func (in *injector) shown(e *history.Event) (all []*injection) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.all {
		if x.shows != nil && !x.touched && x.shows(e) {
			all = append(all, x)
		}
	}
	return all
}

// proof has the fault count as one that made a difference when an event shows it.
func (x *injection) proof(shows func(e *history.Event) bool) {
	in := x.w.injector
	in.mu.Lock()
	defer in.mu.Unlock()
	x.shows = shows
}

// busy says that a fault has still to come to its end.
func (in *injector) busy() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pending > 0
}

// begin begins a fault now, and arms its end.
func (x *injection) begin() {
	in := x.w.injector
	in.mu.Lock()
	if in.stopped {
		in.mu.Unlock()
		return
	}
	in.working.Add(1)
	x.fired, x.began = true, x.w.now()
	x.targets = x.choose()
	in.mu.Unlock()
	defer in.working.Done()
	x.w.emit(x.announced(history.FaultBegan))
	undo, err := injectors()[x.fault.Kind](x)
	if err != nil {
		x.w.fail(fmt.Sprintf("the harness could not inject the fault “%s”: %v", x.fault.Name, err))
		x.end()
		return
	}
	if undo == nil {
		return
	}
	in.mu.Lock()
	x.undo = undo
	in.mu.Unlock()
	x.w.after(x.fault.For, x.finish)
}

// finish undoes a fault, once.
func (x *injection) finish() {
	in := x.w.injector
	in.mu.Lock()
	undo := x.undo
	x.undo = nil
	in.mu.Unlock()
	if undo == nil {
		return
	}
	undo()
	x.end()
}

// end notes that the fault is over.
func (x *injection) end() {
	in := x.w.injector
	in.mu.Lock()
	if x.over {
		in.mu.Unlock()
		return
	}
	x.over, x.ended = true, x.w.now()
	in.pending--
	in.mu.Unlock()
	x.w.emit(x.announced(history.FaultEnded))
}

// announced is the event of its beginning or its end.
func (x *injection) announced(kind history.Kind) history.Event {
	struck := make([]string, len(x.targets))
	for i, p := range x.targets {
		struck[i] = p.name
	}
	return run.Announced(kind, x.fault, struck, x.hinders())
}

// endless says that the fault has no end, so that nothing waits for it.
func (x *injection) endless() {
	in := x.w.injector
	in.mu.Lock()
	defer in.mu.Unlock()
	if !x.over {
		x.over = true
		in.pending--
	}
}

// stop undoes whatever lasts, and lets nothing begin any more.
func (in *injector) stop() {
	in.mu.Lock()
	in.stopped = true
	in.mu.Unlock()
	// One may wait for another: what ends by a statement, for the database's return.
	finish := func() {
		var all sync.WaitGroup
		for _, x := range in.all {
			all.Go(x.finish)
		}
		all.Wait()
	}
	finish() // one that is about to begin may wait for the end of another
	in.working.Wait()
	finish()
	in.serversUp()
}

// serversUp starts the servers where a fault has left them down.
func (in *injector) serversUp() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(in.w.ctx), time.Minute)
	defer cancel()
	servers := in.w.sandbox.servers
	if !servers.Postgres.Running() {
		_ = servers.Postgres.Start(ctx)
	}
	if !servers.RabbitMQ.Running() {
		_ = servers.RabbitMQ.Start(ctx)
	}
}

// hinders is 1 for a fault that can keep an executor from detecting something in time.
func (x *injection) hinders() int64 {
	return run.Hinders(x.fault, slices.ContainsFunc(x.targets, func(p *process) bool { return p.spec == nil }))
}

// choose draws the processes that the target means; none for a server.
func (x *injection) choose() []*process {
	names, count := x.w.scenario.Cluster.Candidates(x.fault.Target)
	names = slices.Clone(names)
	var chosen []*process
	for range count {
		i := x.random.intN(len(names))
		if p := x.w.process(names[i]); p != nil {
			chosen = append(chosen, p)
		}
		names = slices.Delete(names, i, i+1)
	}
	return chosen
}

// touch records that the fault made a difference.
func (x *injection) touch() {
	in := x.w.injector
	in.mu.Lock()
	first := !x.touched
	x.touched = true
	in.mu.Unlock()
	if first {
		x.w.emit(touchEvent(x))
	}
}

// counts are the results for each fault, in the order of the scenario.
func (in *injector) counts() []verdict.FaultCount {
	in.mu.Lock()
	defer in.mu.Unlock()
	counts := make([]verdict.FaultCount, len(in.all))
	for i, x := range in.all {
		counts[i] = verdict.FaultCount{Fault: x.fault.Name, Planned: 1}
		if x.fired {
			counts[i].Fired = 1
		}
		if x.touched {
			counts[i].Touched = 1
		}
	}
	return counts
}

// faultIntervals are the times during which the faults lasted.
func (in *injector) faultIntervals(end time.Duration) []verdict.FaultInterval {
	in.mu.Lock()
	defer in.mu.Unlock()
	var faultIntervals []verdict.FaultInterval
	for _, x := range in.all {
		if !x.fired {
			continue
		}
		b := verdict.FaultInterval{Fault: x.fault.Name, Begin: x.began, End: x.ended}
		if b.End == 0 {
			b.End = end
		}
		faultIntervals = append(faultIntervals, b)
	}
	return faultIntervals
}
