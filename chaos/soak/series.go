package soak

import (
	"slices"
	"time"
)

// Point is a sample or the mean of several.
type Point struct {
	At    time.Duration
	Value float64
}

// Span is an interval of time.
type Span struct{ From, To time.Duration }

// mostPoints is the maximum number of points of a series. A page draws no more, and memory stays bounded in a
// long soak.
const mostPoints = 600

// Series is one curve. It keeps fewer than 2 × 600 points: at that number it merges neighbours.
type Series struct {
	// Name is the name of the figure. Of is its process or part, empty for the whole system. Unit is "bytes",
	// "seconds" or empty for a count.
	Name, Of, Unit string
	// Rule is the rule for its growth.
	Rule Rule
	// Slack is the growth that is always allowed, in its unit.
	Slack float64
	// Starts holds the times at which the series' process was restarted.
	Starts []time.Duration
	// Without holds the periods that are not judged, such as outages of a server.
	Without []Span

	points []Point
	// stride is the number of samples per point. sum, n and began belong to the point in progress.
	stride, n int
	sum       float64
	began     time.Duration
}

// Add adds a sample. Samples must be in the order of their times.
func (s *Series) Add(at time.Duration, value float64) {
	if s.n == 0 {
		s.began = at
	}
	s.sum += value
	if s.n++; s.n < max(1, s.stride) {
		return
	}
	s.points = append(s.points, Point{s.began, s.sum / float64(s.n)})
	s.sum, s.n = 0, 0
	if len(s.points) < 2*mostPoints {
		return
	}
	for i := range mostPoints {
		a, b := s.points[2*i], s.points[2*i+1]
		s.points[i] = Point{a.At, (a.Value + b.Value) / 2}
	}
	s.points = s.points[:mostPoints]
	s.stride = 2 * max(1, s.stride)
}

// Points returns the points so far.
func (s *Series) Points() []Point { return s.points }

// Drawn returns at most about `most` points, each of them the mean of neighbouring points.
func (s *Series) Drawn(most int) []Point {
	per := (len(s.points) + most - 1) / most
	if per <= 1 {
		return s.points
	}
	var out []Point
	for chunk := range slices.Chunk(s.points, per) {
		p := Point{At: chunk[0].At}
		for _, c := range chunk {
			p.Value += c.Value / float64(len(chunk))
		}
		out = append(out, p)
	}
	return out
}

// valuesBetween returns the values between two times, without the excluded periods.
func (s *Series) valuesBetween(from, to time.Duration) (values []float64) {
	for _, p := range s.points {
		out := slices.ContainsFunc(s.Without, func(w Span) bool { return p.At >= w.From && p.At < w.To })
		if p.At >= from && p.At < to && !out {
			values = append(values, p.Value)
		}
	}
	return values
}

// Median returns the median of values; 0 if there are none. It sorts values.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
