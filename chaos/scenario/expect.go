package scenario

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/invariant"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/telemetry"
)

// readSettle reads the time that the run may take to settle. It refuses faults that begin later, because
// nothing would be left to disturb.
func (l *loader) readSettle(n *yaml.Node, hasFaults bool) {
	m, ok := l.Mapping(n, settleShape())
	if !ok || !m.Has("within") {
		return
	}
	within, ok := l.Duration(m.At("within"), "within", time.Millisecond)
	l.s.Settle = within
	if !ok || !hasFaults || len(l.s.Workload) == 0 {
		return
	}
	over := l.s.LastSubmission() + within
	for i, f := range l.s.Faults {
		if f.When.After == "" && f.When.Max > over {
			l.Refuse(l.whenNodes[i], "the fault may begin at %s, but everything has settled by %s: %s after the last submission at %s",
				yamlfile.Short(f.When.Max), yamlfile.Short(over), yamlfile.Short(within), yamlfile.Short(l.s.LastSubmission()))
		}
	}
}

// readExpect reads either one expectation for all profiles, or one for each profile.
func (l *loader) readExpect(n *yaml.Node) {
	list := l.Entries(n, "expect")
	if n.Kind != yaml.MappingNode {
		return
	}
	perProfile := slices.ContainsFunc(list, func(e yamlfile.Entry) bool { return slices.Contains(profileNames(), e.Name) })
	if !perProfile {
		e := l.readOneExpect(n)
		for _, p := range l.s.Profiles {
			l.s.expects[p] = e
		}
		return
	}
	var declared []string
	for _, p := range l.s.Profiles {
		declared = append(declared, string(p))
	}
	for _, e := range list {
		if !slices.Contains(profileNames(), e.Name) {
			l.Unknown(e.Key, fmt.Sprintf("%q beside an expectation for each profile: move it into them", e.Name), e.Name, declared)
			continue
		}
		if !slices.Contains(declared, e.Name) {
			l.Unknown(e.Key, fmt.Sprintf("expect has profile %s, under which the scenario doesn't run", e.Name), "", declared)
		}
		l.s.expects[config.Profile(e.Name)] = l.readOneExpect(e.Value)
	}
	for _, p := range l.s.Profiles {
		if _, ok := l.s.expects[p]; !ok {
			l.Refuse(n, "expect lacks profile %s, under which the scenario runs too", p)
		}
	}
}

func (l *loader) readOneExpect(n *yaml.Node) Expect {
	var e Expect
	m, ok := l.Mapping(n, expectShape())
	if !ok {
		return e
	}
	if i := m.At("invariants"); i != nil {
		e.Invariants = l.readInvariants(i)
	}
	if b := m.At("executions"); b != nil {
		e.Executions = l.readBounds(b, "executions", int64(l.s.Submissions()))
	}
	if b := m.At("rows"); b != nil {
		e.Rows = l.readBounds(b, "rows", 0)
	}
	if s := m.At("sometimes"); s != nil {
		e.Sometimes, _ = l.Choices(s, "situation", "sometimes", firstColumn(sometimesAbout()))
		l.expectsNoWorkers = l.expectsNoWorkers || slices.Contains(e.Sometimes, "no_workers_failed")
	}
	if a := m.At("alerts"); a != nil {
		e.Alerts = l.readAlerts(a)
	}
	if t := m.At("texts"); t != nil {
		items, _ := l.Items(t, "texts")
		for _, item := range items {
			if text, ok := l.Printable(item, "an error text"); ok {
				e.Texts = append(e.Texts, text)
			}
		}
	}
	return e
}

// readAlerts reads the expected alerts. An alert under resolves must also fire, so it need not be under
// fires. An alert under never must not be under the other two.
func (l *loader) readAlerts(n *yaml.Node) (a Alerts) {
	m, ok := l.Mapping(n, alertsShape())
	if !ok {
		return a
	}
	for _, list := range []struct {
		name string
		into *[]string
	}{{"fires", &a.Fires}, {"resolves", &a.Resolves}, {"never", &a.Never}} {
		if at := m.At(list.name); at != nil {
			*list.into, _ = l.Choices(at, "alert", list.name, telemetry.RuleNames())
		}
	}
	for _, name := range a.Never {
		if slices.Contains(a.Fires, name) || slices.Contains(a.Resolves, name) {
			l.Refuse(m.Keys["never"], "the alert %s is listed under never, and under fires or resolves too", name)
		}
	}
	return a
}

// readInvariant reads the number of an invariant.
func (l *loader) readInvariant(n *yaml.Node, what string) (int64, bool) {
	v, ok := l.Integer(n, what, 1, LastInvariant)
	if ok && invariant.ByNumber(int(v)) == nil {
		l.Refuse(n, "%s is %d, and no invariant has that number any more", what, v)
		return 0, false
	}
	return v, ok
}

func (l *loader) readInvariants(n *yaml.Node) []int {
	if n.Kind == yaml.ScalarNode && n.Value == "all" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		l.Refuse(n, "invariants must be all or a list of numbers, is %s", yamlfile.KindOf(n))
		return nil
	}
	var list []int
	for _, item := range n.Content {
		v, ok := l.readInvariant(item, "an invariant")
		if ok && slices.Contains(list, int(v)) {
			l.Refuse(item, "duplicate value %d under invariants", v)
		}
		if ok {
			list = append(list, int(v))
		}
	}
	if len(n.Content) == 0 {
		l.Refuse(n, "invariants is empty: nothing would be judged; write all or leave it out")
	}
	return list
}

// readBounds reads a mapping of status to bound. total is the largest possible count, 0 if unknown.
func (l *loader) readBounds(n *yaml.Node, where string, total int64) []Bound {
	list := l.Entries(n, where)
	var out []Bound
	for _, e := range list {
		if !slices.Contains(endNames(), e.Name) {
			l.Unknown(e.Key, fmt.Sprintf("%q under %s isn't a final status", e.Name, where), e.Name, endNames())
			continue
		}
		b, ok := l.readBound(e.Value, e.Name)
		if !ok {
			continue
		}
		if total > 0 && !b.isPossible(total) {
			l.Refuse(e.Value, "%s %s can never hold: the workload submits %d", e.Name, b.Source, total)
			continue
		}
		out = append(out, b)
	}
	return out
}

// isPossible reports whether any count from 0 to total satisfies b.
func (b Bound) isPossible(total int64) bool {
	for count := int64(0); count <= total; count++ {
		if b.Holds(count, total) {
			return true
		}
	}
	return false
}
