package explore

import (
	"fmt"
	"strings"
	"time"

	"handoff/chaos/mutant/source/score"
	"handoff/chaos/verdict"
	"handoff/sim"
)

// sourceSteps bounds a run of a source mutant. The longest of the library has a tenth of it; a mutant
// whose run is longer spins or works without end.
const sourceSteps = 3_000_000

// SourceMutant runs the targets with the core that this process was built with, seed by seed up to seeds,
// until something fails, and says in out by what. The true core's runs tell whether the mutant makes a
// difference at all; with truth nil this is the true core, whose runs are returned and have to pass.
//
// What broke is reported by done, once and from any goroutine: a run that takes longer than patience in
// real time can't be stopped, only left behind. That includes the end of the run, when every task that is
// still there has to leave.
func SourceMutant(targets []Target, from, seeds int, truth *score.Truth, patience time.Duration, done func(*score.Result)) *score.Truth {
	s := &sourced{targets: targets, truth: truth, own: &score.Truth{Seeds: seeds, Targets: map[string]*score.Lines{}}}
	hangs := func(t Target, seed uint64) {
		done(&score.Result{
			By: score.Hang, Target: t.String(), Seed: seed, Reached: true, Message: fmt.Sprintf("the run did not end within %v of real time", patience),
		})
	}
	for _, t := range targets {
		s.sweeps = append(s.sweeps, newScenario(t, 0, Options{Seeds: seeds}))
		s.own.Targets[t.String()] = &score.Lines{}
	}
	for seed := uint64(from); seed <= uint64(seeds); seed++ {
		for i, t := range targets {
			limit := time.AfterFunc(patience, func() { hangs(t, seed) })
			failed := s.run(i, seed)
			if limit.Stop() && failed {
				done(&s.out)
				return s.own
			}
		}
		s.out.Seeds = int(seed) //nolint:gosec // there are few
	}
	s.lost(from)
	done(&s.out)
	return s.own
}

// sourced is a source mutant under way.
type sourced struct {
	targets []Target
	truth   *score.Truth
	own     *score.Truth
	sweeps  []*verdict.Scenario
	out     score.Result
}

// run runs one seed of a target, and says that it kills the mutant.
func (s *sourced) run(i int, seed uint64) bool {
	t := s.targets[i]
	r := once(t, sim.Options{Seed: seed, MaxSteps: sourceSteps})
	s.out.Runs++
	s.sweeps[i].Add(&r.Run)
	hash := fmt.Sprintf("%016x", r.Hash)
	lines := s.own.Targets[t.String()]
	lines.Hashes = append(lines.Hashes, hash)
	if s.truth != nil && s.truth.Targets[t.String()].Hashes[seed-1] != hash {
		s.out.Reached = true
	}
	by, message := failure(&r.Run)
	if by == "" {
		return false
	}
	s.out.By, s.out.Message, s.out.Target, s.out.Seed, s.out.Reached = by, message, t.String(), seed, true
	return true
}

// failure names what is wrong with a run, by the first of its violations.
func failure(r *verdict.Run) (by, message string) {
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

// lost asks, at the size of a sweep, for what the true core reaches and the mutant does not: situations,
// faults that make a difference, work that completes before and after the faults.
func (s *sourced) lost(from int) {
	for i, t := range s.targets {
		s.sweeps[i].Judge()
		name := t.String()
		s.own.Targets[name].Passes = s.sweeps[i].Verdict == verdict.Pass
		if s.truth == nil || from > 1 || s.own.Seeds < verdict.SweepSeeds || s.out.Killed() {
			continue
		}
		if s.truth.Targets[name].Passes && !s.own.Targets[name].Passes {
			s.out.By, s.out.Target, s.out.Message = score.Situation, name, strings.Join(s.sweeps[i].Why, "; ")
		}
	}
}
