package explore

import (
	"fmt"
	"slices"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// These tests measure the quality of the lists of causes. They use the planted mutants, because the record
// shows when a mutant acted.
//
//   - Each mutant is hunted in the library, as in TestEveryMutantIsKilled. The first seed in which the
//     expected invariant fails is repeated with a record. One violation counts for each mutant: the first
//     of the expected invariant (Kill.Violation).
//   - Size is the number of events in the report's list of causes (Violation.Causes).
//   - First reports whether they contain the first mark of the run: the first event at which the mutant
//     acted. That is strict: a mutant may act a hundred times before an act does harm.
//   - Any reports whether they contain at least one mark up to the violation.
//   - Blind is for unplanted faults. All marks are removed from the record, and the causes are searched
//     once more. Blind reports whether they contain an event next to an act: the event right before or
//     after an act of the same process, or of the act's execution at its step. Log lines and hints don't
//     count; other events cover the messages of hints.
//
// The aim: a median size of at most 25, and First for at least 95 % of the mutants.

// finding is the measured quality of the causes for one mutant.
type finding struct {
	mutant            string
	size              int
	first, any, blind bool
}

// measured measures the causes of a kill; it returns nil if the record lacks the violation.
func measured(k *Kill) *finding {
	rec, _ := recordRun(k.Target, sim.Options{Seed: k.Seed, Mutant: k.Mutant})
	v := sameViolation(rec, k.Violation())
	if v == nil {
		return nil
	}
	f := &finding{mutant: k.Mutant.Name, size: len(v.Causes)}
	var marks []int
	for i := range rec.Events {
		e := &rec.Events[i]
		if e.Step > v.Step {
			break
		}
		if e.Kind == history.MutantActed {
			marks = append(marks, i)
		}
	}
	for n, at := range marks {
		found := slices.Contains(v.Causes, rec.Events[at])
		f.any = f.any || found
		f.first = f.first || n == 0 && found
	}
	f.blind = blind(rec, v, marks)
	return f
}

// sameViolation returns the record's violation that equals a violation of the same run, or nil if there is
// none.
func sameViolation(rec *verdict.Record, of *verdict.Violation) *verdict.Violation {
	for i := range rec.Violations {
		if v := &rec.Violations[i]; v.Invariant == of.Invariant && v.Step == of.Step && v.Message == of.Message {
			return v
		}
	}
	return nil
}

// blind reports whether the causes, searched without the marks, contain an event next to an act.
func blind(rec *verdict.Record, v *verdict.Violation, marks []int) bool {
	found, _ := Causes(unmarked(rec), v)
	for _, at := range marks {
		for _, e := range beside(rec.Events, at) {
			if slices.Contains(found, rec.Events[e]) {
				return true
			}
		}
	}
	return false
}

// beside returns the events next to an act: the last event before it and the first event after it that belong
// to its process, or to its execution at its step.
func beside(events []history.Event, at int) (found []int) {
	mark := &events[at]
	near := func(e *history.Event) bool {
		return e.Kind != history.Logged && e.Kind != history.Hinted && e.Kind != history.MutantActed && (e.Process == mark.Process || e.Step == mark.Step && e.Execution == mark.Execution && e.Execution != 0)
	}
	for i := at - 1; i >= 0; i-- {
		if near(&events[i]) {
			found = append(found, i)
			break
		}
	}
	for i := at + 1; i < len(events); i++ {
		if near(&events[i]) {
			return append(found, i)
		}
	}
	return found
}

// unmarked returns a record without the marks of the mutant.
func unmarked(rec *verdict.Record) *verdict.Record {
	plain := *rec
	plain.Events, plain.Parents = nil, nil
	now := make([]int32, len(rec.Events))
	for i := range rec.Events {
		var parents []int32
		for _, p := range rec.Parents[i] {
			if before := rec.Parents[p]; rec.Events[p].Kind != history.MutantActed {
				parents = append(parents, now[p])
			} else {
				for _, q := range before {
					for rec.Events[q].Kind == history.MutantActed && len(rec.Parents[q]) > 0 {
						q = rec.Parents[q][0]
					}
					parents = append(parents, now[q])
				}
			}
		}
		if now[i] = int32(len(plain.Events)); rec.Events[i].Kind == history.MutantActed {
			continue
		}
		plain.Events, plain.Parents = append(plain.Events, rec.Events[i]), append(plain.Parents, parents)
	}
	return &plain
}

// Measuring all mutants takes as long as the hunt, which other tests of this package share, so `make test`
// measures a sample, and `go test ./sim/explore` measures all of them.
func TestCausesContainMutantsActs(t *testing.T) {
	var all []*finding
	for _, k := range sampledKills(t) {
		if !k.Killed() {
			continue // TestEveryMutantIsKilled reports this
		}
		if f := measured(k); f != nil {
			all = append(all, f)
			if !f.first {
				t.Logf("%s: the first act is missing", f.mutant)
			}
		} else {
			t.Errorf("%s: the record of %s, seed %d, does not have its violation", k.Mutant.Name, k.Target, k.Seed)
		}
	}
	s := summed(all)
	t.Log(s)
	if s.median > 25 || 100*s.first < 95*s.mutants || 100*s.blind < 60*s.mutants {
		t.Errorf("want a median of at most 25 events, the first act for at least 95 %% of the mutants, and 60 %% without marks: %s", s)
	}
}

// sum sums up the findings of all mutants.
type sum struct {
	mutants, median, most, first, any, blind int
}

func summed(all []*finding) (s sum) {
	var sizes []int
	for _, f := range all {
		s.mutants++
		sizes = append(sizes, f.size)
		s.most = max(s.most, f.size)
		for _, c := range []struct {
			is   bool
			into *int
		}{{f.first, &s.first}, {f.any, &s.any}, {f.blind, &s.blind}} {
			if c.is {
				*c.into++
			}
		}
	}
	if s.mutants > 0 {
		s.median = median(sizes)
	}
	return s
}

// String returns the sum in one line.
func (s sum) String() string {
	share := func(n int) string { return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(1, s.mutants))) }
	return fmt.Sprintf("%d mutants: median %d events, at most %d; the first act in %s, any act in %s, without marks %s",
		s.mutants, s.median, s.most, share(s.first), share(s.any), share(s.blind))
}
