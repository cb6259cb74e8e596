package scenario

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config/yamlfile"
)

// loader reads a scenario: a Reader with what the parts of a file have to know of each other.
type loader struct {
	*yamlfile.Reader
	s Scenario
	// clusterOK says that targets can be judged.
	clusterOK bool
	// expectsNoWorkers says that an action without a worker is meant.
	expectsNoWorkers bool
	whenNodes        []*yaml.Node
}

// faults reads the list; names are given at the end, when it is known which would be alike.
func (l *loader) faults(n *yaml.Node) {
	items, ok := l.Items(n, "faults")
	if !ok {
		return
	}
	if len(items) > maxFaults {
		l.Refuse(n, "%d faults; a scenario has at most %d", len(items), maxFaults)
		return
	}
	for i, item := range items {
		f := Fault{Index: i, PerMillion: 1_000_000}
		if when, good := l.fault(item, &f); good {
			l.s.Faults = append(l.s.Faults, f)
			l.whenNodes = append(l.whenNodes, when)
		}
	}
	nameFaults(l.s.Faults)
}

func (l *loader) fault(n *yaml.Node, f *Fault) (when *yaml.Node, ok bool) {
	before := l.Count()
	m, ok := l.Mapping(n, faultShape())
	if !ok {
		return nil, false
	}
	if m.Has("when") {
		l.when(m.At("when"), f)
	}
	if chosen, ok := l.form(m); ok {
		value := m.At(chosen.key)
		chosen.read(l, value, f)
		l.lasting(m, chosen, f)
		l.inWorlds(value, f.Kind)
	}
	return m.At("when"), l.Count() == before
}

// form finds the one kind of an entry.
func (l *loader) form(m yamlfile.Mapping) (form, bool) {
	var keys []string
	var found []form
	for _, f := range forms() {
		keys = append(keys, f.key)
		if m.Has(f.key) {
			found = append(found, f)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(found) == 0 && m.Invalid: // the unknown key was the kind
		return form{}, false
	case len(found) == 0:
		l.Unknown(m.Node, "the fault does nothing: it needs one kind", "", keys)
		return form{}, false
	}
	slices.SortFunc(found, func(a, b form) int {
		x, y := m.Keys[a.key], m.Keys[b.key]
		return (x.Line-y.Line)*10_000 + x.Column - y.Column
	})
	l.Refuse(m.Keys[found[1].key], "two kinds in one fault, %s and %s: write two faults", found[0].key, found[1].key)
	return form{}, false
}

// lasting reads how long a fault lasts or when its process comes back, and refuses the other one.
func (l *loader) lasting(m yamlfile.Mapping, f form, into *Fault) {
	lasts, restart := m.At("for"), m.At("restart_after")
	if f.once() {
		for _, k := range []string{"for", "restart_after"} {
			if m.Has(k) {
				l.Refuse(m.Keys[k], "a %s has no %s: it is over by itself", f.key, k)
			}
		}
		return
	}
	if f.inside && into.For > 0 && lasts != nil {
		l.Refuse(m.Keys["for"], "`for` stands both beside %s and in it", f.key)
		return
	}
	if !f.lasts {
		if lasts != nil {
			l.Refuse(m.Keys["for"], "a %s has no `for`: say when the process comes back with restart_after", f.key)
		}
		if restart != nil {
			d := l.drawn(restart, "restart_after", time.Millisecond)
			into.RestartAfter, into.RestartMin, into.RestartLog = d.most, d.min(), d.log
		}
		return
	}
	if restart != nil {
		l.Refuse(m.Keys["restart_after"], "restart_after belongs to crash and stop; a %s lasts as long as `for` says", f.key)
	}
	if lasts != nil {
		l.forHow(lasts, into)
	} else if into.For == 0 && !m.Invalid && !l.lacksInner(m, f) {
		l.Refuse(m.Node, "the %s has no end: add `for`", f.key)
	}
}

// forHow reads how long a fault lasts.
func (l *loader) forHow(n *yaml.Node, into *Fault) {
	d := l.drawn(n, "for", time.Millisecond)
	into.For, into.ForMin, into.ForLog = d.most, d.min(), d.log
}

// lacksInner says that `for` stands in the kind's mapping and was refused there already.
func (l *loader) lacksInner(m yamlfile.Mapping, f form) bool {
	value := m.At(f.key)
	if !f.inside || value.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(value.Content); i += 2 {
		if value.Content[i].Value == "for" {
			return true
		}
	}
	return false
}

func (l *loader) inWorlds(n *yaml.Node, k FaultKind) {
	if k == "" {
		return
	}
	for _, w := range l.s.Worlds {
		if why := k.Lacks(w); why != "" {
			l.Refuse(n, "the %s world can't do a %s: %s; write worlds: [sim]", w, k, why)
		}
	}
}

func (l *loader) when(n *yaml.Node, f *Fault) {
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
		l.after(m, &f.When)
	}
}

func (l *loader) after(m yamlfile.Mapping, w *When) {
	w.After, _ = l.Choice(m.At("after"), "trigger", firsts(triggersAbout()))
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

// strikesProcess reads a kind whose value is the process that it strikes.
func strikesProcess(k FaultKind) func(*loader, *yaml.Node, *Fault) {
	return func(l *loader, n *yaml.Node, f *Fault) {
		f.Kind = k
		l.target(n, f)
	}
}

// target reads a process or a selector of processes.
func (l *loader) target(n *yaml.Node, f *Fault) {
	if !l.clusterOK {
		return
	}
	if n.Value == Broker || n.Value == Database {
		l.Refuse(n, "the %s is no process of the cluster; write %s: kill or %s: restart", n.Value, n.Value, n.Value)
		return
	}
	var ok bool
	f.Target, ok = l.Choice(n, "target", l.s.Cluster.targets())
	if !ok {
		return
	}
	for _, w := range l.s.Cluster.Workers {
		if w.Name == f.Target && f.When.After == "" && f.When.Max < w.Starts {
			l.Refuse(n, "%s starts at %s, after this fault", w.Name, yamlfile.Short(w.Starts))
		}
	}
}

// link reads what partition, latency and reset have in common.
func (l *loader) link(m yamlfile.Mapping, f *Fault, process, ends string) {
	if m.Has(process) {
		l.target(m.At(process), f)
	}
	if m.Has(ends) {
		f.From, _ = l.Choices(m.At(ends), "other end", ends, otherEnds())
		if len(m.At(ends).Content) == 0 && m.At(ends).Kind == yaml.SequenceNode {
			l.Unknown(m.At(ends), ends+" is empty", "", otherEnds())
		}
	}
	if m.Has("direction") {
		name, _ := l.Choice(m.At("direction"), "direction", directionNames())
		f.Direction = Direction(name)
	}
	if m.Has("rate") {
		f.PerMillion, _ = l.Share(m.At("rate"), "rate")
	}
	if m.Has("for") {
		l.forHow(m.At("for"), f)
	}
}

func (l *loader) partition(n *yaml.Node, f *Fault) {
	f.Kind, f.Direction = Partition, Both
	m, ok := l.Mapping(n, partitionShape())
	if ok {
		l.link(m, f, "cut", "from")
	}
}

func (l *loader) latency(n *yaml.Node, f *Fault) {
	f.Kind, f.Direction = Latency, Both
	m, ok := l.Mapping(n, latencyShape())
	if !ok {
		return
	}
	l.link(m, f, "of", "to")
	if m.Has("adds") {
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.At("adds"), "adds")
	}
}

func (l *loader) reset(n *yaml.Node, f *Fault) {
	f.Kind = Reset
	m, ok := l.Mapping(n, resetShape())
	if ok {
		l.link(m, f, "of", "to")
	}
}

func (l *loader) messages(n *yaml.Node, f *Fault) {
	f.Target = Broker
	m, ok := l.Mapping(n, messagesShape())
	if !ok {
		return
	}
	var verbs []string
	for _, v := range messageVerbs() {
		if m.Has(v.name) {
			verbs = append(verbs, v.name)
			f.Kind = v.kind
		}
	}
	if len(verbs) != 1 {
		if !m.Invalid {
			l.Unknown(n, "messages must do exactly one thing", "", firstsOf(messageVerbs()))
		}
		f.Kind = ""
		return
	}
	f.Messages, _ = l.Choice(m.At(verbs[0]), "message type", append(MessageTypes(), EveryMessage))
	switch {
	case f.Kind.late() && m.Has("by"):
		f.DelayMin, f.DelayMax = l.oneOrSpan(m.At("by"), "by")
	case f.Kind.late() && !m.Invalid:
		l.Refuse(n, "the %s lacks \"by\": how late, or the least and the most", verbs[0])
	case m.Has("by"):
		l.Refuse(m.Keys["by"], "`by` belongs to delay and reorder, not to %s", verbs[0])
	}
	l.link(m, f, "", "")
}

// oneOrSpan reads 2s or [1s, 3s].
func (l *loader) oneOrSpan(n *yaml.Node, what string) (from, to time.Duration) {
	if n.Kind == yaml.SequenceNode {
		from, to, _ = l.Span(n, what, 0)
		return from, to
	}
	from, _ = l.Duration(n, what, time.Millisecond)
	return from, from
}

// nameFaults gives each a name that is readable and its own: those that would be alike carry their
// index.
func nameFaults(faults []Fault) {
	alike := map[string]int{}
	for i := range faults {
		faults[i].Name = faults[i].describe()
		alike[faults[i].Name]++
	}
	for i := range faults {
		if alike[faults[i].Name] > 1 {
			faults[i].Name += fmt.Sprintf(" #%d", faults[i].Index)
		}
	}
}

func (f *Fault) describe() string {
	ends := strings.Join(f.From, " and ")
	way := ""
	if f.Direction == Incoming || f.Direction == Outgoing {
		way = ", " + string(f.Direction)
	}
	switch f.Kind {
	case Partition:
		return fmt.Sprintf("partition %s from %s%s", f.Target, ends, way)
	case Latency, Reset, SlowLink:
		return fmt.Sprintf("%s %s to %s%s", strings.ReplaceAll(string(f.Kind), "_", " "), f.Target, ends, way)
	case BrokerRestart, DatabaseRestart:
		return "restart " + f.Target
	case BrokerKill, DatabaseKill:
		return "kill " + f.Target
	case DropMessages, DelayMessages, DuplicateMessage, CorruptMessages, ReorderMessages:
		verb, _, _ := strings.Cut(string(f.Kind), "_")
		if f.Messages == EveryMessage {
			return verb + " every message"
		}
		return verb + " " + f.Messages
	}
	if f.Kind == PublishMessages {
		return fmt.Sprintf("publish %s to %s", strings.ReplaceAll(string(f.What), "_", " "), f.Target)
	}
	text := strings.ReplaceAll(string(f.Kind), "_", " ")
	if f.Target == Broker || f.Target == Database && !f.Kind.clock() {
		return text
	}
	return fmt.Sprintf("%s %s", text, f.Target)
}
