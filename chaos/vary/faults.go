package vary

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
	"handoff/core/config/yamlfile"
)

// mostFaults is the largest number of added faults.
const mostFaults = 4

// faultDimensions has two dimensions whose leaveOut is not a plain form but a second way to change them: one
// adds faults at any time or close together, the other removes some in both cases.
func faultDimensions() []dimension {
	return []dimension{
		{leaveOut: shortFaults, exaggerate: otherLengths},
		{exaggerate: otherMoments},
		{leaveOut: addedFaults, exaggerate: closeFaults},
		{leaveOut: fewerFaults, exaggerate: fewerFaults},
	}
}

// setFaultDuration sets the duration of the i-th fault, or the time until its processes restart. A fault with
// neither ends by itself and stays unchanged.
func (d *draw) setFaultDuration(i int, value func(was time.Duration) time.Duration) {
	f := &d.s.Faults[i]
	switch {
	case f.For > 0:
		text := yamlfile.Short(value(f.For))
		d.addEdit(func(doc *scenario.Document) {
			if doc.Has("faults", i, "for") {
				doc.Put(text, "faults", i, "for")
				return
			}
			length, _ := time.ParseDuration(text)
			doc.SetFor(i, length)
		}, "%s lasts %s", f.Name, text)
	case f.RestartAfter > 0:
		text := yamlfile.Short(value(f.RestartAfter))
		d.addEdit(func(doc *scenario.Document) { doc.Put(text, "faults", i, "restart_after") }, "%s: back after %s", f.Name, text)
	}
}

func shortFaults(d *draw) {
	for i := range d.s.Faults {
		d.setFaultDuration(i, func(time.Duration) time.Duration { return d.Within(time.Millisecond, time.Second) })
	}
}

func otherLengths(d *draw) {
	for i := range d.s.Faults {
		d.setFaultDuration(i, func(time.Duration) time.Duration { return d.Within(10*time.Millisecond, d.longestDuration()) })
	}
}

// otherMoments makes faults begin at other times, or after other events.
func otherMoments(d *draw) {
	for i := range d.s.Faults {
		if d.oneIn(2) {
			continue
		}
		when := d.drawWhen(d.faultSpan())
		d.addEdit(func(doc *scenario.Document) { doc.Put(when, "faults", i, "when") }, "%s begins %s", d.s.Faults[i].Name, when)
	}
}

// faultSpan returns the period at the start of a run in which drawn faults begin.
func (d *draw) faultSpan() time.Duration {
	return max(time.Minute, min(d.s.LastSubmission()+30*time.Second, d.longestDuration()))
}

// drawWhen draws the start of a fault: a time, or the n-th event of a kind, sometimes with a delay.
func (d *draw) drawWhen(span time.Duration) string {
	if d.oneIn(2) {
		return "{at: " + yamlfile.Short(time.Duration(d.Choose(int(span/time.Millisecond)+1))*time.Millisecond) + "}"
	}
	var names []string
	for _, t := range scenario.Triggers() {
		if t.Name != "expired" { // most runs have no delay
			names = append(names, t.Name)
		}
	}
	plus := ""
	if d.oneIn(2) {
		plus = ", plus: " + d.Lasting(time.Millisecond, 10*time.Second)
	}
	return fmt.Sprintf("{after: %s, nth: %d%s}", d.Of(names...), d.Number(1, 12), plus)
}

func fewerFaults(d *draw) {
	for i := len(d.s.Faults) - 1; i >= 0; i-- {
		if d.oneIn(2) {
			d.addEdit(func(doc *scenario.Document) { doc.Take("faults", i) }, "without the fault %s", d.s.Faults[i].Name)
		}
	}
}

// drawableKinds lists the kinds of faults that can be drawn and simulated.
func drawableKinds() []*fault.Kind {
	return slices.DeleteFunc(fault.Kinds(), func(k *fault.Kind) bool { return k.Draw == nil || scenario.Lacks(k, scenario.Sim) != "" })
}

// drawFault draws a fault of any kind, in the syntax of scenario files. most is its longest duration.
func (d *draw) drawFault(when string, most time.Duration) string {
	kinds := drawableKinds()
	k := kinds[d.Choose(len(kinds))]
	text := fmt.Sprintf("{when: %s, %s", when, k.Draw(d.Dice))
	switch k.Ends {
	case fault.WithFor:
		text += ", for: " + d.Lasting(10*time.Millisecond, most)
	case fault.WithRestart:
		text += ", restart_after: " + d.Lasting(10*time.Millisecond, most)
	case fault.ByItself:
	}
	return text + "}"
}

func (d *draw) addFault(entry string) {
	d.addEdit(func(doc *scenario.Document) { doc.Append(entry, "faults") }, "one more fault: %s", entry)
}

// addedFaults adds faults at any time.
func addedFaults(d *draw) {
	for range d.Number(1, mostFaults) {
		d.addFault(d.drawFault(d.drawWhen(d.faultSpan()), d.longestDuration()))
	}
}

// closeFaults adds faults that follow each other within a lease and strike one worker and one executor. Each
// meets the effects of the one before.
func closeFaults(d *draw) {
	all := d.Cluster
	if len(all.Workers) > 0 {
		d.Cluster.Workers = []string{d.Of(all.Workers...)}
	}
	d.Cluster.Executors = []string{d.Of(all.Executors...)}
	lease := d.config.Worker.Lease()
	begin := time.Duration(d.Choose(int(d.faultSpan()/time.Millisecond)+1)) * time.Millisecond
	for range d.Number(2, mostFaults) {
		d.addFault(d.drawFault("{at: "+yamlfile.Short(begin)+"}", 2*lease))
		begin += time.Duration(d.Choose(int(lease/time.Millisecond)+1)) * time.Millisecond
	}
	d.Cluster = all
}
