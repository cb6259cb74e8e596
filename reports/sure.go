package reports

import (
	"fmt"
	"math"
	"strconv"

	"handoff/chaos/verdict"
	"handoff/chaos/verdict/discovery"
)

// Sure says in one sentence what a sweep's verdict is worth: how many distinct situations its runs
// showed, how many more twice as many seeds would show, and how often a run may fail; empty if
// nothing was run. Situations are counted separately for each scenario and profile.
func Sure(s *verdict.Sweep) string { return sureText(s.Scenarios) }

func sureText(list []*verdict.Scenario) string {
	var all []discovery.Incidence
	distinct, once, runs, failed := 0, 0, 0, 0
	capped := false
	for _, sc := range list {
		i := sc.Discovery.Incidence()
		all = append(all, i)
		distinct, once, capped = distinct+i.Distinct(), once+i.In(1), capped || i.Capped
		failed += sc.Failing
		runs += judgedRuns(sc)
	}
	if runs < 2 {
		return ""
	}
	apart := ""
	if len(list) > 1 {
		apart = fmt.Sprintf(" (counted apart in each of %s results)", thousands(len(list)))
	}
	text := fmt.Sprintf("%s distinct %s%s, %s seen in one run only", thousands(distinct), noun(distinct, "situation"), apart, thousands(once))
	if capped {
		text = "at least " + text
	}
	return text + moreText(all) + "; " + failsText(failed, runs)
}

// judgedRuns is the number of runs that could have failed: those on which no checker gave up.
func judgedRuns(sc *verdict.Scenario) int { return max(sc.Failing, sc.Seeds-sc.GaveUp) }

// moreText says what twice as many seeds would show, if there are enough for an estimate.
func moreText(all []discovery.Incidence) string {
	few := true
	for n := range all {
		few = few && !all[n].Extrapolates()
	}
	if few {
		return fmt.Sprintf(" (too few seeds to say what more would show: %d are needed)", discovery.MinRuns)
	}
	e := discovery.MoreOf(all, sameAgain)
	return fmt.Sprintf("; doubling the seeds would show %s more (%s–%s)", figure(e.Situations), figure(e.Low), figure(e.High))
}

func sameAgain(i *discovery.Incidence) int { return i.Runs }

// failsText says what the number of failed runs, mostly none, implies for all possible runs.
func failsText(failed, runs int) string {
	most := discovery.FailsAtMost(failed, runs)
	than := "fewer than "
	if failed > 0 {
		than = "at most "
	}
	share := fmt.Sprintf("%.0f %%", math.Ceil(100*most))
	if most < 0.1 {
		share = "1 in " + thousands(twoDigits(1/most))
	}
	return fmt.Sprintf("%s of %s %s failed: %s%s with 95 %%", thousands(failed), thousands(runs), noun(runs, "run"), than, share)
}

// twoDigits rounds down to two significant digits, so that the figure is never too optimistic.
func twoDigits(x float64) int {
	unit := math.Pow10(max(0, int(math.Log10(x))-1))
	return int(math.Floor(x/unit) * unit)
}

// figure formats a number of situations for a sentence.
func figure(x float64) string { return thousands(int(math.Round(x))) }

// thousands groups the digits of a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func noun(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// situationsResult is the part of result.json about the distinct situations of a scenario.
type situationsResult struct {
	Distinct int  `json:"distinct"`
	Once     int  `json:"once"`
	Twice    int  `json:"twice"`
	Often    int  `json:"often"`
	Capped   bool `json:"capped"`
	// Coverage is the share of a run's situations that earlier runs have seen.
	Coverage float64       `json:"coverage"`
	Curve    []pointResult `json:"curve"`
}

// pointResult is one point of the curve of situations over seeds. Beyond the present seeds it is an
// estimate, with the 95 % interval from low to high.
type pointResult struct {
	Seeds      int     `json:"seeds"`
	Situations float64 `json:"situations"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
}

// resultSteps is the number of points of each half of a curve in result.json.
const resultSteps = 4

func situationsOf(sc *verdict.Scenario) situationsResult {
	i := sc.Discovery.Incidence()
	r := situationsResult{
		Distinct: i.Distinct(), Once: i.In(1), Twice: i.In(2), Capped: i.Capped, Coverage: rounded(i.Coverage(), 4), Curve: []pointResult{},
	}
	r.Often = r.Distinct - r.Once - r.Twice
	for _, p := range i.Curve(resultSteps) {
		r.Curve = append(r.Curve, pointResult{p.Runs, rounded(p.Situations, 1), rounded(p.Low, 1), rounded(p.High, 1)})
	}
	return r
}

// rounded keeps this many digits after the point: the last digits of a float differ between
// processors.
func rounded(x float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(x*unit) / unit
}
