package explore

import (
	"bytes"
	"fmt"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// Mismatch describes a seed whose repeated run had a different history.
type Mismatch struct {
	Hashes [2]uint64
	// Index is the position of the first different event, or -1 if the two recorded repetitions are equal.
	// Events are the two events there; nil for a history that has ended.
	Index  int
	Events [2]*history.Event
	// Records are the two repetitions.
	Records [2]*verdict.Record
}

// Double runs a seed twice and compares the histories. It returns nil if they are equal.
func Double(t Target, seed uint64, f *mutant.Mutant) *Mismatch {
	o := sim.Options{Seed: seed, Mutant: f}
	return compareRuns(runOnce, t, runOnce(t, o), o)
}

// compareRuns repeats a run and returns the difference, or nil if there is none.
func compareRuns(run func(Target, sim.Options) *sim.Result, t Target, first *sim.Result, o sim.Options) *Mismatch {
	second := run(t, o)
	if second.Interrupted {
		return nil
	}
	if first.Hash == second.Hash && first.Steps == second.Steps {
		return nil
	}
	m := &Mismatch{Hashes: [2]uint64{first.Hash, second.Hash}}
	for i := range m.Records {
		var kept events
		recorded := o
		recorded.Record = &kept
		r := run(t, recorded)
		if r.Interrupted {
			return nil
		}
		m.Records[i] = &verdict.Record{Run: r.Run, Events: kept, Workers: r.Workers(), FaultIntervals: r.FaultIntervals}
	}
	m.Index = firstDifference(m.Records[0].Events, m.Records[1].Events)
	for i, r := range m.Records {
		if m.Index >= 0 && m.Index < len(r.Events) {
			m.Events[i] = &r.Events[m.Index]
		}
	}
	return m
}

// firstDifference returns the index of the first event whose hashed fields differ, or -1 if there is none. Of
// events that are only for readers, it compares the kind.
func firstDifference(a, b []history.Event) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) {
			return i
		}
		if a[i].Kind.ForReaders() && a[i].Kind == b[i].Kind {
			continue
		}
		if !bytes.Equal(a[i].AppendBinary(nil), b[i].AppendBinary(nil)) {
			return i
		}
	}
	return -1
}

// checkDeterminism repeats a run, and reports a difference as a violation, because other findings of a
// nondeterministic run mean nothing.
func (s *sweep) checkDeterminism(t Target, r *sim.Result, o sim.Options) {
	m := compareRuns(s.o.run, t, r, o)
	if m == nil {
		return
	}
	v := verdict.Violation{
		Name: "determinism", Statement: "A seed has one history.", Seed: r.Seed,
		Message: fmt.Sprintf("two runs of the seed had the hashes %016x and %016x", m.Hashes[0], m.Hashes[1]),
	}
	if m.Index < 0 {
		v.Message += "; two more, which were recorded, agreed with each other"
		r.Violations = append(r.Violations, v)
		return
	}
	v.Message += fmt.Sprintf("; they differ from event %d on", m.Index+1)
	for i, e := range m.Events {
		v.Message += fmt.Sprintf("\n  run %d: %s", i+1, s.describeEvent(e, m.Records[i]))
		if e != nil {
			v.Step, v.At = e.Step, e.At
		}
	}
	r.Violations = append(r.Violations, v)
}

func (s *sweep) describeEvent(e *history.Event, r *verdict.Record) string {
	switch {
	case e == nil:
		return "is over"
	case s.o.Describe == nil:
		return fmt.Sprintf("step %d, %v, %v", e.Step, e.At, e.Kind)
	default:
		return fmt.Sprintf("step %d, %s", e.Step, s.o.Describe(e, r.Workers))
	}
}
