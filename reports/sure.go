package reports

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"handoff/chaos/verdict"
	"handoff/chaos/verdict/discovery"
)

// Sure describes in one sentence how far a sweep's verdict can be trusted: how many distinct situations its
// runs showed, how many more twice the seeds would show, and how often a run may fail. It is empty if nothing
// was run. Situations are counted separately for each scenario and profile.
func Sure(s *verdict.Sweep) string { return sureText(s.Scenarios) }

func sureText(list []*verdict.Scenario) string {
	var all []discovery.Summary
	distinct, once, runs, failed := 0, 0, 0, 0
	capped := false
	for _, sc := range list {
		i := sc.Discovery.Summary()
		all = append(all, i)
		distinct, once, capped = distinct+i.Distinct, once+i.Once, capped || i.Capped
		failed += sc.Failing
		runs += judgedRuns(sc)
	}
	if runs < 2 {
		return ""
	}
	apart := ""
	if len(list) > 1 {
		apart = fmt.Sprintf(" (counted apart in each of %s results)", formatThousands(len(list)))
	}
	text := fmt.Sprintf("%s distinct %s%s, %s seen in one run only", formatThousands(distinct), nounFor(distinct, "situation"), apart, formatThousands(once))
	if capped {
		text = "at least " + text
	}
	return text + moreText(all) + "; " + failsText(failed, runs)
}

// judgedRuns returns the number of runs that could have failed, which excludes runs that a checker gave up on.
func judgedRuns(sc *verdict.Scenario) int { return max(sc.Failing, sc.Seeds-sc.GaveUp) }

// moreText describes what twice the seeds would show, if there are enough seeds for an estimate.
func moreText(all []discovery.Summary) string {
	more, few := 0.0, true
	for _, i := range all {
		if i.Extrapolates() {
			more, few = more+i.More(i.Runs), false
		}
	}
	if few {
		return fmt.Sprintf(" (too few seeds to say what more would show: %d are needed)", discovery.MinRuns)
	}
	return fmt.Sprintf("; doubling the seeds would show %s more", formatFigure(more))
}

// failsText describes what the number of failed runs implies for all possible runs.
func failsText(failed, runs int) string {
	most := discovery.FailsAtMost(failed, runs)
	than := "fewer than "
	if failed > 0 {
		than = "at most "
	}
	share := fmt.Sprintf("%.0f %%", math.Ceil(100*most))
	if most < 0.1 {
		share = "1 in " + formatThousands(twoDigits(1/most))
	}
	return fmt.Sprintf("%s of %s %s failed: %s%s with 95 %%", formatThousands(failed), formatThousands(runs), nounFor(runs, "run"), than, share)
}

// twoDigits rounds down to two significant digits, so that the figure is never too optimistic.
func twoDigits(x float64) int {
	unit := math.Pow10(max(0, int(math.Log10(x))-1))
	return int(math.Floor(x/unit) * unit)
}

// formatFigure formats a number of situations for a sentence.
func formatFigure(x float64) string { return formatThousands(int(math.Round(x))) }

// formatThousands groups the digits of a number with commas.
func formatThousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func nounFor(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// situationsResult is the part of result.json about a scenario's distinct situations.
type situationsResult struct {
	Distinct int  `json:"distinct"`
	Once     int  `json:"once"`
	Twice    int  `json:"twice"`
	Often    int  `json:"often"`
	Capped   bool `json:"capped"`
	// Coverage is the share of a run's situations that earlier runs have shown.
	Coverage float64 `json:"coverage"`
	// More is the number of new situations that as many additional seeds would show; omitted for too few
	// seeds.
	More *float64 `json:"more,omitempty"`
}

func situationsOf(sc *verdict.Scenario) situationsResult {
	i := sc.Discovery.Summary()
	r := situationsResult{
		Distinct: i.Distinct, Once: i.Once, Twice: i.Twice, Often: i.Distinct - i.Once - i.Twice, Capped: i.Capped, Coverage: roundTo(i.Coverage(), 4),
	}
	if i.Extrapolates() {
		more := roundTo(i.More(i.Runs), 1)
		r.More = &more
	}
	return r
}

// roundTo rounds to the given number of decimals, because the last digits of a float differ between processors.
func roundTo(x float64, digits int) float64 {
	unit := math.Pow10(digits)
	return math.Round(x*unit) / unit
}

// sureSection is the part of the page about how far a green result can be trusted.
type sureSection struct {
	Text string
	// Rows are the results that would benefit most from more seeds.
	Rows []sureRow
	// LeftOut counts the other results that would benefit.
	LeftOut int
}

type sureRow struct {
	Name, Case, Seeds, Distinct, Once, Coverage, More string

	more float64
}

// sureRows is the maximum number of results shown.
const sureRows = 12

// newSureSection returns nil if there is nothing to show.
func newSureSection(list []*verdict.Scenario) *sureSection {
	s := &sureSection{Text: sureText(list)}
	if s.Text == "" {
		return nil
	}
	for _, sc := range list {
		i := sc.Discovery.Summary()
		more := i.More(i.Runs)
		if !i.Extrapolates() || more < 0.5 {
			continue
		}
		s.Rows = append(s.Rows, sureRow{sc.Name, caseName(sc), formatThousands(i.Runs), formatThousands(i.Distinct), formatThousands(i.Once), coverageText(i.Coverage()), formatFigure(more), more})
	}
	slices.SortStableFunc(s.Rows, func(a, b sureRow) int { return cmp.Compare(b.more, a.more) })
	s.LeftOut = max(0, len(s.Rows)-sureRows)
	s.Rows = s.Rows[:len(s.Rows)-s.LeftOut]
	return s
}

// coverageText never shows 100 %, because no sample proves completeness.
func coverageText(share float64) string {
	if share > 0.999 {
		return "above 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
