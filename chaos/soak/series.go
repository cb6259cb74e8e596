package soak

import (
	"slices"
	"time"
)

// Point is a sample, or the mean of several.
type Point struct {
	At    time.Duration
	Value float64
}

// Span is an interval of time.
type Span struct{ From, To time.Duration }

// mostPoints bounds the points of a series. A page draws no more, and memory stays bounded however
// long the soak is.
const mostPoints = 600

// Series is one curve. It keeps at most 2 × 600 points: when there are more, it merges neighbours.
type Series struct {
	// Name is the name of the figure. Of is the process or part that it belongs to, empty for the
	// whole system. Unit is "bytes", "seconds" or empty for a count.
	Name, Of, Unit string
	// Rule says how its growth is judged.
	Rule Rule
	// Slack is how much it may always grow, in its unit.
	Slack float64
	// Starts are the moments at which its process was restarted.
	Starts []time.Duration
	// Without are times that are not judged: work waits while a server is away.
	Without []Span

	points []Point
	// stride is how many samples make one point. sum and n belong to the point in progress.
	stride, n int
	sum       float64
	began     time.Duration
}

// Add adds a sample. Samples come in the order of their times.
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

// Points are the points so far.
func (s *Series) Points() []Point { return s.points }

// Drawn are at most about `most` points, each the mean of its neighbours.
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

// valuesBetween are the values between two moments.
func (s *Series) valuesBetween(from, to time.Duration) (values []float64) {
	for _, p := range s.points {
		out := slices.ContainsFunc(s.Without, func(w Span) bool { return p.At >= w.From && p.At < w.To })
		if p.At >= from && p.At < to && !out {
			values = append(values, p.Value)
		}
	}
	return values
}

// Median is the median of values, 0 if there are none. It sorts them.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
