package run

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
)

// Injector injects the faults of a scenario and keeps the evidence: when each began and ended, and
// whether it made a difference. All worlds use the same injector.
//
// It is safe for several tasks. It never calls the world or Emit while it holds its lock, because
// both call back: an event may trigger the next fault.
type Injector struct {
	o InjectorOptions

	mu  sync.Mutex
	all []*injection
	// watching counts the faults that wait for an event: their trigger, or evidence of their effect. While
	// it is 0, Observe does nothing.
	watching atomic.Int32
	// waiting are the faults whose trigger has not occurred. pending counts what must end before the run
	// can end: scheduled and active faults, and holds.
	waiting []*injection
	pending int
	stopped bool
}

// InjectorOptions configures an Injector.
type InjectorOptions struct {
	Scenario *scenario.Scenario
	Config   config.Config
	// World implements the interfaces of package fault that the scenario's faults need.
	World any
	Clock Clock
	// Draws makes the source of random numbers for a label.
	Draws func(label string) Draws
	// Emit writes an event into the history at the current time.
	Emit func(history.Event)
	// Workers names the workers that have registered.
	Workers fault.Names
	// Fail is called when the world itself fails.
	Fail func(error)
	// Without lists kinds of faults to leave out, so that a test can show that their absence is detected.
	Without []string
	// LeaveOut lists single faults to leave out, by their index. The other faults draw the same numbers.
	LeaveOut []int
}

// injection is one fault of one run.
type injection struct {
	fault.Injection
	in   *Injector
	spec *scenario.Fault
	// trigger is the event that starts the fault, or nil if the fault begins at a time. shown is set for a
	// fault whose effect shows only in events.
	trigger *scenario.Trigger
	shown   fault.Shown

	// The injector's lock guards the fields below.
	seen    int // occurrences of its trigger
	fired   bool
	touched bool
	// over reports whether the fault is no longer pending.
	over  bool
	began time.Duration
	ended time.Duration // 0 while it lasts, and always if it has no end
	undo  func()
}

// NewInjector makes the injector of a run and draws the durations of its faults.
func NewInjector(o InjectorOptions) *Injector {
	in := &Injector{o: o}
	for i := range o.Scenario.Faults {
		f := &o.Scenario.Faults[i]
		draws := o.Draws(fmt.Sprintf("fault/%d", f.Index))
		drawn := f.Drawn(draws)
		x := &injection{in: in, spec: drawn, trigger: scenario.FindTrigger(f.When.After)}
		x.shown, _ = f.Spec.(fault.Shown)
		x.Injection = fault.Injection{
			Name: f.Name, Index: f.Index, Kind: f.Kind, For: drawn.For, RestartAfter: drawn.RestartAfter, Config: o.Config,
			Draws: draws, Runner: x,
		}
		in.all = append(in.all, x)
	}
	return in
}

// Arm schedules the faults that begin at a time, and starts waiting for the triggers of the others. Call it
// once.
func (in *Injector) Arm() {
	for _, x := range in.all {
		when := &x.spec.When
		if slices.Contains(in.o.Without, x.Kind.Name) || slices.Contains(in.o.LeaveOut, x.Index) {
			continue
		}
		if when.After != "" {
			in.mu.Lock()
			in.waiting = append(in.waiting, x)
			in.mu.Unlock()
			in.watching.Add(1)
			continue
		}
		in.scheduleBegin(x, x.Duration(when.Min, when.Max)-in.o.Clock.Now())
	}
}

// scheduleBegin schedules the beginning of a fault.
func (in *Injector) scheduleBegin(x *injection, after time.Duration) {
	in.mu.Lock()
	in.pending++
	in.mu.Unlock()
	in.o.Clock.After(after, x.beginFault)
}

// Observe checks whether an event is the trigger of a waiting fault or shows that a fault touched
// something. The fault begins after the step in which the event happened, because the event's
// writer is in the middle of that step.
func (in *Injector) Observe(e *history.Event) {
	if in.watching.Load() == 0 || e.Kind.ForReaders() {
		return
	}
	for _, x := range in.shownBy(e) {
		x.Touch(fault.Touched{})
	}
	for _, x := range in.takeTriggered(e) {
		in.scheduleBegin(x, x.spec.When.Plus)
	}
}

// takeTriggered removes the faults that an event triggers from the waiting faults, and returns them.
func (in *Injector) takeTriggered(e *history.Event) (come []*injection) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := 0; i < len(in.waiting); i++ {
		x := in.waiting[i]
		if !x.trigger.Matches(e) || x.spec.When.Of != "" && x.spec.When.Of != x.trigger.Whose(e, in.o.Workers) {
			continue
		}
		if x.seen++; x.seen < x.spec.When.Nth {
			continue
		}
		in.waiting = slices.Delete(in.waiting, i, i+1)
		i--
		in.watching.Add(-1)
		come = append(come, x)
	}
	return come
}

// shownBy returns the faults for whose effect an event is the first evidence.
func (in *Injector) shownBy(e *history.Event) (all []*injection) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.all {
		if x.shown != nil && x.fired && !x.touched && x.shown.ShownBy(&x.Injection, e, in.o.Workers) {
			all = append(all, x)
		}
	}
	return all
}

// Busy reports whether a fault has not ended yet or the run is held. A fault whose trigger has not occurred
// doesn't count, because the trigger may never occur.
func (in *Injector) Busy() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.pending > 0
}

// beginFault begins a fault now and schedules its end.
func (inj *injection) beginFault() {
	in := inj.in
	in.mu.Lock()
	if in.stopped {
		in.mu.Unlock()
		return
	}
	inj.fired, inj.began = true, in.o.Clock.Now()
	if inj.shown != nil {
		in.watching.Add(1)
	}
	inj.Targets = inj.drawTargets()
	in.mu.Unlock()
	in.o.Emit(inj.boundaryEvent(history.FaultBegan))
	undo, err := inj.Kind.Inject(inj.spec.Spec, &inj.Injection, in.o.World)
	if err != nil {
		in.o.Fail(fmt.Errorf("the harness could not inject the fault “%s”: %w", inj.Name, err))
		inj.End()
		return
	}
	if undo == nil {
		return
	}
	in.mu.Lock()
	inj.undo = undo
	in.mu.Unlock()
	in.o.Clock.After(inj.For, inj.undoFault)
}

// undoFault undoes a fault, once.
func (inj *injection) undoFault() {
	inj.in.mu.Lock()
	undo := inj.undo
	inj.undo = nil
	inj.in.mu.Unlock()
	if undo != nil {
		undo()
		inj.End()
	}
}

// drawTargets draws the processes that the fault's target stands for; it draws none for a server.
func (inj *injection) drawTargets() (chosen []string) {
	names, count := inj.in.o.Scenario.Cluster.Names().Select(inj.spec.Spec.Strikes().Target)
	for range count {
		i := int(inj.Uint64N(uint64(len(names))))
		chosen = append(chosen, names[i])
		names = slices.Delete(names, i, i+1)
	}
	return chosen
}

// boundaryEvent returns the event of the fault's beginning or end, with its kind, its targets and, for
// links, their other ends.
func (inj *injection) boundaryEvent(kind history.Kind) history.Event {
	to := inj.spec.Spec.Strikes()
	e := history.Event{Kind: kind, Fault: inj.Name, Text: inj.Kind.Name, Process: to.Target, Queue: to.Messages}
	if len(inj.Targets) > 0 {
		e.Process = strings.Join(inj.Targets, ",")
	}
	if len(to.Ends) > 0 {
		e.Queue = strings.Join(to.Ends, ",")
	}
	executor := func(name string) bool { return slices.Contains(inj.in.o.Scenario.Cluster.ExecutorNames(), name) }
	if inj.Kind.Hampers(inj.spec.Spec, slices.ContainsFunc(inj.Targets, executor)) {
		e.Count = 1
	}
	return e
}

// Now implements fault.Runner.
func (inj *injection) Now() time.Duration { return inj.in.o.Clock.Now() }

// After implements fault.Runner.
func (inj *injection) After(d time.Duration, f func()) { inj.in.o.Clock.After(d, f) }

// Emit implements fault.Runner.
func (inj *injection) Emit(e history.Event) { inj.in.o.Emit(e) }

// Fail implements fault.Runner.
func (inj *injection) Fail(err error) {
	if err != nil {
		inj.in.o.Fail(err)
	}
}

// Touch implements fault.Runner.
func (inj *injection) Touch(on fault.Touched) {
	inj.in.mu.Lock()
	first := !inj.touched
	inj.touched = true
	if first && inj.shown != nil && inj.fired {
		inj.in.watching.Add(-1)
	}
	inj.in.mu.Unlock()
	if first {
		inj.in.o.Emit(history.Event{
			Kind: history.FaultTouched, Fault: inj.Name, Text: inj.Kind.Name, Process: on.Process, Queue: on.Queue, Message: on.Message, Type: on.Type,
		})
	}
}

// End implements fault.Runner.
func (inj *injection) End() {
	in := inj.in
	in.mu.Lock()
	if inj.over {
		in.mu.Unlock()
		return
	}
	inj.over, inj.ended = true, in.o.Clock.Now()
	in.pending--
	in.mu.Unlock()
	in.o.Emit(inj.boundaryEvent(history.FaultEnded))
}

// Endless implements fault.Runner.
func (inj *injection) Endless() {
	inj.in.mu.Lock()
	defer inj.in.mu.Unlock()
	if !inj.over {
		inj.over = true
		inj.in.pending--
	}
}

// Touch records that a fault touched something, for models that know a fault only by its name.
func (in *Injector) Touch(name string, on fault.Touched) {
	for _, x := range in.all {
		if x.Name == name {
			x.Touch(on)
		}
	}
}

// Hold makes Busy return true until release is called, for disturbances that are not in the scenario. Call
// release once.
func (in *Injector) Hold() (release func()) {
	add := func(n int) {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.pending += n
	}
	add(1)
	return func() { add(-1) }
}

// Stop prevents further faults from beginning, and returns functions that undo the faults in progress. A
// second call of such a function does nothing, unless its fault was just beginning during the first call:
// then the second call undoes it.
func (in *Injector) Stop() (undo []func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.stopped = true
	for _, x := range in.all {
		undo = append(undo, x.undoFault)
	}
	return undo
}

// Counts returns the results of each fault, in the order of the scenario.
func (in *Injector) Counts() []verdict.FaultCount {
	in.mu.Lock()
	defer in.mu.Unlock()
	counts := make([]verdict.FaultCount, len(in.all))
	for i, x := range in.all {
		counts[i] = verdict.FaultCount{Fault: x.Name, Planned: 1}
		if x.fired {
			counts[i].Fired = 1
		}
		if x.touched {
			counts[i].Touched = 1
		}
	}
	return counts
}

// FaultIntervals returns when each fault lasted, in the order of the scenario. A fault without an
// end lasts until end.
func (in *Injector) FaultIntervals(end time.Duration) (intervals []verdict.FaultInterval) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range in.all {
		if !x.fired {
			continue
		}
		i := verdict.FaultInterval{Fault: x.Name, Begin: x.began, End: x.ended}
		if i.End == 0 {
			i.End = end
		}
		intervals = append(intervals, i)
	}
	return intervals
}
