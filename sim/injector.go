package sim

import (
	"slices"
	"strconv"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/sim/kernel"
	"handoff/sim/simbroker"
	"handoff/sim/simnet"
)

// injector brings about the faults of a scenario, and keeps the evidence: when each really began and
// ended, and whether it made a difference to anything.
type injector struct {
	w     *world
	kinds map[scenario.FaultKind]injectFunc // for looking up only
	all   []*injection
	// waiting are those whose trigger has not come; pending counts those that must still come to
	// their end before the run can.
	waiting []*injection
	pending int
}

// injection is one fault of the scenario in one run.
type injection struct {
	w       *world
	fault   *scenario.Fault
	stream  *kernel.Stream
	seen    int // of its trigger
	fired   bool
	touched bool
	began   time.Duration
	ended   time.Duration // 0 while it lasts, and for ever if it has no end
	targets []*process
}

// injectFunc begins a fault and returns what ends it: nil for a fault that is over by itself, which
// then calls end when it is.
type injectFunc func(x *injection) (undo func())

func newInjector(w *world) *injector {
	in := &injector{w: w, kinds: injectors()}
	for _, kind := range w.options.Without {
		delete(in.kinds, kind)
	}
	for i := range w.scenario.Faults {
		f := &w.scenario.Faults[i]
		stream := w.k.Stream("fault/" + strconv.Itoa(f.Index))
		in.all = append(in.all, &injection{w: w, fault: f.Drawn(stream), stream: stream})
	}
	return in
}

// arm sets the times and the triggers.
func (in *injector) arm() {
	for _, x := range in.all {
		inject, able := in.kinds[x.fault.Kind]
		if !able {
			continue
		}
		if x.fault.When.After != "" {
			in.waiting = append(in.waiting, x)
			continue
		}
		in.pending++
		at := x.stream.Duration(x.fault.When.Min, x.fault.When.Max)
		in.w.k.After(at, func() { x.begin(inject) })
	}
}

// triggers looks whether an event is what a fault waits for. The fault begins after the step in which
// the event happened, because the one who writes an event is in the middle of something.
func (in *injector) triggers(e *history.Event) {
	for i := 0; i < len(in.waiting); i++ {
		x := in.waiting[i]
		when := &x.fault.When
		if !run.Matches(when, e, in.w.db.WorkerName) {
			continue
		}
		if x.seen++; x.seen < when.Nth {
			continue
		}
		in.waiting = slices.Delete(in.waiting, i, i+1)
		i--
		in.pending++
		inject := in.kinds[x.fault.Kind]
		in.w.k.After(when.Plus, func() { x.begin(inject) })
	}
}

// begin begins a fault now, and arms its end.
func (x *injection) begin(inject injectFunc) {
	x.fired, x.began = true, x.w.k.Now()
	x.targets = x.choose()
	x.w.emit(x.announced(history.FaultBegan))
	undo := inject(x)
	if undo == nil {
		return
	}
	x.w.k.After(x.fault.For, func() {
		undo()
		x.end()
	})
}

// end writes that the fault is over.
func (x *injection) end() {
	x.ended = x.w.k.Now()
	x.w.emit(x.announced(history.FaultEnded))
	x.w.injector.pending--
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
func (x *injection) endless() { x.w.injector.pending-- }

// hinders is 1 for a fault that can keep an executor from detecting something in time.
func (x *injection) hinders() int64 {
	return run.Hinders(x.fault, slices.ContainsFunc(x.targets, func(p *process) bool { return p.worker == nil }))
}

// choose draws the processes that the target means; none for a server.
func (x *injection) choose() []*process {
	names, count := x.w.scenario.Cluster.Candidates(x.fault.Target)
	names = slices.Clone(names)
	var chosen []*process
	for range count {
		i := x.stream.Uint64N(uint64(len(names)))
		if p := x.w.process(names[i]); p != nil {
			chosen = append(chosen, p)
		}
		names = slices.Delete(names, int(i), int(i)+1)
	}
	return chosen
}

// touch records that the fault made a difference, and the first thing that it made one to.
func (x *injection) touch(on simnet.Touched) {
	if x.touched {
		return
	}
	x.touched = true
	x.w.emit(history.Event{
		Kind: history.FaultTouched, Fault: x.fault.Name, Text: string(x.fault.Kind),
		Process: on.Process, Queue: on.Queue, Message: on.Message, Type: on.Type,
	})
}

// touch is told by the models which fault made a difference to something.
func (in *injector) touch(on simnet.Touched) {
	for _, x := range in.all {
		if x.fault.Name == on.Fault || x.fault.Kind == scenario.BrokerAlarm && on.Fault == simbroker.FaultAlarm {
			x.touch(on)
		}
	}
}

// counts are the results for each fault, in the order of the scenario.
func (in *injector) counts() []verdict.FaultCount {
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

// faultIntervals are the times during which the faults lasted, up to the end of the run.
func (in *injector) faultIntervals() []verdict.FaultInterval {
	var faultIntervals []verdict.FaultInterval
	for _, x := range in.all {
		if !x.fired {
			continue
		}
		end := x.ended
		if end == 0 {
			end = in.w.k.Now()
		}
		faultIntervals = append(faultIntervals, verdict.FaultInterval{Fault: x.fault.Name, Begin: x.began, End: end})
	}
	return faultIntervals
}
