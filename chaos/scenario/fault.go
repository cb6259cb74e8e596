package scenario

import (
	"fmt"
	"reflect"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
	"handoff/core/config/yamlfile"
)

// loader reads a scenario. In addition to the Reader, it holds facts that parts of a file need from each
// other.
type loader struct {
	*yamlfile.Reader
	s Scenario
	// clusterOK reports whether the cluster was read without errors, so that the targets of faults can be
	// checked.
	clusterOK bool
	// actionsOK reports whether the names of the actions are known. stepsOK reports whether the action and
	// the count of every workload step so far are known.
	actionsOK, stepsOK bool
	// expectsNoWorkers reports whether the scenario expects actions that no worker can run.
	expectsNoWorkers bool
	whenNodes        []*yaml.Node
}

// readFaults reads the list of faults. It names the faults at the end, when equal names can be detected.
func (l *loader) readFaults(n *yaml.Node) {
	items, ok := l.Items(n, "faults")
	if !ok {
		return
	}
	if len(items) > maxFaults {
		l.Refuse(n, "%d faults; a scenario has at most %d", len(items), maxFaults)
		return
	}
	for i, item := range items {
		f := Fault{Index: i}
		if when, good := l.readFault(item, &f); good {
			l.s.Faults = append(l.s.Faults, f)
			l.whenNodes = append(l.whenNodes, when)
		}
	}
	nameFaults(l.s.Faults)
}

func (l *loader) readFault(n *yaml.Node, f *Fault) (when *yaml.Node, ok bool) {
	before := l.Count()
	m, ok := l.Mapping(n, knownFault())
	if !ok {
		return nil, false
	}
	if m.Has("when") {
		l.readWhen(m.At("when"), f)
	}
	begins := fault.Begins{Latest: f.When.Max, AfterTrigger: f.When.After != "", Starts: make(map[string]time.Duration)}
	for _, w := range l.s.Cluster.Workers {
		begins.Starts[w.Name] = w.Starts
	}
	if e, ok := fault.Read(l.Reader, m, l.s.Cluster.Names(), l.clusterOK, begins); ok {
		f.Kind, f.Spec = e.Kind, e.Fault
		l.readFaultDuration(m, e, f)
		l.refuseUnsupportedWorlds(e.Value, f.Kind)
	}
	return m.At("when"), l.Count() == before
}

// readFaultDuration reads `for` or `restart_after`, whichever the kind of fault has, and refuses the other
// key.
func (l *loader) readFaultDuration(m yamlfile.Mapping, e fault.Entry, into *Fault) {
	lasts, restart, key := m.At("for"), m.At("restart_after"), e.Key.Value
	switch e.Kind.Ends {
	case fault.ByItself:
		for _, k := range []string{"for", "restart_after"} {
			if m.Has(k) {
				l.Refuse(m.Keys[k], "a %s has no %s: it is over by itself", key, k)
			}
		}
		return
	case fault.WithRestart:
		if lasts != nil {
			l.Refuse(m.Keys["for"], "a %s has no `for`: say when the process comes back with restart_after", key)
		}
		if restart != nil {
			into.setRestart(fault.ReadDrawn(l.Reader, restart, "restart_after", time.Millisecond))
		}
		return
	default:
	}
	if restart != nil {
		l.Refuse(m.Keys["restart_after"], "restart_after belongs to crash and stop; a %s lasts as long as `for` says", key)
	}
	switch {
	case e.For != nil && lasts != nil:
		l.Refuse(m.Keys["for"], "`for` is given twice: beside %s and inside it", key)
	case e.For != nil:
		into.setFor(fault.ReadDrawn(l.Reader, e.For, "for", time.Millisecond))
	case lasts != nil:
		into.setFor(fault.ReadDrawn(l.Reader, lasts, "for", time.Millisecond))
	case !m.Invalid:
		l.Refuse(m.Node, "the fault has no end: add `for`, as in %s", e.Kind.Example)
	}
}

func (f *Fault) setFor(d fault.Drawn) { f.For, f.ForMin, f.ForLog = d.Most, leastDrawn(d), d.Log }

func (f *Fault) setRestart(d fault.Drawn) {
	f.RestartAfter, f.RestartMin, f.RestartLog = d.Most, leastDrawn(d), d.Log
}

// leastDrawn returns the lower bound of a drawn duration, or 0 if the duration is fixed.
func leastDrawn(d fault.Drawn) time.Duration {
	if d.Least == d.Most {
		return 0
	}
	return d.Least
}

func (l *loader) refuseUnsupportedWorlds(n *yaml.Node, k *fault.Kind) {
	for _, w := range l.s.Worlds {
		if why := Lacks(k, w); why != "" {
			l.Refuse(n, "the %s world can't do a %s: %s; write worlds: [sim]", w, k.Name, why)
		}
	}
}

// Lacks returns why a world can't inject a kind of fault, or "" if it can. The answer follows from the
// interfaces of the world (package fault).
func Lacks(k *fault.Kind, w World) string {
	if w == Sim {
		return k.Lacks(reflect.TypeFor[fault.Simulated]())
	}
	return k.Lacks(reflect.TypeFor[fault.Live]())
}

func (l *loader) readWhen(n *yaml.Node, f *Fault) {
	m, ok := l.Mapping(n, whenShape())
	if !ok {
		return
	}
	var given []string
	for _, k := range []string{"at", "between", "after"} {
		if m.Has(k) {
			given = append(given, k)
		}
	}
	if len(given) != 1 {
		if !m.Invalid {
			l.Unknown(n, "when must say exactly one thing", "", []string{"at", "between", "after"})
		}
		return
	}
	for _, k := range []string{"of", "nth", "plus"} {
		if m.Has(k) && given[0] != "after" {
			l.Refuse(m.Keys[k], "%q belongs to `after`, not to %q", k, given[0])
		}
	}
	switch given[0] {
	case "at":
		f.When.Min, _ = l.Duration(m.At("at"), "at", 0)
		f.When.Max = f.When.Min
	case "between":
		f.When.Min, f.When.Max, _ = l.Span(m.At("between"), "between", 0)
	case "after":
		l.readTrigger(m, &f.When)
	}
}

func (l *loader) readTrigger(m yamlfile.Mapping, w *When) {
	w.After, _ = l.Choice(m.At("after"), "trigger", firstColumn(triggersAbout()))
	w.Nth = 1
	if m.Has("nth") {
		nth, _ := l.Integer(m.At("nth"), "nth", 1, maxCount)
		w.Nth = int(nth)
	}
	if m.Has("plus") {
		w.Plus, _ = l.Duration(m.At("plus"), "plus", 0)
	}
	if m.Has("of") && l.clusterOK {
		w.Of, _ = l.Choice(m.At("of"), "worker", l.s.Cluster.WorkerNames())
	}
}

// nameFaults gives each fault a readable, unique name. Faults with equal names get their index.
func nameFaults(faults []Fault) {
	alike := map[string]int{}
	for i := range faults {
		faults[i].Name = faults[i].Kind.Describe(faults[i].Spec)
		alike[faults[i].Name]++
	}
	for i := range faults {
		if alike[faults[i].Name] > 1 {
			faults[i].Name += fmt.Sprintf(" #%d", faults[i].Index)
		}
	}
}

func faultShape() yamlfile.Shape {
	s := yamlfile.NewShape("the fault", yamlfile.Required("when", "when it begins", whenSchema()))
	s.Keys = append(s.Keys, fault.Keys()...)
	s.Keys = append(s.Keys,
		yamlfile.Optional("for", "how long it lasts", fault.DrawnSchema("for")),
		yamlfile.Optional("restart_after", "when a crashed or stopped process comes back; left out: never", fault.DrawnSchema("restart_after")))
	return s
}

// faultSchema adds the rules that a shape can't express: exactly one kind, with the keys of that kind.
func faultSchema() yamlfile.Schema {
	out := faultShape().Object()
	out["oneOf"] = fault.Schemas()
	return out
}

func whenSchema() yamlfile.Schema {
	out := whenShape().Object()
	out["oneOf"] = []any{
		yamlfile.Schema{"required": []string{"at"}}, yamlfile.Schema{"required": []string{"between"}}, yamlfile.Schema{"required": []string{"after"}},
	}
	return out
}

func whenShape() yamlfile.Shape {
	return yamlfile.NewShape("when",
		yamlfile.Optional("at", "at a time after the start", yamlfile.DurationSchema()),
		yamlfile.Optional("between", "at a time that is drawn: the earliest and the latest", yamlfile.SpanSchema()),
		yamlfile.Optional("after", "when something has happened", yamlfile.Described(triggersAbout())),
		yamlfile.Optional("of", "the worker that it happened to; left out: any", yamlfile.StringSchema()),
		yamlfile.Optional("nth", "which occurrence, counted from 1; left out: 1", yamlfile.IntegerSchema(1, maxCount)),
		yamlfile.Optional("plus", "how long after it; left out: at once", yamlfile.DurationSchema()),
	)
}
