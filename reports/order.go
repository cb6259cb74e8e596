package reports

import (
	"cmp"
	"slices"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
)

// sortedScenarios returns the scenarios in the order of every output, which doesn't depend on the order of
// the runs or on shards.
func sortedScenarios(s *verdict.Sweep) []*verdict.Scenario {
	list := slices.Clone(s.Scenarios)
	slices.SortStableFunc(list, func(a, b *verdict.Scenario) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), verdict.CompareProfiles(a.Profile, b.Profile), cmp.Compare(a.Mutant, b.Mutant),
			cmp.Compare(a.World, b.World), cmp.Compare(a.Strategy, b.Strategy))
	})
	return list
}

// worstFirst sorts by verdict, failures first, and otherwise keeps the order.
func worstFirst(sorted []*verdict.Scenario) []*verdict.Scenario {
	list := slices.Clone(sorted)
	slices.SortStableFunc(list, func(a, b *verdict.Scenario) int { return cmp.Compare(b.Verdict, a.Verdict) })
	return list
}

// sortedViolations returns violations by seed, then in their order of occurrence.
func sortedViolations(vs []verdict.Violation) []*verdict.Violation {
	list := make([]*verdict.Violation, len(vs))
	for i := range vs {
		list[i] = &vs[i]
	}
	slices.SortStableFunc(list, verdict.Before)
	return list
}

func sortedFaults(fs []verdict.FaultCount) []verdict.FaultCount {
	list := slices.Clone(fs)
	slices.SortStableFunc(list, func(a, b verdict.FaultCount) int { return cmp.Compare(a.Fault, b.Fault) })
	return list
}

// failure is one violation with its context.
type failure struct {
	scenario  *verdict.Scenario
	violation *verdict.Violation
	// record is the record of the failed run; nil if it was not kept.
	record *verdict.Record
}

// firstFailure chooses the failure at the top of a report: the first violation with a recorded run, which can
// be shown, or else the first violation. It is nil if nothing was violated.
func firstFailure(s *verdict.Sweep, records []*verdict.Record) *failure {
	var first *failure
	for _, sc := range sortedScenarios(s) {
		for _, v := range sortedViolations(sc.Violations) {
			f := &failure{scenario: sc, violation: v}
			for _, r := range records {
				if IsOf(r, sc) && r.Seed == v.Seed {
					f.record = r
				}
			}
			if f.record != nil {
				return f
			}
			if first == nil {
				first = f
			}
		}
	}
	return first
}

// IsOf reports whether a record belongs to a scenario's result.
func IsOf(r *verdict.Record, sc *verdict.Scenario) bool {
	return r.Scenario == sc.Name && r.Profile == sc.Profile && r.Mutant == sc.Mutant && (r.Varied != nil) == (sc.Strategy == verdict.Varied)
}

// causingEvent returns the event that caused a violation, and the describer for it. Some violations have no
// event, such as an unfinished execution.
func (f *failure) causingEvent() (*history.Event, describer) {
	t := newDescriber(nil)
	if f.record != nil {
		t = newDescriber(f.record.Workers)
		if i := eventOf(f.record.Events, f.violation); i >= 0 {
			return &f.record.Events[i], t
		}
	}
	if n := len(f.violation.Causes); n > 0 && f.violation.Causes[n-1].Step == f.violation.Step {
		return &f.violation.Causes[n-1], t
	}
	return nil, t
}

// eventOf returns the index of the event at which a violation happened, or -1: the last event of its step
// about its execution. An event of the process that begins the message is preferred.
func eventOf(events []history.Event, v *verdict.Violation) int {
	found := -1
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		if e.Step < v.Step {
			break
		}
		if e.Step != v.Step || e.Kind.ForReaders() && e.Kind != history.Hinted || v.Execution != 0 && e.Execution != v.Execution {
			continue
		}
		if e.Process != "" && strings.HasPrefix(v.Message, e.Process+" ") {
			return i
		}
		if found < 0 && !e.Kind.ForReaders() {
			found = i
		}
	}
	return found
}
