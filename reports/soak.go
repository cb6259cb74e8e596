package reports

import (
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"handoff/chaos/soak"
	"handoff/chaos/verdict"
)

// WriteSoakJSON writes the result of a soak, without the points of its curves.
func WriteSoakJSON(w io.Writer, r *soak.Result) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteSoak writes the page of a soak: one file that needs neither network nor server.
func WriteSoak(w io.Writer, r *soak.Result) error {
	if err := pageTemplates().ExecuteTemplate(w, "soak.html", newSoakPage(r)); err != nil {
		return fmt.Errorf("writing the page of a soak: %w", err)
	}
	return nil
}

// soakPage is the template's data.
type soakPage struct {
	*soak.Result
	Sign, Title, How string
	Facts            []soakFact
	Style            template.CSS

	Plan    soakPlan
	Charts  []soakChart
	Strikes []soakStrike
	Parts   []soakPart
	Rules   []soak.Judged
	Without []soak.Judged
	Curves  []soakCurve
	Reached []soakAnswer
}

type soakFact struct{ Name, Value string }

type soakAnswer struct{ Sign, Verdict, Question, Text string }

type soakStrike struct {
	N                                   int
	At, Lasted, What, Part, Made, Class string
	Ended                               int
}

type soakPart struct {
	Name             string
	Kill, Pause, Cut string
	Class            string
}

type soakCurve struct {
	Name, Of, Last, Text, Class, Word string
}

// soakPlan is the drawing of each part's faults over time.
type soakPlan struct {
	Width, Height, Left, Right, Bottom float64
	Rows                               []planRow
	Bars                               []planBar
	Ticks                              []chartTick
}

type planRow struct {
	Y    float64
	Name string
}

type planBar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// soakChart is the chart for one figure, with a line for each process.
type soakChart struct {
	Name                       string
	Width, Height, Left, Right float64
	Top, Bottom                float64
	Bands                      []planBar
	Lines                      []chartLine
	Ticks, Levels              []chartTick
	Sign, Word                 string
}

type chartLine struct {
	Class, Points, Of, Last string
	Grows                   bool
}

type chartTick struct {
	At   float64
	Text string
}

// The sizes of the drawings, and the maximum number of points in a line.
const (
	chartWidth  = 440.0
	chartHeight = 170.0
	chartLeft   = 58.0
	chartTop    = 18.0
	chartBottom = 148.0
	chartPoints = 240
	planWidth   = 1360.0
	planLeft    = 170.0
	planRowHigh = 16.0
)

func newSoakPage(r *soak.Result) *soakPage {
	p := &soakPage{Result: r, Sign: verdictSign(r.Verdict), Style: template.CSS(readAssets("style.css", "soak.css"))} //nolint:gosec // ours
	p.Title = map[verdict.Verdict]string{
		verdict.Pass: "Nothing lost, nothing twice, nothing unearned, and the curves are flat", verdict.Inconclusive: "Nothing broke, but the soak proves less than it should",
		verdict.Fail: "The soak found something",
	}[r.Verdict]
	p.How = "given with --rate"
	if r.Held > 0 {
		p.How = fmt.Sprintf("%.0f %% of the %.1f that the machine held", 100*soak.SafeShare, r.Held)
	}
	p.addFacts()
	span := max(r.Ran, time.Second)
	p.Plan = newSoakPlan(r, span)
	p.Charts = soakCharts(r, span)
	for _, a := range r.Answers {
		p.Reached = append(p.Reached, soakAnswer{verdictSign(a.Verdict), a.Verdict.String(), a.Question, a.Text})
	}
	for i := range r.Strikes {
		p.Strikes = append(p.Strikes, newSoakStrike(i, &r.Strikes[i]))
	}
	parts, counts := r.Parts()
	for _, name := range parts {
		p.Parts = append(p.Parts, newSoakPart(r, name, counts[name]))
	}
	for _, j := range r.Judged {
		if j.Not == "" {
			p.Rules = append(p.Rules, j)
		} else {
			p.Without = append(p.Without, j)
		}
	}
	for i := range r.Curves {
		c := &r.Curves[i]
		row := soakCurve{Name: c.Name, Of: c.Of, Text: c.Judgement.Text, Word: "flat", Class: "fine"}
		if points := c.Points(); len(points) > 0 {
			row.Last = soak.InUnit(points[len(points)-1].Value, c.Unit)
		}
		switch {
		case c.Judgement.Grows:
			row.Word, row.Class = "grows", "broken"
		case !c.Judgement.Judged:
			row.Word, row.Class = "told", "dim"
		case c.Rule == soak.PerExecution:
			row.Word = "in proportion"
		}
		p.Curves = append(p.Curves, row)
	}
	return p
}

func (sp *soakPage) addFacts() {
	r := sp.Result
	var ends []string
	for _, s := range []string{"completed", "failed", "timeout", "abandoned", "cancelled"} {
		if r.Ends[s] > 0 {
			ends = append(ends, fmt.Sprintf("%s %s", formatThousands(r.Ends[s]), s))
		}
	}
	sp.Facts = []soakFact{
		{"load", fmt.Sprintf("%v of %v", r.Ran.Round(time.Second), r.For)},
		{"rate", fmt.Sprintf("%.1f executions a second", r.Rate)},
		{"held back for the backlog", r.HeldBack.Round(time.Second).String()},
		{"accepted", formatThousands(r.Accepted)},
		{"ended", strings.Join(ends, ", ")},
		{"rows, retries", formatThousands(r.Rows) + ", " + formatThousands(r.Retries)},
		{"processes in the journals", formatThousands(r.Processes)},
		{"events judged", formatThousands(int(min(r.Events, math.MaxInt32)))}, //nolint:gosec // bounded
		{"judge behind at most", r.Behind.Round(100 * time.Millisecond).String()},
		{"drained in", r.Drain.Round(time.Second).String()},
		{"machine stood still", fmt.Sprintf("%d times, %v at most", r.Stalls, r.LongestStall.Round(time.Millisecond))},
		{"seed", fmt.Sprint(r.Seed)},
	}
}

func newSoakStrike(n int, s *soak.Struck) soakStrike {
	row := soakStrike{N: n + 1, At: FormatTime(s.At), What: s.What, Part: s.Part, Made: "made a difference", Ended: s.Ended, Lasted: s.For.String()}
	if s.Began && s.To > s.From {
		row.At, row.Lasted = FormatTime(s.From), (s.To - s.From).Round(100*time.Millisecond).String()
	}
	switch {
	case !s.Began:
		row.Made, row.Class = "did not begin", "gaprow"
	case !s.Touched:
		row.Made, row.Class = "made no difference", "gaprow"
	}
	return row
}

func newSoakPart(r *soak.Result, name string, counts map[string]int) soakPart {
	row := soakPart{Name: name}
	planned := make(map[string]int)
	for i := range r.Strikes {
		if r.Strikes[i].Part == name {
			planned[r.Strikes[i].What]++
		}
	}
	cell := func(what string) string {
		if planned[what] == 0 {
			return "–"
		}
		if counts[what] < soak.Wanted {
			row.Class = "gaprow"
		}
		return fmt.Sprint(counts[what])
	}
	row.Kill, row.Pause, row.Cut = cell(soak.Kill), cell(soak.Pause), cell(soak.Cut)
	return row
}

// newSoakPlan draws a row for each part.
func newSoakPlan(r *soak.Result, span time.Duration) soakPlan {
	parts, _ := r.Parts()
	p := soakPlan{Width: planWidth, Left: planLeft, Right: planWidth - 20}
	x := func(at time.Duration) float64 { return planLeft + (p.Right-planLeft)*min(1, float64(at)/float64(span)) }
	at := make(map[string]float64)
	for i, name := range parts {
		at[name] = float64(i) * planRowHigh
		p.Rows = append(p.Rows, planRow{at[name] + planRowHigh - 4, name})
	}
	p.Bottom = float64(len(parts))*planRowHigh + 2
	p.Height = p.Bottom + 20
	for i := range r.Strikes {
		s := &r.Strikes[i]
		if !s.Began {
			continue
		}
		to := max(s.To, s.From)
		p.Bars = append(p.Bars, planBar{
			X: x(s.From), Y: at[s.Part] + 2, Width: max(2, x(to)-x(s.From)), Height: planRowHigh - 4, Class: s.What,
			Title: fmt.Sprintf("%s %s at %s for %v", s.What, s.Part, FormatTime(s.From), (to - s.From).Round(100*time.Millisecond)),
		})
	}
	p.Ticks = timeTicks(span, 10, x)
	return p
}

// timeTicks returns round times for an axis; most is their approximate number.
func timeTicks(span time.Duration, most int, x func(time.Duration) float64) (ticks []chartTick) {
	step := 24 * time.Hour
	for _, s := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour} {
		if span/s <= time.Duration(most) {
			step = s
			break
		}
	}
	for at := time.Duration(0); at <= span; at += step {
		text := fmt.Sprintf("%d:%02d", int(at.Minutes()), int(at.Seconds())%60)
		ticks = append(ticks, chartTick{x(at), text})
	}
	return ticks
}

// soakCharts makes one chart for each figure, in the order of the curves.
func soakCharts(r *soak.Result, span time.Duration) (charts []soakChart) {
	at := make(map[string]int)
	of := make(map[string][]*soak.Curve)
	var names []string
	for i := range r.Curves {
		c := &r.Curves[i]
		if _, known := at[c.Name]; !known {
			at[c.Name] = len(names)
			names = append(names, c.Name)
		}
		of[c.Name] = append(of[c.Name], c)
	}
	for _, name := range names {
		charts = append(charts, newSoakChart(r, name, of[name], span))
	}
	return charts
}

func newSoakChart(r *soak.Result, name string, of []*soak.Curve, span time.Duration) soakChart {
	c := soakChart{Name: name, Width: chartWidth, Height: chartHeight, Left: chartLeft, Right: chartWidth - 18, Top: chartTop, Bottom: chartBottom}
	x := func(at time.Duration) float64 {
		return chartLeft + (c.Right-chartLeft)*max(0, min(1, float64(at)/float64(span)))
	}
	most := 0.0
	for _, s := range of {
		for _, p := range s.Drawn(chartPoints) {
			most = max(most, p.Value)
		}
	}
	most = roundUp(most, of[0].Unit)
	y := func(v float64) float64 { return chartBottom - (chartBottom-chartTop)*v/most }
	for i := range r.Strikes {
		if s := &r.Strikes[i]; s.Began {
			c.Bands = append(c.Bands, planBar{X: x(s.From), Y: chartTop - 8, Width: max(1, x(s.To)-x(s.From)), Height: 5, Class: s.What, Title: s.What + " " + s.Part})
		}
	}
	for i, s := range of {
		line := chartLine{Class: fmt.Sprintf("l%d", i%8), Of: s.Of, Grows: s.Judgement.Grows}
		var points strings.Builder
		for _, p := range s.Drawn(chartPoints) {
			if p.At >= 0 && p.At <= span {
				fmt.Fprintf(&points, "%.1f,%.1f ", x(p.At), y(p.Value))
			}
			line.Last = soak.InUnit(p.Value, s.Unit)
		}
		line.Points = strings.TrimSpace(points.String())
		c.Lines = append(c.Lines, line)
	}
	c.Ticks = timeTicks(span, 5, x)
	for _, part := range []float64{0, 0.5, 1} {
		c.Levels = append(c.Levels, chartTick{y(part * most), soak.InUnit(part*most, of[0].Unit)})
	}
	c.Sign, c.Word = chartWord(of)
	return c
}

// chartWord summarizes in a word how a chart's lines were judged.
func chartWord(of []*soak.Curve) (class, word string) {
	class, word = "dim", "told"
	for _, s := range of {
		switch {
		case s.Judgement.Grows:
			return "broken", "grows"
		case s.Judgement.Judged && s.Rule == soak.PerExecution:
			class, word = "fine", "in proportion"
		case s.Judgement.Judged:
			class, word = "fine", "flat"
		}
	}
	return class, word
}

// roundUp returns a round number that is positive and at least v.
func roundUp(v float64, unit string) float64 {
	base := 10.0
	if unit == "bytes" {
		base = 2
	}
	if v <= 0 {
		return 1
	}
	power := math.Pow(base, math.Floor(math.Log(v)/math.Log(base)))
	for _, f := range []float64{1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if f*power >= v {
			return f * power
		}
	}
	return base * power
}
