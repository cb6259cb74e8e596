package discovery

import (
	"maps"
	"math"

	"gonum.org/v1/gonum/mathext"
)

// MinRuns is the minimum number of runs for an extrapolation.
const MinRuns = 10

// Summary holds what an estimate needs to know about Counts.
type Summary struct {
	Runs, Distinct int
	// Once and Twice are the numbers of situations seen in exactly one and in exactly two runs.
	Once, Twice int
	// Seen is the sum, over all situations, of the number of runs in which the situation was seen.
	Seen int
	// Capped reports whether there were more than Limit situations, so every number here is a lower bound.
	Capped bool
}

// Summary summarizes the counts.
func (c *Counts) Summary() Summary {
	kept := Counts{c.runs, maps.Clone(c.seen), c.capped}
	kept.cutToLimit()
	s := Summary{Runs: kept.runs, Distinct: len(kept.seen), Capped: kept.capped}
	for _, runs := range kept.seen {
		s.Seen += runs
		switch runs {
		case 1:
			s.Once++
		case 2:
			s.Twice++
		}
	}
	return s
}

// Extrapolates reports whether there are enough runs for an extrapolation.
func (s Summary) Extrapolates() bool { return s.Runs >= MinRuns }

// unseenEstimate returns the Chao2 estimate of the number of situations that exist but that no run has seen:
// Chao, Biometrics 43 (1987) 783–791. If no situation was seen in exactly two runs, it uses the
// bias-corrected form.
func (s Summary) unseenEstimate() float64 {
	once, twice, share := float64(s.Once), float64(s.Twice), float64(s.Runs-1)/float64(s.Runs)
	if twice > 0 {
		return share * once * once / (2 * twice)
	}
	return share * once * max(0, once-1) / 2
}

// More returns the expected number of new situations in a number of further runs: Chao et al., Ecological
// Monographs 84 (2014) 45–67, equation 12 for incidence data. It is reliable up to the current number of
// runs; beyond that it is too low.
func (s Summary) More(runs int) float64 {
	once, rest := float64(s.Once), 0.0
	if s.Runs > 0 {
		rest = s.unseenEstimate()
	}
	if rest == 0 {
		return 0
	}
	return -rest * math.Expm1(float64(runs)*math.Log1p(-once/(float64(s.Runs)*rest+once)))
}

// Coverage returns the share of a run's situations that other runs have seen: Good's estimate for incidence
// data. It is 0 if nothing was seen.
func (s Summary) Coverage() float64 {
	if s.Seen == 0 {
		return 0
	}
	return 1 - float64(s.Once)/float64(s.Seen)
}

// FailsAtMost returns the upper bound, with 95 % confidence, on the share of runs that fail, if this many
// failed. It is the upper end of the one-sided exact interval of Clopper and Pearson, Biometrika 26 (1934)
// 404–413. If none failed, it is 1 − 0.05^(1/runs), which is almost 3/runs, the rule of three. It also holds
// for the mean over several scenarios, unless the number of runs of one depends on the results of others:
// Hoeffding, Annals of Mathematical Statistics 27 (1956) 713–721.
func FailsAtMost(failed, runs int) float64 {
	if failed >= runs {
		return 1
	}
	return mathext.InvRegIncBeta(float64(failed+1), float64(runs-failed), 0.95)
}
