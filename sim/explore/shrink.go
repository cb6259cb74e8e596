package explore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// Shrunk is the smallest scenario found that still fails like the original.
type Shrunk struct {
	// Target is the small scenario. Seed is a seed that fails in it.
	Target Target
	Seed   uint64
	// File is the small scenario as a file.
	File []byte
	// Invariant is the violated invariant; 0 for an expectation of the scenario or a panic.
	Invariant int
	// Faults, Executions and Workers count what is left in the small scenario. Runs and Steps are the cost of
	// the search.
	Faults, Executions, Workers int
	Runs                        int
	Steps                       uint64
}

// The search is bounded by work and not by time, so that it ends with the same file on any machine.
const (
	// shrinkSteps bounds the total kernel steps of all runs: about five seconds.
	shrinkSteps = 12_000_000
	// shrinkSeeds is the number of seeds that a candidate is tried with besides the seed that failed last,
	// because removing something shifts the times of everything else.
	shrinkSeeds = 40
)

// ErrNothingToShrink means that the run to shrink does not fail.
var ErrNothingToShrink = errors.New("the run does not fail, so there is nothing to shrink")

// ErrNotKept means that the run to shrink fails, but no longer when its scenario is reduced to the profile of
// the run. No seed was found in which it fails in the same way and, if there is a mutant, passes without it.
type ErrNotKept struct {
	Target Target
	Seed   uint64
	Mutant *mutant.Mutant
	// Tried is the last of the other seeds, counted from 1, that were tried; 0 if none were.
	Tried uint64
}

// Error implements error.
func (e *ErrNotKept) Error() string {
	const cut = "%s fails in seed %d, but cut down to this one profile it was not found to fail in the same way%s; tried: seed %d%s"
	passes, tried := "", ""
	if e.Mutant != nil {
		passes = " and to pass without the mutant " + e.Mutant.Name
	}
	if e.Tried > 0 {
		tried = fmt.Sprintf(" and seeds 1 to %d", e.Tried)
	}
	return fmt.Sprintf(cut, e.Target, e.Seed, passes, e.Seed, tried)
}

// shrinker looks for smaller scenarios that fail in the same way.
type shrinker struct {
	ctx       context.Context
	mutant    *mutant.Mutant
	invariant int
	name      string // name of the violation
	expects   string // the scenario's expectation, if that is violated
	target    Target
	// from is the requested target, which may be varied.
	from Target
	file string

	doc  *scenario.Document
	best *Shrunk
	// tried is the number of seeds, from 1, in which the last candidate has run.
	tried uint64
}

// Shrink removes faults, settings, executions, workers and executors from a failing run, and narrows the
// rest. It keeps a change if the same invariant or expectation still fails with the mutant and nothing
// fails without it. Of a varied target, it shrinks the variant that the seed draws. file is the path of the
// result and determines its name. The result depends only on the arguments; if ctx ends, it is the smallest
// one so far. The error is ErrNothingToShrink if the run does not fail, and an *ErrNotKept if its scenario,
// reduced to one profile, does not.
func Shrink(ctx context.Context, t Target, seed uint64, f *mutant.Mutant, file string) (*Shrunk, error) {
	from := t
	t, _, err := t.Plain(seed)
	if err != nil {
		return nil, err
	}
	r := runOnce(t, sim.Options{Seed: seed, Mutant: f, Interrupted: interruptOn(ctx)})
	if r.Interrupted {
		return nil, ctx.Err()
	}
	failures := r.Failures()
	if len(failures) == 0 {
		return nil, fmt.Errorf("%s, seed %d: %w", from, seed, ErrNothingToShrink)
	}
	v := failures[0]
	for i := range failures {
		if f != nil && failures[i].Invariant == f.Expected {
			v = failures[i]
		}
	}
	doc, err := scenario.Edit(t.Scenario)
	if err != nil {
		return nil, err
	}
	s := &shrinker{ctx: ctx, mutant: f, invariant: v.Invariant, name: v.Name, expects: v.Expects(), target: t, from: from, file: file, doc: doc}
	original := t.Scenario.Name
	if from.Varied {
		original = "the varied run of " + original
	}
	about := fmt.Sprintf("The smallest scenario found that still fails like %s, seed %d: %s", original, seed, v.Statement)
	doc.Keep(fileScenario(file), about, string(t.Profile))
	s.best = &Shrunk{Seed: seed, Invariant: v.Invariant, Runs: 1, Steps: r.Steps}
	if judged := doc.Clone(); v.Invariant != 0 {
		judged.Judge(v.Invariant)
		s.tryDocument(judged)
	}
	if s.best.Target.Scenario == nil && !s.tryDocument(doc) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if _, err := doc.Parse(t.Scenario.Name + ".yaml"); err != nil {
			return nil, fmt.Errorf("%s can't be cut down to its profile: %w", from, err)
		}
		return nil, &ErrNotKept{Target: from, Seed: seed, Mutant: f, Tried: s.tried}
	}
	s.runPasses()
	s.writeResult()
	return s.best, nil
}

// notInNames matches characters that are allowed in file names but not in scenario names.
var notInNames = regexp.MustCompile(`[^a-z0-9]+`) //nolint:gochecknoglobals // a constant form

// fileScenario returns the name of the scenario in a file.
func fileScenario(file string) string {
	base := strings.ToLower(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	if name := strings.Trim(notInNames.ReplaceAllString(base, "-"), "-"); name != "" {
		return name
	}
	return "shrunk"
}

// isOver reports whether the search must end: it was interrupted, or its budget is spent.
func (s *shrinker) isOver() bool { return s.ctx.Err() != nil || s.best.Steps > shrinkSteps }

// runPasses repeats all passes, each from the coarsest change to the finest, until none changes anything.
func (s *shrinker) runPasses() {
	for changed := true; changed && !s.isOver(); {
		changed = false
		for _, pass := range []func() bool{s.dropFaults, s.dropLoads, s.dropSettings, s.plainWork, s.evenRuns, s.lessWork, s.dropProcesses, s.narrowFaults} {
			changed = pass() || changed
		}
	}
}

// tryDocument keeps a document if it fails like the original, in the seed of the best document so far or in
// one of the first seeds.
func (s *shrinker) tryDocument(d *scenario.Document) bool {
	candidate, err := d.Parse(s.target.Scenario.Name + ".yaml")
	if err != nil {
		return false
	}
	t := Target{Scenario: candidate, Profile: s.target.Profile}
	s.tried = 0
	if s.failsLikeOriginal(t, s.best.Seed) {
		return s.keepBest(d, t, s.best.Seed)
	}
	for seed := uint64(1); seed <= shrinkSeeds && !s.isOver(); seed++ {
		if seed != s.best.Seed && s.failsLikeOriginal(t, seed) {
			return s.keepBest(d, t, seed)
		}
		s.tried = seed
	}
	return false
}

func (s *shrinker) keepBest(d *scenario.Document, t Target, seed uint64) bool {
	s.doc, s.best.Target, s.best.Seed = d, t, seed
	return true
}

// failsLikeOriginal reports whether the same rule is violated and whether the mutant, if any, causes it.
func (s *shrinker) failsLikeOriginal(t Target, seed uint64) bool {
	if !s.breaksSameRule(t, seed, s.mutant) {
		return false
	}
	if s.mutant == nil {
		return true
	}
	r := runOnce(t, sim.Options{Seed: seed, Interrupted: interruptOn(s.ctx)})
	s.best.Runs++
	s.best.Steps += r.Steps
	return len(r.Failures()) == 0 && r.GaveUp == ""
}

func (s *shrinker) breaksSameRule(t Target, seed uint64, f *mutant.Mutant) bool {
	r := runOnce(t, sim.Options{Seed: seed, Mutant: f, Interrupted: interruptOn(s.ctx)})
	s.best.Runs++
	s.best.Steps += r.Steps
	for _, v := range r.Failures() {
		if v.Invariant == s.invariant && v.Name == s.name && v.Expects() == s.expects {
			return true
		}
	}
	return false
}

func (s *shrinker) bestScenario() *scenario.Scenario { return s.best.Target.Scenario }

// editedCopy returns a copy of the best document with a change.
func (s *shrinker) editedCopy(change func(d *scenario.Document)) *scenario.Document {
	d := s.doc.Clone()
	change(d)
	return d
}

// dropFaults removes half of the faults, a quarter and so on, down to single faults.
func (s *shrinker) dropFaults() (changed bool) {
	return dropHalves(func() int { return len(s.bestScenario().Faults) }, s.isOver, func(i, n int) bool {
		return s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.DropFaults(i, n) }))
	})
}

func (s *shrinker) dropLoads() (changed bool) {
	for i := len(s.bestScenario().Cancels) - 1; i >= 0 && !s.isOver(); i-- {
		changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.DropCancel(i) })) || changed
	}
	for i := len(s.bestScenario().Workload) - 1; i >= 0 && len(s.bestScenario().Workload) > 1 && !s.isOver(); i-- {
		changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) {
			d.DropLoad(i)
			d.DropUnusedActions()
		})) || changed
	}
	return changed
}

// evenRuns makes every run of an action as long as its longest run, so that a fault has a run to affect.
func (s *shrinker) evenRuns() (changed bool) {
	for i := range s.bestScenario().Actions {
		if a := &s.bestScenario().Actions[i]; a.TakesMin != a.TakesMax && !s.isOver() {
			changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetTakes(a.Ref, a.TakesMax) })) || changed
		}
	}
	return changed
}

// lessWork finds a small number of executions for each load with which the scenario still fails. It tries
// numbers from one upwards, in growing steps.
func (s *shrinker) lessWork() (changed bool) {
	for i := range s.bestScenario().Workload {
		count := s.bestScenario().Workload[i].Count
		for n := 1; n < count && !s.isOver(); n = nextCount(n) {
			if s.keepFewer(i, n) {
				changed = true
				break
			}
		}
	}
	return changed
}

// nextCount returns the number of executions to try after n were not enough.
func nextCount(n int) int {
	if n < 4 {
		return n + 1
	}
	return n * 3 / 2
}

// keepFewer keeps n executions of a load: the first n, later ones, or n around one of the faults, because a
// late fault needs work to affect.
func (s *shrinker) keepFewer(i, n int) bool {
	load := s.bestScenario().Workload[i]
	if s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetCount(i, n) })) {
		return true
	}
	for _, from := range s.candidateStarts(load, n) {
		if from <= 0 || from == load.From || s.isOver() {
			continue
		}
		if s.tryDocument(s.editedCopy(func(d *scenario.Document) {
			d.SetCount(i, n)
			d.SetFrom(i, from.Truncate(time.Millisecond))
		})) {
			return true
		}
	}
	return false
}

// candidateStarts returns times at which n executions of a load could begin: at the end or in the middle of
// the load, right before a fault, or right after it has begun.
func (s *shrinker) candidateStarts(load scenario.Load, n int) []time.Duration {
	rest := time.Duration(load.Count - n)
	moments := []time.Duration{load.From + rest*load.Every, load.From + rest/2*load.Every}
	for i := range s.bestScenario().Faults {
		if f := &s.bestScenario().Faults[i]; f.When.After == "" {
			moments = append(moments, f.When.Min-time.Duration(n)*load.Every, f.When.Max-time.Second, f.When.Max+time.Second)
		}
	}
	return moments
}

func (s *shrinker) dropProcesses() (changed bool) {
	names := s.bestScenario().Cluster.WorkerNames()
	slices.Reverse(names)
	for _, name := range names {
		if s.isOver() {
			return changed
		}
		changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.DropWorker(name) })) || changed
	}
	for n := 1; n < s.bestScenario().Cluster.Executors && !s.isOver(); n++ {
		changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetExecutors(n) })) || changed
	}
	return changed
}

// narrowFaults pins each fault to the time at which it began, and shortens it.
func (s *shrinker) narrowFaults() (changed bool) {
	for i := range s.bestScenario().Faults {
		if f := s.bestScenario().Faults[i]; f.When.After == "" && f.When.Min != f.When.Max && !s.isOver() {
			at := s.faultInterval(f.Name).Begin.Truncate(time.Millisecond)
			changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetAt(i, at) })) || changed
		}
		if f := s.bestScenario().Faults[i]; f.ForMin > 0 && !s.isOver() {
			interval := s.faultInterval(f.Name)
			if lasted := (interval.End - interval.Begin).Truncate(time.Millisecond); lasted > 0 {
				changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetFor(i, lasted) })) || changed
			}
		}
		for f := s.bestScenario().Faults[i]; f.For > time.Second && !s.isOver(); f = s.bestScenario().Faults[i] {
			half := (f.For / 2).Truncate(time.Millisecond)
			if !s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.SetFor(i, half) })) {
				break
			}
			changed = true
		}
	}
	return changed
}

// faultInterval returns when a fault began and ended in the best run, or zeros if it did not begin.
func (s *shrinker) faultInterval(name string) verdict.FaultInterval {
	r := runOnce(s.best.Target, sim.Options{Seed: s.best.Seed, Mutant: s.mutant, Interrupted: interruptOn(s.ctx)})
	s.best.Runs++
	s.best.Steps += r.Steps
	for _, interval := range r.FaultIntervals {
		if interval.Fault == name {
			return interval
		}
	}
	return verdict.FaultInterval{}
}

// writeResult fills in the file and the counts of the result.
func (s *shrinker) writeResult() {
	b := s.best
	regression := scenario.Regression{Seed: b.Seed, Invariant: b.Invariant}
	if s.mutant != nil {
		regression.Mutant = s.mutant.Name
	}
	s.doc.Regress(regression)
	s.bestScenario().File = s.file
	comment := fmt.Sprintf("Shrunk from %s. Reproduce: %s", s.from, b.Target.Reproduce(b.Seed, s.mutant))
	b.File = s.doc.Bytes(s.file, comment)
	b.Faults, b.Workers = len(s.bestScenario().Faults), len(s.bestScenario().Cluster.Workers)
	b.Executions = s.bestScenario().Submissions()
}
