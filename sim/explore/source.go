package explore

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// sourceSteps bounds the steps of a run of a source mutant. The longest run of the library has a tenth of
// it, so a mutant whose run is longer spins or never ends.
const sourceSteps = 3_000_000

// SourceMutant runs the targets with the core that this process was built with, plain and varied, until
// something fails. The order is: all plain runs of seed 1, all varied ones of seed 1, then seed 2. The
// original core's runs (truth) show whether the mutant makes any difference. If truth is nil, this is the
// original core: its runs are returned, and the plain ones must pass. A varied run that the original core
// fails is skipped, because it can't judge a mutant.
//
// It passes the result to done, once and from any goroutine, before it returns. A run that takes longer
// than patience in real time can't be stopped, only abandoned: done receives the result score.Hang while
// the run continues, and SourceMutant returns only if the run ends after all. The limit includes the end of
// the run, when every remaining task must exit.
func SourceMutant(targets []Target, size score.Size, truth *score.Truth, patience time.Duration, done func(*score.Result)) *score.Truth {
	return sourceMutant(runOnce, targets, size, truth, patience, done)
}

func sourceMutant(run runOne, targets []Target, size score.Size, truth *score.Truth, patience time.Duration, done func(*score.Result)) *score.Truth {
	o := Options{Seeds: size.Seeds, Varied: size.Varied}
	s := &sourceRun{run: run, targets: append(targets[:len(targets):len(targets)], Varied(targets)...), truth: truth}
	s.own = &score.Truth{Size: size, Targets: map[string]*score.Lines{}}
	var reported sync.Once
	report := func(r *score.Result) { reported.Do(func() { done(r) }) }
	hangs := func(t Target, seed uint64) {
		report(&score.Result{
			By: score.Hang, Target: t.String(), Seed: seed, Reached: true, Message: fmt.Sprintf("the run did not end within %v of real time", patience),
		})
	}
	for _, t := range s.targets {
		s.sweeps = append(s.sweeps, newScenario(t, 0, o))
		s.own.Targets[t.String()] = &score.Lines{}
	}
	for round := range max(size.Seeds, size.Varied) {
		for i, t := range s.targets {
			seed := uint64(round) + 1 //nolint:gosec // counted from 0
			if round >= t.seedCount(o) || truth != nil && slices.Contains(truth.Targets[t.String()].Fails, seed) {
				continue
			}
			limit := time.AfterFunc(patience, func() { hangs(t, seed) })
			killed := s.killsMutant(i, seed)
			if !limit.Stop() {
				hangs(t, seed) // wait for the timer's call if it is in progress
				return s.own
			}
			if killed {
				report(&s.out)
				return s.own
			}
		}
	}
	s.checkLostSituations()
	report(&s.out)
	return s.own
}

// runOne runs one seed; tests replace it.
type runOne func(Target, sim.Options) *sim.Result

// sourceRun is the state of the runs of one source mutant.
type sourceRun struct {
	run     runOne
	targets []Target
	truth   *score.Truth
	own     *score.Truth
	sweeps  []*verdict.Scenario
	out     score.Result
}

// killsMutant runs one seed of a target, and reports whether it kills the mutant.
func (s *sourceRun) killsMutant(i int, seed uint64) bool {
	t := s.targets[i]
	o := sim.Options{Seed: seed}
	if !t.Varied { // a varied run is stopped much earlier
		o.MaxSteps = sourceSteps
	}
	r := s.run(t, o)
	s.out.Runs++
	s.sweeps[i].Add(&r.Run)
	hash := fmt.Sprintf("%016x", r.Hash)
	lines := s.own.Targets[t.String()]
	lines.Hashes = append(lines.Hashes, hash)
	if s.truth != nil && s.truth.Targets[t.String()].Hashes[seed-1] != hash {
		s.out.Reached = true
	}
	by, message := describeFailure(&r.Run)
	switch {
	case by == "":
		return false
	case s.truth == nil && t.Varied:
		lines.Fails = append(lines.Fails, seed)
		return false
	}
	s.out.By, s.out.Message, s.out.Target, s.out.Seed, s.out.Reached = by, message, t.String(), seed, true
	return true
}

// describeFailure describes a failed run by its first violation; empty for a passing run.
func describeFailure(r *verdict.Run) (by, message string) {
	switch failures := r.Failures(); {
	case r.Panic != "":
		first, _, _ := strings.Cut(r.Panic, "\n")
		return score.Panic, first
	case len(failures) > 0 && failures[0].Invariant > 0:
		return fmt.Sprintf("invariant %d", failures[0].Invariant), failures[0].Message
	case len(failures) > 0:
		return score.Expectation, failures[0].Name + ": " + failures[0].Message
	case r.GaveUp != "":
		first, _, _ := strings.Cut(r.GaveUp, "\n")
		return score.GaveUp, first
	}
	return "", ""
}

// checkLostSituations checks, with the seeds of a sweep, for what the original core reaches and the mutant
// does not: situations, faults with an effect, work that completes before and after the faults. A varied
// scenario promises none of these.
func (s *sourceRun) checkLostSituations() {
	for i, t := range s.targets {
		if t.Varied {
			continue
		}
		s.sweeps[i].Judge()
		name := t.String()
		s.own.Targets[name].Passes = s.sweeps[i].Verdict == verdict.Pass
		if s.truth == nil || s.own.Size.Seeds < verdict.SweepSeeds || s.out.Killed() {
			continue
		}
		if s.truth.Targets[name].Passes && !s.own.Targets[name].Passes {
			s.out.By, s.out.Target, s.out.Message = score.Situation, name, strings.Join(s.sweeps[i].Why, "; ")
		}
	}
}
