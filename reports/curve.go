package reports

import (
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/verdict"
)

// sure is the part of the page that says what a green result is worth.
type sure struct {
	Text string
	// First holds the curves of the results that more seeds would help most; Rest holds the others.
	First, Rest []curve
	// LeftOut counts the curves that are not shown.
	LeftOut int
}

// curve draws the number of distinct situations of one result against the number of seeds.
type curve struct {
	Name, Case string
	Text       string
	// Solid is the line over the present seeds, Dashed the estimate up to twice as many, Band its
	// interval.
	Solid, Dashed, Band   string
	Width, Height         float64
	Left, Right, Top, End float64
	// Now is the position of the last present seed, Twice the right edge.
	Now, NowY, TwiceY float64
	Seeds, Double     string
	Seen, Then        string

	more float64
}

// Limits of the curves: how many are shown at once, the number of points of each half, and the size
// of the drawing.
const (
	pageCurves  = 12
	moreCurves  = 200
	curveSteps  = 16
	curveWidth  = 300.0
	curveHeight = 140.0
	curveLeft   = 8.0
	curveRight  = 252.0
	curveTop    = 20.0
	curveEnd    = 116.0
)

// newSure returns nil if there is nothing to show.
func newSure(list []*verdict.Scenario) *sure {
	s := &sure{Text: sureText(list)}
	if s.Text == "" {
		return nil
	}
	var all []curve
	for _, sc := range list {
		if sc.Discovery.Runs() > 1 {
			all = append(all, newCurve(sc))
		}
	}
	slices.SortStableFunc(all, func(a, b curve) int {
		switch {
		case a.more > b.more:
			return -1
		case a.more < b.more:
			return 1
		}
		return 0
	})
	n := min(len(all), pageCurves)
	s.First, s.Rest = all[:n], all[n:]
	if s.LeftOut = max(0, len(s.Rest)-moreCurves); s.LeftOut > 0 {
		s.Rest = s.Rest[:moreCurves]
	}
	return s
}

func newCurve(sc *verdict.Scenario) curve {
	i := sc.Discovery.Incidence()
	points := i.Curve(curveSteps)
	last := points[len(points)-1]
	c := curve{
		Name: sc.Name, Case: caseName(sc), Text: sureText([]*verdict.Scenario{sc}) + "; " + coverageText(i.Coverage()),
		Width: curveWidth, Height: curveHeight, Left: curveLeft, Right: curveRight, Top: curveTop, End: curveEnd,
		Seeds: thousands(i.Runs), Seen: thousands(i.Distinct()),
	}
	x := func(runs int) float64 {
		return curveLeft + (curveRight-curveLeft)*float64(runs)/float64(last.Runs)
	}
	y := func(situations float64) float64 {
		return curveEnd - (curveEnd-curveTop)*situations/max(1, last.High)
	}
	at := func(runs int, situations float64) string {
		return fmt.Sprintf("%.1f,%.1f ", x(runs), y(situations))
	}
	c.Now, c.NowY, c.TwiceY = x(i.Runs), y(float64(i.Distinct())), y(last.Situations)
	solid, dashed, low, high := at(0, 0), "", "", ""
	for _, p := range points {
		if p.Runs <= i.Runs {
			solid += at(p.Runs, p.Situations)
		}
		if p.Runs >= i.Runs {
			dashed += at(p.Runs, p.Situations)
			high += at(p.Runs, p.High)
			low = at(p.Runs, p.Low) + low
		}
	}
	c.Solid = strings.TrimSpace(solid)
	if i.Extrapolates() {
		c.Dashed, c.Band, c.Double, c.Then = strings.TrimSpace(dashed), strings.TrimSpace(high+low), thousands(last.Runs), "≈ "+figure(last.Situations)
		c.more = i.More(i.Runs).Situations
	}
	return c
}

// coverageText never says 100 %: no sample proves that nothing is left.
func coverageText(share float64) string {
	if share > 0.999 {
		return "coverage above 99.9 %"
	}
	return fmt.Sprintf("coverage %.1f %%", 100*share)
}
