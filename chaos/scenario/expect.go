package scenario

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/core/config"
	"handoff/core/telemetry"
)

// settle reads how long the end may take, and refuses faults that begin after it: everything would
// be over, and the fault would touch nothing.
func (l *loader) settle(n *yaml.Node, hasFaults bool) {
	m, ok := l.mapping(n, settleShape())
	if !ok || !m.has("within") {
		return
	}
	within, ok := l.duration(m.at("within"), "within", time.Millisecond)
	l.s.Settle = within
	if !ok || !hasFaults || len(l.s.Workload) == 0 {
		return
	}
	over := l.s.LastSubmission() + within
	for i, f := range l.s.Faults {
		if f.When.After == "" && f.When.Max > over {
			l.refuse(l.whenNodes[i], "the fault may begin at %s, but everything has settled by %s: %s after the last submission at %s",
				short(f.When.Max), short(over), short(within), short(l.s.LastSubmission()))
		}
	}
}

// expect reads one expectation for every profile, or one for each.
func (l *loader) expect(n *yaml.Node) {
	list, _, ok := l.entries(n, "expect")
	if !ok {
		return
	}
	perProfile := slices.ContainsFunc(list, func(e entry) bool { return slices.Contains(profileNames(), e.name) })
	if !perProfile {
		e := l.oneExpect(n)
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
		if !slices.Contains(profileNames(), e.name) {
			l.unknown(e.key, fmt.Sprintf("%q beside an expectation for each profile: move it into them", e.name), e.name, declared)
			continue
		}
		if !slices.Contains(declared, e.name) {
			l.unknown(e.key, fmt.Sprintf("expect has profile %s, under which the scenario doesn't run", e.name), "", declared)
		}
		l.s.expects[config.Profile(e.name)] = l.oneExpect(e.value)
	}
	for _, p := range l.s.Profiles {
		if _, ok := l.s.expects[p]; !ok {
			l.refuse(n, "expect lacks profile %s, under which the scenario runs too", p)
		}
	}
}

func (l *loader) oneExpect(n *yaml.Node) Expect {
	var e Expect
	m, ok := l.mapping(n, expectShape())
	if !ok {
		return e
	}
	if i := m.at("invariants"); i != nil {
		e.Invariants = l.invariants(i)
	}
	if b := m.at("executions"); b != nil {
		e.Executions = l.bounds(b, "executions", int64(l.s.Submissions()))
	}
	if b := m.at("rows"); b != nil {
		e.Rows = l.bounds(b, "rows", 0)
	}
	if s := m.at("sometimes"); s != nil {
		e.Sometimes, _ = l.choices(s, "situation", "sometimes", firsts(sometimesAbout()))
		l.expectsNoWorkers = l.expectsNoWorkers || slices.Contains(e.Sometimes, "no_workers_failed")
	}
	if a := m.at("alerts"); a != nil {
		e.Alerts = l.alerts(a)
	}
	if t := m.at("texts"); t != nil {
		items, _ := l.items(t, "texts")
		for _, item := range items {
			if text, ok := l.text(item, "an error text"); ok {
				e.Texts = append(e.Texts, text)
			}
		}
	}
	return e
}

// alerts reads which alerts are expected. One that is to resolve has to fire, so it need not be named twice;
// one that never may can't do either.
func (l *loader) alerts(n *yaml.Node) (a Alerts) {
	m, ok := l.mapping(n, alertsShape())
	if !ok {
		return a
	}
	for _, list := range []struct {
		name string
		into *[]string
	}{{"fires", &a.Fires}, {"resolves", &a.Resolves}, {"never", &a.Never}} {
		if at := m.at(list.name); at != nil {
			*list.into, _ = l.choices(at, "alert", list.name, telemetry.RuleNames())
		}
	}
	for _, name := range a.Never {
		if slices.Contains(a.Fires, name) || slices.Contains(a.Resolves, name) {
			l.refuse(m.keys["never"], "the alert %s is expected to fire, and never to", name)
		}
	}
	return a
}

func (l *loader) invariants(n *yaml.Node) []int {
	if n.Kind == yaml.ScalarNode && n.Value == "all" {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		l.refuse(n, "invariants must be all or a list of numbers, is %s", kindOf(n))
		return nil
	}
	var list []int
	for _, item := range n.Content {
		v, ok := l.integer(item, "an invariant", 1, Invariants)
		if ok && slices.Contains(list, int(v)) {
			l.refuse(item, "invariant %d stands twice", v)
		}
		if ok {
			list = append(list, int(v))
		}
	}
	if len(n.Content) == 0 {
		l.refuse(n, "invariants is empty: nothing would be judged; write all or leave it out")
	}
	return list
}

// bounds reads a mapping of status to bound. total is how many there are at most, 0 for unknown.
func (l *loader) bounds(n *yaml.Node, where string, total int64) []Bound {
	list, _, _ := l.entries(n, where)
	var out []Bound
	for _, e := range list {
		if !slices.Contains(endNames(), e.name) {
			l.unknown(e.key, fmt.Sprintf("%q under %s is no status in which an execution ends", e.name, where), e.name, endNames())
			continue
		}
		b, ok := l.bound(e.value, e.name)
		if !ok {
			continue
		}
		if total > 0 && !b.possible(total) {
			l.refuse(e.value, "%s %s can never hold: the workload submits %d", e.name, b.Source, total)
			continue
		}
		out = append(out, b)
	}
	return out
}

// possible says that some count out of total satisfies b.
func (b Bound) possible(total int64) bool {
	for count := int64(0); count <= total; count++ {
		if b.Holds(count, total) {
			return true
		}
	}
	return false
}
