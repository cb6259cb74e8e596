package verdict

import (
	"fmt"
	"slices"
	"time"
)

// Merge adds the result of another share of the same sweep. Judge then reaches the same verdict as for one
// result with all runs. Shares may be merged in any order. If a setting differs that must not, Merge returns
// an error that names it and leaves s unchanged.
func (s *Scenario) Merge(o *Scenario) error {
	if err := s.checkMergeable(o); err != nil {
		return err
	}
	// This needs the counts before the merge, so it comes first.
	s.mergeFailures(o)
	s.mergeGaveUp(o)
	if o.Seeds > 0 && (s.Seeds == 0 || o.FirstSeed < s.FirstSeed) {
		s.FirstSeed = o.FirstSeed
	}
	s.LastSeed = max(s.LastSeed, o.LastSeed)
	s.Seeds += o.Seeds
	s.tally.Want.Seeds += o.tally.Want.Seeds
	s.addFaults(o.Faults)
	s.Sometimes = addCounts(s.Sometimes, o.Sometimes)
	s.mergeNear(o)
	s.Texts = addCounts(s.Texts, o.Texts)
	for status := range o.Chains {
		s.Chains[status] += o.Chains[status]
		s.Rows[status] += o.Rows[status]
	}
	if s.Detection == nil {
		s.Detection = make(map[string]time.Duration)
	}
	for name, took := range o.Detection {
		s.Detection[name] = max(s.Detection[name], took)
	}
	s.CompletedBefore += o.CompletedBefore
	s.CompletedAfter += o.CompletedAfter
	s.Cut += o.Cut
	s.Steps += o.Steps
	s.Virtual += o.Virtual
	s.Hash += o.Hash
	s.Discovery.Merge(&o.Discovery)
	s.Wall += o.Wall
	return nil
}

// checkMergeable returns an error if the results differ in a setting that must be the same in all shares.
func (s *Scenario) checkMergeable(o *Scenario) error {
	a, b := s.tally.Want, o.tally.Want
	for _, f := range []struct {
		what string
		a, b any
	}{
		{"the name", s.Name, o.Name},
		{"the description", s.About, o.About},
		{"the world", s.World, o.World},
		{"the strategy", s.Strategy, o.Strategy},
		{"the profile", s.Profile, o.Profile},
		{"the mutant", s.Mutant, o.Mutant},
		{"the digest", s.Digest, o.Digest},
		{"what must be seen", fmt.Sprintf("%q, %q", a.Sometimes, a.Texts), fmt.Sprintf("%q, %q", b.Sometimes, b.Texts)},
		{"whether there are faults", a.Faults, b.Faults},
		{"whether it is a share", a.Share, b.Share},
	} {
		if f.a != f.b {
			return fmt.Errorf("two results of %s (%s) can't be added up: %s is %v in one and %v in the other", s.Name, s.Profile, f.what, f.a, f.b)
		}
	}
	return nil
}

func (s *Scenario) mergeFailures(o *Scenario) {
	if o.Failing > 0 && (s.Failing == 0 || o.FirstFailing < s.FirstFailing) {
		s.FirstFailing = o.FirstFailing
		s.tally.Unrecorded, s.tally.UnrecordedSeed = o.tally.Unrecorded, o.tally.UnrecordedSeed
	}
	s.Failing += o.Failing
	s.Panics += o.Panics
	for _, seed := range o.FailedSeeds {
		s.FailedSeeds = addSeed(s.FailedSeeds, seed)
	}
	for _, c := range o.Causes {
		s.Causes = addCause(s.Causes, c)
	}
	for i := range o.Violations {
		s.keepViolation(&o.Violations[i])
	}
	if s.tally.Broken == nil {
		s.tally.Broken = make(map[string]*breach)
	}
	for rule, theirs := range o.tally.Broken {
		if ours := s.tally.Broken[rule]; ours != nil {
			ours.Seeds += theirs.Seeds
			ours.First = min(ours.First, theirs.First)
			continue
		}
		s.tally.Broken[rule] = &breach{theirs.Seeds, theirs.First}
	}
}

func (s *Scenario) mergeGaveUp(o *Scenario) {
	if o.GaveUp > 0 && (s.GaveUp == 0 || o.tally.GaveUpSeed < s.tally.GaveUpSeed) {
		s.tally.GaveUp, s.tally.GaveUpSeed = o.tally.GaveUp, o.tally.GaveUpSeed
	}
	s.GaveUp += o.GaveUp
}

func addCounts(into, other map[string]int) map[string]int {
	if into == nil {
		into = make(map[string]int)
	}
	for name, n := range other {
		into[name] += n
	}
	return into
}

// Merge adds another share with the same scenarios in the same order. Whole judges the sum. After an error, s
// is unusable.
func (s *Sweep) Merge(o *Sweep) error {
	switch {
	case len(s.Scenarios) != len(o.Scenarios):
		return fmt.Errorf("one share has %s, the other share %d", countPhrase(len(s.Scenarios), "scenario"), len(o.Scenarios))
	case s.Go != o.Go:
		return fmt.Errorf("one share was run with %s, the other share with %s", s.Go, o.Go)
	case s.Commit != o.Commit:
		return fmt.Errorf("one share is of commit %s, the other share of %s", s.Commit, o.Commit)
	case len(s.Agreement)+len(o.Agreement) > 0:
		return fmt.Errorf("comparisons with the live world can't be merged")
	}
	for i, sc := range s.Scenarios {
		if err := sc.Merge(o.Scenarios[i]); err != nil {
			return err
		}
	}
	for _, note := range o.Notes {
		if !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, note)
		}
	}
	s.Interrupted = s.Interrupted || o.Interrupted
	var err error
	s.Matrix, err = s.Matrix.mergeShare(o.Matrix)
	return err
}

// Whole judges a sweep merged from its shares. seeds is the requested number of seeds for each scenario, and
// varied the number for each varied scenario. missing names the missing shares, empty for none.
func (s *Sweep) Whole(seeds, varied int, missing string) {
	for _, sc := range s.Scenarios {
		sc.tally.Want.Seeds, sc.tally.Want.Share = seeds, false
		if sc.Strategy == Varied {
			sc.tally.Want.Seeds = varied
		}
	}
	if missing != "" {
		s.Interrupted = true
		s.Notes = append(s.Notes, "Not everything was merged: without share "+missing+" this proves less than was asked for.")
	}
	s.Judge()
}

// mergeShare adds the pairs of another share. If a share, interrupted early, has no matrix, the sum has none.
func (m *Matrix) mergeShare(o *Matrix) (*Matrix, error) {
	if m == nil || o == nil {
		return nil, nil
	}
	if !slices.Equal(m.Mutants, o.Mutants) || !slices.Equal(m.Scenarios, o.Scenarios) || m.Seeds != o.Seeds || len(m.Runs) != len(o.Runs) {
		return nil, fmt.Errorf("the tables of mutants have different mutants, scenarios or seeds")
	}
	for i := range m.Runs {
		if len(m.Runs[i]) != len(o.Runs[i]) {
			return nil, fmt.Errorf("the tables of mutants have different scenarios")
		}
		for j := range m.Runs[i] {
			m.Runs[i][j] = max(m.Runs[i][j], o.Runs[i][j]) // only one share ran each pair
		}
	}
	return m, nil
}

// Stored is a Scenario as stored in a file: with the tally for Judge, but without Wall, the verdict, and each
// violation's Missed, Causes and Past.
type Stored struct {
	Scenario Scenario `json:"result"`
	Tally    tally    `json:"tally"`
}

// Store returns the result in the form that is stored in a file.
func (s *Scenario) Store() Stored { return Stored{*s, s.tally} }

// Restore undoes Store. It returns an error for values that no run can produce.
func (st Stored) Restore() (*Scenario, error) {
	s := st.Scenario
	s.tally = st.Tally
	counts := []int{s.Seeds, s.Failing, s.CompletedBefore, s.CompletedAfter, s.GaveUp, s.Panics, s.tally.Want.Seeds}
	for _, f := range s.Faults {
		counts = append(counts, f.Planned, f.Fired, f.Touched)
	}
	for _, n := range counts {
		if n < 0 {
			return nil, fmt.Errorf("%s: a count is %d, below zero", s.Name, n)
		}
	}
	switch {
	case s.Failing > s.Seeds || s.GaveUp > s.Seeds || s.Panics > s.Seeds:
		return nil, fmt.Errorf("%s: more runs failed than there were", s.Name)
	case (s.Failing > 0) != (len(s.Violations) > 0):
		return nil, fmt.Errorf("%s: %s, and %s", s.Name, countPhrase(s.Failing, "failing run"), countPhrase(len(s.Violations), "violation"))
	case len(s.FailedSeeds) > min(s.Failing, keptSeeds) || len(s.Causes) > keptCauses:
		return nil, fmt.Errorf("%s: %s and %s of %s; at most %d and %d are kept", s.Name, countPhrase(len(s.FailedSeeds), "failed seed"),
			countPhrase(len(s.Causes), "cause"), countPhrase(s.Failing, "failing run"), keptSeeds, keptCauses)
	case !slices.IsSorted(s.FailedSeeds) || !slices.IsSortedFunc(s.Causes, compareCauses):
		return nil, fmt.Errorf("%s: its failed seeds or causes are out of order", s.Name)
	case len(s.Violations) > keptViolations*len(s.tally.Broken):
		return nil, fmt.Errorf("%s: %s of %s; at most %d are kept of each", s.Name, countPhrase(len(s.Violations), "violation"), countPhrase(len(s.tally.Broken), "rule"), keptViolations)
	}
	for rule, b := range s.tally.Broken {
		if b == nil {
			return nil, fmt.Errorf("%s: the counts of the broken rule %s are missing", s.Name, rule)
		}
	}
	for i := range s.Violations {
		if s.tally.Broken[s.Violations[i].Rule()] == nil {
			return nil, fmt.Errorf("%s: the rule of a violation is not among those that were broken: %s", s.Name, s.Violations[i].Rule())
		}
	}
	return &s, nil
}
