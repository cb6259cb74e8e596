package discovery

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// Frequency is the number of situations seen in exactly this number of runs.
type Frequency struct {
	Runs, Situations int
}

// Incidence is the part of Counts that an estimate needs: in the literature, incidence frequency
// counts.
type Incidence struct {
	Runs int
	// Seen is ascending by runs.
	Seen []Frequency
	// Clump is the mean size of the groups in which situations that only one run has seen arrive:
	// for such a situation, how many of them its run found. They come in groups, because one rare
	// moment takes an execution through several of them.
	Clump float64
	// Capped says that every figure is a lower bound.
	Capped bool
}

// Estimate is an estimated number of situations, with its 95 % interval.
type Estimate struct {
	Situations, Low, High float64
}

// MinRuns is the least number of runs for an extrapolation.
const MinRuns = 10

// usualClump is the clump assumed before anything is known of a scenario, a little above the mean
// over the library (3.2). usualWeight is the number of situations for which this assumption counts.
const (
	usualClump  = 4
	usualWeight = 5
)

// Incidence summarizes the counts.
func (c *Counts) Incidence() Incidence {
	i := Incidence{Runs: c.runs, Capped: c.Capped()}
	by, alone := make(map[int]int), make(map[uint64]int)
	for _, f := range c.kept() {
		s := c.seen[f]
		by[s.runs]++
		if s.runs == 1 {
			alone[s.first]++
		}
	}
	for runs, n := range by {
		i.Seen = append(i.Seen, Frequency{runs, n})
	}
	slices.SortFunc(i.Seen, func(a, b Frequency) int { return a.Runs - b.Runs })
	squares := usualClump * usualWeight
	for _, n := range alone {
		squares += n * n
	}
	i.Clump = float64(squares) / float64(by[1]+usualWeight)
	return i
}

// Distinct is the number of situations seen.
func (i *Incidence) Distinct() int {
	n := 0
	for _, f := range i.Seen {
		n += f.Situations
	}
	return n
}

// In is the number of situations seen in exactly this number of runs.
func (i *Incidence) In(runs int) int {
	for _, f := range i.Seen {
		if f.Runs == runs {
			return f.Situations
		}
	}
	return 0
}

// unseen is the Chao2 estimate of the number of situations that exist but that no run has seen,
// from the numbers of situations seen once and twice: Chao, Biometrics 43 (1987) 783–791. If none
// was seen twice, it uses the bias-corrected form.
func unseen(once, twice, runs float64) float64 {
	share := (runs - 1) / runs
	if twice > 0 {
		return share * once * once / (2 * twice)
	}
	return share * once * max(0, once-1) / 2
}

// more is the expected number of new situations in a number of added runs: Chao et al., Ecological
// Monographs 84 (2014) 45–67, equation 12 for incidence data.
func more(once, twice, runs, added float64) float64 {
	rest := unseen(once, twice, runs)
	if once <= 0 || rest == 0 {
		return 0
	}
	return -rest * math.Expm1(added*math.Log1p(-once/(runs*rest+once)))
}

// forecast is a future number: its mean, and the variance of that mean.
type forecast struct{ mean, variance float64 }

// forecast is the number of new situations in a number of added runs. The variance of the estimate
// follows by the delta method, with the counts as independent Poisson variables (which slightly
// overstates it). The future number also varies by itself, as a Poisson variable. Both grow with
// the clumps in which situations come.
func (i *Incidence) forecast(added int) forecast {
	once, twice, runs, t := float64(i.In(1)), float64(i.In(2)), float64(i.Runs), float64(added)
	mean := more(once, twice, runs, t)
	byOnce := (more(once+1, twice, runs, t) - more(max(0, once-1), twice, runs, t)) / 2
	byTwice := (more(once, twice+1, runs, t) - more(once, max(0, twice-1), runs, t)) / 2
	return forecast{mean, i.Clump * (1 + mean + byOnce*byOnce*once + byTwice*byTwice*twice)}
}

// interval holds the forecast number with a probability of 95 %. It uses the quantiles of a
// negative binomial variable: a Poisson variable whose rate has a gamma distribution. The half in
// its mean, and the 1 in the variance of forecast, are those of Jeffreys' prior, which also works
// if nothing was seen once: a few situations may come all the same.
func (f forecast) interval() (low, high float64) {
	mean, variance := f.mean+0.5, f.variance
	size := mean * mean / (variance - mean)
	quantile := func(q float64) float64 {
		k, step := 0.0, math.Exp2(math.Ceil(math.Log2(mean+20*math.Sqrt(variance))))
		for ; step >= 1; step /= 2 {
			if below := k + step; mathext.RegIncBeta(size, below, mean/variance) < q {
				k = below
			}
		}
		return k
	}
	return min(quantile(0.025), math.Round(f.mean)), max(quantile(0.975), math.Round(f.mean))
}

// Extrapolates says that there are enough runs for an extrapolation.
func (i *Incidence) Extrapolates() bool { return i.Runs >= MinRuns }

// More is the number of new situations that the added runs would show. According to the
// literature it is reliable up to the present number of runs; beyond that it is too low. The
// interval is for the number found, not for its mean.
func (i *Incidence) More(added int) Estimate {
	return MoreOf([]Incidence{*i}, func(*Incidence) int { return added })
}

// MoreOf is the sum over several scenarios, each with its own number of further runs. Scenarios
// that don't extrapolate are left out; without any the sum is zero.
func MoreOf(all []Incidence, added func(*Incidence) int) Estimate {
	var sum forecast
	some := false
	for n := range all {
		if i := &all[n]; i.Extrapolates() {
			f := i.forecast(added(i))
			sum.mean += f.mean
			sum.variance += f.variance
			some = true
		}
	}
	if !some {
		return Estimate{}
	}
	low, high := sum.interval()
	return Estimate{sum.mean, low, high}
}

// Expected is the mean number of situations that this many of the runs show, over every choice of
// them: Colwell et al., Journal of Plant Ecology 5 (2012) 3–21, equation 17. It needs only the
// counts, so it doesn't depend on the order of the runs. runs is from 0 to Runs.
func (i *Incidence) Expected(runs int) float64 {
	sum := 0.0
	for _, f := range i.Seen {
		// missed is the probability that none of the chosen runs is one that showed it.
		missed := 1.0
		for k := range f.Runs {
			missed *= max(0, float64(i.Runs-runs-k)) / float64(i.Runs-k)
			if missed < 1e-12 {
				missed = 0
				break
			}
		}
		sum += float64(f.Situations) * (1 - missed)
	}
	return sum
}

// Coverage is the share of a run's situations that earlier runs have seen: Chao and Jost, Ecology
// 93 (2012) 2533–2547, equation 4a in its form for incidence data. It is 0 if nothing was seen.
func (i *Incidence) Coverage() float64 {
	once, twice, runs, all := float64(i.In(1)), float64(i.In(2)), float64(i.Runs), 0.0
	for _, f := range i.Seen {
		all += float64(f.Runs) * float64(f.Situations)
	}
	if all == 0 || i.Runs < 2 {
		return 0
	}
	if once == 0 {
		return 1
	}
	if twice == 0 { // the bias-corrected form
		return 1 - once/all*(runs-1)*(once-1)/((runs-1)*(once-1)+2)
	}
	return 1 - once/all*(runs-1)*once/((runs-1)*once+2*twice)
}

// Point is the number of situations after a number of runs. Up to the present number of runs, Low
// and High equal the number itself.
type Point struct {
	Runs int
	Estimate
}

// Curve is the growth of the number of situations with the runs: in even steps up to the present
// number of runs and, if there are enough to extrapolate, in as many steps up to twice that number.
// steps is the greatest number of steps of each part.
func (i *Incidence) Curve(steps int) []Point {
	steps = min(steps, i.Runs)
	var points []Point
	for k := 1; k <= steps; k++ {
		m := i.Runs * k / steps
		e := i.Expected(m)
		points = append(points, Point{m, Estimate{e, e, e}})
	}
	seen := float64(i.Distinct())
	for k := 1; k <= steps && i.Extrapolates(); k++ {
		added := i.Runs * k / steps
		e := i.More(added)
		points = append(points, Point{i.Runs + added, Estimate{seen + e.Situations, seen + e.Low, seen + e.High}})
	}
	return points
}

// FailsAtMost is the share of runs that may fail, with 95 % confidence, if this many of them
// failed: the upper end of the one-sided exact interval of Clopper and Pearson, Biometrika 26
// (1934) 404–413. If none failed it is 1 − 0.05^(1/runs), which is almost 3/runs, the rule of
// three. It also holds for the mean over several scenarios, as long as the number of runs of each
// didn't depend on the results of the others: Hoeffding, Annals of Mathematical Statistics 27
// (1956) 713–721.
func FailsAtMost(failed, runs int) float64 {
	if failed >= runs {
		return 1
	}
	return mathext.InvRegIncBeta(float64(failed+1), float64(runs-failed), 0.95)
}
