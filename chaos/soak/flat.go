package soak

import (
	"fmt"
	"time"
)

// Rule is how the growth of a series is judged.
type Rule uint8

const (
	// Told means that the series is drawn but not judged.
	Told Rule = iota
	// Flat means that the last quarter's median may exceed the second quarter's by 25 %, plus the series'
	// slack. The first quarter does not count, because processes warm up. A restart of a killed process would
	// hide a leak. So if the process has at least three long lives, each is judged in the same way, and at
	// most half of them may grow.
	Flat
	// PerExecution means that the series may grow with the executions, which remain until retention deletes
	// them. The growth per execution in the last quarter must not exceed that in the second, within a
	// tolerance.
	PerExecution
)

// Tolerance is the maximum ratio of the last quarter to the second.
const (
	Tolerance             = 1.25
	perExecutionTolerance = 1.6
	// fewestPoints is the minimum number of points in a quarter.
	fewestPoints = 5
)

// Judgement is the result for one curve.
type Judgement struct {
	// Judged reports whether there was enough data.
	Judged bool `json:"judged"`
	// Grows reports whether the curve violates its rule.
	Grows bool `json:"grows"`
	// Before and After are the second and the last quarter's values: medians, or growth per execution.
	Before float64 `json:"before"`
	After  float64 `json:"after"`
	// Text is the judgement in words.
	Text string `json:"text"`
}

// Judge judges a series between two times, during which the load was full. executions is the series of the
// number of executions, for PerExecution.
func (s *Series) Judge(from, to time.Duration, executions *Series) Judgement {
	quarter := (to - from) / 4
	at := func(n int) time.Duration { return from + time.Duration(n)*quarter }
	second, last := s.valuesBetween(at(1), at(2)), s.valuesBetween(at(3), to)
	switch {
	case s.Rule == Told:
		return Judgement{Text: "shown, not judged"}
	case len(second) < fewestPoints || len(last) < fewestPoints:
		return Judgement{Text: fmt.Sprintf("too short to judge: %d points in the second quarter and %d in the last, %d are needed", len(second), len(last), fewestPoints)}
	case s.Rule == PerExecution:
		return s.perExecution(executions, at)
	}
	j := Judgement{Judged: true, Before: Median(second), After: Median(last)}
	j.Grows = s.exceedsTolerance(j.Before, j.After)
	j.Text = fmt.Sprintf("flat: median %s in the second quarter, %s in the last", s.formatValue(j.Before), s.formatValue(j.After))
	if j.Grows {
		j.Text = fmt.Sprintf("grows: median %s in the second quarter, %s in the last; %s would be allowed", s.formatValue(j.Before), s.formatValue(j.After), s.formatValue(j.Before*Tolerance+s.Slack))
		return j
	}
	if grew, lives, b, a := s.countGrowingLives(from, to); lives >= fewestLives {
		j.Text += fmt.Sprintf("; %d of %d long lives flat", lives-grew, lives)
		if 2*grew > lives {
			j.Grows, j.Before, j.After = true, b, a
			j.Text = fmt.Sprintf("grows from each start of the process: in %d of %d lives, in the longest of them from %s in its second quarter to %s in its last", grew, lives, s.formatValue(b), s.formatValue(a))
		}
	}
	return j
}

// exceedsTolerance reports whether a median exceeds an earlier median by too much.
func (s *Series) exceedsTolerance(before, after float64) bool {
	return after > before*Tolerance+s.Slack
}

// longLife is the minimum length of a process's life that is judged. fewestLives is the minimum number of
// such lives, because one of them may end with an outage.
const (
	longLife    = 60 * time.Second
	fewestLives = 3
)

// countGrowingLives counts the process's long lives (all), and the long lives in which the series grew
// (grew). before and after are the medians of the longest life with growth.
func (s *Series) countGrowingLives(from, to time.Duration) (grew, all int, before, after float64) {
	var longest time.Duration
	for i, begin := range s.Starts {
		end := to
		if i+1 < len(s.Starts) {
			end = min(end, s.Starts[i+1])
		}
		begin = max(begin, from)
		quarter := (end - begin) / 4
		if end-begin < longLife {
			continue
		}
		second, last := s.valuesBetween(begin+quarter, begin+2*quarter), s.valuesBetween(begin+3*quarter, end)
		if len(second) < fewestPoints || len(last) < fewestPoints {
			continue
		}
		all++
		b, a := Median(second), Median(last)
		if !s.exceedsTolerance(b, a) {
			continue
		}
		grew++
		if end-begin > longest {
			longest, before, after = end-begin, b, a
		}
	}
	return grew, all, before, after
}

// perExecution compares the growth per execution in the second and in the last quarter.
func (s *Series) perExecution(executions *Series, at func(int) time.Duration) Judgement {
	growth := func(n int) (float64, bool) {
		values, done := s.valuesBetween(at(n), at(n+1)), executions.valuesBetween(at(n), at(n+1))
		if len(values) < 2 || len(done) < 2 {
			return 0, false
		}
		more := done[len(done)-1] - done[0]
		if more < 1 {
			return 0, false
		}
		return (values[len(values)-1] - values[0]) / more, true
	}
	before, ok := growth(1)
	after, also := growth(3)
	if !ok || !also {
		return Judgement{Text: "too few executions to judge growth by"}
	}
	j := Judgement{Judged: true, Before: before, After: after}
	j.Text = fmt.Sprintf("grows with the executions: %s for each in the second quarter, %s in the last", s.formatValue(before), s.formatValue(after))
	if after > before*perExecutionTolerance+s.Slack {
		j.Grows = true
		j.Text = fmt.Sprintf("grows faster than the executions: %s for each in the second quarter, %s in the last", s.formatValue(before), s.formatValue(after))
	}
	return j
}

// formatValue formats a value in the series' unit.
func (s *Series) formatValue(v float64) string { return InUnit(v, s.Unit) }

// InUnit formats a value for readers; unit is a series' unit.
func InUnit(v float64, unit string) string {
	switch {
	case unit == "seconds" && v < 1:
		return fmt.Sprintf("%.0f ms", v*1000)
	case unit == "seconds":
		return fmt.Sprintf("%.2f s", v)
	case unit != "bytes" && (v >= 100 || v == float64(int64(v))):
		return fmt.Sprintf("%.0f", v)
	case unit != "bytes":
		return fmt.Sprintf("%.1f", v)
	case v >= 1<<30:
		return fmt.Sprintf("%.2f GiB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return fmt.Sprintf("%.0f B", v)
}
